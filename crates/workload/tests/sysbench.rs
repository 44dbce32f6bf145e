//! sysbench's OLTP workloads against real servers.

mod support;

use std::time::Duration;

use headworks_workload::db::{Connection, Database, DbError, ErrorKind, Isolation, Protocol};
use headworks_workload::db::{Dialect, Session};
use headworks_workload::driver::{self, Report, RunOptions, Stop};
use headworks_workload::sysbench::{
    LoadOptions, Oltp, Popularity, Tables, User, UserOptions, check, load,
};

const USERS: usize = 8;

/// Few rows, so that users meet each other.
fn tables() -> Tables {
    Tables::new(3, 400, 7).unwrap()
}

fn loaded(database: &Database) -> Tables {
    let tables = tables();
    let mut told = 0;
    let options = LoadOptions { threads: 2, replace: true };
    load(database, &tables, &options, &mut |done, total| {
        assert!(told <= done && done <= total);
        told = done;
        true
    })
    .unwrap();
    assert_eq!(told, 1_200);
    tables
}

fn number(session: &mut dyn Session, sql: &str) -> i64 {
    session.query(sql, &[]).unwrap()[0].int(0).unwrap()
}

fn assert_loaded(session: &mut dyn Session) {
    for table in 1..=3 {
        for (what, expected) in [
            ("COUNT(*)", 400),
            ("MIN(id)", 1),
            ("MAX(id)", 400),
            ("SUM(CASE WHEN k BETWEEN 1 AND 400 THEN 0 ELSE 1 END)", 0),
            ("SUM(CASE WHEN c LIKE '___________-%' AND LENGTH(c) = 119 THEN 0 ELSE 1 END)", 0),
            ("SUM(CASE WHEN pad LIKE '___________-%' AND LENGTH(pad) = 59 THEN 0 ELSE 1 END)", 0),
            ("COUNT(DISTINCT c)", 400),
        ] {
            let sql = format!("SELECT {what} FROM sbtest{table}");
            assert_eq!(number(session, &sql), expected, "{sql}");
        }
    }
    let indexes = match session.dialect() {
        Dialect::MariaDb => {
            "SELECT COUNT(*) FROM information_schema.statistics WHERE table_schema = DATABASE() \
             AND index_name LIKE 'k\\_%' AND column_name = 'k'"
        }
        Dialect::PostgreSql => {
            "SELECT COUNT(*) FROM pg_indexes WHERE indexdef LIKE 'CREATE INDEX k_% (k)'"
        }
    };
    assert_eq!(number(session, indexes), 3);
    // Who inserts without an id gets the next one.
    session.run("INSERT INTO sbtest2 (k, c, pad) VALUES (1, 'c', 'pad')").unwrap();
    assert_eq!(number(session, "SELECT MAX(id) FROM sbtest2"), 401);
    session.run("DELETE FROM sbtest2 WHERE id = 401").unwrap();
}

fn run(database: &Database, tables: Tables, workload: Oltp, popularity: Popularity) -> Report {
    let options = UserOptions { workload, popularity, tables, seed: 3 };
    let how = RunOptions {
        users: USERS,
        warm_up: Duration::from_millis(200),
        window: Duration::from_millis(1_000),
        ..RunOptions::default()
    };
    let connect = |number: usize| User::connect(database, &options, number);
    driver::run(&how, User::KINDS, &connect, &Stop::default(), &mut |_| {}).unwrap()
}

fn assert_consistent(session: &mut dyn Session) {
    let conditions = check(session, &tables()).unwrap();
    assert_eq!(conditions.iter().map(|c| c.examined).collect::<Vec<_>>(), [3, 1_200]);
    assert!(conditions.iter().all(|condition| condition.holds), "{conditions:?}");
}

/// Breaks the data in one way and sees the condition that it should break go red; then mends it.
fn assert_breaks(session: &mut dyn Session, damage: &str, repair: &str, expected: u32) {
    session.run(damage).unwrap();
    let conditions = check(session, &tables()).unwrap();
    let failed: Vec<u32> = conditions.iter().filter(|c| !c.holds).map(|c| c.number).collect();
    assert_eq!(failed, [expected], "{damage}");
    session.run(repair).unwrap();
    assert_consistent(session);
}

