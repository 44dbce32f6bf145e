//! Framing, answers and the connection phase of the MySQL session, by behaviour.

mod mysql_support;

use headworks_hooks::mysql::{
    ClientEvent, Command, Holding, Opaque, PassReason, RequestClass, Session,
};
use mysql_support::*;

const GATED: RequestClass = RequestClass::Gated;

#[test]
fn a_session_is_small_enough_for_one_per_descriptor() {
    assert!(size_of::<Session>() <= 1152, "{}", size_of::<Session>());
}

#[test]
fn the_login_tells_account_database_and_application() {
    let session = plain();
    let identity = session.identity().expect("the response was read");
    assert_eq!(
        (identity.account(), identity.database(), identity.application()),
        (&b"app"[..], &b"shop"[..], &b"sysbench"[..])
    );
}

#[test]
fn an_overlong_account_is_cut() {
    let mut session = Session::new();
    session.server_bytes(&greeting(SERVER, 0));
    session.client_bytes(&response(BASE, 0, &"u".repeat(200), "shop", "x"));
    assert_eq!(
        session.identity().map(|it| (it.account().len(), it.database())),
        Some((64, &b"shop"[..]))
    );
}

#[test]
fn there_is_no_boundary_before_the_login_is_done() {
    let mut session = Session::new();
    assert!(!session.at_boundary());
    session.server_bytes(&greeting(SERVER, 0));
    assert!(!session.at_boundary());
    session.client_bytes(&response(BASE, 0, "app", "", ""));
    assert!(!session.at_boundary());
    session.server_bytes(&packet(2, b"\xFEmysql_native_password\0abc\0"));
    assert!(!session.at_boundary(), "switched to another plugin");
    session.client_bytes(&packet(3, b"01234567890123456789"));
    session.server_bytes(&packet(4, &[1, 4]));
    session.client_bytes(&packet(5, b"x"));
    assert!(!session.at_boundary());
    session.server_bytes(&ok(AUTOCOMMIT));
    assert!(session.at_boundary());
}

#[test]
fn a_proxys_header_may_come_wherever_a_packet_of_the_login_may_begin() {
    let header = |host: u8| format!("PROXY TCP4 192.0.2.{host} 127.0.0.1 4711 3306\r\n");
    for chunk in [1, 7, 500] {
        let mut session = Session::new();
        let feed = |session: &mut Session, bytes: &[u8]| {
            for part in bytes.chunks(chunk) {
                let _ = session.client_bytes(part);
            }
        };
        let address = |host: u8| Some([192, 0, 2, host].into());
        feed(&mut session, header(1).as_bytes());
        session.server_bytes(&greeting(SERVER, 0));
        feed(&mut session, header(2).as_bytes());
        assert_eq!(session.client_address(), address(2));
        feed(&mut session, &response(BASE, 0, "app", "", ""));
        session.server_bytes(&packet(2, b"\xFEmysql_native_password\0abc\0"));
        let named = session.identity_number();
        feed(&mut session, header(3).as_bytes());
        assert_eq!(session.client_address(), address(3));
        assert_ne!(session.identity_number(), named, "rules know of the new address");
        feed(&mut session, &packet(3, b"01234567890123456789"));
        session.server_bytes(&ok(AUTOCOMMIT));
        assert!(session.at_boundary() && session.opaque().is_none());
        feed(&mut session, header(4).as_bytes());
        assert!(session.opaque().is_some(), "the login is over");
    }
}

#[test]
fn too_many_connections_ends_before_it_began() {
    let mut session = Session::new();
    session.server_bytes(&packet(0, b"\xFF\x10\x04Too many connections"));
    assert_eq!(
        (session.opaque(), session.at_boundary(), session.holding()),
        (None, false, Holding::NONE)
    );
}

#[test]
fn tls_and_compression_make_a_session_opaque() {
    let mut tls = Session::new();
    tls.server_bytes(&greeting(SERVER, 0));
    let request = response(BASE | SSL, 0, "", "", "");
    tls.client_bytes(&packet(1, &request[4..36]));
    assert_eq!((tls.opaque(), tls.identity().is_some()), (Some(Opaque::Tls), false));
    for (flag, offered, expected) in [
        (COMPRESS, SERVER, Some(Opaque::Compressed)),
        (ZSTD, SERVER, Some(Opaque::Compressed)),
        (COMPRESS, BASE, None),
    ] {
        let mut session = Session::new();
        session.server_bytes(&greeting(offered, 0));
        session.client_bytes(&response(BASE | flag, 0, "app", "", ""));
        assert_eq!(session.opaque(), expected);
        assert!(session.identity().is_some());
    }
}

