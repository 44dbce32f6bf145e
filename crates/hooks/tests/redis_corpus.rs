//! Recorded conversations with Redis 7; see `corpus_support`. They have no `>` lines.

mod corpus_support;

use corpus_support::{Follower, recordings, replay};
use headworks_hooks::redis::{Session, Stream};

struct Redis(Session);

impl Follower for Redis {
    fn begin() -> Self {
        Self(Session::new())
    }

    fn client<'a>(&mut self, pieces: impl Iterator<Item = &'a [u8]>) -> Option<String> {
        for piece in pieces {
            self.0.client_bytes(piece);
        }
        None
    }

    fn server(&mut self, bytes: &[u8]) {
        self.0.server_bytes(bytes);
    }

    fn state(&self) -> String {
        let place = match (self.0.opaque(), self.0.stream()) {
            (Some(opaque), _) => opaque.name(),
            (None, Some(Stream::Subscriber)) => "subscriber",
            (None, Some(Stream::Monitor)) => "monitor",
            (None, Some(Stream::Replica)) => "replica",
            (None, None) if self.0.at_boundary() => "boundary",
            (None, None) => "busy",
        };
        let who = self.0.identity().map_or_else(String::new, |identity| {
            let parts = [identity.account(), identity.database(), identity.application()];
            parts.map(|part| String::from_utf8_lossy(part).into_owned()).join("/")
        });
        let (commands, passed) = (self.0.commands(), self.0.passed());
        format!("{place} {} {commands}-{passed} {who}", self.0.holding())
    }
}

#[test]
fn every_recording_is_understood_in_any_chunking() {
    replay::<Redis>("redis", 10);
}

#[test]
fn every_answered_command_ends_at_a_boundary() {
    for (name, recording) in recordings("redis") {
        // Blocked commands have no answer yet, and a line that Redis refuses ends the conversation.
        if ["blocking.txt", "inline.txt"].contains(&&*name) {
            continue;
        }
        for line in recording.lines().filter(|line| line.starts_with("= ")) {
            assert!(!line.starts_with("= busy") && !line.starts_with("= desync"), "{name}: {line}");
        }
    }
}