fn assert_checks_see_damage(session: &mut dyn Session) {
    let row = format!("'{}', '{}'", "1".repeat(119), "2".repeat(59));
    assert_breaks(
        session,
        "DELETE FROM sbtest2 WHERE id = 200",
        &format!("INSERT INTO sbtest2 (id, k, c, pad) VALUES (200, 1, {row})"),
        1,
    );
    assert_breaks(
        session,
        &format!("INSERT INTO sbtest3 (id, k, c, pad) VALUES (401, 1, {row})"),
        "DELETE FROM sbtest3 WHERE id = 401",
        1,
    );
    assert_breaks(
        session,
        "UPDATE sbtest1 SET k = -k WHERE id = 5",
        "UPDATE sbtest1 SET k = -k WHERE id = 5",
        2,
    );
}

/// What a workload must leave as it is, and what it must change.
fn changes(session: &mut dyn Session) -> (i64, String, i64) {
    let sum = number(session, "SELECT SUM(k) FROM sbtest1");
    // Rows that were replaced may have the same sum.
    let weighted = number(session, "SELECT SUM(k * id) FROM sbtest1");
    let row = session.query("SELECT MIN(c), MAX(pad), MIN(pad) FROM sbtest1", &[]).unwrap();
    (sum, format!("{row:?}"), weighted)
}

fn whole_story(address: &str, protocol: Protocol, isolation: Isolation) {
    let database: Database = address.parse().unwrap();
    let database = database.protocol(protocol).isolation(isolation);
    let mut session = database.connect().unwrap();
    if session.dialect() == Dialect::PostgreSql {
        // It looks for deadlocks after a second, which is as long as a run.
        session.run("ALTER ROLE app SET deadlock_timeout = '20ms'").unwrap();
    }
    let tables = loaded(&database);
    assert_loaded(session.as_mut());
    assert_consistent(session.as_mut());
    for workload in Oltp::ALL {
        let before = changes(session.as_mut());
        let report = run(&database, tables, workload, Popularity::default());
        println!("{workload}: {:.0}/s, {:?}", report.per_s, report.retries);
        assert_eq!(report.first_failure, None, "{workload}: {:?}", report.failures);
        assert!(report.users.len() == USERS && report.count > 0, "{workload}");
        assert_consistent(session.as_mut());
        let after = changes(session.as_mut());
        match workload {
            Oltp::PointSelect | Oltp::ReadOnly => assert_eq!(before, after, "{workload}"),
            Oltp::UpdateIndex => assert!(after.0 > before.0 && after.1 == before.1),
            Oltp::UpdateNonIndex => assert_eq!(before.0, after.0),
            Oltp::ReadWrite | Oltp::WriteOnly => assert_ne!(before, after, "{workload}"),
        }
        // Statements, and begin and end of a transaction; those of attempts in vain come on top.
        let each = match workload {
            Oltp::ReadOnly => 16,
            Oltp::ReadWrite => 20,
            Oltp::WriteOnly => 6,
            _ => 1,
        };
        let requests: u64 = report.users.iter().map(|user| user.requests).sum();
        assert!(requests >= each * report.count, "{workload}: {requests} of {}", report.count);
        if report.retries.values().sum::<u64>() == 0 {
            assert_eq!(requests, each * report.count, "{workload}");
        }
    }
    for popularity in [Popularity::Uniform, Popularity::Zipfian] {
        let report = run(&database, tables, Oltp::ReadWrite, popularity);
        assert_eq!(report.first_failure, None, "{popularity:?}: {:?}", report.failures);
        assert!(report.count > 0);
    }
    assert_consistent(session.as_mut());
    assert_checks_see_damage(session.as_mut());
}

#[test]
fn mariadb_with_text() {
    let Some(server) = support::mariadb() else { return };
    whole_story(&support::address(&server), Protocol::Text, Isolation::ServerDefault);
}

