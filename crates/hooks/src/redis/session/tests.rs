use super::*;

fn command(words: &[&str]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", words.len());
    for word in words {
        bytes += &format!("${}\r\n{word}\r\n", word.len());
    }
    bytes.into_bytes()
}

/// A command and its answer.
fn exchange(session: &mut Session, words: &[&str], answer: &str) {
    session.client_bytes(&command(words));
    session.server_bytes(answer.as_bytes());
    assert!(session.at_boundary(), "{words:?} {}", session.meaning());
}

fn account(session: &Session) -> String {
    let identity = session.identity().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    format!(
        "{}/{}/{}",
        text(identity.account()),
        text(identity.database()),
        text(identity.application())
    )
}

#[test]
fn a_transaction_is_held_until_exec_or_discard() {
    let mut session = Session::new();
    exchange(&mut session, &["SET", "k", "v"], "+OK\r\n");
    assert!(session.holding().is_empty());
    exchange(&mut session, &["MULTI"], "+OK\r\n");
    assert_eq!(session.holding(), Holding::TRANSACTION);
    exchange(&mut session, &["GET", "k"], "+QUEUED\r\n");
    exchange(&mut session, &["MULTI"], "-ERR MULTI calls can not be nested\r\n");
    assert_eq!(session.holding(), Holding::TRANSACTION);
    exchange(&mut session, &["EXEC"], "*1\r\n$1\r\nv\r\n");
    assert!(session.holding().is_empty());
    exchange(&mut session, &["multi"], "+OK\r\n");
    exchange(&mut session, &["NOSUCH"], "-ERR unknown command\r\n");
    exchange(&mut session, &["EXEC"], "-EXECABORT Transaction discarded\r\n");
    assert!(session.holding().is_empty());
    exchange(&mut session, &["MULTI"], "+OK\r\n");
    exchange(&mut session, &["DISCARD"], "+OK\r\n");
    assert!(session.holding().is_empty());
}

#[test]
fn watched_keys_are_held_until_the_transaction_or_unwatch() {
    let mut session = Session::new();
    exchange(&mut session, &["WATCH", "k"], "+OK\r\n");
    assert_eq!(session.holding(), Holding::WATCH);
    exchange(&mut session, &["UNWATCH"], "+OK\r\n");
    assert!(session.holding().is_empty());
    exchange(&mut session, &["WATCH", "k"], "+OK\r\n");
    exchange(&mut session, &["MULTI"], "+OK\r\n");
    exchange(&mut session, &["WATCH", "k"], "-ERR WATCH inside MULTI is not allowed\r\n");
    assert_eq!(session.holding(), Holding::WATCH.union(Holding::TRANSACTION));
    exchange(&mut session, &["EXEC"], "*-1\r\n");
    assert!(session.holding().is_empty());
}

#[test]
fn who_is_refused_holds_nothing_and_is_nobody() {
    let mut session = Session::new();
    exchange(&mut session, &["MULTI"], "-NOAUTH Authentication required.\r\n");
    assert!(session.holding().is_empty(), "asking is not enough");
    exchange(&mut session, &["AUTH", "boss", "guess"], "-WRONGPASS invalid\r\n");
    assert_eq!(account(&session), "default/0/");
    exchange(&mut session, &["AUTH", "app", "secret"], "+OK\r\n");
    exchange(&mut session, &["CLIENT", "SETNAME", "worker"], "+OK\r\n");
    exchange(&mut session, &["SELECT", "3"], "+OK\r\n");
    exchange(&mut session, &["SELECT", "99"], "-ERR DB index is out of range\r\n");
    assert_eq!(account(&session), "app/3/worker");
    let number = session.identity_number();
    exchange(&mut session, &["SELECT", "3"], "+OK\r\n");
    assert_eq!(session.identity_number(), number, "nothing has changed");
    exchange(&mut session, &["RESET"], "+RESET\r\n");
    assert_eq!(account(&session), "default/0/");
}

#[test]
fn what_was_refused_is_not_granted_by_a_later_answer() {
    let refused = "-WRONGPASS invalid\r\n";
    let mut session = Session::new();
    exchange(&mut session, &["AUTH", "boss", "guess"], refused);
    exchange(&mut session, &["HELLO", "3"], "%1\r\n$5\r\nproto\r\n:3\r\n");
    assert_eq!(account(&session), "default/0/");
    exchange(&mut session, &["HELLO", "3", "AUTH", "boss", "guess", "SETNAME", "n"], refused);
    exchange(&mut session, &["CLIENT", "SETNAME", ""], "+OK\r\n");
    exchange(&mut session, &["AUTH", "its-password"], "+OK\r\n");
    assert_eq!(account(&session), "default/0/");
    // A password alone logs in as the default account, whatever the account was before.
    exchange(&mut session, &["AUTH", "app", "right"], "+OK\r\n");
    exchange(&mut session, &["AUTH", "its-password"], "+OK\r\n");
    assert_eq!(account(&session), "default/0/");
    // Inside a transaction the login is not granted yet.
    exchange(&mut session, &["AUTH", "boss", "guess"], "+QUEUED\r\n");
    exchange(&mut session, &["HELLO"], "*0\r\n");
    assert_eq!(account(&session), "default/0/");
}