#[test]
fn the_conversation_goes_on_inside_tls_with_the_next_number() {
    let mut session = Session::new();
    session.inside_tls();
    assert_eq!(session.opaque(), None, "no request has asked for it");
    session.server_bytes(&greeting(SERVER, 0));
    let request = response(BASE | SSL, 0, "", "", "");
    session.client_bytes(&packet(1, &request[4..36]));
    session.inside_tls();
    assert_eq!((session.opaque(), session.at_boundary()), (None, false));
    let mut login = response(BASE | SSL, 0, "app", "shop", "tls");
    login[3] = 2;
    session.client_bytes(&login);
    let identity = session.identity().expect("the response was read");
    assert_eq!((identity.account(), identity.application()), (&b"app"[..], &b"tls"[..]));
    session.server_bytes(&packet(3, &[0, 0, 0, 2, 0, 0, 0]));
    assert!(session.at_boundary());
    assert_eq!(class_of(session.client_bytes(&query("BEGIN"))), GATED);
    session.server_bytes(&packet(1, &[0, 0, 0, 3, 0, 0, 0]));
    assert_eq!(session.holding(), Holding::TRANSACTION);
    // The number of a response in the open does not fit inside.
    let mut wrong = Session::new();
    wrong.server_bytes(&greeting(SERVER, 0));
    wrong.client_bytes(&packet(1, &request[4..36]));
    wrong.inside_tls();
    wrong.client_bytes(&response(BASE | SSL, 0, "app", "", ""));
    assert_eq!(wrong.opaque(), Some(Opaque::Desynchronized));
}

#[test]
fn header_and_body_in_separate_reads_give_one_request() {
    let mut session = plain();
    let bytes = query("SELECT 1");
    assert_eq!(session.client_bytes(&bytes[..4]), ClientEvent::None);
    assert!(!session.at_boundary(), "in the middle of a packet");
    assert_eq!(class_of(session.client_bytes(&bytes[4..])), GATED);
    session.server_bytes(&rows(AUTOCOMMIT, &["1"]));
    assert!(session.at_boundary());
}

#[test]
fn a_result_set_ends_at_its_second_eof() {
    let mut session = plain();
    session.client_bytes(&query("SELECT a FROM t"));
    let bytes = rows(AUTOCOMMIT, &["1", "", "300"]);
    for byte in &bytes[..bytes.len() - 1] {
        session.server_bytes(&[*byte]);
        assert!(!session.at_boundary());
    }
    session.server_bytes(&bytes[bytes.len() - 1..]);
    assert!(session.at_boundary());
}

#[test]
fn without_eof_packets_a_result_set_ends_at_an_ok_with_header_fe() {
    let mut session = logged_in(DEPRECATE_EOF, 0);
    session.client_bytes(&query("SELECT a FROM t"));
    session.server_bytes(&[packet(1, &[1]), definition(), packet(3, &[1, b'7'])].concat());
    assert!(!session.at_boundary());
    session.server_bytes(&end(AUTOCOMMIT | IN_TRANS));
    assert!(session.at_boundary());
    assert_eq!(session.holding(), Holding::TRANSACTION);
}

#[test]
fn a_row_that_begins_with_fe_is_told_from_the_end_by_its_length() {
    let mut session = plain();
    session.client_bytes(&query("SELECT big"));
    let mut row = vec![0xFE, 0, 0, 0, 1, 0, 0, 0, 0];
    row.resize(0xFF_FFFF, b'x');
    let full = packet(4, &row);
    session.server_bytes(&[packet(1, &[1]), definition(), eof(2), full].concat());
    session.server_bytes(&packet(5, &[0xFE, 0, 0, 2, 0]));
    assert!(!session.at_boundary(), "that was the row's continuation");
    session.server_bytes(&eof(AUTOCOMMIT));
    assert!(session.at_boundary());
}

