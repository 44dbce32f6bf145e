//! A lock that the gate cannot see does not stop the server.

use crate::common::{DEADLINE, Gate, Setup, wait_until};
use crate::owner::leave;

/// Routines that take, give back and wait for a lock, without a word of it in the statement.
fn make_routines(gate: &Gate) {
    for routine in [
        "hide() RETURNS INT RETURN GET_LOCK('hidden', 0)",
        "show_again() RETURNS INT RETURN RELEASE_LOCK('hidden')",
        "await_it() RETURNS INT RETURN GET_LOCK('hidden', 600) + RELEASE_LOCK('hidden')",
    ] {
        gate.sql(&format!("CREATE FUNCTION rig.{routine}"));
    }
}

#[test]
fn a_hidden_lock_is_found_by_letting_one_more_in() {
    let Some(gate) = Setup::places(2).key("stall_ms", 300).start() else {
        return;
    };
    make_routines(&gate);
    let mut holder = gate.user("holder");
    assert_eq!(holder.query("SELECT hide()").unwrap().value(), Some("1"));
    gate.wait_empty();
    assert_eq!(gate.status().holding(&holder.name), "", "the gate does not see it");

    let mut inside = [gate.user("inside"), gate.user("inside")];
    for user in &mut inside {
        user.send_query("SELECT await_it()").unwrap();
    }
    gate.wait("both places wait for the lock", |status| status.number("inside") == 2);
    let before = gate.status().counter("stalls");
    holder.send_query("SELECT show_again()").unwrap();
    assert_eq!(holder.value(), "1");
    for user in &mut inside {
        user.read_answer().unwrap();
    }
    assert!(gate.status().counter("stalls") > before);
    gate.wait("the bonus is taken back", |status| status.number("stall_bonus") == 0);
    gate.wait_empty();

    // No session is beyond P afterwards. A stall would let one in, so the detector is switched off.
    gate.order(&["set", "--stall-ms", "600000"]);
    let occupants = [gate.occupy(), gate.occupy()];
    let mut plain = gate.user("plain");
    plain.send_query("SELECT 7").unwrap();
    assert!(gate.is_held(&plain));
    for occupant in occupants {
        gate.release(occupant);
    }
    assert_eq!(plain.value(), "7");
    leave(inside);
    leave([plain, holder]);
}

#[test]
fn without_the_stall_detector_a_hidden_lock_would_stop_the_server() {
    let Some(gate) = Setup::places(1).start() else {
        return;
    };
    make_routines(&gate);
    let (mut holder, mut inside) = (gate.user("holder"), gate.user("inside"));
    assert_eq!(holder.query("SELECT hide()").unwrap().value(), Some("1"));
    inside.send_query("SELECT await_it()").unwrap();
    gate.wait("the place waits for the lock", |status| status.number("inside") == 1);
    holder.send_query("SELECT show_again()").unwrap();
    assert!(gate.is_held(&holder), "patience is out of reach here");
    gate.order(&["set", "--stall-ms", "100"]);
    assert_eq!(holder.value(), "1");
    inside.read_answer().unwrap();
    wait_until("a stall is counted", DEADLINE, || gate.status().counter("stalls") == 1);
    leave([holder, inside]);
}
