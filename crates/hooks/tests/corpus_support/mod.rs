//! Replays recorded conversations and checks what a session made of them, line by line.
//!
//! A file of a corpus has a line for each chunk of the recording: `C` with bytes from the client,
//! `S` with bytes from the server, in hex. Between them stands what is expected: `>` the request
//! that a client's chunk began, `=` the state when the server reads next. Lines with `#` are
//! comments. After a change that is meant to alter the expectations, run with
//! `HEADWORKS_CORPUS=update` and read the difference.

use std::fs;
use std::path::Path;

/// A session that follows a conversation.
pub trait Follower {
    /// One at the begin of a conversation.
    fn begin() -> Self;

    /// Takes one recorded chunk of the client's, in these pieces; the `>` line that it begins, if
    /// any.
    fn client<'a>(&mut self, pieces: impl Iterator<Item = &'a [u8]>) -> Option<String>;

    /// Takes bytes of the server's.
    fn server(&mut self, bytes: &[u8]);

    /// What is to stand in an `=` line.
    fn state(&self) -> String;
}

fn unhex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> =
        text.chars().map(|digit| digit.to_digit(16).expect("a hex digit") as u8).collect();
    digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect()
}

/// The recording with its expectations, as this code sees them; chunks are cut to at most `chunk`
/// bytes.
fn annotate<F: Follower>(recording: &str, chunk: usize) -> String {
    let mut session = F::begin();
    let mut lines = Vec::new();
    let mut server_spoke = false;
    for line in recording.lines() {
        match line.split_once(' ') {
            Some(("#", _)) => lines.push(line.to_owned()),
            Some(("S", bytes)) => {
                lines.push(line.to_owned());
                unhex(bytes).chunks(chunk).for_each(|piece| session.server(piece));
                server_spoke = true;
            }
            Some(("C", bytes)) => {
                if std::mem::take(&mut server_spoke) {
                    lines.push(format!("= {}", session.state()));
                }
                lines.push(line.to_owned());
                lines.extend(session.client(unhex(bytes).chunks(chunk)));
            }
            _ => {}
        }
    }
    lines.push(format!("= {}", session.state()));
    lines.join("\n") + "\n"
}

/// Name and text of each recording of a protocol.
pub fn recordings(protocol: &str) -> Vec<(String, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus").join(protocol);
    let mut files: Vec<(String, String)> = fs::read_dir(folder)
        .expect("the corpus")
        .map(|entry| {
            let entry = entry.expect("an entry");
            let text = fs::read_to_string(entry.path()).expect("a text file");
            (entry.file_name().to_string_lossy().into_owned(), text)
        })
        .collect();
    files.sort();
    files
}

/// Every recording is understood in any chunking; there are so many at least.
pub fn replay<F: Follower>(protocol: &str, at_least: usize) {
    let files = recordings(protocol);
    assert!(files.len() >= at_least, "the corpus is there");
    for (name, recording) in files {
        if std::env::var_os("HEADWORKS_CORPUS").is_some_and(|mode| mode == "update") {
            let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus").join(protocol);
            fs::write(folder.join(&name), annotate::<F>(&recording, usize::MAX))
                .expect("the corpus is writable");
            continue;
        }
        for chunk in [usize::MAX, 16_384, 7, 1] {
            let seen = annotate::<F>(&recording, chunk);
            for (seen, expected) in seen.lines().zip(recording.lines()) {
                assert_eq!(seen, expected, "{name} in chunks of {chunk}");
            }
        }
    }
}