#[test]
fn a_short_row_that_begins_with_fe_is_no_end_either() {
    let mut session = plain();
    session.client_bytes(&query("SELECT a"));
    let row = packet(4, &[0xFE, 2, 0, 0, 0, 0, 0, 0, 0, b'o', b'k']);
    session.server_bytes(&[packet(1, &[1]), definition(), eof(2), row].concat());
    assert!(!session.at_boundary());
    session.server_bytes(&eof(2));
    assert!(session.at_boundary());
}

#[test]
fn cached_metadata_leaves_out_the_definitions() {
    for (capabilities, tail) in [
        (0, [eof(2), packet(2, &[0, 0, 1]), eof(2)].concat()),
        (DEPRECATE_EOF, [packet(2, &[0, 0, 1]), end(2)].concat()),
    ] {
        let mut session = logged_in(capabilities, CACHE_METADATA);
        turn(&mut session, &execute(1), &[packet(1, &[1, 0]), tail].concat());
    }
    let mut session = logged_in(0, CACHE_METADATA);
    turn(&mut session, &execute(1), &[packet(1, &[1, 1]), definition(), eof(2), eof(2)].concat());
}

#[test]
fn a_cursor_leaves_out_the_rows_and_fetch_brings_them() {
    let mut session = plain();
    turn(&mut session, &execute(1), &[packet(1, &[1]), definition(), eof(CURSOR | 2)].concat());
    turn(
        &mut session,
        &command(0x1C, &[1, 0, 0, 0, 10, 0, 0, 0]),
        &[packet(1, &[0, 0, 5]), packet(2, &[0, 0, 6]), eof(CURSOR | 2)].concat(),
    );
}

#[test]
fn binary_rows_begin_like_an_ok_packet_and_are_not_one() {
    let mut session = plain();
    session.client_bytes(&execute(1));
    session.server_bytes(
        &[packet(1, &[1]), definition(), eof(2), packet(4, &[0, 0, 0, 1, 0, 0, 0])].concat(),
    );
    assert!(!session.at_boundary());
    assert_eq!(session.holding(), Holding::NONE);
    session.server_bytes(&eof(2));
    assert!(session.at_boundary());
}

#[test]
fn more_results_keep_the_answer_open() {
    let mut session = logged_in(MULTI, 0);
    session.client_bytes(&query("UPDATE t SET a=1; SELECT a FROM t; DELETE FROM t"));
    session.server_bytes(&ok(AUTOCOMMIT | MORE));
    session.server_bytes(&rows(AUTOCOMMIT | MORE, &["1"]));
    assert!(!session.at_boundary());
    session.server_bytes(&ok(AUTOCOMMIT));
    assert!(session.at_boundary());
}

#[test]
fn a_progress_report_does_not_end_an_answer() {
    let mut session = plain();
    session.client_bytes(&query("ALTER TABLE t ENGINE=InnoDB"));
    session.server_bytes(&packet(1, b"\xFF\xFF\xFF\x01\x01\x02\x00\x00\x00\x05stage"));
    assert!(!session.at_boundary());
    session.server_bytes(&ok(AUTOCOMMIT));
    assert!(session.at_boundary());
}

#[test]
fn a_local_file_belongs_to_its_request() {
    let mut session = plain();
    session.client_bytes(&query("LOAD DATA LOCAL INFILE 'f' INTO TABLE t"));
    session.server_bytes(&packet(1, b"\xFBf"));
    assert_eq!(session.client_bytes(&packet(2, b"\x03KILL 5")), ClientEvent::None);
    assert_eq!(
        session.client_bytes(&packet(0, b"\x01")),
        ClientEvent::None,
        "sequence numbers wrap in long files"
    );
    session.client_bytes(&packet(4, b""));
    assert!(!session.at_boundary());
    session.server_bytes(&ok(AUTOCOMMIT));
    assert!(session.at_boundary());
}

