//! Processes that die.

use std::time::Instant;

use postgres::NoTls;

use crate::common::{DEADLINE, Setup, wait_until};
use crate::gated::{SOON, state};

fn kill(pid: i32) {
    // SAFETY: a process of a server that this test has started.
    assert_eq!(unsafe { libc::kill(pid, libc::SIGKILL) }, 0);
}

/// The postmaster ends all sessions then, and recovers; so it does without the gate.
#[test]
fn a_backend_that_is_killed_gives_its_place_back_and_the_server_recovers() {
    let Some(gate) = Setup::places(2).start() else { return };
    for round in 0..3 {
        let victim = gate.occupy();
        let other = gate.occupy();
        let mut crowd: Vec<_> = (0..10).map(|_| gate.user("crowd").send("SELECT 7")).collect();
        gate.wait("the crowd is held", |status| status.number("waiting") == 10);
        // One that is inside, or one that is held.
        kill(if round == 1 { crowd[3].pid } else { victim.pid });
        assert!(victim.result().1.is_err());
        assert!(other.result().1.is_err());
        for sent in crowd.drain(..) {
            assert!(sent.result().1.is_err(), "its session was ended by the postmaster");
        }
        wait_until("the server recovers", DEADLINE, || gate.config("probe").connect(NoTls).is_ok());
        gate.wait("no session is left", |status| {
            status.number("users") == 0 && status.number("inside") == 0
        });
        // Both places are there, and no third one.
        let (one, two) = (gate.occupy(), gate.occupy());
        let mut third = gate.user("third").send("SELECT 7");
        assert!(gate.is_held(&mut third));
        gate.release(one);
        assert_eq!(third.value().1, "7");
        gate.release(two);
        gate.wait_empty();
    }
    assert!(gate.status().counter("reaped") > 0);
}

#[test]
fn without_its_daemon_everybody_passes() {
    let Some(gate) = Setup::places(1).start() else { return };
    let occupant = gate.occupy();
    let held: Vec<_> = (0..5).map(|_| gate.user("held").send("SELECT 7")).collect();
    gate.wait("all are held", |status| status.number("waiting") == 5);
    let daemon = gate.status().0["daemon_pid"].as_i64().expect("the daemon's process");
    let begun = Instant::now();
    kill(daemon as i32);
    for sent in held {
        assert_eq!(sent.value().1, "7");
    }
    assert!(begun.elapsed() < SOON, "{:?}", begun.elapsed());
    assert_eq!(gate.user("late").send("SELECT 8").value().1, "8");
    drop(occupant);
}

/// Connections that come and go all the time, some of them killed in between, leave nothing behind.
#[test]
fn nothing_is_left_of_those_who_come_and_go() {
    let Some(gate) = Setup::places(4).start() else { return };
    std::thread::scope(|scope| {
        for _ in 0..6 {
            scope.spawn(|| {
                for round in 0..15 {
                    let mut user = gate.user("guest");
                    match round % 3 {
                        0 => user.run("BEGIN"),
                        1 => user.run("SELECT 1"),
                        _ => user.run("SELECT pg_advisory_lock_shared(1)"),
                    };
                }
            });
        }
    });
    gate.wait("no session is left", |status| {
        status.number("users") == 0 && status.number("inside") == 0
    });
    let status = gate.status();
    assert_eq!(status.state("guest"), state::GONE);
    assert_eq!(status.counter("reaped"), 0, "each said goodbye itself");
}
