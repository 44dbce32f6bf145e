//! What the MySQL session says is held, and which statements pass, rule by rule.

mod mysql_support;

use headworks_hooks::mysql::{Holding, PassReason, RequestClass};
use mysql_support::*;

fn held_after_ok(text: &str) -> Holding {
    after(&mut logged_in(MULTI, 0), text, &ok(AUTOCOMMIT))
}

fn class(text: &str) -> RequestClass {
    class_of(logged_in(MULTI, 0).client_bytes(&query(text)))
}

#[test]
fn the_latest_status_says_whether_a_transaction_is_open() {
    let mut session = plain();
    assert_eq!(after(&mut session, "BEGIN", &ok(AUTOCOMMIT | IN_TRANS)), Holding::TRANSACTION);
    assert_eq!(
        after(&mut session, "SELECT 1", &rows(AUTOCOMMIT | IN_TRANS, &["1"])),
        Holding::TRANSACTION
    );
    assert_eq!(
        after(&mut session, "nonsense", &err(1064)),
        Holding::TRANSACTION.union(Holding::AUTOCOMMIT_OFF_AFTER_ERROR)
    );
    assert_eq!(
        after(&mut session, "INSERT", &err(1062)),
        Holding::TRANSACTION.union(Holding::AUTOCOMMIT_OFF_AFTER_ERROR)
    );
    assert_eq!(
        after(&mut session, "CREATE TABLE t (a INT)", &ok(AUTOCOMMIT)),
        Holding::NONE,
        "implicit commit"
    );
    assert_eq!(
        after(&mut session, "START TRANSACTION READ ONLY", &ok(AUTOCOMMIT | 0x2000)),
        Holding::TRANSACTION
    );
}

#[test]
fn a_deadlock_ends_the_transaction() {
    let mut session = plain();
    after(&mut session, "BEGIN", &ok(AUTOCOMMIT | IN_TRANS));
    assert_eq!(
        after(&mut session, "UPDATE t SET a=1", &err(1205)),
        Holding::TRANSACTION,
        "a lock wait timeout does not"
    );
    assert_eq!(after(&mut session, "UPDATE t SET a=1", &err(1213)), Holding::NONE);
    after(&mut session, "BEGIN", &ok(AUTOCOMMIT | IN_TRANS));
    assert_eq!(
        after(&mut session, "SELECT GET_LOCK('a', 1)", &err(1213)),
        Holding::TRANSACTION,
        "MariaDB's user locks deadlock without it"
    );
}

#[test]
fn with_autocommit_off_an_error_counts_as_holding_until_the_next_status() {
    let mut session = plain();
    assert_eq!(after(&mut session, "SET autocommit=0", &ok(0)), Holding::NONE);
    assert_eq!(
        after(&mut session, "UPDATE t SET a=1", &err(1205)),
        Holding::AUTOCOMMIT_OFF_AFTER_ERROR
    );
    assert_eq!(
        after(&mut session, "UPDATE t SET a=1", &err(1213)),
        Holding::AUTOCOMMIT_OFF_AFTER_ERROR
    );
    assert_eq!(after(&mut session, "COMMIT", &ok(0)), Holding::NONE);
}

#[test]
fn a_failing_routine_may_have_begun_a_transaction() {
    for text in [
        "CALL p()",
        "BEGIN NOT ATOMIC START TRANSACTION; SIGNAL SQLSTATE '45000'; END",
        "EXECUTE s",
        "SELECT 1; CALL p()",
    ] {
        assert_eq!(
            after(&mut logged_in(MULTI, 0), text, &err(1644)),
            Holding::AUTOCOMMIT_OFF_AFTER_ERROR,
            "{text}"
        );
    }
    let mut session = plain();
    turn(&mut session, &command(0x16, b"CALL p()"), &prepared(5));
    turn(&mut session, &execute(5), &err(1644));
    assert_eq!(session.holding(), Holding::AUTOCOMMIT_OFF_AFTER_ERROR);
}

