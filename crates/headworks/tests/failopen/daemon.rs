//! The daemon dies, stops, comes back.

use std::time::Instant;

use crate::crowd::{Crowd, ONE_SECOND, STRICT, alone, gated};
use crate::support::{RunDir, lives, signal, wait_until};

const NAME: &str = "db";
const CROWD: usize = 20;

#[test]
fn everybody_passes_within_a_second_of_the_daemons_death() {
    let Some(_turn) = alone() else { return };
    let run = RunDir::new();
    let server = gated(&run, NAME, &run.file("toml", STRICT)).start().unwrap();
    let mut crowd = Crowd::gather(&server, &run, NAME, CROWD);
    let daemon = run.daemon(NAME);
    let begun = Instant::now();
    signal(daemon, libc::SIGKILL);
    let took = crowd.all_answered(begun);
    assert!(took <= ONE_SECOND, "{took:?}");
    // New requests are not held either.
    for client in &mut crowd.held {
        assert_eq!(client.query("SELECT 7").unwrap().value(), Some("7"));
    }
    assert_eq!(run.status(NAME)["gate"], "stale");
    assert_eq!(run.counter(NAME, "stale"), 2 * CROWD as u64);
    let words = run.ok(["status", "--name", NAME]);
    assert!(words.contains("stale") && words.contains("everybody passes"), "{words}");
    assert!(words.contains(&format!("headworks daemon --name {NAME}")), "{words}");

    let said = run.ok(["daemon", "--name", NAME]);
    assert!(said.contains("runs again"), "{said}");
    assert_eq!(run.status(NAME)["gate"], "closed");
    assert_ne!(run.daemon(NAME), daemon);
    crowd.assert_closed_again(&server, &run, NAME);
    // The new daemon takes over all of the old one's duties.
    drop(server);
    run.assert_nothing_left("the server stopped");
}

#[test]
fn a_new_daemon_may_be_started_at_once() {
    let Some(_turn) = alone() else { return };
    let run = RunDir::new();
    let server = gated(&run, NAME, &run.file("toml", STRICT)).start().unwrap();
    let daemon = run.daemon(NAME);
    let refusal = run.refused(["daemon", "--name", NAME]);
    assert!(refusal.contains(&format!("has a daemon already (process {daemon})")), "{refusal}");
    // On a busy machine one that was killed is still there for a moment.
    signal(daemon, libc::SIGSTOP);
    run.ok(["daemon", "--name", NAME]);
    let next = run.daemon(NAME);
    assert_ne!(next, daemon);
    signal(daemon, libc::SIGKILL);
    signal(next, libc::SIGKILL);
    run.ok(["daemon", "--name", NAME]);
    wait_until("those that were killed are gone", || run.daemons().len() == 1);
    assert_eq!(server.sql("SELECT 1").unwrap().value(), Some("1"));
}

#[test]
fn everybody_passes_within_a_second_of_the_daemons_stop() {
    let Some(_turn) = alone() else { return };
    let run = RunDir::new();
    let server = gated(&run, NAME, &run.file("toml", STRICT)).start().unwrap();
    let mut crowd = Crowd::gather(&server, &run, NAME, CROWD);
    let daemon = run.daemon(NAME);
    let begun = Instant::now();
    signal(daemon, libc::SIGSTOP);
    let took = crowd.all_answered(begun);
    assert!(took <= ONE_SECOND, "{took:?}");
    for client in &mut crowd.held {
        assert_eq!(client.query("SELECT 7").unwrap().value(), Some("7"));
    }
    // The status comes from the region, as the daemon does not answer.
    assert_eq!(run.status(NAME)["gate"], "stale");
    signal(daemon, libc::SIGCONT);
    wait_until("the gate is closed", || run.status(NAME)["gate"] == "closed");
    crowd.assert_closed_again(&server, &run, NAME);
}

#[test]
fn a_daemon_that_was_replaced_while_it_stood_still_retires() {
    let Some(_turn) = alone() else { return };
    let run = RunDir::new();
    let server = gated(&run, NAME, &run.file("toml", STRICT)).start().unwrap();
    let mut crowd = Crowd::gather(&server, &run, NAME, 1);
    let old = run.daemon(NAME);
    let begun = Instant::now();
    signal(old, libc::SIGSTOP);
    crowd.all_answered(begun);
    run.ok(["daemon", "--name", NAME]);
    let new = run.daemon(NAME);
    assert_ne!(old, new);
    signal(old, libc::SIGCONT);
    wait_until("the old daemon is gone", || !lives(old));
    assert_eq!(run.daemon(NAME), new);
    crowd.assert_closed_again(&server, &run, NAME);
    drop(server);
    run.assert_nothing_left("the server stopped");
}
