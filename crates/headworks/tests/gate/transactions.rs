//! Who has an open transaction is never held, however the transaction was begun and however it
//! ends.

use headworks_rig::Client;

use crate::common::Setup;
use crate::owner::{Ownership, never_held_until_given_back, run};

const TABLE: &str = "CREATE TABLE rig.t (a INT) ENGINE=InnoDB";

fn check(cases: &[Ownership<'_>]) {
    let Some(gate) = Setup::places(1).lending().start() else {
        return;
    };
    gate.sql(TABLE);
    gate.sql("INSERT INTO rig.t VALUES (1)");
    for case in cases {
        never_held_until_given_back(&gate, case);
    }
}

fn case<'a>(
    name: &'a str,
    take: &'a dyn Fn(&mut Client),
    use_it: &'a dyn Fn(&mut Client),
    give_back: &'a dyn Fn(&mut Client),
) -> Ownership<'a> {
    Ownership { name, holding: "transaction", take, use_it, give_back }
}

#[test]
fn a_transaction_begun_in_text_is_never_held_until_it_ends() {
    let insert = run(&["INSERT INTO t VALUES (2)"]);
    let select = run(&["SELECT 1", "SELECT a FROM t"]);
    let commit = run(&["COMMIT"]);
    let rollback = run(&["ROLLBACK"]);
    check(&[
        case("BEGIN, COMMIT", &run(&["BEGIN"]), &insert, &commit),
        case(
            "START TRANSACTION, ROLLBACK",
            &run(&["START TRANSACTION WITH CONSISTENT SNAPSHOT"]),
            &select,
            &rollback,
        ),
        case(
            "several statements in one text",
            &run(&["BEGIN; SELECT 1"]),
            &select,
            &run(&["SELECT 1; COMMIT"]),
        ),
        case(
            "ended by DDL",
            &run(&["BEGIN", "INSERT INTO t VALUES (3)"]),
            &insert,
            &run(&["CREATE TABLE ddl (a INT)"]),
        ),
    ]);
}

#[test]
fn a_transaction_without_autocommit_is_never_held_until_it_ends() {
    let select = run(&["SELECT a FROM t"]);
    check(&[
        case(
            "autocommit=0 and SELECT",
            &run(&["SET autocommit=0", "SELECT a FROM t"]),
            &select,
            &run(&["COMMIT"]),
        ),
        case(
            "autocommit=0 and INSERT, ended by autocommit=1",
            &run(&["SET autocommit=0", "INSERT INTO t VALUES (4)"]),
            &select,
            &run(&["SET autocommit=1"]),
        ),
    ]);
}

#[test]
fn a_transaction_of_prepared_statements_is_never_held_until_it_ends() {
    let execute = |sql: &'static str| {
        move |client: &mut Client| {
            let statement = client.prepare(sql).unwrap();
            client.execute(statement).unwrap();
            client.close_statement(statement).unwrap();
        }
    };
    check(&[
        case(
            "prepared BEGIN and COMMIT",
            &execute("BEGIN"),
            &execute("SELECT a FROM t"),
            &execute("COMMIT"),
        ),
        case(
            "prepared statements inside",
            &run(&["BEGIN"]),
            &execute("INSERT INTO t VALUES (5)"),
            &run(&["ROLLBACK"]),
        ),
    ]);
}

#[test]
fn an_error_inside_a_transaction_does_not_end_it() {
    let fail = |client: &mut Client| {
        assert_eq!(client.query("SELECT * FROM nowhere").unwrap_err().code(), Some(1146));
    };
    let begin_and_fail = |client: &mut Client| {
        run(&["BEGIN", "INSERT INTO t VALUES (6)"])(client);
        fail(client);
    };
    check(&[case("an error", &begin_and_fail, &fail, &run(&["COMMIT"]))]);
}

#[test]
fn an_xa_transaction_is_never_held_until_it_is_finished() {
    check(&[Ownership {
        name: "XA",
        holding: "xa",
        take: &run(&["XA START 'x'", "INSERT INTO t VALUES (7)"]),
        use_it: &run(&["SELECT a FROM t", "XA END 'x'", "XA PREPARE 'x'"]),
        give_back: &run(&["XA ROLLBACK 'x'"]),
    }]);
}
