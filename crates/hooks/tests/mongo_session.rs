//! What the session makes of conversations with MongoDB.

mod mongo_support;

use headworks_hooks::holding::Holding;
use headworks_hooks::mongo::{Opaque, Session};
use mongo_support::Value::{self, Array, Binary, Bool, Document, Int, Long, Text};
use mongo_support::*;

/// A session to which the client has said this.
fn after(bytes: &[u8]) -> Session {
    let mut session = Session::new();
    session.client_bytes(bytes);
    session
}

fn counts(session: &Session) -> (u32, u32) {
    (session.commands(), session.passed())
}

fn find(request: i32) -> Vec<u8> {
    message(request, &[("find", Text("c")), ("filter", Document(vec![])), ("$db", Text("shop"))])
}

fn account(session: &Session) -> String {
    String::from_utf8_lossy(session.identity().unwrap().account()).into_owned()
}

const TRANSACTION: Holding = Holding::TRANSACTION;

#[test]
fn a_message_is_a_command_and_is_over_with_its_answer() {
    let mut session = Session::new();
    assert!(session.between_commands() && session.identity().is_none());
    let bytes = find(7);
    session.client_bytes(&bytes[..bytes.len() - 1]);
    assert_eq!(counts(&session), (0, 0));
    assert!(!session.between_messages());
    session.client_bytes(&bytes[bytes.len() - 1..]);
    assert_eq!(counts(&session), (1, 0));
    assert!(session.between_messages() && !session.between_commands() && session.owes_answers());
    session.server_bytes(&ok(7));
    assert!(session.between_commands() && !session.owes_answers());
    assert_eq!(session.identity().unwrap().database(), b"shop");
    assert_eq!(account(&session), "anonymous");
}

#[test]
fn sections_may_be_many_in_any_order_and_a_checksum_ends_the_message() {
    let documents = vec![document(&[("_id", Int(1))]); 3];
    let insert = [("insert", Text("c")), ("$db", Text("shop"))];
    let mut bytes = 1u32.to_le_bytes().to_vec();
    bytes.extend(sequence("documents", &documents));
    bytes.push(0);
    bytes.extend(document(&insert));
    bytes.extend(sequence("more", &[]));
    bytes.extend([1, 2, 3, 4]);
    let mut session = after(&[raw(1, 0, 2013, &bytes), find(2)].concat());
    assert_eq!(counts(&session), (2, 0));
    session.server_bytes(&[ok(1), ok(2)].concat());
    assert!(session.between_commands() && session.opaque().is_none());
}

#[test]
fn administration_passes_and_work_does_not() {
    for name in [
        "hello",
        "isMaster",
        "ismaster",
        "ping",
        "buildInfo",
        "saslContinue",
        "endSessions",
        "killCursors",
        "killOp",
        "currentOp",
        "serverStatus",
        "replSetGetStatus",
        "setParameter",
        "shutdown",
        "listCommands",
        "killSessions",
        "_isSelf",
        "fsyncUnlock",
    ] {
        assert_eq!(
            counts(&after(&message(1, &[(name, Int(1)), ("$db", Text("admin"))]))),
            (1, 1),
            "{name}"
        );
    }
    for name in
        ["find", "insert", "aggregate", "count", "fsync", "createIndexes", "Ping", "pings", "x"]
    {
        assert_eq!(
            counts(&after(&message(1, &[(name, Int(1)), ("$db", Text("admin"))]))),
            (1, 0),
            "{name}"
        );
    }
    // A value that looks like a command's name is none.
    assert_eq!(counts(&after(&message(1, &[("find", Text("ping")), ("ping", Int(1))]))), (1, 0));
}