#[test]
fn statements_that_take_session_locks_are_noticed() {
    for (text, holding) in [
        ("LOCK TABLES t READ", Holding::LOCK_TABLES),
        ("lock table t write", Holding::LOCK_TABLES),
        (" /* c */ -- d\n # e\n LOCK\tTABLES t READ;", Holding::LOCK_TABLES),
        ("/*!40000 LOCK TABLES t READ */", Holding::LOCK_TABLES),
        ("/*M!100100LOCK TABLES t READ */", Holding::LOCK_TABLES),
        ("/*!99999 x */ LOCK /* c */ TABLES t READ", Holding::LOCK_TABLES),
        ("SET STATEMENT max_statement_time=1 FOR LOCK TABLES t READ", Holding::LOCK_TABLES),
        ("SELECT 1; LOCK TABLES t READ", Holding::LOCK_TABLES),
        ("SELECT ';/*'; LOCK TABLES t READ", Holding::LOCK_TABLES),
        ("SELECT 'a\\'; /* x */ -- y\nLOCK TABLES t READ -- '", Holding::LOCK_TABLES),
        ("SELECT 1; /*!50000LOCK TABLES t READ*/", Holding::LOCK_TABLES),
        ("FLUSH TABLES WITH READ LOCK", Holding::GLOBAL_READ_LOCK),
        ("FLUSH LOCAL TABLES a, b FOR EXPORT", Holding::GLOBAL_READ_LOCK),
        ("BACKUP LOCK db.t", Holding::BACKUP),
        ("BACKUP STAGE START", Holding::BACKUP),
        ("LOCK INSTANCE FOR BACKUP", Holding::BACKUP.union(Holding::GLOBAL_READ_LOCK)),
        ("XA START 'x'", Holding::XA),
        ("XA BEGIN 'x'", Holding::XA),
        ("HANDLER db.t OPEN AS h", Holding::HANDLER),
        ("SELECT GET_LOCK('a', 10)", Holding::USER_LOCK),
        ("SELECT id FROM t WHERE get_lock(CONCAT('a', id), 1)", Holding::USER_LOCK),
        ("SELECT 1 /*!50000,GET_LOCK('a',1)*/", Holding::USER_LOCK),
        ("DO service_get_write_locks('a', 'b', 1)", Holding::UNKNOWN),
        ("PREPARE s FROM 'LOCK TABLES t READ'", Holding::LOCK_TABLES.union(Holding::UNKNOWN)),
        ("EXECUTE IMMEDIATE CONCAT('GET', '_LOCK')", Holding::UNKNOWN),
        ("SELECT 1; EXECUTE s", Holding::UNKNOWN),
    ] {
        assert_eq!(held_after_ok(text), holding, "{text}");
    }
}

#[test]
fn ordinary_statements_hold_nothing() {
    for text in [
        "SELECT c FROM sbtest1 WHERE id=5",
        "SELECT is_locked, row_lock, widget_lock, t.lock FROM account_locks",
        "SELECT a FROM t\nLOCK IN SHARE MODE",
        "INSERT INTO posts VALUES ('please; lock it, \\'get_lockout\\'')",
        "INSERT INTO backup SELECT * FROM stage; UPDATE handler SET open_at = 1;",
        "UPDATE locks SET tables = 5 WHERE handler = 'open' -- lock tables",
        "SET NAMES utf8mb4",
        "SET @x = 'lock tables'",
        "FLUSH LOGS",
        "PREPARE s FROM 'SELECT * FROM t WHERE id = ?'",
        "EXECUTE s USING @a",
        "EXECUTE IMMEDIATE 'SELECT ''1'' '",
        "SHOW TABLES",
        "(SELECT 1) UNION (SELECT 2)",
        "HANDLER t READ FIRST",
        "UNLOCK TABLES",
        "DEALLOCATE PREPARE s",
    ] {
        assert_eq!(held_after_ok(text), Holding::NONE, "{text}");
    }
}

#[test]
fn a_semicolon_in_data_means_nothing_to_a_client_without_multi_statements() {
    let text = "INSERT INTO posts VALUES ('first; lock tables t read')";
    assert_eq!(after(&mut plain(), text, &ok(2)), Holding::NONE);
    assert_eq!(held_after_ok(text), Holding::LOCK_TABLES, "with them it is believed to be safe");
    let mut session = plain();
    turn(&mut session, &command(0x1B, &[0, 0]), &eof(2));
    assert_eq!(
        after(&mut session, "SELECT 1; LOCK TABLES t READ", &ok(2)),
        Holding::LOCK_TABLES,
        "COM_SET_OPTION turns them on"
    );
}

