//! Recorded conversations with PostgreSQL 15; see `corpus_support`.

mod corpus_support;

use corpus_support::{Follower, recordings, replay};
use headworks_hooks::postgres::{ClientEvent, Request, Session};

struct Postgres(Session);

impl Follower for Postgres {
    fn begin() -> Self {
        Self(Session::new())
    }

    /// As the session does for one chunk: a gated request, else the first.
    fn client<'a>(&mut self, pieces: impl Iterator<Item = &'a [u8]>) -> Option<String> {
        let events: Vec<_> = pieces.map(|piece| self.0.client_bytes(piece)).collect();
        let requests = || {
            events.iter().filter_map(|event| match event {
                ClientEvent::Request(request) => Some(*request),
                ClientEvent::None => None,
            })
        };
        let gated = requests().find(|request| *request == Request::Gated);
        Some(match gated.or_else(|| requests().next())? {
            Request::Pass(reason) => format!("> {}", reason.name()),
            Request::Gated => "> gated".to_owned(),
        })
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
    replay::<Postgres>("postgres", 5);
}

#[test]
fn no_recording_is_lost_and_every_answer_ends_at_a_boundary() {
    /// The last bytes of an answer: ReadyForQuery.
    const READY: [&str; 3] = ["5a0000000549", "5a0000000554", "5a0000000545"];
    for (name, recording) in recordings("postgres") {
        assert!(!recording.contains("= desynchronized"), "{}", name);
        // Requests sent ahead of their answers are answered one by one, and a replica is left
        // alone.
        if name.contains("pipeline") || name.contains("walsender") {
            continue;
        }
        let lines: Vec<&str> = recording.lines().filter(|line| !line.starts_with('#')).collect();
        for pair in lines.windows(2) {
            let ready = READY.iter().any(|ready| pair[0].ends_with(ready));
            if pair[0].starts_with("S ") && ready && pair[1].starts_with("= ") {
                assert!(pair[1].starts_with("= boundary"), "{}: {}", name, pair[0]);
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
