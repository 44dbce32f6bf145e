//! The modes of the gate, and the operator's switch.

use crate::common::{Gate, Setup, User};
use crate::gated::state;
use crate::load::Load;
use crate::owner::leave;

/// Beside an occupant of the only place, others are answered.
fn holds_nobody(gate: &Gate) {
    let occupant = gate.occupy();
    let mut users: Vec<User> = (0..5).map(|_| gate.user("free")).collect();
    for user in &mut users {
        user.run("SELECT 1");
    }
    let status = gate.status();
    assert_eq!(status.state(&occupant.name), state::PASSING);
    assert_eq!(status.class("default")["queued"], 0, "no request has waited");
    leave(users);
    gate.release(occupant);
    gate.wait_empty();
}

fn holds(gate: &Gate) {
    let occupant = gate.occupy();
    let mut plain = gate.user("plain");
    plain.send_query("SELECT 7").unwrap();
    assert!(gate.is_held(&plain));
    gate.release(occupant);
    assert_eq!(plain.value(), "7");
    plain.quit();
    gate.wait_empty();
}

#[test]
fn a_dry_run_holds_nobody_until_enforcement_is_set() {
    let Some(gate) = Setup::places(1).key("mode", "\"dry-run\"").start() else {
        return;
    };
    holds_nobody(&gate);
    gate.wait("what enforcing would have changed, for each class", |status| {
        let classes = status.0["counterfactual"]["classes"].as_array();
        let share = |key: &str| -> f64 {
            classes.into_iter().flatten().map(|class| class[key].as_f64().unwrap()).sum()
        };
        let shares = ["observed_requests_share", "gated_requests_share"].map(share);
        shares.iter().all(|sum| (sum - 1.0).abs() < 1e-6)
            && classes.unwrap()[0]["gated"]["p99_ms"].as_f64().is_some_and(|p99| p99 > 0.0)
    });
    gate.order(&["set", "--mode", "enforce"]);
    holds(&gate);
    assert!(gate.status().0["counterfactual"].is_null());
    gate.order(&["set", "--mode", "dry-run"]);
    let queued = gate.status().class("default")["queued"].clone();
    let occupant = gate.occupy();
    gate.wait_state(&occupant, state::PASSING);
    let mut plain = gate.user("plain");
    plain.run("SELECT 1");
    assert_eq!(gate.status().class("default")["queued"], queued);
    plain.quit();
    gate.release(occupant);
}

#[test]
fn a_dry_run_holds_nobody_and_tells_what_enforcing_would_have_held() {
    let Some(gate) = Setup::places(1).key("mode", "\"dry-run\"").start() else {
        return;
    };
    holds_nobody(&gate);
    let load = Load::start((0..6).map(|_| gate.user("busy")), |user, _| {
        user.run("DO SLEEP(0.005)");
    });
    gate.wait("a counterfactual with held turns", |status| {
        let told = &status.0["counterfactual"];
        told["turns"].as_u64().unwrap_or(0) > 100 && told["held_share"].as_f64().unwrap() > 0.0
    });
    assert_eq!(gate.status().class("default")["queued"], 0);
    leave(load.stop().into_iter().map(|(user, _)| user));
    gate.order(&["set", "--mode", "enforce"]);
    holds(&gate);
    assert!(gate.status().0["counterfactual"].is_null());
}

#[test]
fn off_lets_everybody_pass_at_once_and_on_holds_again() {
    let Some(gate) = Setup::places(1).start() else {
        return;
    };
    let occupant = gate.occupy();
    let mut held: Vec<User> = (0..10).map(|_| gate.user("held")).collect();
    for user in &mut held {
        user.send_query("SELECT 7").unwrap();
    }
    gate.wait("all are held", |status| status.number("waiting") == 10);
    assert!(gate.is_held(&held[0]));
    gate.order(&["off"]);
    for user in &mut held {
        assert_eq!(user.value(), "7");
    }
    let status = gate.status();
    assert_eq!(status.0["gate"], "off");
    assert_eq!(status.counter("gate_open"), 10);
    assert_eq!(status.state(&occupant.name), state::INSIDE);
    held[0].run("SELECT 1");

    gate.order(&["on"]);
    for user in &mut held {
        user.send_query("SELECT 8").unwrap();
    }
    gate.wait("all are held", |status| status.number("waiting") == 10);
    assert!(gate.is_held(&held[9]), "the place is still taken");
    gate.release(occupant);
    for user in &mut held {
        assert_eq!(user.value(), "8");
    }
    leave(held);
    gate.wait_empty();
    holds(&gate);
}

#[test]
fn transactions_go_on_when_the_gate_opens_and_closes_around_them() {
    let Some(gate) = Setup::places(1).lending().start() else {
        return;
    };
    gate.sql("CREATE TABLE rig.t (a INT) ENGINE=InnoDB");
    let (mut before, mut during) = (gate.user("before"), gate.user("during"));
    before.run("BEGIN");
    before.run("INSERT INTO t VALUES (1)");
    gate.order(&["off"]);
    during.run("BEGIN");
    during.run("INSERT INTO t VALUES (2)");
    before.run("INSERT INTO t VALUES (3)");
    gate.order(&["on"]);
    let occupant = gate.occupy();
    for user in [&mut before, &mut during] {
        user.run("INSERT INTO t VALUES (4)");
        user.run("COMMIT");
    }
    gate.release(occupant);
    gate.wait_empty();
    assert_eq!(before.query("SELECT COUNT(*) FROM t").unwrap().value(), Some("5"));
    leave([before, during]);
    holds(&gate);
}

#[test]
fn more_places_let_the_next_ones_in_and_fewer_count_once_those_beyond_have_left() {
    let Some(gate) = Setup::places(1).start() else {
        return;
    };
    let first = gate.occupy();
    let mut second = gate.user("second");
    second.send_query("SELECT SLEEP(600)").unwrap();
    assert!(gate.is_held(&second));
    gate.order(&["set", "--parallelism", "2"]);
    gate.wait_state(&second, state::INSIDE);
    gate.order(&["set", "--parallelism", "1"]);
    assert_eq!(gate.status().number("parallelism"), 1);
    let mut plain = gate.user("plain");
    plain.send_query("SELECT 7").unwrap();
    assert!(gate.is_held(&plain), "two are inside, and one is all that fit");
    gate.release(second);
    assert!(gate.is_held(&plain), "one is inside, and one is all that fit");
    gate.release(first);
    assert_eq!(plain.value(), "7");
    plain.quit();
    gate.wait_empty();
    holds(&gate);
}