#[test]
fn messages_of_older_drivers_are_followed() {
    let hello = query(1, &[("isMaster", Int(1)), metadata("till")]);
    let mut session = after(&hello);
    assert_eq!(counts(&session), (1, 1));
    session.server_bytes(&reply(1, &[("ok", Int(1))]));
    assert!(session.between_commands());
    assert_eq!(session.identity().unwrap().application(), b"till");
    let wrapped = Document(vec![("ping", Int(1))]);
    assert_eq!(
        counts(&after(&query(1, &[("$query", wrapped), ("$readPreference", Document(vec![]))]))),
        (1, 1)
    );
    // Inserts, updates and deletes of old have no answer, nor has the end of a cursor.
    for (opcode, passed) in [(2001, 0), (2002, 0), (2006, 0), (2007, 1)] {
        let session = after(&raw(1, 0, opcode, &[0; 20]));
        assert_eq!(counts(&session), (1, passed));
        assert!(session.between_commands(), "{opcode}");
    }
    assert!(after(&raw(1, 0, 2005, &[0; 20])).owes_answers());
}

#[test]
fn a_transaction_is_held_by_the_connection_that_began_it_until_it_is_answered() {
    for end in ["commitTransaction", "abortTransaction"] {
        for answered in [ok, failed] {
            let mut session = after(&statement(1, "insert", 9, 4, true));
            assert_eq!((counts(&session), session.holding()), ((1, 0), TRANSACTION));
            session.server_bytes(&ok(1));
            session.client_bytes(&statement(2, "update", 9, 4, false));
            session.server_bytes(&ok(2));
            assert_eq!((counts(&session), session.holding()), ((2, 0), TRANSACTION));
            session.client_bytes(&statement(3, end, 9, 4, false));
            assert_eq!(session.holding(), TRANSACTION, "not answered yet");
            session.server_bytes(&answered(3));
            assert_eq!((counts(&session), session.holding()), ((3, 0), Holding::NONE));
        }
    }
}

#[test]
fn the_statements_of_a_transaction_pass_on_every_other_connection() {
    for name in ["update", "find", "commitTransaction", "abortTransaction"] {
        let mut session = after(&statement(1, name, 9, 4, false));
        assert_eq!((counts(&session), session.holding()), ((1, 1), Holding::NONE), "{name}");
        session.server_bytes(&ok(1));
        // Also where another one is open.
        session.client_bytes(&statement(2, "insert", 8, 4, true));
        session.client_bytes(&statement(3, name, 9, 4, false));
        assert_eq!((counts(&session), session.holding()), ((3, 2), TRANSACTION), "{name}");
    }
}

#[test]
fn a_statement_that_fails_ends_its_transaction() {
    let label = || ("errorLabels", Array(vec![Text("Other"), Text("TransientTransactionError")]));
    for fields in [
        vec![("ok", Int(0)), label()],
        vec![("ok", Int(1)), label()],
        vec![label(), ("ok", Value::Double(0.0))],
        vec![("ok", Bool(false))],
    ] {
        let mut session = after(&statement(1, "insert", 9, 4, true));
        session.server_bytes(&answer(1, &fields));
        assert_eq!(session.holding(), Holding::NONE, "{fields:?}");
        // What the driver says to it afterwards passes.
        session.client_bytes(&statement(2, "abortTransaction", 9, 4, false));
        assert_eq!(counts(&session), (2, 1));
    }
    let mut session = after(&statement(1, "insert", 9, 4, true));
    session
        .server_bytes(&answer(1, &[("ok", Int(1)), ("errorLabels", Array(vec![Text("Other")]))]));
    assert_eq!(session.holding(), TRANSACTION);
}

#[test]
fn a_command_outside_the_transaction_means_that_it_is_gone_from_here() {
    let mut session = after(&statement(1, "insert", 9, 4, true));
    session.server_bytes(&ok(1));
    session.client_bytes(&message(2, &[("ping", Int(1))]));
    assert_eq!(session.holding(), TRANSACTION, "it says nothing");
    session.server_bytes(&ok(2));
    // A retryable write has a number, and no transaction.
    let write = [("insert", Text("c")), lsid(9), ("txnNumber", Long(5)), ("$db", Text("shop"))];
    session.client_bytes(&message(3, &write));
    assert_eq!((counts(&session), session.holding()), ((3, 1), Holding::NONE));
    session.server_bytes(&ok(3));
    // The next transaction of the same session is another one.
    session.client_bytes(&statement(4, "insert", 9, 6, true));
    assert_eq!(session.holding(), TRANSACTION);
    session.client_bytes(&statement(5, "insert", 9, 7, true));
    // The answer to the one before says nothing about this one.
    session.server_bytes(&failed(4));
    assert_eq!(session.holding(), TRANSACTION);
    session.server_bytes(&failed(5));
    assert_eq!(session.holding(), Holding::NONE);
}

