//! TPC-C against real servers.

mod support;

use std::time::Duration;

use headworks_workload::db::{Database, ErrorKind, Isolation, Protocol, Session};
use headworks_workload::driver::{self, Arrivals, Progress, Report, RunOptions, Stop};
use headworks_workload::tpcc::{
    Condition, Home, LoadOptions, Mix, MixHandle, Pace, Population, Terminal, TerminalOptions,
    check, load,
};

/// 2 warehouses with 60 customers a district and 2,000 items.
fn population() -> Population {
    Population::new(2, 50, 7).unwrap()
}

fn loaded(database: &Database, foreign_keys: bool) -> Population {
    let population = population();
    let mut told = 0;
    let options = LoadOptions { threads: 2, replace: true, foreign_keys };
    load(database, &population, &options, &mut |done, total| {
        assert!(done <= total && done >= told);
        told = done;
        true
    })
    .unwrap();
    assert_eq!(told, population.rows());
    let mut session = database.connect().unwrap();
    assert_eq!(Population::discover(session.as_mut()).unwrap(), population);
    population
}

fn count(session: &mut dyn Session, sql: &'static str) -> i64 {
    session.query(sql, &[]).unwrap()[0].int(0).unwrap()
}

/// Counts of the population against the arithmetic of clause 4.3.3.1, with 60 customers and 2,000
/// items.
fn assert_populated(session: &mut dyn Session) {
    for (sql, expected) in [
        ("SELECT COUNT(*) FROM item", 2_000),
        ("SELECT COUNT(*) FROM item WHERE i_data LIKE '%ORIGINAL%'", 200),
        ("SELECT COUNT(*) FROM warehouse", 2),
        ("SELECT COUNT(*) FROM stock", 2 * 2_000),
        ("SELECT COUNT(*) FROM stock WHERE s_data LIKE '%ORIGINAL%'", 2 * 200),
        ("SELECT COUNT(*) FROM stock WHERE s_quantity < 10 OR s_quantity > 100", 0),
        ("SELECT COUNT(*) FROM district", 2 * 10),
        ("SELECT COUNT(*) FROM district WHERE d_next_o_id <> 61 OR d_ytd <> 600", 0),
        ("SELECT COUNT(*) FROM customer", 2 * 10 * 60),
        // A tenth of 60 in each of 20 districts.
        ("SELECT COUNT(*) FROM customer WHERE c_credit = 'BC'", 20 * 6),
        // 60 customers have 60 names, each once in a district.
        ("SELECT COUNT(DISTINCT c_last) FROM customer", 60),
        ("SELECT COUNT(*) FROM customer WHERE c_last = 'BARBARBAR'", 20),
        ("SELECT COUNT(*) FROM history", 20 * 60),
        ("SELECT COUNT(*) FROM orders", 20 * 60),
        // Every customer has one order.
        ("SELECT COUNT(*) FROM (SELECT DISTINCT o_w_id, o_d_id, o_c_id FROM orders) AS o", 20 * 60),
        // The last three tenths are open: 18 of 60.
        ("SELECT COUNT(*) FROM new_orders", 20 * 18),
        ("SELECT MIN(no_o_id) FROM new_orders", 43),
        ("SELECT COUNT(*) FROM orders WHERE o_carrier_id IS NULL", 20 * 18),
        ("SELECT COUNT(*) FROM order_line WHERE ol_delivery_d IS NULL AND ol_o_id < 43", 0),
        ("SELECT COUNT(*) FROM order_line WHERE ol_amount > 0 AND ol_o_id < 43", 0),
        ("SELECT COUNT(*) FROM order_line WHERE ol_amount = 0 AND ol_o_id >= 43", 0),
        ("SELECT COUNT(*) FROM order_line WHERE ol_quantity <> 5", 0),
        ("SELECT COUNT(*) FROM orders WHERE o_ol_cnt < 5 OR o_ol_cnt > 15", 0),
    ] {
        assert_eq!(count(session, sql), expected, "{sql}");
    }
}

fn run(database: &Database, population: Population, mix: Mix, seconds: u64) -> Report {
    run_observed(database, population, mix, seconds, &mut |_| {})
}

fn run_observed(
    database: &Database,
    population: Population,
    mix: Mix,
    seconds: u64,
    observer: &mut dyn FnMut(&Progress),
) -> Report {
    let terminals = TerminalOptions {
        population,
        seed: 3,
        mix: MixHandle::new(mix),
        home: Home::Fixed,
        pace: Pace::default(),
    };
    let options = RunOptions {
        users: 8,
        arrivals: Arrivals::Closed,
        warm_up: Duration::from_millis(500),
        window: Duration::from_secs(seconds),
        ..RunOptions::default()
    };
    driver::run(
        &options,
        Terminal::KINDS,
        &|number| Terminal::connect(database, &terminals, number),
        &Stop::default(),
        observer,
    )
    .unwrap()
}

