//! Replays recorded conversations with MariaDB 10.11 and checks what the session made of them, line
//! by line.
//!
//! A file under `corpus/mysql` holds `C` and `S` lines (bytes from the client and from the server,
//! in hex, one line per chunk of the recording), and between them what is expected: `>` the request
//! that a client's chunk began, `=` the state when the server reads next. Lines with `#` are
//! comments. After a change that is meant to alter the expectations, run with
//! `HEADWORKS_CORPUS=update` and read the difference.

use std::fs;
use std::path::{Path, PathBuf};

use headworks_hooks::mysql::{ClientEvent, RequestClass, Session};

fn unhex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> =
        text.chars().map(|digit| digit.to_digit(16).expect("a hex digit") as u8).collect();
    digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect()
}

fn state(session: &Session) -> String {
    let place = match session.opaque() {
        Some(opaque) => opaque.name(),
        None if session.at_boundary() => "boundary",
        None => "busy",
    };
    format!("= {place} {}", session.holding())
}

/// The recording with its expectations, as this code sees them; chunks are cut to at most `chunk`
/// bytes.
fn annotate(recording: &str, chunk: usize) -> String {
    let mut session = Session::new();
    let mut lines = Vec::new();
    let mut server_spoke = false;
    for line in recording.lines() {
        match line.split_once(' ') {
            Some(("#", _)) => lines.push(line.to_owned()),
            Some(("S", bytes)) => {
                lines.push(line.to_owned());
                unhex(bytes).chunks(chunk).for_each(|part| session.server_bytes(part));
                server_spoke = true;
            }
            Some(("C", bytes)) => {
                if std::mem::take(&mut server_spoke) {
                    lines.push(state(&session));
                }
                lines.push(line.to_owned());
                // As the session does for one chunk: the first gated request, else the first.
                let events = unhex(bytes)
                    .chunks(chunk)
                    .map(|part| session.client_bytes(part))
                    .collect::<Vec<_>>();
                let requests = || {
                    events.iter().filter_map(|event| {
                        if let ClientEvent::Request(request) = event { Some(request) } else { None }
                    })
                };
                let reported = requests()
                    .find(|request| request.class == RequestClass::Gated)
                    .or_else(|| requests().next());
                if let Some(request) = reported {
                    lines.push(match request.class {
                        RequestClass::Gated => format!("> {:02x} gated", request.command.0),
                        RequestClass::Pass(reason) => {
                            format!("> {:02x} {}", request.command.0, reason.name())
                        }
                    });
                }
            }
            _ => {}
        }
    }
    lines.push(state(&session));
    lines.join("\n") + "\n"
}

fn corpus() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus/mysql");
    let mut files: Vec<PathBuf> = fs::read_dir(folder)
        .expect("the corpus")
        .map(|entry| entry.expect("an entry").path())
        .collect();
    files.sort();
    files
}

#[test]
fn every_recording_is_understood_in_any_chunking() {
    let files = corpus();
    assert!(files.len() >= 5, "the corpus is there");
    for file in files {
        let recording = fs::read_to_string(&file).expect("a text file");
        if std::env::var_os("HEADWORKS_CORPUS").is_some_and(|mode| mode == "update") {
            fs::write(&file, annotate(&recording, usize::MAX)).expect("the corpus is writable");
            continue;
        }
        for chunk in [usize::MAX, 16_384, 7, 1] {
            for (seen, expected) in annotate(&recording, chunk).lines().zip(recording.lines()) {
                assert_eq!(seen, expected, "{} in chunks of {chunk}", file.display());
            }
        }
    }
}

#[test]
fn no_recording_is_lost_and_each_command_begins_at_a_boundary() {
    for file in corpus() {
        let recording = fs::read_to_string(&file).expect("a text file");
        assert!(!recording.contains("= desynchronized"), "{}", file.display());
        let lines: Vec<&str> = recording.lines().filter(|line| !line.starts_with('#')).collect();
        for window in lines.windows(3) {
            let commands = window[1].starts_with("C ") && window[2].starts_with("> ");
            if commands && window[0].starts_with("= ") {
                assert!(window[0].starts_with("= boundary"), "{}: {}", file.display(), window[0]);
            }
        }
    }
}