#[test]
fn what_waits_by_design_passes_and_is_not_waited_for() {
    let awaited =
        message(1, &[("hello", Int(1)), ("maxAwaitTimeMS", Int(10_000)), ("$db", Text("admin"))]);
    let session = after(&awaited);
    assert_eq!(counts(&session), (1, 1));
    assert!(!session.owes_answers() && !session.between_commands());
    let more = |request, cursor, limit: bool| {
        let mut fields = vec![("getMore", Long(cursor)), ("collection", Text("c"))];
        fields.extend(limit.then_some(("maxTimeMS", Int(1000))));
        message(request, &fields)
    };
    assert_eq!(counts(&after(&more(1, 77, true))), (1, 1));
    assert_eq!(counts(&after(&more(1, 77, false))), (1, 0));
    assert_eq!(counts(&after(&more(1, 0, false))), (1, 0));
    let stage = Document(vec![("$changeStream", Document(vec![]))]);
    let stream = vec![
        ("aggregate", Text("c")),
        ("pipeline", Array(vec![stage])),
        ("cursor", Document(vec![])),
    ];
    let tail = vec![("find", Text("log")), ("tailable", Bool(true)), ("awaitData", Bool(true))];
    let plain = vec![("find", Text("log")), ("tailable", Bool(true))];
    for (opens, passed) in [(stream, 1), (tail, 1), (plain, 0)] {
        let mut session = after(&message(1, &opens));
        assert_eq!(counts(&session), (1, 0), "opening it does not wait");
        let cursor =
            Document(vec![("firstBatch", Array(vec![])), ("id", Long(77)), ("ns", Text("c"))]);
        session.server_bytes(&answer(1, &[("cursor", cursor), ("ok", Int(1))]));
        session.client_bytes(&more(2, 77, false));
        assert_eq!(counts(&session), (2, passed), "{opens:?}");
    }
}

#[test]
fn an_exhaust_cursor_is_one_request_and_a_message_without_answer_owes_none() {
    let fields = [("getMore", Long(77)), ("collection", Text("c"))];
    let mut session = after(&raw(1, 0, 2013, &body(EXHAUST_ALLOWED, &fields)));
    let more = |request, to, flags| raw(request, to, 2013, &body(flags, &[("ok", Int(1))]));
    session.server_bytes(&[more(50, 1, MORE_TO_COME), more(51, 50, MORE_TO_COME)].concat());
    assert!(session.owes_answers() && !session.between_commands());
    session.server_bytes(&more(52, 51, 0));
    assert!(session.between_commands());
    assert_eq!(counts(&session), (1, 0));
    let mut session = after(&raw(3, 0, 2013, &body(MORE_TO_COME, &[("insert", Text("c"))])));
    assert_eq!(counts(&session), (1, 0));
    assert!(session.between_commands());
    // Answers to no request change nothing.
    session.server_bytes(&ok(99));
    assert!(session.between_commands());
}

#[test]
fn answers_may_come_in_any_order_and_more_commands_than_are_followed() {
    let mut session = after(&[find(1), message(2, &[("ping", Int(1))]), find(3)].concat());
    session.server_bytes(&[ok(3), ok(1)].concat());
    assert!(!session.owes_answers() && !session.between_commands());
    session.server_bytes(&ok(2));
    assert!(session.between_commands());
    let many: Vec<u8> = (0..20).flat_map(find).collect();
    session.client_bytes(&many);
    (0..20).for_each(|request| session.server_bytes(&ok(request)));
    assert!(session.between_commands());
    assert_eq!(counts(&session), (23, 1));
}