#[test]
fn an_answer_grants_what_its_own_command_asked_for() {
    let ask = |parts: &[&[&str]], answers: &str| {
        let mut session = Session::new();
        let bytes: Vec<u8> = parts.iter().flat_map(|words| command(words)).collect();
        session.client_bytes(&bytes);
        session.server_bytes(answers.as_bytes());
        assert!(session.at_boundary());
        account(&session)
    };
    let (right, wrong) = (["AUTH", "app", "right"], ["AUTH", "boss", "wrong"]);
    assert_eq!(ask(&[&right, &wrong], "+OK\r\n-WRONGPASS\r\n"), "default/0/");
    assert_eq!(ask(&[&wrong, &right], "-WRONGPASS\r\n+OK\r\n"), "app/0/");
    let hello = ["HELLO", "3", "AUTH", "boss", "wrong", "SETNAME", "boss"];
    assert_eq!(ask(&[&right, &hello], "+OK\r\n-WRONGPASS\r\n"), "default/0/");
    assert_eq!(ask(&[&["SELECT", "3"], &["SELECT", "99"]], "+OK\r\n-ERR\r\n"), "default/0/");
    // A command that finds no free note does not displace an earlier one.
    let select: &[&str] = &["SELECT", "0"];
    let mut many: Vec<&[&str]> = vec![&right];
    many.extend([select; NOTED_MAX - 1]);
    many.push(&wrong);
    let answers = "+OK\r\n".repeat(NOTED_MAX) + "-WRONGPASS\r\n";
    assert_eq!(ask(&many, &answers), "default/0/");
    // What a client pipelines when it connects: each name is asked for once.
    let all: [&[&str]; 3] = [&right, &["SELECT", "3"], &["CLIENT", "SETNAME", "n"]];
    assert_eq!(ask(&all, "+OK\r\n+OK\r\n+OK\r\n"), "app/3/n");
    assert_eq!(ask(&[&["RESET"], &right], "+RESET\r\n+OK\r\n"), "app/0/");
}

#[test]
fn hello_logs_in_names_and_speaks_resp3() {
    let mut session = Session::new();
    let hello = ["HELLO", "3", "AUTH", "app", "AUTH", "SETNAME", "n"];
    exchange(&mut session, &hello, "%1\r\n$5\r\nproto\r\n:3\r\n");
    assert_eq!(account(&session), "app/0/n");
    session.client_bytes(&command(&["SUBSCRIBE", "c"]));
    session.server_bytes(b">3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n");
    assert!(session.at_boundary() && session.stream().is_none(), "it goes on beside the messages");
    exchange(&mut session, &["GET", "k"], ">3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$1\r\nx\r\n_\r\n");
    assert!(!format!("{session:?}").contains("\"AUTH\""), "no password is kept");
}

#[test]
fn a_subscriber_of_resp2_is_a_stream_until_it_has_left_the_last_channel() {
    let mut session = Session::new();
    session.client_bytes(&command(&["SUBSCRIBE", "a", "b"]));
    session.server_bytes(
        b"*3\r\n$9\r\nsubscribe\r\n$1\r\na\r\n:1\r\n*3\r\n$9\r\nsubscribe\r\n$1\r\nb\r\n:2\r\n",
    );
    assert_eq!(session.stream(), Some(Stream::Subscriber));
    session.server_bytes(b"*3\r\n$7\r\nmessage\r\n$1\r\na\r\n$4\r\n:0\r\n\r\n");
    session.client_bytes(&command(&["UNSUBSCRIBE"]));
    session.server_bytes(b"*3\r\n$11\r\nunsubscribe\r\n$1\r\na\r\n:1\r\n");
    assert_eq!(session.stream(), Some(Stream::Subscriber));
    session.server_bytes(b"*3\r\n$11\r\nunsubscribe\r\n$1\r\nb\r\n:0\r\n");
    assert_eq!(session.stream(), None);
    exchange(&mut session, &["MULTI"], "+OK\r\n");
    assert_eq!(session.holding(), Holding::TRANSACTION);
}

#[test]
fn monitors_and_replicas_are_streams_once_the_server_agreed() {
    let mut session = Session::new();
    exchange(&mut session, &["MONITOR"], "-NOPERM no\r\n");
    exchange(&mut session, &["PSYNC", "?", "-1"], "-NOPERM no\r\n");
    assert_eq!(session.stream(), None);
    exchange(&mut session, &["MONITOR"], "+OK\r\n");
    session.server_bytes(b"+1700000000.1 [0 127.0.0.1:1] \"GET\" \"k\"\r\n");
    assert_eq!(session.stream(), Some(Stream::Monitor));
    session.client_bytes(&command(&["RESET"]));
    session.server_bytes(b"+RESET\r\n");
    assert_eq!(session.stream(), None);
    session.client_bytes(&command(&["PSYNC", "?", "-1"]));
    session.server_bytes(b"\n\n+FULLRESYNC 0123 0\r\n$EOF:nonsense from here on");
    assert_eq!(session.stream(), Some(Stream::Replica));
    assert_eq!(session.opaque(), None);
}

