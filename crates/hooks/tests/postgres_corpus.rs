//! Replays recorded conversations with PostgreSQL 15 and checks what the session made of them, line
//! by line.
//!
//! A file under `corpus/postgres` holds `C` and `S` lines (bytes from the client and from the
//! server, in hex, one line per chunk of the recording), and between them what is expected: `>` the
//! request that a client's chunk began, `=` the state when the server reads next. Lines with `#`
//! are comments. After a change that is meant to alter the expectations, run with
//! `HEADWORKS_CORPUS=update` and read the difference.

use std::fs;
use std::path::{Path, PathBuf};

use headworks_hooks::postgres::{ClientEvent, Request, Session};

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
                // As the session does for one chunk: a gated request, else the first.
                let events: Vec<_> =
                    unhex(bytes).chunks(chunk).map(|part| session.client_bytes(part)).collect();
                let mut requests = events.iter().filter_map(|event| match event {
                    ClientEvent::Request(request) => Some(*request),
                    ClientEvent::None => None,
                });
                let first = requests.next();
                match first {
                    Some(Request::Pass(_)) if requests.any(|one| one == Request::Gated) => {
                        lines.push("> gated".to_owned());
                    }
                    Some(Request::Pass(reason)) => lines.push(format!("> {}", reason.name())),
                    Some(Request::Gated) => lines.push("> gated".to_owned()),
                    None => {}
                }
            }
            _ => {}
        }
    }
    lines.push(state(&session));
    lines.join("\n") + "\n"
}

fn corpus() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus/postgres");
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
fn no_recording_is_lost_and_every_answer_ends_at_a_boundary() {
    /// The last bytes of an answer: ReadyForQuery.
    const READY: [&str; 3] = ["5a0000000549", "5a0000000554", "5a0000000545"];
    for file in corpus() {
        let recording = fs::read_to_string(&file).expect("a text file");
        assert!(!recording.contains("= desynchronized"), "{}", file.display());
        // Requests sent ahead of their answers are answered one by one, and a replica is left
        // alone.
        let name = file.file_name().unwrap().to_string_lossy();
        if name.contains("pipeline") || name.contains("walsender") {
            continue;
        }
        let lines: Vec<&str> = recording.lines().filter(|line| !line.starts_with('#')).collect();
        for pair in lines.windows(2) {
            let ready = READY.iter().any(|ready| pair[0].ends_with(ready));
            if pair[0].starts_with("S ") && ready && pair[1].starts_with("= ") {
                assert!(pair[1].starts_with("= boundary"), "{}: {}", file.display(), pair[0]);
            }
        }
    }
}

#[test]
fn the_conversation_goes_on_inside_tls_from_its_beginning() {
    use headworks_hooks::postgres::Opaque;
    let request = [0, 0, 0, 8, 4, 210, 22, 47];
    let mut session = Session::new();
    session.client_bytes(&request);
    session.inside_tls();
    assert_eq!(session.opaque(), None, "the server has not agreed");
    session.server_bytes(b"S");
    assert_eq!(session.opaque(), Some(Opaque::Tls));
    session.inside_tls();
    let body = b"\0\x03\0\0user\0app\0application_name\0tls\0\0";
    session.client_bytes(&[&(body.len() as u32 + 4).to_be_bytes()[..], body].concat());
    session.server_bytes(b"R\0\0\0\x08\0\0\0\0Z\0\0\0\x05I");
    assert!(session.at_boundary());
    assert_eq!(session.identity().map(|who| who.application()), Some(&b"tls"[..]));
    // Encryption by GSSAPI is left alone for good.
    let mut session = Session::new();
    session.client_bytes(&[0, 0, 0, 8, 4, 210, 22, 48]);
    session.server_bytes(b"G");
    session.inside_tls();
    assert_eq!(session.opaque(), Some(Opaque::Encrypted));
}