#[test]
fn a_prepare_answer_ends_after_its_definitions() {
    let answer = |columns: u8, parameters: u8| {
        packet(1, &[0, 9, 0, 0, 0, columns, 0, parameters, 0, 0, 0, 0])
    };
    let mut session = plain();
    turn(
        &mut session,
        &command(0x16, b"SELECT ?"),
        &[answer(1, 1), definition(), eof(2), definition(), eof(2)].concat(),
    );
    turn(&mut session, &command(0x16, b"DO ?"), &[answer(0, 1), definition(), eof(2)].concat());
    turn(&mut session, &command(0x16, b"SELECT 1"), &[answer(1, 0), definition(), eof(2)].concat());
    turn(&mut session, &command(0x16, b"COMMIT"), &answer(0, 0));
    turn(&mut session, &command(0x16, b"nonsense"), &err(1064));
    let mut session = logged_in(DEPRECATE_EOF, 0);
    turn(
        &mut session,
        &command(0x16, b"SELECT ?, ?"),
        &[answer(1, 2), definition(), definition(), definition()].concat(),
    );
}

#[test]
fn other_answers_end_where_they_should() {
    let mut session = plain();
    turn(&mut session, &command(0x09, b""), &packet(1, b"Uptime: 5  Threads: 1"));
    turn(&mut session, &command(0x04, b"t\0"), &[definition(), definition(), eof(2)].concat());
    turn(&mut session, &command(0x0E, b""), &ok(AUTOCOMMIT));
    turn(&mut session, &command(0x1B, &[0, 0]), &eof(AUTOCOMMIT));
    turn(&mut session, &command(0x77, b"?"), &err(1047));
    turn(&mut session, &packet(0, b""), &err(1047));
    turn(&mut session, &command(0xFA, &[1, 0, 0, 0, 128, 0]), &rows(AUTOCOMMIT, &["1"]));
}

#[test]
fn commands_without_an_answer_leave_the_boundary_where_it_is() {
    let mut session = plain();
    for (code, reason) in
        [(0x19, PassReason::NoAnswer), (0x18, PassReason::NoAnswer), (0x01, PassReason::Quit)]
    {
        assert_eq!(
            class_of(session.client_bytes(&command(code, &[1, 0, 0, 0]))),
            RequestClass::Pass(reason)
        );
        assert!(session.at_boundary());
    }
}

#[test]
fn pipelined_requests_are_counted() {
    let mut session = plain();
    for _ in 0..100 {
        session.client_bytes(&execute(3));
    }
    for _ in 0..99 {
        session.server_bytes(&ok(AUTOCOMMIT));
        assert!(!session.at_boundary());
    }
    session.server_bytes(&ok(AUTOCOMMIT));
    assert!(session.at_boundary());
}

#[test]
fn a_chunk_of_several_commands_reports_the_first_gated_one() {
    let mut session = plain();
    let chunk =
        [command(0x19, &[1, 0, 0, 0]), command(0x0E, b""), query("SELECT 1"), query("KILL 4")]
            .concat();
    assert!(
        matches!(session.client_bytes(&chunk), ClientEvent::Request(request) if request.class == GATED && request.command == Command::QUERY)
    );
    session.server_bytes(&[ok(2), rows(2, &["1"])].concat());
    assert!(!session.at_boundary());
    session.server_bytes(&ok(2));
    assert!(session.at_boundary());
    let chunk = [command(0x19, &[1, 0, 0, 0]), command(0x0E, b"")].concat();
    assert_eq!(class_of(session.client_bytes(&chunk)), RequestClass::Pass(PassReason::NoAnswer));
}

#[test]
fn a_statement_over_16_mib_is_one_request() {
    let mut session = plain();
    let mut payload = b"\x03INSERT INTO t VALUES ('".to_vec();
    payload.resize(0xFF_FFFF, b'x');
    assert_eq!(class_of(session.client_bytes(&packet(0, &payload))), GATED);
    assert_eq!(session.client_bytes(&packet(1, b"');")), ClientEvent::None);
    session.server_bytes(&ok(AUTOCOMMIT));
    assert!(session.at_boundary());
    assert_eq!(session.holding(), Holding::NONE);
}

