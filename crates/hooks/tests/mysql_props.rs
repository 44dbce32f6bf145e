//! Properties of the MySQL session: no bytes break it, no chunking changes it, no lock word escapes
//! it.

mod mysql_support;

use headworks_hooks::mysql::{ClientEvent, Holding, Request, RequestClass, Session};
use mysql_support::*;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::FileFailurePersistence;

/// Relative to the crate's folder, where cargo runs its tests.
const FAILURES: FileFailurePersistence =
    FileFailurePersistence::Direct("proptest-regressions/mysql_props.txt");

/// Bytes that often look like packets, so that random input gets past the framing.
fn wire() -> impl Strategy<Value = Vec<u8>> {
    let payload = prop_oneof![
        vec(any::<u8>(), 0..40),
        (any::<u8>(), "[ -~]{0,60}")
            .prop_map(|(first, text)| [&[first][..], text.as_bytes()].concat()),
        (select(vec![0u8, 1, 2, 0xFB, 0xFE, 0xFF]), vec(any::<u8>(), 0..12))
            .prop_map(|(first, rest)| [&[first][..], &rest].concat()),
    ];
    let piece = prop_oneof![
        4 => (prop_oneof![Just(0u8), Just(1u8), any::<u8>()], payload).prop_map(|(sequence, payload)| packet(sequence, &payload)),
        1 => vec(any::<u8>(), 0..16),
    ];
    vec(piece, 1..6).prop_map(|pieces| pieces.concat())
}

fn check_invariants(session: &Session) {
    assert!(
        !(session.opaque().is_some() && session.at_boundary()),
        "an opaque session has no boundaries"
    );
    assert_eq!(session.holding().is_empty(), session.holding().names().next().is_none());
    if let Some(identity) = session.identity() {
        assert!(
            identity.account().len() <= 64
                && identity.database().len() <= 64
                && identity.application().len() <= 64
        );
    }
}

/// One exchange of a valid conversation: the client's bytes and the whole answer.
fn exchange() -> impl Strategy<Value = (Vec<u8>, Vec<u8>)> {
    let text = select(vec![
        "SELECT 1",
        "BEGIN",
        "UPDATE t SET a = 1 WHERE widget_lock = 3",
        "LOCK TABLES t READ",
        "UNLOCK TABLES",
        "SELECT GET_LOCK('a', 1)",
        "SELECT RELEASE_LOCK('a')",
        "SELECT id, get_lock(id, 1) FROM t",
        "DO RELEASE_ALL_LOCKS()",
        "FLUSH TABLES WITH READ LOCK",
        "HANDLER t OPEN",
        "HANDLER t CLOSE",
        "XA START 'x'",
        "XA COMMIT 'x'",
        "KILL 5",
        "KILL 5; SELECT 1",
        "/* hint */ -- more\n/*!50000LOCK TABLES t READ */",
        "SELECT 1; SET STATEMENT x = 1 FOR LOCK TABLES t READ",
        "PREPARE s FROM 'select ''1'''",
        "PREPARE s FROM @x",
        "EXECUTE s",
        "CALL p()",
        "BACKUP STAGE START;",
        "SET @a = 5",
        "",
    ]);
    let status = select(vec![0u16, AUTOCOMMIT, AUTOCOMMIT | IN_TRANS, IN_TRANS]);
    let answer = prop_oneof![
        status.clone().prop_map(ok),
        select(vec![1064u16, 1213, 1205, 1317, 1146]).prop_map(err),
        (status.clone(), vec("[a-z]{0,20}", 0..5)).prop_map(|(status, values)| {
            rows(status, &values.iter().map(String::as_str).collect::<Vec<_>>())
        }),
        status.clone().prop_map(|status| [ok(status | MORE), rows(status, &["1"])].concat()),
    ];
    prop_oneof![
        4 => (text.clone().prop_map(query), answer.clone()),
        1 => (text.clone().prop_map(|text| command(0x16, text.as_bytes())), (1u32..4).prop_map(prepared)),
        1 => ((1u32..4).prop_map(execute), answer),
        1 => (Just(command(0x0E, b"")), status.clone().prop_map(ok)),
        1 => (Just(command(0x1F, b"")), status.clone().prop_map(ok)),
        1 => ((1u32..4).prop_map(|id| command(0x19, &id.to_le_bytes())), Just(Vec::new())),
        1 => (Just(change_user("other", "db", "tool")), status.prop_map(ok)),
    ]
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

fn converse(
    conversation: &[(Vec<u8>, Vec<u8>)],
    chunks: &[usize],
) -> (Vec<Request>, Vec<Holding>, String) {
    let mut session = Session::new();
    let (mut requests, mut holdings) = (Vec::new(), Vec::new());
    feed(chunks, &greeting(SERVER, 0), |part| session.server_bytes(part));
    feed(chunks, &response(BASE | MULTI, 0, "app", "shop", "props"), |part| {
        assert_eq!(session.client_bytes(part), ClientEvent::None)
    });
    feed(chunks, &ok(AUTOCOMMIT), |part| session.server_bytes(part));
    for (request, answer) in conversation {
        assert!(session.at_boundary());
        feed(chunks, request, |part| {
            if let ClientEvent::Request(request) = session.client_bytes(part) {
                requests.push(request);
            }
        });
        feed(chunks, answer, |part| session.server_bytes(part));
        assert_eq!(session.opaque(), None);
        assert!(session.at_boundary());
        holdings.push(session.holding());
    }
    (requests, holdings, format!("{:?}", session.identity()))
}

/// Text in which anything may stand, also quotes, comments and broken words.
fn noise() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        "[ -~\n\t]{0,12}",
        select(vec![
            "'", "\"", "`", "/*", "*/", "-- ", "#", "\\'", ";", "/*!50000", "\n", "get_", "_lock",
            "lock ", "é", "\u{212A}"
        ])
        .prop_map(str::to_owned),
    ];
    vec(piece, 0..12).prop_map(|pieces| pieces.concat())
}