#[test]
fn a_login_names_the_account_once_the_server_agrees() {
    let payload = |text: &str| Binary(0, text.as_bytes().to_vec());
    let start = [
        ("saslStart", Int(1)),
        ("mechanism", Text("SCRAM-SHA-256")),
        ("payload", payload("n,,n=till,r=x")),
    ];
    let go_on = [
        ("saslContinue", Int(1)),
        ("conversationId", Int(1)),
        ("payload", payload("c=biws,r=x,p=y")),
    ];
    let step =
        |to, done| answer(to, &[("conversationId", Int(1)), ("done", Bool(done)), ("ok", Int(1))]);
    let mut session = after(&message(1, &start));
    session.server_bytes(&step(1, false));
    session.client_bytes(&message(2, &go_on));
    assert_eq!(account(&session), "anonymous");
    let number = session.identity_number();
    session.server_bytes(&step(2, true));
    assert_eq!(account(&session), "till");
    assert_ne!(session.identity_number(), number);
    session.client_bytes(&message(3, &[("logout", Int(1))]));
    session.server_bytes(&ok(3));
    assert_eq!(account(&session), "anonymous");
    // A wrong password.
    session.client_bytes(&message(4, &start));
    session.server_bytes(&failed(4));
    session.client_bytes(&message(5, &go_on));
    session.server_bytes(&step(5, true));
    assert_eq!(account(&session), "anonymous");
}

#[test]
fn a_login_may_begin_with_the_greeting() {
    let first = Document(vec![
        ("saslStart", Int(1)),
        ("mechanism", Text("SCRAM-SHA-256")),
        ("payload", Binary(0, b"n,,n=till,r=x".to_vec())),
        ("db", Text("admin")),
    ]);
    let hello = [("hello", Int(1)), metadata("shop-app"), ("speculativeAuthenticate", first)];
    let mut session = after(&message(1, &hello));
    assert_eq!(session.identity().unwrap().application(), b"shop-app");
    let more = Document(vec![("conversationId", Int(1)), ("done", Bool(false))]);
    session.server_bytes(&answer(1, &[("speculativeAuthenticate", more), ("ok", Int(1))]));
    assert_eq!(account(&session), "anonymous");
    session.client_bytes(&message(
        2,
        &[("saslContinue", Int(1)), ("payload", Binary(0, b"c=biws".to_vec()))],
    ));
    session.server_bytes(&answer(2, &[("done", Bool(true)), ("ok", Int(1))]));
    assert_eq!(account(&session), "till");
    // A certificate's subject is told by the server.
    let first = Document(vec![("authenticate", Int(1)), ("mechanism", Text("MONGODB-X509"))]);
    let mut session = after(&message(1, &[("hello", Int(1)), ("speculativeAuthenticate", first)]));
    let more = Document(vec![("dbname", Text("$external")), ("user", Text("CN=till"))]);
    session.server_bytes(&answer(1, &[("speculativeAuthenticate", more), ("ok", Int(1))]));
    assert_eq!(account(&session), "CN=till");
}

