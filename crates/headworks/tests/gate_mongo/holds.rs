//! Who is held, and who is not.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::common::{BOTH, Gate, Kind, Wire};
use crate::gated::{SOON, Status, counted, state};
use crate::mongo_support::{Value, lsid, message, sequence, statement};

fn each_gate(parallelism: u32, test: impl Fn(Kind, Gate)) {
    for kind in BOTH {
        if let Some(gate) = Gate::start(kind, parallelism) {
            println!("{kind:?}");
            test(kind, gate);
        }
    }
}

/// Users that wait, and the occupant that they wait for.
fn crowd(gate: &Gate, count: usize) -> (Wire, Vec<Wire>) {
    // On a busy machine the daemon's heartbeat may be late, and requests pass then.
    const ATTEMPTS: usize = 10;
    for _ in 0..ATTEMPTS {
        let passed = gate.status().counter("stale");
        let occupant = gate.occupy("occupant");
        let mut held: Vec<Wire> = (0..count).map(|_| gate.wire()).collect();
        held.iter_mut().for_each(Wire::tell_find);
        let all_held = |status: &Status| status.number("waiting") == count as u64;
        let late = |status: &Status| status.counter("stale") > passed;
        gate.wait("all are held", |status| all_held(status) || late(status));
        if all_held(&gate.status()) {
            return (occupant, held);
        }
        drop((occupant, held));
        gate.wait_empty();
    }
    panic!("the daemon's heartbeat was late {ATTEMPTS} times");
}

fn all_answered(held: &mut [Wire]) -> Duration {
    let begun = Instant::now();
    held.iter_mut().for_each(|wire| {
        wire.answer();
    });
    begun.elapsed()
}

#[test]
fn a_request_waits_until_a_place_is_free() {
    each_gate(1, |_, gate| {
        let occupant = gate.occupy("occupant");
        assert_eq!(gate.status().holding("occupant"), "transaction");
        let mut held = gate.user("held");
        held.tell_find();
        gate.wait_state("held", state::WAITING);
        assert!(held.is_silent());
        gate.release(occupant);
        held.answer();
        gate.wait_empty();
        let status = gate.status();
        assert_eq!((status.counter("hold_limit"), status.counter("stalls")), (0, 0));
    });
}

#[test]
fn the_status_names_application_account_and_database() {
    each_gate(2, |_, gate| {
        let mut user = gate.user("till");
        user.tell_find();
        user.answer();
        gate.wait("the names are there", |status| {
            let connections = status.0["connections"].as_array().unwrap();
            connections.iter().any(|connection| {
                connection["application"] == "till"
                    && connection["account"] == "anonymous"
                    && connection["database"] == "shop"
            })
        });
    });
}

#[test]
fn administration_passes_at_any_load() {
    each_gate(1, |_, gate| {
        let (_occupant, mut held) = crowd(&gate, 3);
        let mut other = gate.user("admin");
        for name in ["ping", "buildInfo", "hello"] {
            other.ask(&[(name, Value::Int(1)), ("$db", Value::Text("admin"))]);
        }
        assert!(held[0].is_silent());
    });
}

#[test]
fn a_client_that_leaves_while_others_wait_is_gone_at_once() {
    each_gate(1, |_, gate| {
        let mut idle = gate.wire();
        idle.tell_find();
        idle.answer();
        let (_occupant, held) = crowd(&gate, 2);
        drop(idle);
        gate.wait("it is gone", |status| {
            (status.number("users"), status.number("waiting")) == (3, 2)
        });
        drop(held);
    });
}

#[test]
fn a_transaction_goes_on_by_another_connection() {
    each_gate(1, |_, gate| {
        let (_occupant, mut held) = crowd(&gate, 3);
        let mut other = gate.user("other");
        // In two parts, of which the first does not say what it is.
        let bytes = statement(4, "find", 9, 1, false);
        other.tell_bytes(&bytes[..20]);
        assert!(other.is_silent());
        other.tell_bytes(&bytes[20..]);
        other.answer();
        // Short, and with so many documents that only the beginning is seen before it is let
        // through.
        other.tell_bytes(&statement(5, "find", 9, 1, false));
        other.answer();
        let mut bytes = crate::mongo_support::body(
            0,
            &[
                ("insert", Value::Text("c")),
                lsid(9),
                ("txnNumber", Value::Long(1)),
                ("autocommit", Value::Bool(false)),
                ("$db", Value::Text("shop")),
            ],
        );
        let documents: Vec<Vec<u8>> = (0..100)
            .map(|id| {
                crate::mongo_support::document(&[
                    ("_id", Value::Int(id)),
                    ("x", Value::Text("0123456789")),
                ])
            })
            .collect();
        bytes.extend(sequence("documents", &documents));
        other.tell_bytes(&crate::mongo_support::raw(6, 0, 2013, &bytes));
        other.answer();
        assert!(held[0].is_silent());
        // What it does besides is a request like others.
        other.tell_find();
        gate.wait_state("other", state::WAITING);
        assert!(other.is_silent());
    });
}

