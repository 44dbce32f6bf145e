//! Properties of the MongoDB session: no bytes break it, no cut changes it, and what is held is
//! what a server would say.

mod mongo_support;

use headworks_hooks::holding::Holding;
use headworks_hooks::mongo::Session;
use mongo_support::Value::{Array, Binary, Bool, Document, Int, Long, Text};
use mongo_support::*;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::FileFailurePersistence;

/// Relative to the crate's folder, where cargo runs its tests.
const FAILURES: FileFailurePersistence =
    FileFailurePersistence::Direct("proptest-regressions/mongo_props.txt");

fn feed(chunks: &[usize], bytes: &[u8], mut each: impl FnMut(&[u8])) {
    let (mut rest, mut sizes) = (bytes, chunks.iter().cycle());
    while !rest.is_empty() {
        let size = (*sizes.next().unwrap_or(&1)).clamp(1, rest.len());
        let (now, later) = rest.split_at(size);
        each(now);
        rest = later;
    }
}

/// What clients send, well formed.
fn requests() -> Vec<Vec<u8>> {
    let payload = || ("payload", Binary(0, b"n,,n=till,r=x".to_vec()));
    let login = Document(vec![("saslStart", Int(1)), payload()]);
    let stage = Document(vec![("$changeStream", Document(vec![]))]);
    let documents = vec![document(&[("_id", Int(1)), ("text", Text("some words"))]); 2];
    let mut insert = body(0, &[("insert", Text("c")), ("$db", Text("shop"))]);
    insert.extend(sequence("documents", &documents));
    vec![
        message(1, &[("hello", Int(1)), metadata("till"), ("speculativeAuthenticate", login)]),
        query(2, &[("isMaster", Int(1)), metadata("other")]),
        query(2, &[("$query", Document(vec![("ping", Int(1))])), ("x", Int(1))]),
        raw(3, 0, 2013, &insert),
        raw(3, 0, 2013, &body(1, &[("find", Text("c")), ("$db", Text("x"))])),
        raw(3, 0, 2013, &body(MORE_TO_COME, &[("insert", Text("c"))])),
        statement(4, "insert", 1, 1, true),
        statement(5, "update", 1, 1, false),
        statement(5, "update", 2, 1, false),
        statement(6, "commitTransaction", 1, 1, false),
        message(7, &[("saslStart", Int(1)), ("mechanism", Text("PLAIN")), payload()]),
        message(8, &[("saslContinue", Int(1)), payload()]),
        message(9, &[("aggregate", Text("c")), ("pipeline", Array(vec![stage]))]),
        message(10, &[("getMore", Long(77)), ("collection", Text("c"))]),
        message(11, &[("logout", Int(1))]),
        raw(12, 0, 2002, b"whatever"),
        raw(12, 0, 2013, &[0, 0, 0, 0, 0, 90, 0, 0, 0, 2]),
        raw(12, 0, 2013, &[]),
        raw(12, 0, 2004, b"\0\0\0\0never ends"),
    ]
}

/// What servers answer.
fn answers() -> Vec<Vec<u8>> {
    let labels = ("errorLabels", Array(vec![Text("TransientTransactionError")]));
    let cursor = Document(vec![("id", Long(77)), ("firstBatch", Array(vec![]))]);
    let mut all = vec![
        answer(9, &[("cursor", cursor), ("ok", Int(1))]),
        answer(5, &[("ok", Int(0)), labels]),
        raw(90, 10, 2013, &body(MORE_TO_COME, &[("ok", Int(1))])),
        raw(91, 90, 2013, &body(0, &[("ok", Int(1))])),
        answer(8, &[("done", Bool(true)), ("ok", Int(1))]),
        answer(
            1,
            &[("speculativeAuthenticate", Document(vec![("user", Text("x"))])), ("ok", Int(1))],
        ),
        reply(2, &[("ok", Int(1))]),
        raw(91, 3, 1, &[0; 7]),
    ];
    all.extend((1..12).flat_map(|request| [ok(request), failed(request)]));
    all
}

/// Bytes of one side, now and then of no protocol.
fn side(parts: Vec<Vec<u8>>) -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![40 => select(parts), 1 => vec(any::<u8>(), 0..40)]
}

#[derive(Clone, Debug)]
enum Bytes {
    Client(Vec<u8>),
    Server(Vec<u8>),
}