#[test]
fn a_pipeline_counts_each_command_and_its_end_is_what_is_held() {
    let mut session = Session::new();
    let batch =
        [command(&["MULTI"]), command(&["SET", "k", "v"]), command(&["EXEC"]), command(&["PING"])];
    session.client_bytes(&batch.concat());
    assert_eq!((session.commands(), session.passed()), (4, 1));
    assert!(!session.at_boundary());
    assert!(session.holding().is_empty(), "what it will be");
    session.server_bytes(b"+OK\r\n+QUEUED\r\n*1\r\n+OK\r\n+PONG\r\n");
    assert!(session.at_boundary() && session.holding().is_empty());
    session.client_bytes(&[command(&["GET", "k"]), command(&["MULTI"])].concat());
    assert_eq!(session.holding(), Holding::TRANSACTION);
    session.server_bytes(b"$-1\r\n-NOPERM\r\n");
    assert!(session.holding().is_empty());
}

#[test]
fn more_commands_in_flight_than_can_be_noted_are_believed() {
    let mut session = Session::new();
    session.client_bytes(&command(&["WATCH", "k"]).repeat(NOTED_MAX + 4));
    session.client_bytes(&command(&["MULTI"]));
    assert!(session.holding().contains(Holding::WATCH));
    session.server_bytes("+OK\r\n".repeat(NOTED_MAX + 5).as_bytes());
    assert!(session.at_boundary());
    assert!(session.holding().contains(Holding::TRANSACTION));
}

#[test]
fn a_client_that_wants_no_answers_is_owed_none() {
    let mut session = Session::new();
    session.client_bytes(&command(&["CLIENT", "REPLY", "SKIP"]));
    session.client_bytes(&command(&["SET", "k", "v"]));
    assert!(session.at_boundary());
    exchange(&mut session, &["GET", "k"], "$1\r\nv\r\n");
    session.client_bytes(&command(&["CLIENT", "REPLY", "OFF"]));
    session.client_bytes(&command(&["MULTI"]));
    assert_eq!(session.holding(), Holding::TRANSACTION, "no answer will say whether it failed");
    session.client_bytes(&command(&["EXEC"]));
    assert!(session.at_boundary() && session.holding().is_empty());
    exchange(&mut session, &["CLIENT", "REPLY", "ON"], "+OK\r\n");
    exchange(&mut session, &["CLIENT", "LIST"], "$0\r\n\r\n");
    assert_eq!(session.commands() - session.passed(), 4, "SET, GET, MULTI, EXEC");
}

#[test]
fn who_hides_the_answer_becomes_nobody_else() {
    let ask: [&[&str]; 6] = [
        &["AUTH", "boss", "wrong"],
        &["HELLO", "3", "AUTH", "boss", "wrong"],
        &["CLIENT", "SETNAME", "boss with blanks"],
        &["SYNC", "x"],
        &["MONITOR", "x"],
        &["RESET", "x"],
    ];
    for words in ask {
        let mut muted = Session::new();
        exchange(&mut muted, &["AUTH", "ann", "right"], "+OK\r\n");
        muted.client_bytes(&command(&["CLIENT", "REPLY", "OFF"]));
        muted.client_bytes(&command(words));
        let mut crowded = Session::new();
        exchange(&mut crowded, &["AUTH", "ann", "right"], "+OK\r\n");
        crowded.client_bytes(&command(&["SELECT", "0"]).repeat(NOTED_MAX));
        crowded.client_bytes(&command(words));
        for session in [muted, crowded] {
            assert_eq!(session.identity().unwrap().account(), b"ann", "{words:?}");
            assert!(session.identity().unwrap().application().is_empty(), "{words:?}");
            assert!(session.stream().is_none() && session.opaque().is_none(), "{words:?}");
        }
    }
    let mut muted = Session::new();
    exchange(&mut muted, &["AUTH", "ann", "right"], "+OK\r\n");
    muted.client_bytes(&command(&["CLIENT", "REPLY", "OFF"]));
    muted.client_bytes(&command(&["RESET"]));
    assert_eq!(muted.identity().unwrap().account(), DEFAULT_ACCOUNT, "that cannot fail");
    muted.server_bytes(b"+RESET\r\n");
    muted.client_bytes(&command(&["GET", "k"]));
    assert!(!muted.at_boundary(), "and answers come again");
}

#[test]
fn tls_and_nonsense_are_opaque() {
    let mut session = Session::new();
    session.client_bytes(b"\x16\x03\x01\x02\0");
    assert_eq!(session.opaque(), Some(Opaque::Encrypted));
    let mut session = Session::new();
    session.client_bytes(b"*1\r\nGET\r\n");
    assert_eq!(session.opaque(), Some(Opaque::Desynchronized));
}