#[test]
fn mariadb_with_prepared_statements() {
    let Some(server) = support::mariadb() else { return };
    whole_story(&support::address(&server), Protocol::Prepared, Isolation::ReadCommitted);
}

#[test]
fn postgresql_with_text() {
    let Some(server) = support::postgresql() else { return };
    whole_story(&server.address(), Protocol::Text, Isolation::ServerDefault);
}

#[test]
fn postgresql_with_prepared_statements() {
    let Some(server) = support::postgresql() else { return };
    whole_story(&server.address(), Protocol::Prepared, Isolation::RepeatableRead);
}

/// The same seed gives the same rows, however many connections write them, and another one gives
/// others.
#[test]
fn rows_repeat_from_their_seed() {
    let Some(server) = support::postgresql() else { return };
    let database: Database = server.address().parse().unwrap();
    let sum = |threads: usize, seed: u64| {
        let tables = Tables { seed, ..tables() };
        load(&database, &tables, &LoadOptions { threads, replace: true }, &mut |_, _| true)
            .unwrap();
        let mut session = database.connect().unwrap();
        let sql = "SELECT md5(string_agg(concat_ws(',', id, k, c, pad), ';' ORDER BY id)) FROM ";
        let hash =
            |table| session.query(&format!("{sql}sbtest{table}"), &[]).unwrap()[0].text(0).unwrap();
        [1, 2, 3].map(hash)
    };
    let first = sum(1, 7);
    assert_eq!(sum(3, 7), first);
    assert_ne!(sum(3, 8), first);
    assert!(first[0] != first[1] && first[1] != first[2]);
}

/// Tables that are there are not written over, and the error of a load that gives up says what that
/// means.
#[test]
fn loading_that_cannot_end_is_an_error() {
    let Some(server) = support::mariadb() else { return };
    let database: Database = support::address(&server).parse().unwrap();
    let tables = loaded(&database);
    assert!(load(&database, &tables, &LoadOptions::default(), &mut |_, _| true).is_err());
    let large = Tables::new(4, 200_000, 7).unwrap();
    let options = LoadOptions { threads: 2, replace: true };
    let error = load(&database, &large, &options, &mut |_, _| false).unwrap_err();
    assert!(error.to_string().contains("incomplete"), "{error}");
}

/// After an error nothing is left of what was begun, and the connection works.
fn assert_connection_is_fit_again(address: &str) {
    let database: Database = address.parse().unwrap();
    let mut connection = Connection::open(&database).unwrap();
    connection.run("CREATE TABLE tries (id INTEGER PRIMARY KEY)").unwrap();
    let given_up = |session: &mut dyn Session| -> Result<(), DbError> {
        session.begin()?;
        session.change("INSERT INTO tries VALUES (?)", &[1.into()])?;
        Err(DbError::new(ErrorKind::Deadlock, "as if"))
    };
    let before = connection.requests();
    assert_eq!(connection.attempt(given_up).unwrap_err().kind, ErrorKind::Deadlock);
    // Begin, insert and rollback.
    assert_eq!(connection.requests(), before + 3);
    assert_eq!(number(&mut connection, "SELECT COUNT(*) FROM tries"), 0);
    let lost = |session: &mut dyn Session| -> Result<(), DbError> {
        session.begin()?;
        session.change("INSERT INTO tries VALUES (?)", &[2.into()])?;
        Err(DbError::new(ErrorKind::Connection, "as if"))
    };
    assert!(connection.attempt(lost).is_err());
    let add = |session: &mut dyn Session| session.change("INSERT INTO tries VALUES (3)", &[]);
    assert_eq!(connection.attempt(add).unwrap(), 1);
    assert_eq!(number(&mut connection, "SELECT MIN(id) FROM tries"), 3);
}

#[test]
fn connections_are_fit_again_after_errors() {
    if let Some(server) = support::mariadb() {
        assert_connection_is_fit_again(&support::address(&server));
    }
    if let Some(server) = support::postgresql() {
        assert_connection_is_fit_again(&server.address());
    }
}