fn holding_after(text: &str, chunks: &[usize]) -> Holding {
    let mut session = logged_in(MULTI, 0);
    feed(chunks, &query(text), |part| {
        session.client_bytes(part);
    });
    session.server_bytes(&ok(AUTOCOMMIT));
    session.holding()
}

fn cased(word: &str, bits: u64) -> String {
    word.chars()
        .enumerate()
        .map(
            |(at, letter)| {
                if bits >> (at % 64) & 1 == 0 { letter } else { letter.to_ascii_uppercase() }
            },
        )
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: Some(Box::new(FAILURES)), ..ProptestConfig::default() })]

    #[test]
    fn a_proxys_header_changes_nothing_but_the_address(
        second in any::<bool>(),
        conversation in vec(exchange(), 0..6),
        chunks in vec(1usize..40, 1..8),
    ) {
        let text = b"PROXY TCP4 192.0.2.5 127.0.0.1 4711 3306\r\n";
        let binary = b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c\xc0\0\x02\x05\x7f\0\0\x01\x12\x67\x0c\xea";
        let header = if second { &binary[..] } else { text };
        let login = response(BASE | MULTI, 0, "app", "shop", "props");
        let followed = |header: &[u8], early: bool| {
            let mut session = Session::new();
            if early {
                feed(&chunks, header, |part| {
 session.client_bytes(part);
});
            }
            feed(&chunks, &greeting(SERVER, 0), |part| session.server_bytes(part));
            let rest = if early { login.clone() } else { [header, &login].concat() };
            feed(&chunks, &rest, |part| assert_eq!(session.client_bytes(part), ClientEvent::None));
            feed(&chunks, &ok(AUTOCOMMIT), |part| session.server_bytes(part));
            let mut holdings = Vec::new();
            for (request, answer) in &conversation {
                feed(&chunks, request, |part| {
 session.client_bytes(part);
});
                feed(&chunks, answer, |part| session.server_bytes(part));
                holdings.push((session.at_boundary(), session.holding()));
            }
            prop_assert_eq!(session.opaque(), None);
            Ok((holdings, format!("{:?}", session.identity()), session.client_address()))
        };
        let (plain, early, late) = (followed(b"", false)?, followed(header, true)?, followed(header, false)?);
        prop_assert_eq!(plain.2, None);
        prop_assert_eq!(late.2, Some([192, 0, 2, 5].into()));
        prop_assert_eq!((&early.0, &early.1), (&plain.0, &plain.1));
        prop_assert_eq!((early.2, &late.0, &late.1), (late.2, &plain.0, &plain.1));
    }

    #[test]
    fn any_bytes_in_any_chunking_keep_the_invariants(
        after_login in any::<bool>(),
        capabilities in any::<u32>(),
        streams in vec((any::<bool>(), wire()), 0..12),
        chunks in vec(1usize..40, 1..8),
    ) {
        let mut session = Session::new();
        if after_login {
            session.server_bytes(&greeting(SERVER, u32::MAX));
            session.client_bytes(&response(BASE | capabilities & !(SSL | COMPRESS | ZSTD), u32::MAX, "a", "b", "c"));
            session.server_bytes(&ok(AUTOCOMMIT));
        }
        for (from_client, bytes) in &streams {
            feed(&chunks, bytes, |part| {
                if *from_client {
                    session.client_bytes(part);
                } else {
                    session.server_bytes(part);
                }
                check_invariants(&session);
            });
        }
        if session.opaque().is_some() {
            let stuck = (session.opaque(), session.holding());
            prop_assert_eq!(session.client_bytes(&query("SELECT 1")), ClientEvent::None);
            session.server_bytes(&ok(0));
            prop_assert_eq!((session.opaque(), session.holding()), stuck, "opaque is final");
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
    fn any_text_means_the_same_in_any_chunking(text in noise(), more in noise(), chunks in vec(1usize..30, 1..6)) {
        let text = format!("{text}{more}");
        prop_assert_eq!(holding_after(&text, &chunks), holding_after(&text, &[usize::MAX]));
    }

    #[test]
    fn get_lock_is_noticed_wherever_it_stands(before in noise(), after in noise(), bits in any::<u64>(), chunks in vec(1usize..30, 1..6)) {
        // Not in front of the first keyword: there, comments are what they seem.
        let text = format!("select {before} {}({after}", cased("get_lock", bits));
        prop_assert!(holding_after(&text, &chunks).contains(Holding::USER_LOCK), "{text:?}");
    }

    #[test]
    fn a_lock_statement_after_anything_is_noticed(
        before in noise(),
        statement in select(vec![
            ("lock tables t read", Holding::LOCK_TABLES),
            ("lock /* x */ table t write", Holding::LOCK_TABLES),
            ("flush tables with read lock", Holding::GLOBAL_READ_LOCK),
            ("flush tables t for export", Holding::GLOBAL_READ_LOCK),
            ("backup lock t", Holding::BACKUP),
            ("backup stage start", Holding::BACKUP),
            ("xa start 'x'", Holding::XA),
            ("handler t open", Holding::HANDLER),
            ("execute s", Holding::UNKNOWN),
        ]),
        blank in select(vec![";", "; ", ";\n", ";/* c */", "; /* c */ ", ";-- c\n", ";#;\n ", ";/*!50000 ", ";/*!100500"]),
        tail in noise(),
        bits in any::<u64>(),
        chunks in vec(1usize..30, 1..6),
    ) {
        let (words, holding) = statement;
        let text = format!("select '{before}'{blank}{} {tail}", cased(words, bits));
        prop_assert!(holding_after(&text, &chunks).contains(holding), "{text:?}");
        let first = format!("/* {} */ {} {tail}", before.replace('/', ""), cased(words, bits));
        let expected = if words == "execute s" { Holding::NONE } else { holding };
        prop_assert!(holding_after(&first, &chunks).contains(expected), "{first:?}");
    }

    #[test]
    fn several_statements_never_pass(before in select(vec!["KILL 5", "SHUTDOWN", "XA COMMIT 'x'"]), after in "[a-zA-Z0-9_ ]{0,20}[a-z][ -~]{0,9}") {
        let mut session = plain();
        let event = session.client_bytes(&query(&format!("{before};{after}")));
        prop_assert_eq!(class_of(event), RequestClass::Gated);
    }
}
