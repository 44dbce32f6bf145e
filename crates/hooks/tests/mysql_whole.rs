//! What comes whole is read at once, what comes in pieces piece by piece: both must mean the same.

mod mysql_support;

use headworks_hooks::mysql::{ClientEvent, Request, Session};
use mysql_support::*;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use std::path::Path;

/// A session that is given packets as a server's calls return them, and one that gets small pieces.
struct Twins {
    whole: Session,
    pieces: Session,
    chunk: usize,
}

impl Twins {
    fn logged_in(capabilities: u32, extended: u32, chunk: usize) -> Twins {
        let session = logged_in(capabilities, extended);
        Twins { whole: session.clone(), pieces: session, chunk }
    }

    fn client(&mut self, bytes: &[u8]) {
        let mut rest = bytes;
        let mut requests: [Vec<Request>; 2] = Default::default();
        // One packet at a time: the header by one call, the payload by another.
        while let Some((header, tail)) = rest.split_first_chunk::<4>() {
            let len = u32::from_le_bytes([header[0], header[1], header[2], 0]) as usize;
            let Some((payload, tail)) = tail.split_at_checked(len) else { break };
            let event = self.whole.client_packet(*header, payload);
            requests[0].extend(request(event));
            rest = tail;
        }
        requests[0].extend(request(self.whole.client_bytes(rest)));
        for part in bytes.chunks(self.chunk) {
            requests[1].extend(request(self.pieces.client_bytes(part)));
        }
        // A piece with several commands reports one of them.
        if self.chunk == 1 {
            assert_eq!(requests[0], requests[1]);
        }
        assert_eq!(self.whole.meaning(), self.pieces.meaning(), "after {}", bytes.escape_ascii());
    }

    fn server(&mut self, bytes: &[u8]) {
        self.whole.server_bytes(bytes);
        for part in bytes.chunks(self.chunk) {
            self.pieces.server_bytes(part);
        }
        assert_eq!(self.whole.meaning(), self.pieces.meaning(), "after {}", bytes.escape_ascii());
        assert_eq!(self.whole.at_boundary(), self.pieces.at_boundary());
        assert_eq!(self.whole.holding(), self.pieces.holding());
    }
}

fn request(event: ClientEvent) -> Option<Request> {
    if let ClientEvent::Request(request) = event { Some(request) } else { None }
}

fn client() -> impl Strategy<Value = Vec<u8>> {
    let text = select(vec![
        "SELECT c FROM sbtest1 WHERE id=1",
        "BEGIN",
        "COMMIT",
        "start transaction",
        "UPDATE t SET a = 1 WHERE widget_lock = 3",
        "DELETE FROM t; SELECT 1",
        "LOCK TABLES t READ",
        "SELECT GET_LOCK('a', 1)",
        "LOAD DATA LOCAL INFILE 'x' INTO TABLE t",
        "PREPARE s FROM @x",
        "EXECUTE s",
        "",
    ]);
    prop_oneof![
        6 => text.clone().prop_map(query),
        1 => text.prop_map(|text| command(0x16, text.as_bytes())),
        2 => prop_oneof![0u32..4, Just(u32::MAX)].prop_map(execute),
        1 => select(vec![0x01u8, 0x02, 0x0E, 0x0E, 0x15, 0x17, 0x19, 0x1B, 0x1C, 0x1F]).prop_map(|code| command(code, b"")),
        1 => (any::<u8>(), vec(any::<u8>(), 0..9)).prop_map(|(sequence, payload)| packet(sequence, &payload)),
    ]
}

/// Any number of definitions and rows, with or without an EOF in between.
fn result(columns: u8, count: usize, eofs: bool, status: u16) -> Vec<u8> {
    let mut bytes = packet(1, &[columns, 1]);
    (0..columns).for_each(|_| bytes.extend(definition()));
    if eofs {
        bytes.extend(eof(status));
    }
    (0..count).for_each(|row| bytes.extend(packet(4, &[&[row as u8][..], &[b'x'; 30]].concat())));
    bytes.extend(if eofs { eof(status) } else { end(status) });
    bytes
}

fn server() -> impl Strategy<Value = Vec<u8>> {
    let status =
        select(vec![AUTOCOMMIT, AUTOCOMMIT | IN_TRANS, IN_TRANS, AUTOCOMMIT | MORE, CURSOR]);
    prop_oneof![
        3 => status.clone().prop_map(ok),
        1 => select(vec![1064u16, 1213, 0xFFFF]).prop_map(err),
        5 => (1u8..5, 0usize..5, any::<bool>(), status.clone()).prop_map(|(columns, count, eofs, status)| result(columns, count, eofs, status)),
        1 => (1u32..4).prop_map(prepared),
        1 => Just(packet(1, b"\xFBfile")),
        1 => (select(vec![0u8, 1, 2, 0xFB, 0xFE, 0xFF]), vec(any::<u8>(), 0..12)).prop_map(|(first, rest)| packet(1, &[&[first][..], &rest].concat())),
        1 => Just(packet(1, &[])),
        1 => vec(any::<u8>(), 0..16),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn whole_packets_mean_what_their_pieces_mean(
        capabilities in select(vec![0, MULTI, DEPRECATE_EOF, MULTI | DEPRECATE_EOF, QUERY_ATTRIBUTES]),
        extended in select(vec![0, CACHE_METADATA]),
        conversation in vec((vec(client(), 0..3), vec(server(), 0..4)), 1..10),
        chunk in 1usize..60,
    ) {
        let mut twins = Twins::logged_in(capabilities, extended, chunk);
        for (requests, answers) in conversation {
            for request in requests {
                twins.client(&request);
            }
            twins.server(&answers.concat());
        }
    }
}

#[test]
fn every_recording_means_the_same_whole_and_in_pieces() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus/mysql");
    for file in std::fs::read_dir(folder).unwrap() {
        let recording = std::fs::read_to_string(file.unwrap().path()).unwrap();
        for chunk in [1, 7] {
            let mut twins = Twins { whole: Session::new(), pieces: Session::new(), chunk };
            let mut from_client = Vec::new();
            for line in recording.lines() {
                match line.split_once(' ') {
                    // Header and payload are two lines: their packet is given when it is complete.
                    Some(("C", hex)) => from_client.extend(unhex(hex)),
                    Some(("S", hex)) => {
                        twins.client(&std::mem::take(&mut from_client));
                        twins.server(&unhex(hex));
                    }
                    _ => {}
                }
            }
        }
    }
}

fn unhex(text: &str) -> Vec<u8> {
    let digit = |digit: &u8| char::from(*digit).to_digit(16).unwrap() as u8;
    text.as_bytes().chunks(2).map(|pair| digit(&pair[0]) << 4 | digit(&pair[1])).collect()
}
