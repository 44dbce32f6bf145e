//! Properties of the PostgreSQL session: no bytes break it, no chunking changes it, no lock
//! function escapes it.

use headworks_hooks::postgres::{ClientEvent, Holding, Request, Session};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::FileFailurePersistence;

/// Relative to the crate's folder, where cargo runs its tests.
const FAILURES: FileFailurePersistence =
    FileFailurePersistence::Direct("proptest-regressions/postgres_props.txt");

fn message(kind: u8, body: &[u8]) -> Vec<u8> {
    let mut bytes = vec![kind];
    bytes.extend((body.len() as u32 + 4).to_be_bytes());
    bytes.extend(body);
    bytes
}

fn startup() -> Vec<u8> {
    let body = b"\0\x03\0\0user\0app\0database\0shop\0application_name\0props\0\0";
    [&(body.len() as u32 + 4).to_be_bytes()[..], body].concat()
}

fn ready(status: u8) -> Vec<u8> {
    message(b'Z', &[status])
}

fn query(text: &str) -> Vec<u8> {
    message(b'Q', &[text.as_bytes(), &[0]].concat())
}

fn parse(name: &str, text: &str) -> Vec<u8> {
    message(b'P', format!("{name}\0{text}\0\0\0").as_bytes())
}

fn bind(name: &str) -> Vec<u8> {
    message(b'B', format!("\0{name}\0\0\0\0\0\0\0").as_bytes())
}

fn execute() -> Vec<u8> {
    message(b'E', &[0; 5])
}

fn row(value: &str) -> Vec<u8> {
    let mut body = vec![0, 1];
    body.extend((value.len() as u32).to_be_bytes());
    body.extend(value.as_bytes());
    message(b'D', &body)
}

fn complete() -> Vec<u8> {
    message(b'C', b"SELECT 1\0")
}

fn logged_in() -> Session {
    let mut session = Session::new();
    session.client_bytes(&startup());
    session.server_bytes(&[message(b'R', &[0; 4]), ready(b'I')].concat());
    assert!(session.at_boundary());
    session
}

fn feed(chunks: &[usize], bytes: &[u8], mut each: impl FnMut(&[u8])) {
    let (mut rest, mut sizes) = (bytes, chunks.iter().cycle());
    while !rest.is_empty() {
        let size = (*sizes.next().unwrap_or(&1)).clamp(1, rest.len());
        let (now, later) = rest.split_at(size);
        each(now);
        rest = later;
    }
}

/// Bytes that often look like messages, so that random input gets past the framing.
fn wire() -> impl Strategy<Value = Vec<u8>> {
    let kinds = b"QPBEDCSHFXdcfpZRKNA123tTnVGHWIsE".to_vec();
    let body = prop_oneof![
        vec(any::<u8>(), 0..40),
        "[ -~]{0,60}".prop_map(|text| [text.as_bytes(), &[0]].concat()),
        select(vec![b"I".to_vec(), b"T".to_vec(), b"E".to_vec(), vec![]]),
    ];
    let piece = prop_oneof![
        6 => (select(kinds), body).prop_map(|(kind, body)| message(kind, &body)),
        1 => vec(any::<u8>(), 0..16),
        1 => Just(startup()),
    ];
    vec(piece, 1..6).prop_map(|pieces| pieces.concat())
}

/// A request and its answer.
fn exchange() -> impl Strategy<Value = (Vec<u8>, Vec<u8>)> {
    let text = select(vec![
        "SELECT 1",
        "BEGIN",
        "SELECT pg_advisory_lock(1)",
        "SELECT pg_try_advisory_lock(2)",
        "SELECT pg_advisory_unlock(1)",
        "/* c */ select pg_advisory_unlock_all();",
        "DISCARD ALL",
        "SELECT a, pg_advisory_lock_shared(a) FROM t",
        "select pg_cancel_backend(7)",
        "COMMIT PREPARED 'x'",
        "",
    ]);
    let status = select(vec![b'I', b'T', b'E']);
    let error = || message(b'E', b"SERROR\0C22012\0\0");
    let rows = vec(select(vec!["t", "f", "", "a longer value"]), 0..3)
        .prop_map(|values| values.into_iter().flat_map(row).collect::<Vec<u8>>());
    prop_oneof![
        (text.clone(), rows.clone(), status.clone(), any::<bool>()).prop_map(
            move |(text, rows, status, fails)| {
                let end = if fails { error() } else { complete() };
                (query(text), [rows, end, ready(status)].concat())
            }
        ),
        (text, rows, status, select(vec!["", "named"])).prop_map(|(text, rows, status, name)| {
            let request = [parse(name, text), bind(name), execute(), message(b'S', &[])].concat();
            let done = [message(b'1', &[]), message(b'2', &[]), rows, complete()].concat();
            (request, [done, ready(status)].concat())
        }),
    ]
}

