//! Arbitrary bytes and mutated conversations of real clients, against the pure parts.
//!
//! The conversations in `tests/corpus/nbd` are recordings of Debian's clients with a server of this
//! crate (64 MiB "data"): nbdinfo, nbdcopy, qemu-img and qemu-io, fio.

use proptest::prelude::*;

use super::requests::request;
use super::*;
use crate::nbd::export::Mode;
use crate::nbd::intake::{Event, INTAKE_BYTES, Intake, Payload, Space};
use crate::nbd::request::{Agreement, Ask, Job, Refusal};
use crate::nbd::wire::{NOTE_BYTES_MAX, PAYLOAD_BYTES_MAX, option as opt};

/// A parsed event of a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Seen {
    Job(Job, Vec<u8>),
    Refused(Refusal),
    Leave,
    Broken(&'static str),
    Closed(&'static str),
}

/// A server without a socket.
pub(super) struct Server {
    exports: Exports,
    handshake: Handshake,
    pub(super) agreement: Option<Agreement>,
    intake: Intake,
    /// Answers of the handshake.
    out: Vec<u8>,
    /// Longest answer to one option.
    longest: usize,
    over: bool,
    pub(super) seen: Vec<Seen>,
}

impl Server {
    pub(super) fn new() -> Server {
        Server {
            exports: three(),
            handshake: Handshake::default(),
            agreement: None,
            intake: Intake::default(),
            out: Vec::new(),
            longest: 0,
            over: false,
            seen: Vec::new(),
        }
    }

    /// After its handshake, with the 1 MiB export.
    pub(super) fn agreed(mode: Mode) -> Server {
        let allocation = mode != Mode::Simple;
        let extension = mode == Mode::Structured;
        let agreement = Agreement { export: 0, mode, allocation, extension };
        Server { agreement: Some(agreement), ..Server::new() }
    }

    pub(super) fn at_rest(&self) -> bool {
        self.intake.at_rest()
    }

    /// Takes what came from the client.
    pub(super) fn feed(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() && !self.over {
            let (Space::Any(space) | Space::All(space)) = self.intake.space();
            let came = space.len().min(bytes.len());
            assert!(came > 0, "there is always room");
            space[..came].copy_from_slice(&bytes[..came]);
            self.intake.came(came);
            bytes = &bytes[came..];
            self.work();
        }
    }

    fn work(&mut self) {
        while self.agreement.is_none() {
            let before = self.out.len();
            let unread = self.intake.unread().len();
            let (used, step) =
                self.handshake.step(&self.exports, self.intake.unread(), &mut self.out);
            assert!(used <= unread);
            self.longest = self.longest.max(self.out.len() - before);
            self.intake.consume(used);
            match step {
                Step::More => {
                    assert!(used == 0 && unread < INTAKE_BYTES, "or it would wait for ever");
                    return;
                }
                Step::Again => assert!(used > 0, "or it would loop for ever"),
                Step::Secure => panic!("TLS was not offered"),
                Step::Agreed(agreement) => self.agreement = Some(agreement),
                Step::Close(reason) => {
                    self.seen.push(Seen::Closed(reason));
                    self.over = true;
                    return;
                }
            }
        }
        let Some(agreement) = self.agreement else { return };
        let facts = *self.exports.list()[agreement.export].facts();
        while let Some(event) = self.intake.next(&agreement, &facts) {
            let seen = match event {
                Event::Job(job, payload) => {
                    let payload = match payload {
                        Payload::Here(bytes) => bytes.to_vec(),
                        Payload::Gathered(buffer) => buffer.to_vec(),
                    };
                    holds(&agreement, &facts, &job, payload.len());
                    Seen::Job(job, payload)
                }
                // The payload follows.
                Event::Large(_) => continue,
                Event::Refused(refusal) => Seen::Refused(refusal),
                Event::Leave => Seen::Leave,
                Event::Broken(reason) => Seen::Broken(reason),
            };
            self.over = matches!(seen, Seen::Leave | Seen::Broken(_));
            self.seen.push(seen);
        }
    }
}

/// What an engine may rely on.
fn holds(agreement: &Agreement, facts: &Facts, job: &Job, payload: usize) {
    if job.ask == Ask::Note {
        assert!(agreement.extension && job.len <= NOTE_BYTES_MAX && payload as u64 == job.len);
        return;
    }
    let end = job.offset.checked_add(job.len).expect("no range wraps");
    assert!(end <= facts.size_bytes, "no range leaves its export");
    assert!(job.offset.is_multiple_of(512) && job.len.is_multiple_of(512));
    let carries = job.ask == Ask::Write;
    assert_eq!(payload as u64, if carries { job.len } else { 0 });
    if matches!(job.ask, Ask::Read | Ask::Write) {
        assert!(job.len <= PAYLOAD_BYTES_MAX);
    }
    if matches!(job.ask, Ask::Write | Ask::Trim | Ask::WriteZeroes { .. }) {
        assert!(!facts.read_only);
    }
    if matches!(job.ask, Ask::BlockStatus { .. }) {
        assert!(agreement.allocation && job.len > 0);
    }
}

/// Parses a stream that is cut into pieces.
fn understood(bytes: &[u8], piece: usize) -> (Vec<u8>, Vec<Seen>) {
    let mut server = Server::new();
    for part in bytes.chunks(piece.max(1)) {
        server.feed(part);
    }
    // Three exports and their strings, a few times over.
    assert!(server.longest < 1024, "one option got {} bytes", server.longest);
    (server.out, server.seen)
}

/// The client's side of the recorded conversations, and of one with extended headers.
fn conversations() -> Vec<(String, Vec<u8>)> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/corpus/nbd");
    let mut found: Vec<_> = std::fs::read_dir(folder)
        .expect("the corpus is part of the source")
        .map(|entry| {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            (name, std::fs::read(path).unwrap())
        })
        .collect();
    assert!(found.len() >= 5, "the corpus has {} conversations", found.len());
    found.push(("extended".to_owned(), extended_conversation()));
    found.sort();
    found
}