fn assert_healthy(report: &Report) {
    assert_eq!(report.first_failure, None, "{:?}", report.failures);
    for kind in &report.kinds {
        assert!(kind.count > 0, "no {} in {} transactions", kind.name, report.count);
        assert!(kind.latency.p50_us > 0);
    }
    assert_eq!(report.users.len(), 8);
    assert!(report.users.iter().all(|user| user.count > 0));
    println!(
        "{:.0}/s, U_f {:?}, CV {:?}, retries {:?}, {:?}",
        report.per_s, report.unfairness, report.latency_cv, report.retries, report.notes
    );
}

fn assert_consistent(session: &mut dyn Session) {
    for condition in check(session).unwrap() {
        assert!(condition.holds, "{condition:?}");
        assert_eq!(condition.examined, if condition.number == 1 { 2 } else { 20 });
    }
}

/// Breaks the data in one way and sees exactly the conditions it should break go red; then mends
/// it.
fn assert_breaks(session: &mut dyn Session, damage: &str, repair: &str, expected: &[u32]) {
    session.run(damage).unwrap();
    let failed: Vec<u32> = check(session)
        .unwrap()
        .iter()
        .filter(|condition: &&Condition| !condition.holds)
        .map(|condition| condition.number)
        .collect();
    assert_eq!(failed, expected, "{damage}");
    session.run(repair).unwrap();
    assert_consistent(session);
}

fn assert_checks_see_damage(session: &mut dyn Session) {
    assert_breaks(
        session,
        "UPDATE warehouse SET w_ytd = w_ytd + 0.01 WHERE w_id = 2",
        "UPDATE warehouse SET w_ytd = w_ytd - 0.01 WHERE w_id = 2",
        &[1],
    );
    assert_breaks(
        session,
        "UPDATE district SET d_next_o_id = d_next_o_id + 1 WHERE d_w_id = 1 AND d_id = 4",
        "UPDATE district SET d_next_o_id = d_next_o_id - 1 WHERE d_w_id = 1 AND d_id = 4",
        &[2],
    );
    // A new-order long before the others leaves a hole.
    assert_breaks(
        session,
        "INSERT INTO new_orders (no_o_id, no_d_id, no_w_id) VALUES (1, 3, 1)",
        "DELETE FROM new_orders WHERE no_o_id = 1 AND no_d_id = 3 AND no_w_id = 1",
        &[3],
    );
    assert_breaks(
        session,
        "UPDATE orders SET o_ol_cnt = o_ol_cnt + 1 WHERE o_w_id = 2 AND o_d_id = 10 AND o_id = 1",
        "UPDATE orders SET o_ol_cnt = o_ol_cnt - 1 WHERE o_w_id = 2 AND o_d_id = 10 AND o_id = 1",
        &[4],
    );
}

fn whole_story(address: &str, protocol: Protocol, isolation: Isolation, foreign_keys: bool) {
    let database: Database = address.parse().unwrap();
    let database = database.protocol(protocol).isolation(isolation);
    assert!(!database.version().unwrap().is_empty());
    let mut session = database.connect().unwrap();
    let population = loaded(&database, foreign_keys);
    assert_populated(session.as_mut());
    assert_consistent(session.as_mut());
    let report = run(&database, population, Mix::STANDARD, 5);
    assert_healthy(&report);
    assert_consistent(session.as_mut());
    // Every Payment left a row of history; more happened than the window counted.
    let payments = count(session.as_mut(), "SELECT COUNT(*) FROM history") - 20 * 60;
    assert!(payments as u64 >= report.kinds[1].count);
    assert_checks_see_damage(session.as_mut());
    // Deliveries that eat up the open orders meet orders younger than their own snapshot.
    let report = run(&database, population, Mix::new([20, 0, 0, 80, 0]).unwrap(), 2);
    assert_eq!(report.first_failure, None, "{:?}", report.failures);
    println!("{} deliveries, {:?}", report.kinds[3].count, report.notes);
    assert_consistent(session.as_mut());
}

#[test]
fn mariadb_with_text() {
    let Some(server) = support::mariadb() else { return };
    whole_story(&support::address(&server), Protocol::Text, Isolation::ServerDefault, false);
}

#[test]
fn mariadb_with_prepared_statements_and_foreign_keys() {
    let Some(server) = support::mariadb() else { return };
    whole_story(&support::address(&server), Protocol::Prepared, Isolation::ReadCommitted, true);
}

#[test]
fn postgresql_with_text() {
    let Some(server) = support::postgresql() else { return };
    whole_story(&server.address(), Protocol::Text, Isolation::ServerDefault, false);
}

#[test]
fn postgresql_with_prepared_statements_and_foreign_keys() {
    let Some(server) = support::postgresql() else { return };
    whole_story(&server.address(), Protocol::Prepared, Isolation::RepeatableRead, true);
}

