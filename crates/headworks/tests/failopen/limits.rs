//! The longest hold, and the operator's switch.

use std::time::{Duration, Instant};

use crate::crowd::{Crowd, SOON, STRICT, alone, gated};
use crate::support::RunDir;

const NAME: &str = "db";

#[test]
fn a_hold_longer_than_the_configured_maximum_passes() {
    let Some(_turn) = alone() else { return };
    let run = RunDir::new();
    let server = gated(&run, NAME, &run.file("toml", STRICT)).start().unwrap();
    let mut crowd = Crowd::gather(&server, &run, NAME, 20);
    let limit = Duration::from_millis(1500);
    run.ok(["set", "--name", NAME, "--hold-ms-max", "1500"]);
    for client in &mut crowd.held {
        // Those who wait already keep the limit that they came with.
        assert!(!client.readable_within(Duration::ZERO).unwrap());
    }
    let mut late: Vec<_> = (0..5).map(|_| server.connect().unwrap()).collect();
    let begun = Instant::now();
    for client in &mut late {
        client.send_query("SELECT 42").unwrap();
    }
    for client in &mut late {
        assert_eq!(client.read_answer().unwrap().value(), Some("42"));
    }
    let took = begun.elapsed();
    assert!(took >= limit && took <= limit + SOON, "{took:?}");
    assert_eq!(run.counter(NAME, "hold_limit"), 5);
    run.wait_for_held(NAME, 20);
    crowd.wake_sleeper(&server);
    crowd.all_answered(Instant::now());
}

#[test]
fn off_lets_everybody_pass_at_once_and_on_closes_again() {
    let Some(_turn) = alone() else { return };
    let run = RunDir::new();
    let server = gated(&run, NAME, &run.file("toml", STRICT)).start().unwrap();
    let mut crowd = Crowd::gather(&server, &run, NAME, 20);
    let begun = Instant::now();
    let said = run.ok(["off", "--name", NAME]);
    assert!(said.contains("open"), "{said}");
    let took = crowd.all_answered(begun);
    assert!(took <= SOON, "{took:?}");
    assert_eq!(run.counter(NAME, "gate_open"), 20);
    for client in &mut crowd.held {
        assert_eq!(client.query("SELECT 7").unwrap().value(), Some("7"));
    }
    assert_eq!(run.status(NAME)["gate"], "off");
    run.ok(["on", "--name", NAME]);
    assert_eq!(run.status(NAME)["gate"], "closed");
    crowd.assert_closed_again(&server, &run, NAME);
}

#[test]
fn off_works_without_a_daemon_and_on_says_that_it_is_missing() {
    let Some(_turn) = alone() else { return };
    let run = RunDir::new();
    let server = gated(&run, NAME, &run.file("toml", STRICT)).start().unwrap();
    let mut crowd = Crowd::gather(&server, &run, NAME, 3);
    crate::support::signal(run.daemon(NAME), libc::SIGKILL);
    run.ok(["off", "--name", NAME]);
    crowd.all_answered(Instant::now());
    crate::support::wait_until("the daemon's absence is noticed", || {
        let said = run.ok(["on", "--name", NAME]);
        said.contains("no heartbeat") && said.contains("headworks daemon --name")
    });
}
