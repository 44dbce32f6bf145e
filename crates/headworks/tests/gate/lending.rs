//! Sessions that do not work lend their permit: with P = 1, others go on beside them.

use crate::common::{DEADLINE, Gate, Setup, User, wait_until};

/// Others work as if the session was not there, and the status says what it does.
fn others_work(gate: &Gate, user: &User, state: &str, reason: &str) {
    wait_until(&format!("{state}: {reason}"), DEADLINE, || {
        // A permit is lent to a session that waits. The stall detector may have admitted the last.
        gate.user("bystander").run("SELECT 1");
        let status = gate.status();
        status.state(&user.name) == state && status.reason(&user.name).contains(reason)
    });
    for _ in 0..20 {
        gate.user("bystander").run("SELECT 1");
    }
}

#[test]
fn a_blocked_session_lends_its_permit_and_goes_on_at_once() {
    let Some(gate) = Setup::places(1).working().start() else { return };
    gate.sql("CREATE DATABASE test");
    gate.sql("CREATE TABLE test.t (id INT PRIMARY KEY, v INT) ENGINE = InnoDB");
    gate.sql("INSERT INTO test.t VALUES (1, 0)");
    for (take, blocked, reason, release) in [
        (
            &["BEGIN", "UPDATE test.t SET v = 1 WHERE id = 1"][..],
            "UPDATE test.t SET v = 2 WHERE id = 1",
            "a row lock",
            "COMMIT",
        ),
        (
            &["BEGIN", "SELECT * FROM test.t"],
            "ALTER TABLE test.t ADD w INT",
            "a metadata or named lock",
            "COMMIT",
        ),
        (
            &["LOCK TABLES test.t WRITE"],
            "SELECT * FROM test.t",
            "a metadata or named lock",
            "UNLOCK TABLES",
        ),
        (&["SELECT GET_LOCK('a', 0)"], "SELECT GET_LOCK('a', 600)", "lock", "DO RELEASE_LOCK('a')"),
    ] {
        let (mut owner, mut waiter) = (gate.user("owner"), gate.user("waiter"));
        take.iter().for_each(|sql| owner.run(sql));
        waiter.send_query(blocked).unwrap();
        others_work(&gate, &waiter, "blocked", reason);
        owner.run(release);
        waiter.read_answer().unwrap();
        owner.quit();
        waiter.quit();
    }
    assert_eq!(gate.status().counter("stalls"), 0);
    assert!(gate.status().counter("lent_blocked") >= 4);
}

#[test]
fn what_a_session_waited_for_is_explained() {
    if crate::POOL {
        return;
    }
    let io = "[io]\nscheduler = \"rcp\"\n";
    let Some(gate) = Setup::places(2).working().sections(io).start() else { return };
    gate.sql("CREATE DATABASE test");
    gate.sql("CREATE TABLE test.t (id INT PRIMARY KEY, v INT) ENGINE = InnoDB");
    gate.sql("INSERT INTO test.t VALUES (1, 0)");
    let (mut owner, mut waiter) = (gate.user("owner"), gate.user("waiter"));
    owner.run("BEGIN");
    owner.run("UPDATE test.t SET v = 1 WHERE id = 1");
    waiter.send_query("UPDATE test.t SET v = 2 WHERE id = 1").unwrap();
    others_work(&gate, &waiter, "blocked", "a row lock");
    std::thread::sleep(std::time::Duration::from_millis(20));
    owner.run("COMMIT");
    waiter.read_answer().unwrap();
    let told = gate.order(&["explain", &waiter.name]);
    let line = told.lines().find(|line| line.contains("it waited, ")).unwrap_or_default();
    assert!(line.contains("for condition, "), "{told}");
    let waits = gate.order(&["io", "waits"]);
    assert!(waits.contains("for condition, "), "{waits}");
}

#[test]
fn a_session_that_sleeps_lends_its_permit() {
    let Some(gate) = Setup::places(1).working().start() else { return };
    let mut sleeper = gate.user("sleeper");
    sleeper.send_query("SELECT SLEEP(600)").unwrap();
    others_work(&gate, &sleeper, "blocked", "the end of a sleep");
}

#[test]
fn a_session_that_waits_for_a_replica_lends_its_permit() {
    let setup = Setup::places(1).working().option("--log-bin=binlog").option("--server-id=1");
    let Some(gate) = setup.start() else { return };
    // The server says nothing of this wait: its thread sleeps on a condition.
    let mut waiter = gate.user("waiter");
    waiter.send_query("SELECT MASTER_GTID_WAIT('0-1-1000000', 600)").unwrap();
    others_work(&gate, &waiter, "blocked", "something unknown");
    gate.sql(&format!("KILL {}", waiter.connection_id()));
}

#[test]
fn a_client_that_thinks_lends_its_permit() {
    let Some(gate) = Setup::places(1).working().start() else { return };
    let mut thinker = gate.user("thinker");
    thinker.run("BEGIN");
    others_work(&gate, &thinker, "thinking", "inside a transaction");
    thinker.run("SELECT 1");
    thinker.run("COMMIT");
}

#[test]
fn a_request_that_runs_for_long_is_not_counted_any_more() {
    let Some(gate) = Setup::places(1).working().start() else { return };
    let mut long = gate.user("long");
    long.send_query("SELECT BENCHMARK(1000000000000, 1 + 1)").unwrap();
    others_work(&gate, &long, "inside, long", "many times the usual length");
    let id = long.connection_id();
    gate.sql(&format!("KILL {id}"));
}
