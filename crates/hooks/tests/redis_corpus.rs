//! Replays recorded conversations with Redis 7 and checks what the session made of them, line by
//! line.
//!
//! A file under `corpus/redis` holds `C` and `S` lines (bytes from the client and from the server,
//! in hex, one line per chunk of the recording), and between them what is expected: `=` the state
//! when the server reads next, and at the end. Lines with `#` are comments. After a change that is
//! meant to alter the expectations, run with `HEADWORKS_CORPUS=update` and read the difference.

use std::fs;
use std::path::{Path, PathBuf};

use headworks_hooks::redis::{Session, Stream};

fn unhex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> =
        text.chars().map(|digit| digit.to_digit(16).expect("a hex digit") as u8).collect();
    digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect()
}

fn state(session: &Session) -> String {
    let place = match (session.opaque(), session.stream()) {
        (Some(opaque), _) => opaque.name(),
        (None, Some(Stream::Subscriber)) => "subscriber",
        (None, Some(Stream::Monitor)) => "monitor",
        (None, Some(Stream::Replica)) => "replica",
        (None, None) if session.at_boundary() => "boundary",
        (None, None) => "busy",
    };
    let who = session.identity().map_or_else(String::new, |identity| {
        let parts = [identity.account(), identity.database(), identity.application()];
        parts.map(|part| String::from_utf8_lossy(part).into_owned()).join("/")
    });
    let (commands, passed) = (session.commands(), session.passed());
    format!("= {place} {} {commands}-{passed} {who}", session.holding())
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
                unhex(bytes).chunks(chunk).for_each(|part| session.client_bytes(part));
            }
            _ => {}
        }
    }
    lines.push(state(&session));
    lines.join("\n") + "\n"
}

fn corpus() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus/redis");
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
    assert!(files.len() >= 10, "the corpus is there");
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
fn every_answered_command_ends_at_a_boundary() {
    for file in corpus() {
        let name = file.file_name().unwrap().to_string_lossy().into_owned();
        // Blocked commands have no answer yet, and a line that Redis refuses ends the conversation.
        if ["blocking.txt", "inline.txt"].contains(&&*name) {
            continue;
        }
        let recording = fs::read_to_string(&file).expect("a text file");
        for line in recording.lines().filter(|line| line.starts_with("= ")) {
            assert!(!line.starts_with("= busy") && !line.starts_with("= desync"), "{name}: {line}");
        }
    }
}
