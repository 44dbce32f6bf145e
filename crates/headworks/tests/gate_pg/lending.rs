//! Sessions that do not work lend their permit: with P = 1, others go on beside them.

use crate::common::{Gate, Sent, Setup};

/// Others work as if the session was not there, and the status says what it does.
fn others_work(gate: &Gate, session: &Sent, state: &str, reason: &str) {
    gate.wait(&format!("{state}: {reason}"), |status| {
        // A permit is lent to a session that waits. The stall detector may have admitted the last.
        gate.user("bystander").run("SELECT 1");
        status.state(&session.name) == state && status.reason(&session.name).contains(reason)
    });
    for _ in 0..20 {
        gate.user("bystander").run("SELECT 1");
    }
}

#[test]
fn a_blocked_session_lends_its_permit_and_goes_on_at_once() {
    let Some(gate) = Setup::places(1).working().start() else { return };
    gate.sql("CREATE TABLE kept(id int PRIMARY KEY, v int); INSERT INTO kept VALUES (1, 0)");
    gate.sql("GRANT ALL ON kept TO app");
    for (take, blocked, reason, release) in [
        (
            "BEGIN; UPDATE kept SET v = 1 WHERE id = 1",
            "UPDATE kept SET v = 2 WHERE id = 1",
            "a row lock",
            "COMMIT",
        ),
        (
            "BEGIN; SELECT * FROM kept",
            "LOCK TABLE kept IN ACCESS EXCLUSIVE MODE; COMMIT",
            "a table lock",
            "COMMIT",
        ),
        (
            "SELECT pg_advisory_lock(7)",
            "SELECT pg_advisory_lock(7)",
            "a user lock",
            "SELECT pg_advisory_unlock(7)",
        ),
    ] {
        let mut owner = gate.user("owner");
        owner.run(take);
        let waiter = gate.user("waiter").send(blocked);
        others_work(&gate, &waiter, "blocked", reason);
        owner.run(release);
        waiter.value();
    }
    assert_eq!(gate.status().counter("stalls"), 0);
    assert!(gate.status().counter("lent_blocked") >= 3);
}

#[test]
fn a_session_that_sleeps_lends_its_permit() {
    let Some(gate) = Setup::places(1).working().start() else { return };
    let sleeper = gate.user("sleeper").send("SELECT pg_sleep(600)");
    others_work(&gate, &sleeper, "blocked", "the end of a sleep");
    gate.release(sleeper);
}

#[test]
fn a_function_that_connects_back_is_no_hindrance_to_the_session_that_it_waits_for() {
    let Some(gate) = Setup::places(1).working().start() else { return };
    let available = "SELECT count(*) FROM pg_available_extensions WHERE name = 'dblink'";
    if gate.sql(available) == "0" {
        println!("skipped: no dblink (apt-get install postgresql-contrib)");
        return;
    }
    // Only a superuser may connect without a password.
    gate.sql("CREATE EXTENSION dblink; ALTER ROLE app SUPERUSER");
    let port = gate.server.port();
    let inner = format!("host=127.0.0.1 port={port} user=app dbname=postgres");
    let sql = format!("SELECT a FROM dblink('{inner}', 'SELECT 7') AS t(a int)");
    // Its connection needs the only permit.
    let outer = gate.user("outer").send(&sql);
    assert_eq!(outer.value().1, "7");
    let status = gate.status();
    assert_eq!(["stalls", "outgrown"].map(|name| status.counter(name)), [0, 0]);
    assert!(status.counter("lent_blocked") >= 1);
}

#[test]
fn a_client_that_thinks_lends_its_permit() {
    let Some(gate) = Setup::places(1).working().start() else { return };
    let mut thinker = gate.user("thinker");
    thinker.run("BEGIN");
    gate.user("bystander").run("SELECT 1");
    gate.wait_state(&thinker.name, "thinking");
    thinker.run("SELECT 1");
    thinker.run("COMMIT");
}

#[test]
fn a_request_that_runs_for_long_is_not_counted_any_more() {
    let Some(gate) = Setup::places(1).working().start() else { return };
    let long = gate.user("long").send("SELECT count(*) FROM generate_series(1, 1000000000000)");
    others_work(&gate, &long, "inside, long", "many times the usual length");
    gate.release(long);
}