fn converse(conversation: &[(Vec<u8>, Vec<u8>)], chunks: &[usize]) -> (Vec<String>, Vec<Holding>) {
    let mut session = Session::new();
    feed(chunks, &startup(), |part| assert_eq!(session.client_bytes(part), ClientEvent::None));
    feed(chunks, &ready(b'I'), |part| session.server_bytes(part));
    let (mut meanings, mut holdings) = (Vec::new(), Vec::new());
    for (request, answer) in conversation {
        assert!(session.at_boundary());
        feed(chunks, request, |part| {
            session.client_bytes(part);
        });
        assert!(!session.at_boundary());
        feed(chunks, answer, |part| session.server_bytes(part));
        assert!(session.at_boundary());
        meanings.push(session.meaning());
        holdings.push(session.holding());
    }
    (meanings, holdings)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: Some(Box::new(FAILURES)), ..ProptestConfig::default() })]

    #[test]
    fn any_bytes_keep_the_invariants_and_chunks_do_not_matter(
        after_login in any::<bool>(),
        streams in vec((any::<bool>(), wire()), 0..12),
        chunks in vec(1usize..40, 1..8),
    ) {
        let mut whole = if after_login { logged_in() } else { Session::new() };
        let mut cut = whole.clone();
        for (from_client, bytes) in &streams {
            if *from_client {
                whole.client_bytes(bytes);
                feed(&chunks, bytes, |part| { cut.client_bytes(part); });
            } else {
                whole.server_bytes(bytes);
                feed(&chunks, bytes, |part| cut.server_bytes(part));
            }
            prop_assert!(!(cut.opaque().is_some() && cut.at_boundary()), "an opaque session has no boundaries");
            prop_assert_eq!(whole.meaning(), cut.meaning());
        }
        if cut.opaque().is_some() {
            let stuck = cut.opaque();
            prop_assert_eq!(cut.client_bytes(&query("SELECT 1")), ClientEvent::None);
            cut.server_bytes(&ready(b'I'));
            prop_assert_eq!(cut.opaque(), stuck, "opaque is final");
        }
    }

    #[test]
    fn a_valid_conversation_means_the_same_in_any_chunking(
        conversation in vec(exchange(), 0..12),
        chunks in vec(1usize..60, 1..8),
    ) {
        prop_assert_eq!(converse(&conversation, &chunks), converse(&conversation, &[usize::MAX]));
    }

    #[test]
    fn a_request_begins_with_its_first_complete_message(text in "[ -~]{0,700}", chunks in vec(1usize..60, 1..8)) {
        let mut session = logged_in();
        let bytes = query(&text);
        let mut events = Vec::new();
        feed(&chunks, &bytes, |part| events.push(session.client_bytes(part)));
        let last = events.pop();
        prop_assert!(matches!(last, Some(ClientEvent::Request(_))));
        prop_assert!(events.iter().all(|event| *event == ClientEvent::None), "nothing can be done with less");
    }

    #[test]
    fn a_function_that_takes_a_lock_is_noticed_wherever_it_stands(
        before in "[ -~\n]{0,400}[ (.,;\n]",
        name in select(vec!["pg_advisory_lock", "PG_TRY_ADVISORY_LOCK", "pg_advisory_Lock_shared", "pg_try_advisory_lock_shared"]),
        after in "[ (][ -~\n]{0,400}",
        extended in any::<bool>(),
        chunks in vec(1usize..60, 1..8),
    ) {
        let text = format!("select {before}{name}{after}, pg_advisory_lock(1)");
        let mut session = logged_in();
        let request = if extended {
            [parse("s", &text), bind("s"), execute(), message(b'S', &[])].concat()
        } else {
            query(&text)
        };
        feed(&chunks, &request, |part| { session.client_bytes(part); });
        session.server_bytes(&[message(b'E', b"SERROR\0\0"), ready(b'I')].concat());
        prop_assert!(session.holding().contains(Holding::ADVISORY_LOCK), "{text:?}");
    }

    #[test]
    fn several_statements_never_pass(before in select(vec!["select pg_cancel_backend(5)", "commit prepared 'x'"]), after in "[a-zA-Z0-9_ ]{0,20}[a-z][ -~]{0,9}") {
        let event = logged_in().client_bytes(&query(&format!("{before};{after}")));
        prop_assert_eq!(event, ClientEvent::Request(Request::Gated));
    }
}