#[test]
fn each_lock_has_its_release() {
    for (take, release, other) in [
        ("LOCK TABLES t READ", "UNLOCK TABLES", "BACKUP UNLOCK"),
        ("LOCK TABLES t READ", "START TRANSACTION", "COMMIT"),
        ("LOCK TABLES t READ", "begin work ;", "BEGIN NOT ATOMIC SELECT 1; END"),
        ("FLUSH TABLES WITH READ LOCK", "UNLOCK TABLES", "BEGIN"),
        ("BACKUP LOCK t", "BACKUP UNLOCK", "BACKUP STAGE END"),
        ("BACKUP STAGE START", "BACKUP STAGE END", "BACKUP UNLOCK"),
        ("XA START 'x'", "XA COMMIT 'x' ONE PHASE", "XA PREPARE 'x'"),
        ("XA START 'x'", "XA ROLLBACK 'x'", "XA END 'x'"),
        ("HANDLER t OPEN", "HANDLER t CLOSE", "HANDLER t READ i = ('close')"),
        ("SELECT GET_LOCK('a', 1)", "SELECT RELEASE_LOCK('a')", "SELECT RELEASE_LOCK('b')"),
        ("SELECT GET_LOCK('a', 1), 2", "DO RELEASE_ALL_LOCKS()", "SELECT RELEASE_LOCK('a')"),
        (
            "SELECT GET_LOCK(@a, 1)",
            "SELECT RELEASE_ALL_LOCKS()",
            "SELECT 1; SELECT RELEASE_ALL_LOCKS()",
        ),
    ] {
        let mut session = logged_in(MULTI, 0);
        let held = after(&mut session, take, &ok(2));
        assert!(!held.is_empty(), "{take}");
        assert_eq!(after(&mut session, other, &ok(2)), held, "{other} does not release {take}");
        assert_eq!(
            after(&mut session, release, &err(1317)),
            held,
            "a failed {release} releases nothing"
        );
        assert_eq!(
            after(&mut session, &format!("SELECT 1; {release}"), &ok(2)),
            held,
            "nor one among several"
        );
        let first = after(&mut session, &format!("{release}; SELECT 1"), &ok(2));
        assert_eq!(first, held, "nor {release} as the first of several");
        assert_eq!(
            after(&mut session, release, &ok(2)),
            Holding::NONE,
            "{release} releases {take}"
        );
    }
}

#[test]
fn two_handlers_need_two_closes() {
    let mut session = plain();
    after(&mut session, "HANDLER t OPEN", &ok(2));
    after(&mut session, "HANDLER u OPEN", &ok(2));
    assert_eq!(after(&mut session, "HANDLER t CLOSE", &ok(2)), Holding::HANDLER);
    assert_eq!(after(&mut session, "HANDLER u CLOSE", &ok(2)), Holding::NONE);
}

#[test]
fn a_lock_counts_only_when_its_statement_is_answered() {
    let mut session = plain();
    session.client_bytes(&query("LOCK TABLES t WRITE"));
    assert_eq!(
        session.holding(),
        Holding::NONE,
        "still waiting for it: it must not pass as a holder"
    );
    session.server_bytes(&ok(2));
    assert_eq!(session.holding(), Holding::LOCK_TABLES);
}

#[test]
fn a_failed_statement_takes_what_it_may_have_left() {
    for (text, code, holding) in [
        ("LOCK TABLES t READ", 1146, Holding::NONE),
        ("XA START 'x'", 1399, Holding::NONE),
        ("FLUSH TABLES WITH READ LOCK", 1227, Holding::NONE),
        ("FLUSH TABLES WITH READ LOCK", 1317, Holding::GLOBAL_READ_LOCK),
        ("SELECT GET_LOCK('a', 1)", 1064, Holding::NONE),
        ("SELECT GET_LOCK('a', 1)", 1317, Holding::USER_LOCK),
        ("SELECT GET_LOCK(a, 1) FROM t", 1317, Holding::USER_LOCK),
    ] {
        assert_eq!(after(&mut plain(), text, &err(code)), holding, "{text} with {code}");
    }
    let compound = "BEGIN NOT ATOMIC XA START 'x'; SIGNAL SQLSTATE '45000'; END";
    assert!(after(&mut plain(), compound, &err(1644)).contains(Holding::XA), "its first part ran");
    assert!(!after(&mut plain(), compound, &err(1064)).contains(Holding::XA), "no part ran");
    let mut session = logged_in(MULTI, 0);
    let held =
        after(&mut session, "LOCK TABLES t READ; nonsense", &[ok(2 | MORE), err(1064)].concat());
    assert!(held.contains(Holding::LOCK_TABLES), "the first statement ran");
}