#[test]
fn what_cannot_be_read_is_left_alone_for_a_reason() {
    let handshake = [&[0x16, 0x03, 0x01, 0x02, 0x00][..], &[1; 300]].concat();
    let session = after(&handshake);
    assert_eq!((session.opaque(), session.identity().is_none()), (Some(Opaque::Encrypted), true));
    // A greeting of 0x316 bytes begins alike.
    let mut fields = vec![("hello", Int(1)), ("x", Binary(0, vec![0; 0x316 - 16 - 5 - 27 + 5]))];
    let mut hello = message(1, &fields);
    let spare = hello.len() as i64 - 0x316;
    fields[1].1 = Binary(0, vec![0; (0x316i64 - 16 - 5 - 27 + 5 - spare) as usize]);
    hello = message(1, &fields);
    assert_eq!(hello[..2], [0x16, 0x03]);
    assert_eq!((after(&hello).opaque(), counts(&after(&hello))), (None, (1, 1)));
    let compressed = raw(2, 0, 2012, &[&[0xDD, 7, 0, 0, 9, 0, 0, 0, 1][..], &[5; 30]].concat());
    let session = after(&[hello, compressed].concat());
    assert_eq!((session.opaque(), counts(&session)), (Some(Opaque::Compressed), (2, 2)));
    for bytes in [
        &b"GET / HTTP/1.1\r\n\r\n"[..],
        &[15, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xDD, 7, 0, 0],
        &[255; 16],
    ] {
        assert_eq!(after(bytes).opaque(), Some(Opaque::Desynchronized));
    }
}

#[test]
fn a_document_that_is_none_is_skipped_with_its_message() {
    let good = body(0, &[("find", Text("c"))]);
    for (at, byte) in [(5, 0xFF), (9, 0x42), (5, 4), (8, 0x7F), (15, 0xFF)] {
        let mut bad = good.clone();
        bad[at] = byte;
        let mut session = after(&[raw(1, 0, 2013, &bad), find(2)].concat());
        assert_eq!((counts(&session), session.opaque()), ((2, 0), None), "{at}");
        session.server_bytes(&[ok(1), ok(2)].concat());
        assert!(session.between_commands());
    }
    // Values of every type before the elements that matter.
    let all = [
        ("insert", Text("c")),
        ("a", Value::Double(1.5)),
        ("b", Value::Null),
        ("c", Value::Regex("a.*", "i")),
        ("d", Value::Raw(0x07, vec![1; 12])),
        ("e", Value::Raw(0x0C, [&[2, 0, 0, 0, b'x', 0][..], &[1; 12]].concat())),
        ("f", Value::Raw(0x13, vec![1; 16])),
        ("g", Value::Raw(0x0F, [&[14, 0, 0, 0, 1, 0, 0, 0, 0][..], &[5, 0, 0, 0, 0]].concat())),
        ("h", Value::Raw(0xFF, vec![])),
        ("i", Value::Raw(0x11, vec![0; 8])),
        ("a name that is longer than any of a command or an option", Array(vec![Int(1), Int(2)])),
        ("$db", Text("shop")),
    ];
    assert_eq!(after(&message(1, &all)).identity().unwrap().database(), b"shop");
}

#[test]
fn a_command_in_hand_is_known_to_pass_once_its_document_is_read() {
    let mut bytes = body(
        0,
        &[("insert", Text("c")), lsid(9), ("txnNumber", Long(4)), ("autocommit", Bool(false))],
    );
    let document_ends = bytes.len() + 16;
    bytes.extend(sequence("documents", &vec![document(&[("x", Text("y"))]); 50]));
    let bytes = raw(1, 0, 2013, &bytes);
    let mut session = Session::new();
    session.client_bytes(&bytes[..document_ends - 1]);
    assert!(!session.in_hand_passes());
    session.client_bytes(&bytes[document_ends - 1..document_ends + 100]);
    assert!(session.in_hand_passes() && session.commands() == 0);
    session.client_bytes(&bytes[document_ends + 100..]);
    assert!(!session.in_hand_passes() && counts(&session) == (1, 1));
}

#[test]
fn the_answers_of_an_exhaust_cursor_are_told_from_others() {
    let hello = raw(3, 0, 2013, &body(EXHAUST_ALLOWED, &[("hello", Int(1))]));
    let mut session = after(&[find(2), hello].concat());
    let more = |request, to, flags| raw(request, to, 2013, &body(flags, &[("ok", Int(1))]));
    session.server_bytes(&[more(50, 3, MORE_TO_COME), more(51, 50, 0)].concat());
    assert!(session.owes_answers(), "the other one is not answered");
    session.server_bytes(&ok(2));
    assert!(session.between_commands());
}