#[test]
fn a_transaction_begins_in_its_turn_and_its_statements_wait_no_more() {
    each_gate(1, |_, gate| {
        let occupant = gate.occupy("occupant");
        let mut other = gate.user("other");
        other.tell_bytes(&statement(1, "find", 8, 1, true));
        gate.wait_state("other", state::WAITING);
        assert!(other.is_silent());
        gate.release(occupant);
        other.answer();
        // Another user waits for the permit that it keeps.
        let mut heir = gate.user("heir");
        heir.tell_find();
        gate.wait_state("heir", state::WAITING);
        other.tell_bytes(&statement(2, "find", 8, 1, false));
        other.answer();
        assert!(heir.is_silent());
        other.tell_bytes(&statement(3, "commitTransaction", 8, 1, false));
        other.answer();
        heir.answer();
        gate.wait_empty();
    });
}

#[test]
fn a_client_that_vanishes_gives_back_what_it_had() {
    each_gate(1, |_, gate| {
        for _ in 0..10 {
            let owner = gate.occupy("owner");
            let mut waiting = gate.user("waiting");
            waiting.tell_find();
            gate.wait_state("waiting", state::WAITING);
            let mut heir = gate.user("heir");
            heir.tell_find();
            gate.wait_state("heir", state::WAITING);
            drop(waiting);
            drop(owner);
            heir.answer();
            drop(heir);
            gate.wait("all are gone", |status| status.number("users") == 0);
            gate.wait_empty();
        }
    });
}

#[test]
fn when_the_daemon_is_killed_everybody_passes() {
    each_gate(1, |_, gate| {
        let (_occupant, mut held) = crowd(&gate, 60);
        // SAFETY: takes numbers only.
        assert_eq!(unsafe { libc::kill(gate.daemon(), libc::SIGKILL) }, 0);
        let took = all_answered(&mut held);
        assert!(took < SOON, "{took:?}");
    });
}

#[test]
fn a_message_without_an_answer_ends_with_itself() {
    // mongo-java-server hangs up on such messages.
    let Some(gate) = Gate::start(Kind::Threads, 1) else { return };
    let mut user = gate.user("mentions");
    user.mention(&[("insert", Value::Text("c")), ("$db", Value::Text("shop"))]);
    gate.wait("it came", |status| status.class("default")["requests"] == 1);
    gate.wait_empty();
}

/// The loop comes back long before the answer: the turn lasts until that is written.
#[test]
fn a_turn_lasts_until_another_thread_has_answered() {
    let Some(gate) = Gate::start(Kind::Late, 1) else { return };
    let mut users: Vec<Wire> = (0..5).map(|_| gate.user("user")).collect();
    for _ in 0..3 {
        users.iter_mut().for_each(Wire::tell_find);
        for user in &mut users {
            let answer = user.answer();
            // `ok`, behind the rest of the header, flags, the section's kind, a length, a type and
            // a name.
            let at_once = f64::from_le_bytes(answer[25..33].try_into().unwrap());
            assert!((at_once - 1.0).abs() < 0.1, "{at_once} at once");
        }
    }
    // A transaction keeps its place beyond the answer.
    let occupant = gate.occupy("occupant");
    users[0].tell_find();
    assert!(users[0].is_silent());
    gate.release(occupant);
    users[0].answer();
    gate.wait_empty();
    let status = gate.status();
    assert_eq!((status.counter("hold_limit"), status.counter("stalls")), (0, 0));
    assert_eq!(status.class("default")["requests"], 5 * 3 + 3);
}

/// Some users send without a pause, others one request at a time. Within one class each gets its
/// share.
#[test]
fn users_share_alike() {
    each_gate(1, |kind, gate| {
        let stop = AtomicBool::new(false);
        let counts: Vec<AtomicU64> = (0..8).map(|_| AtomicU64::new(0)).collect();
        let counts = std::thread::scope(|scope| {
            for (at, count) in counts.iter().enumerate() {
                let (gate, stop) = (&gate, &stop);
                scope.spawn(move || {
                    let mut user = gate.user("user");
                    // The first one has sixteen requests under way, which drivers do not.
                    let pipeline = if at == 0 { 16 } else { 1 };
                    let find =
                        message(1, &[("find", Value::Text("c")), ("$db", Value::Text("shop"))]);
                    while !stop.load(Ordering::Relaxed) {
                        user.tell_bytes(&find.repeat(pipeline));
                        for _ in 0..pipeline {
                            user.answer();
                            count.fetch_add(1, Ordering::Relaxed);
                        }
                    }
                });
            }
            counted(&counts, Duration::from_secs(3), &stop)
        });
        let singles = &counts[1..];
        let (least, most) = (*singles.iter().min().unwrap(), *singles.iter().max().unwrap());
        println!("{kind:?}: {counts:?}");
        assert!(least > 0 && most < 3 * least + 50, "{counts:?}");
        gate.wait_empty();
        let status = gate.status();
        assert_eq!((status.counter("hold_limit"), status.counter("stalls")), (0, 0));
    });
}