#[test]
fn change_user_may_take_several_rounds_and_changes_the_identity_only_if_accepted() {
    let mut session = plain();
    after(&mut session, "LOCK TABLES t READ", &ok(2));
    assert_eq!(
        class_of(session.client_bytes(&change_user("admin", "mysql", "evil"))),
        RequestClass::Pass(PassReason::ChangeUser)
    );
    session.server_bytes(&packet(1, b"\xFEmysql_native_password\0abc\0"));
    session.client_bytes(&packet(2, b"01234567890123456789"));
    assert!(!session.at_boundary());
    session.server_bytes(&err(1045));
    assert!(session.at_boundary());
    assert_eq!(session.identity().map(|it| it.account()), Some(&b"app"[..]));
    assert_eq!(session.holding(), Holding::LOCK_TABLES);
    turn(&mut session, &change_user("other", "mysql", "tool"), &ok(AUTOCOMMIT));
    let identity = session.identity().copied().unwrap_or_default();
    assert_eq!(
        (identity.account(), identity.database(), identity.application()),
        (&b"other"[..], &b"mysql"[..], &b"tool"[..])
    );
    assert_eq!(session.holding(), Holding::NONE);
}

#[test]
fn of_several_changes_of_user_in_flight_none_is_granted_by_the_answer_to_another() {
    let account = |session: &Session| session.identity().unwrap().account().to_vec();
    for (names, answers, becomes) in [
        (["other", "boss"], [ok(AUTOCOMMIT), err(1045)], "app"),
        (["boss", "other"], [err(1045), ok(AUTOCOMMIT)], "other"),
        (["boss", "other"], [ok(AUTOCOMMIT), ok(AUTOCOMMIT)], "other"),
    ] {
        let mut session = plain();
        session.client_bytes(&names.map(|name| change_user(name, "mysql", "tool")).concat());
        session.server_bytes(&answers.concat());
        assert!(session.at_boundary() && session.opaque().is_none());
        assert_eq!(account(&session), becomes.as_bytes(), "{names:?}");
        turn(&mut session, &change_user("late", "mysql", "tool"), &ok(AUTOCOMMIT));
        assert_eq!(account(&session), b"late");
    }
    // The second one has only begun to arrive when the first is answered.
    let mut session = plain();
    let second = change_user("boss", "mysql", "tool");
    session.client_bytes(&change_user("other", "mysql", "tool"));
    session.client_bytes(&second[..9]);
    session.server_bytes(&ok(AUTOCOMMIT));
    session.client_bytes(&second[9..]);
    session.server_bytes(&err(1045));
    assert_eq!(account(&session), b"app");
}

#[test]
fn a_replica_is_one_once_the_server_agrees() {
    let mut session = plain();
    assert_eq!(
        class_of(session.client_bytes(&command(0x15, &[1; 18]))),
        RequestClass::Pass(PassReason::Replication)
    );
    session.server_bytes(&err(1227));
    assert!(!session.replication());
    session.client_bytes(&command(0x12, &[4, 0, 0, 0, 0, 0, 1, 0, 0, 0]));
    session.server_bytes(&packet(1, &[0; 40]));
    assert!(session.replication());
    assert!(!session.at_boundary());
    assert_eq!(session.client_bytes(&packet(0, b"\xEFack")), ClientEvent::None);
    assert_eq!(session.opaque(), None);
}

#[test]
fn an_idle_connection_may_be_told_that_it_was_killed() {
    let mut session = plain();
    session.server_bytes(&err(1927));
    assert_eq!((session.opaque(), session.at_boundary()), (None, true));
}

#[test]
fn bytes_that_do_not_parse_end_it_for_good() {
    let mut session = plain();
    session.server_bytes(&ok(AUTOCOMMIT));
    assert_eq!(session.opaque(), Some(Opaque::Desynchronized), "an answer to nothing");
    assert_eq!(session.client_bytes(&query("SELECT 1")), ClientEvent::None);
    assert!(!session.at_boundary());
    let mut session = plain();
    session.client_bytes(&packet(3, b"\x03SELECT 1"));
    assert_eq!(session.opaque(), Some(Opaque::Desynchronized), "a command cannot have number 3");
}

#[test]
fn query_attributes_are_skipped_or_distrusted() {
    let mut session = logged_in(QUERY_ATTRIBUTES, 0);
    assert_eq!(
        class_of(turn(&mut session, &command(3, b"\x00\x01KILL 5"), &ok(2))),
        RequestClass::Pass(PassReason::Kill)
    );
    let with_attributes = command(3, b"\x01\x01\x00\x01\xFE\x00\x02ab\x01xLOCK TABLES t READ");
    assert_eq!(class_of(turn(&mut session, &with_attributes, &ok(2))), GATED);
    assert!(session.holding().contains(Holding::LOCK_TABLES));
}
