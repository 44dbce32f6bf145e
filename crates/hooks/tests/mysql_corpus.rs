//! Recorded conversations with MariaDB 10.11; see `corpus_support`.

mod corpus_support;

use corpus_support::{Follower, recordings, replay};
use headworks_hooks::mysql::{ClientEvent, RequestClass, Session};

struct MySql(Session);

impl Follower for MySql {
    fn begin() -> Self {
        Self(Session::new())
    }

    /// As the session does for one chunk: the first gated request, else the first.
    fn client<'a>(&mut self, pieces: impl Iterator<Item = &'a [u8]>) -> Option<String> {
        let events: Vec<_> = pieces.map(|piece| self.0.client_bytes(piece)).collect();
        let requests = || {
            events.iter().filter_map(|event| {
                if let ClientEvent::Request(request) = event { Some(request) } else { None }
            })
        };
        let gated = requests().find(|request| request.class == RequestClass::Gated);
        let request = gated.or_else(|| requests().next())?;
        let class = match request.class {
            RequestClass::Gated => "gated",
            RequestClass::Pass(reason) => reason.name(),
        };
        Some(format!("> {:02x} {class}", request.command.0))
    }

    fn server(&mut self, bytes: &[u8]) {
        self.0.server_bytes(bytes);
    }

    fn state(&self) -> String {
        let place = match self.0.opaque() {
            Some(opaque) => opaque.name(),
            None if self.0.at_boundary() => "boundary",
            None => "busy",
        };
        format!("{place} {}", self.0.holding())
    }
}

#[test]
fn every_recording_is_understood_in_any_chunking() {
    replay::<MySql>("mysql", 5);
}

#[test]
fn no_recording_is_lost_and_each_command_begins_at_a_boundary() {
    for (name, recording) in recordings("mysql") {
        assert!(!recording.contains("= desynchronized"), "{}", name);
        let lines: Vec<&str> = recording.lines().filter(|line| !line.starts_with('#')).collect();
        for window in lines.windows(3) {
            let commands = window[1].starts_with("C ") && window[2].starts_with("> ");
            if commands && window[0].starts_with("= ") {
                assert!(window[0].starts_with("= boundary"), "{}: {}", name, window[0]);
            }
        }
    }
}