#[test]
fn a_prepared_text_takes_its_locks_when_executed() {
    let mut session = plain();
    turn(&mut session, &command(0x16, b"SELECT GET_LOCK(?, 1)"), &prepared(7));
    assert_eq!(session.holding(), Holding::NONE);
    turn(&mut session, &execute(8), &ok(2));
    assert_eq!(session.holding(), Holding::NONE, "another statement");
    turn(&mut session, &execute(7), &rows(2, &["1"]));
    assert_eq!(session.holding(), Holding::USER_LOCK);
}

#[test]
fn an_execution_pipelined_behind_its_preparation_takes_too() {
    for id in [u32::MAX, 12] {
        let mut session = plain();
        session.client_bytes(&command(0x16, b"LOCK TABLES t READ"));
        session.client_bytes(&execute(id));
        session.server_bytes(&prepared(12));
        session.server_bytes(&ok(2));
        assert_eq!(session.holding(), Holding::LOCK_TABLES, "id {id}");
    }
}

#[test]
fn dynamic_sql_from_a_variable_is_unknown_once_executed() {
    for source in ["@x", "CONCAT('GET', '_LOCK(1,1)')", "'G\\ET_LOCK'", "'a' 'b'"] {
        let mut session = plain();
        assert_eq!(after(&mut session, &format!("PREPARE s FROM {source}"), &ok(2)), Holding::NONE);
        assert_eq!(after(&mut session, "EXECUTE s", &ok(2)), Holding::UNKNOWN, "{source}");
    }
}

#[test]
fn a_reset_clears_everything() {
    let mut session = plain();
    for text in [
        "LOCK TABLES t READ",
        "SELECT GET_LOCK(@a, 1)",
        "EXECUTE IMMEDIATE @x",
        "HANDLER t OPEN",
        "XA START 'x'",
    ] {
        after(&mut session, text, &ok(2));
    }
    let event = turn(&mut session, &command(0x1F, b""), &err(1047));
    assert_eq!(class_of(event), RequestClass::Pass(PassReason::Reset));
    assert!(!session.holding().is_empty(), "refused");
    turn(&mut session, &command(0x1F, b""), &ok(AUTOCOMMIT));
    assert_eq!(session.holding(), Holding::NONE);
}

#[test]
fn kill_shutdown_and_the_end_of_xa_pass_as_single_statements() {
    for (text, reason) in [
        ("KILL 5", PassReason::Kill),
        ("/* dba */ kill query 5;", PassReason::Kill),
        ("SHUTDOWN", PassReason::Shutdown),
        ("XA COMMIT 'x'", PassReason::XaFinish),
        ("xa  rollback 'x'", PassReason::XaFinish),
        ("XA RECOVER", PassReason::XaFinish),
    ] {
        assert_eq!(class(text), RequestClass::Pass(reason), "{text}");
    }
    for text in [
        "SELECT 'KILL 5'",
        "KILL 5; SELECT SLEEP(9)",
        "KILL 5 /*; SELECT SLEEP(9)*/",
        "/*! KILL 5 */",
        "'KILL 5'",
        "XA END 'x'",
        "XA PREPARE 'x'",
        "XA START 'commit'",
        "killer",
        "",
    ] {
        assert_eq!(class(text), RequestClass::Gated, "{text}");
    }
}

#[test]
fn a_class_is_reported_as_soon_as_it_is_certain() {
    let mut session = plain();
    let bytes = query("SELECT 1");
    assert_eq!(
        session.client_bytes(&bytes[..11]),
        headworks_hooks::mysql::ClientEvent::None,
        "SELECT may still become SELECTED"
    );
    assert_eq!(class_of(session.client_bytes(&bytes[11..12])), RequestClass::Gated);
}

#[test]
fn overlong_texts_are_unknown_unless_their_bulk_is_data() {
    let bulk = "x".repeat(2 << 20);
    assert_eq!(held_after_ok(&format!("INSERT INTO t VALUES ('{bulk}')")), Holding::NONE);
    assert_eq!(held_after_ok(&format!("SELECT '{bulk}'")), Holding::UNKNOWN);
    assert_eq!(held_after_ok(&format!("SELECT '{}'", &bulk[..1 << 19])), Holding::NONE);
    assert_eq!(held_after_ok(&format!("/*{bulk}*/ SELECT 1")), Holding::UNKNOWN);
}

#[test]
fn names_for_display() {
    let holding = Holding::TRANSACTION.union(Holding::USER_LOCK);
    assert_eq!(holding.to_string(), "transaction+user-lock");
    assert_eq!(Holding::NONE.to_string(), "nothing");
}