/// Debian's clients do not know extended headers yet.
fn extended_conversation() -> Vec<u8> {
    let mut bytes = 3_u32.to_be_bytes().to_vec();
    bytes.extend(option(opt::EXTENDED_HEADERS, &[]));
    bytes.extend(option(opt::SET_META_CONTEXT, &context_data("data", &["base:allocation"])));
    bytes.extend(option(opt::GO, &info_data("data", &[3])));
    for (kind, flags, len) in [(0, 0, 4096), (1, 32, 4096), (3, 0, 0), (4, 1, 8192), (6, 2, 8192)] {
        bytes.extend(request(Mode::Extended, kind, flags, 0, len));
        if kind == 1 {
            bytes.extend([0x5a; 4096]);
        }
    }
    bytes.extend(request(Mode::Extended, 7, 8, 0, 1 << 20));
    bytes.extend(request(Mode::Extended, 2, 0, 0, 0));
    bytes
}

#[test]
fn conversations_of_real_clients_are_understood_to_their_end() {
    for (name, bytes) in conversations() {
        let (_, seen) = understood(&bytes, bytes.len());
        let bad = |seen: &&Seen| matches!(seen, Seen::Broken(_));
        assert_eq!(seen.iter().find(bad), None, "{name}");
        if name != "nbdinfo-list.bin" {
            let jobs = seen.iter().filter(|seen| matches!(seen, Seen::Job(..))).count();
            assert!(jobs > 0, "{name}: {seen:?}");
            // fio hangs up without a message.
            assert_eq!(seen.last() == Some(&Seen::Leave), name != "fio.bin", "{name}");
        }
    }
}

/// Offsets within the export, around its end, where sums wrap, and anywhere.
fn offset() -> impl Strategy<Value = u64> {
    let sectors = MIB / 512;
    prop_oneof![
        (0..sectors).prop_map(|sector| sector * 512),
        (sectors - 8..sectors + 8).prop_map(|sector| sector * 512),
        (1..32_u64).prop_map(|sector| 0_u64.wrapping_sub(sector * 512)),
        any::<u64>(),
    ]
}

/// Number of cases, or that of `PROPTEST_CASES`.
fn cases(usual: u32) -> ProptestConfig {
    let said = std::env::var_os("PROPTEST_CASES").is_some();
    if said { ProptestConfig::default() } else { ProptestConfig::with_cases(usual) }
}

/// One change of a conversation.
#[derive(Clone, Debug)]
enum Mutation {
    Flip { at: usize, bit: u8 },
    Cut { at: usize, len: usize },
    Repeat { at: usize, len: usize },
    Number { at: usize, bytes: Vec<u8> },
}