fn conversation() -> impl Strategy<Value = Vec<Bytes>> {
    let client = vec(side(requests()), 1..5).prop_map(|parts| Bytes::Client(parts.concat()));
    let server = vec(side(answers()), 1..5).prop_map(|parts| Bytes::Server(parts.concat()));
    vec(prop_oneof![client, server], 1..12)
}

fn play(conversation: &[Bytes], chunks: &[usize]) -> Session {
    let mut session = Session::new();
    for part in conversation {
        match part {
            Bytes::Client(bytes) => feed(chunks, bytes, |chunk| session.client_bytes(chunk)),
            Bytes::Server(bytes) => feed(chunks, bytes, |chunk| session.server_bytes(chunk)),
        }
    }
    session
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: Some(Box::new(FAILURES)), ..ProptestConfig::default() })]

    /// Bytes at random, behind a header that makes a message of them.
    #[test]
    fn no_bytes_break_a_session(
        parts in vec((any::<bool>(), any::<bool>(), select(vec![1, 2004, 2005, 2012, 2013]), vec(any::<u8>(), 0..200)), 0..8),
    ) {
        let mut session = Session::new();
        for (client, framed, opcode, bytes) in parts {
            let bytes = if framed { raw(1, 1, opcode, &bytes) } else { bytes };
            if client { session.client_bytes(&bytes) } else { session.server_bytes(&bytes) }
            let _ = (session.holding(), session.identity(), session.in_hand_passes(), session.between_commands());
        }
    }

    /// A good message with one byte that is another one: the messages behind it are still told
    /// apart, unless it was the length's.
    #[test]
    fn a_wrong_byte_spoils_one_message(good in select(requests()), at in 4usize..200, byte in any::<u8>()) {
        let mut bad = good.clone();
        let at = 4 + at % (bad.len() - 4);
        bad[at] = byte;
        let mut session = Session::new();
        session.client_bytes(&bad);
        session.client_bytes(&message(99, &[("find", Text("c"))]));
        prop_assert!(session.opaque().is_some() || (session.commands() == 2 && session.between_messages()));
    }

    #[test]
    fn no_cut_changes_a_session(talk in conversation(), chunks in vec(1usize..60, 1..6)) {
        let whole = play(&talk, &[usize::MAX]);
        prop_assert_eq!(play(&talk, &chunks).meaning(), whole.meaning());
        prop_assert_eq!(play(&talk, &[1]).meaning(), whole.meaning());
    }

    /// Transactions of several logical sessions over two connections, one command at a time. A
    /// command is never held if, and only if, it goes on with a transaction that another connection
    /// began. The connection that began one holds it until it ends there.
    #[test]
    fn a_transaction_is_held_where_it_began(
        steps in vec((0usize..2, 1u8..4, select(vec!["begin", "go on", "commit", "other"]), any::<bool>()), 1..40),
    ) {
        let mut sessions = [Session::new(), Session::new()];
        // Of each connection: the transaction that it holds. Of each logical session: the number of
        // its latest one.
        let mut held: [Option<(u8, i64)>; 2] = [None, None];
        let mut numbers = [0i64; 4];
        for (at, logical, what, lucky) in steps {
            let session = &mut sessions[at];
            let passed = session.passed();
            if what == "begin" {
                numbers[usize::from(logical)] += 1;
            }
            let number = numbers[usize::from(logical)];
            let mine = held[at] == Some((logical, number));
            let bytes = match what {
                "begin" => statement(7, "insert", logical, number, true),
                "go on" => statement(7, "insert", logical, number, false),
                "commit" => statement(7, "commitTransaction", logical, number, false),
                _ => message(7, &[("insert", Text("c")), lsid(logical), ("txnNumber", Long(number))]),
            };
            session.client_bytes(&bytes);
            let passes = matches!(what, "go on" | "commit") && !mine;
            prop_assert_eq!(session.passed() - passed, u32::from(passes));
            session.server_bytes(&if lucky { ok(7) } else { failed(7) });
            held[at] = match what {
                "begin" if lucky => Some((logical, number)),
                "begin" | "other" => None,
                _ if !mine => held[at],
                "go on" if lucky => held[at],
                _ => None,
            };
            let holding = if held[at].is_some() { Holding::TRANSACTION } else { Holding::NONE };
            prop_assert_eq!(session.holding(), holding);
            prop_assert!(session.between_commands());
        }
    }
}