/// The same seed gives the same data, in whatever order warehouses are loaded, and the mix can be
/// shifted under way.
#[test]
fn data_repeats_and_the_mix_shifts() {
    let Some(server) = support::mariadb() else { return };
    let database: Database = support::address(&server).parse().unwrap();
    let mut session = database.connect().unwrap();
    let mut sum = || {
        count(
            session.as_mut(),
            "SELECT (SELECT SUM(CRC32(CONCAT_WS(',', ol_w_id, ol_d_id, ol_o_id, ol_number, ol_i_id, ol_amount, \
             ol_dist_info))) FROM order_line) \
             + (SELECT SUM(CRC32(CONCAT_WS(',', c_w_id, c_d_id, c_id, c_last, c_first, c_data))) FROM customer)",
        )
    };
    loaded(&database, false);
    let first = sum();
    let population = loaded(&database, false);
    assert_eq!(sum(), first);

    let mix = MixHandle::new(Mix::WRITE_HEAVY);
    let terminals = TerminalOptions {
        population,
        seed: 1,
        mix: mix.clone(),
        home: Home::Any,
        pace: Pace::default(),
    };
    let options = RunOptions {
        users: 4,
        warm_up: Duration::ZERO,
        window: Duration::from_secs(8),
        ..RunOptions::default()
    };
    let report = driver::run(
        &options,
        Terminal::KINDS,
        &|number| Terminal::connect(&database, &terminals, number),
        &Stop::default(),
        &mut |progress| {
            if progress.elapsed > Duration::from_secs(2) {
                mix.set(Mix::READ_MOSTLY);
            }
        },
    )
    .unwrap();
    let reads = |second: usize| report.series[second][2] + report.series[second][4];
    assert_eq!(reads(0), 0, "{:?}", report.series);
    let last: u32 = report.series[7].iter().sum();
    assert!(reads(7) * 2 > last, "{:?}", report.series);

    // A second load does not overwrite the first unless told to.
    let again = load(&database, &population, &LoadOptions::default(), &mut |_, _| true);
    assert!(again.is_err());
}

/// A server that goes away under way is an error that is counted, not a panic or a hang.
#[test]
fn a_killed_server_is_survived() {
    let Some(server) = support::mariadb() else { return };
    let database: Database = support::address(&server).parse().unwrap();
    let population = loaded(&database, false);
    let mut server = Some(server);
    let report = run_observed(&database, population, Mix::STANDARD, 5, &mut |progress| {
        if let Some(mut server) = server.take_if(|_| progress.answered > 10) {
            server.kill().unwrap();
        }
    });
    assert!(report.retries.contains_key(&ErrorKind::Connection), "{:?}", report.retries);
}

/// Locks that are not granted, and cycles of them, are told apart, because only they are tried
/// again.
fn assert_locks_are_told_apart(address: &str, impatience: &str) {
    let database: Database = address.parse().unwrap();
    let [mut first, mut second] = [(); 2].map(|()| database.connect().unwrap());
    first.run("CREATE TABLE locks (id INT PRIMARY KEY, n INT NOT NULL)").unwrap();
    first.run("INSERT INTO locks VALUES (1, 0), (2, 0)").unwrap();
    let update = "UPDATE locks SET n = n + 1 WHERE id = ?";
    first.begin().unwrap();
    assert_eq!(first.change(update, &[1.into()]).unwrap(), 1);

    let mut third = database.connect().unwrap();
    third.run(impatience).unwrap();
    third.begin().unwrap();
    assert_eq!(third.change(update, &[1.into()]).unwrap_err().kind, ErrorKind::LockTimeout);
    third.rollback().unwrap();

    second.begin().unwrap();
    assert_eq!(second.change(update, &[2.into()]).unwrap(), 1);
    let waiting = std::thread::spawn(move || {
        let result = first.change(update, &[2.into()]);
        let _ = first.rollback();
        result
    });
    std::thread::sleep(Duration::from_millis(300));
    let result = second.change(update, &[1.into()]);
    let _ = second.rollback();
    let kinds: Vec<ErrorKind> = [result, waiting.join().unwrap()]
        .into_iter()
        .filter_map(|result| result.err().map(|error| error.kind))
        .collect();
    assert_eq!(kinds, [ErrorKind::Deadlock], "one of the two is the victim");

    assert_eq!(third.query("SELECT nothing", &[]).unwrap_err().kind, ErrorKind::Server);
    assert!(third.change(update, &[]).is_err());
    let absent: Database = "mysql://app@127.0.0.1:1/rig".parse().unwrap();
    assert_eq!(absent.connect().err().unwrap().kind, ErrorKind::Connection);
    assert!("sqlite://x".parse::<Database>().is_err());
}

#[test]
fn mariadb_locks() {
    let Some(server) = support::mariadb() else { return };
    assert_locks_are_told_apart(
        &support::address(&server),
        "SET SESSION innodb_lock_wait_timeout = 1",
    );
}

#[test]
fn postgresql_locks() {
    let Some(server) = support::postgresql() else { return };
    assert_locks_are_told_apart(&server.address(), "SET lock_timeout = '200ms'");
}