fn mutation() -> impl Strategy<Value = Mutation> {
    // Most of a conversation's meaning is in its first bytes and its headers.
    let at = || prop_oneof![0..400_usize, any::<usize>()];
    let number = prop_oneof![
        Just(vec![0; 4]),
        Just(vec![0xff; 4]),
        Just(vec![0xff; 8]),
        Just(vec![0x80, 0, 0, 0]),
        Just(vec![0, 0, 0x10, 0x01]),
        Just(vec![0x02, 0, 0, 0]),
        prop::collection::vec(any::<u8>(), 1..9),
    ];
    prop_oneof![
        (at(), 0..8_u8).prop_map(|(at, bit)| Mutation::Flip { at, bit }),
        (at(), 1..64_usize).prop_map(|(at, len)| Mutation::Cut { at, len }),
        (at(), 1..64_usize).prop_map(|(at, len)| Mutation::Repeat { at, len }),
        (at(), number).prop_map(|(at, bytes)| Mutation::Number { at, bytes }),
    ]
}

fn mutate(bytes: &mut Vec<u8>, mutation: &Mutation) {
    if bytes.is_empty() {
        return;
    }
    let place = |at: usize| at % bytes.len();
    match mutation {
        Mutation::Flip { at, bit } => {
            let at = place(*at);
            bytes[at] ^= 1 << bit;
        }
        Mutation::Cut { at, len } => {
            let at = place(*at);
            bytes.drain(at..(at + len).min(bytes.len()));
        }
        Mutation::Repeat { at, len } => {
            let at = place(*at);
            let part = bytes[at..(at + len).min(bytes.len())].to_vec();
            bytes.splice(at..at, part);
        }
        Mutation::Number { at, bytes: number } => {
            let at = place(*at);
            for (to, from) in bytes[at..].iter_mut().zip(number) {
                *to = *from;
            }
        }
    }
}

proptest! {
    #![proptest_config(cases(2000))]

    #[test]
    fn arbitrary_bytes_are_understood_the_same_in_any_pieces(
        bytes in prop::collection::vec(any::<u8>(), 0..600), piece in 1..40_usize
    ) {
        prop_assert_eq!(understood(&bytes, 600), understood(&bytes, piece));
    }

    #[test]
    fn arbitrary_options_keep_the_bounds(
        flags in 0..4_u32,
        options in prop::collection::vec(
            (0..13_u32, prop::collection::vec(any::<u8>(), 0..80)), 0..8
        ),
        piece in 1..40_usize
    ) {
        let mut bytes = flags.to_be_bytes().to_vec();
        for (number, data) in &options {
            bytes.extend(option(*number, data));
        }
        prop_assert_eq!(understood(&bytes, 4096), understood(&bytes, piece));
    }

    #[test]
    fn arbitrary_requests_keep_the_bounds(
        mode in 0..3_usize,
        requests in prop::collection::vec(
            (0..10_u16, any::<u16>(), any::<bool>(), offset(), any::<u64>(), any::<bool>()),
            1..20
        ),
        piece in 1..5000_usize
    ) {
        let mode = [Mode::Simple, Mode::Structured, Mode::Extended][mode];
        let mut bytes = Vec::new();
        for (kind, flags, plain, offset, len, near) in requests {
            let flags = if plain { 0 } else { flags & 0x3f };
            let flags = if mode == Mode::Extended && kind == 1 { flags | 32 } else { flags };
                        let len = if near { (len % 8192) & !511 } else { len };
            let len = if mode == Mode::Extended { len } else { len & 0xffff_ffff };
            bytes.extend(request(mode, kind, flags, offset, len));
            if near && (kind == 1 || (mode == Mode::Extended && flags & 32 != 0)) {
                bytes.extend(vec![0x11; usize::try_from(len).unwrap()]);
            }
        }
        let run = |piece| {
            let mut server = Server::agreed(mode);
            for part in bytes.chunks(piece) {
                server.feed(part);
            }
            server.seen
        };
        prop_assert_eq!(run(bytes.len()), run(piece));
    }
}

proptest! {
    #![proptest_config(cases(1000))]

    #[test]
    fn mutated_conversations_keep_the_bounds(
        which in any::<prop::sample::Index>(),
        mutations in prop::collection::vec(mutation(), 1..6),
        piece in 1..3000_usize
    ) {
        let conversations = conversations();
        let (_, mut bytes) = conversations[which.index(conversations.len())].clone();
        for mutation in &mutations {
            mutate(&mut bytes, mutation);
        }
        prop_assert_eq!(understood(&bytes, 1 << 16), understood(&bytes, piece));
    }
}
