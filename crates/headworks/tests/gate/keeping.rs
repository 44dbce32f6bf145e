//! The place of a transaction: kept from its begin to its end, lent out while its owner idles.

use crate::common::Setup;
use crate::gated::state;
use crate::owner::leave;

#[test]
fn a_place_is_kept_from_begin_to_end() {
    let Some(gate) = Setup::places(1).start() else {
        return;
    };
    let (mut owner, mut other) = (gate.user("owner"), gate.user("other"));
    owner.run("BEGIN");
    other.send_query("SELECT 7").unwrap();
    assert!(gate.is_held(&other), "the place is kept while its owner idles");
    owner.run("SELECT 1");
    assert!(gate.is_held(&other), "and after each of its statements");
    assert_eq!(gate.status().state(&owner.name), state::INSIDE);
    owner.run("COMMIT");
    assert_eq!(other.value(), "7");
    let status = gate.status();
    assert_eq!((status.counter("lent"), status.counter("overdraft")), (0, 0));
    leave([owner, other]);
    gate.wait_empty();
}

#[test]
fn a_place_is_lent_out_while_its_owner_idles_and_the_owner_comes_back_at_once() {
    let Some(gate) = Setup::places(1).lending().start() else {
        return;
    };
    let mut owner = gate.user("owner");
    owner.run("BEGIN");
    let occupant = gate.occupy();
    assert!(gate.status().counter("lent") > 0);
    owner.run("SELECT 1");
    let status = gate.status();
    assert_eq!(status.state(&occupant.name), state::INSIDE);
    assert!(status.counter("overdraft") > 0);
    owner.run("COMMIT");
    gate.release(occupant);
    leave([owner]);
    gate.wait_empty();
}

#[test]
fn whoever_ran_without_a_place_is_owed_the_next_one() {
    let Some(gate) = Setup::places(1).lending().start() else {
        return;
    };
    let mut owner = gate.user("owner");
    owner.run("BEGIN");
    let occupant = gate.occupy();
    owner.send_query("SELECT SLEEP(600)").unwrap();
    gate.wait_state(&owner, "inside, owed a permit");
    let mut plain = gate.user("plain");
    plain.send_query("SELECT 7").unwrap();
    assert!(gate.is_held(&plain));
    gate.release(occupant);
    gate.wait_state(&owner, state::INSIDE);
    assert!(gate.is_held(&plain), "the owner goes before who waits");
    gate.release(owner);
    assert_eq!(plain.value(), "7");
    leave([plain]);
    gate.wait_empty();
}

#[test]
fn who_waits_for_a_row_lock_inside_does_not_keep_its_owner_outside() {
    let Some(gate) = Setup::places(1).lending().start() else {
        return;
    };
    gate.sql("CREATE TABLE rig.t (id INT PRIMARY KEY, n INT) ENGINE=InnoDB");
    gate.sql("INSERT INTO rig.t VALUES (1, 0)");
    let (mut owner, mut waiter) = (gate.user("owner"), gate.user("waiter"));
    owner.run("BEGIN");
    owner.run("UPDATE t SET n = 1 WHERE id = 1");
    gate.wait_state(&owner, state::THINKING);
    waiter.send_query("UPDATE t SET n = n + 10 WHERE id = 1").unwrap();
    gate.wait_state(&waiter, state::INSIDE);
    owner.run("UPDATE t SET n = 2 WHERE id = 1");
    owner.run("COMMIT");
    waiter.read_answer().unwrap();
    assert_eq!(owner.query("SELECT n FROM t").unwrap().value(), Some("12"));
    assert_eq!(gate.status().counter("stalls"), 0);
    leave([owner, waiter]);
    gate.wait_empty();
}

#[test]
fn the_victim_of_a_deadlock_owns_nothing_any_more() {
    let Some(gate) = Setup::places(1).lending().start() else {
        return;
    };
    gate.sql("CREATE TABLE rig.t (id INT PRIMARY KEY, n INT) ENGINE=InnoDB");
    gate.sql("INSERT INTO rig.t VALUES (1, 0), (2, 0)");
    let mut users = [gate.user("one"), gate.user("two")];
    for (user, row) in users.iter_mut().zip(["1", "2"]) {
        user.run("BEGIN");
        user.run(&format!("UPDATE t SET n = 1 WHERE id = {row}"));
        gate.wait_state(user, state::THINKING);
    }
    for (user, row) in users.iter_mut().zip(["2", "1"]) {
        user.send_query(&format!("UPDATE t SET n = 2 WHERE id = {row}")).unwrap();
    }
    let mut errors = Vec::new();
    for user in &mut users {
        errors.push(user.read_answer().err().and_then(|error| error.code()));
    }
    let [survivor, victim] = &mut users;
    let (survivor, victim) = match errors[..] {
        [None, Some(1213)] => (survivor, victim),
        [Some(1213), None] => (victim, survivor),
        _ => panic!("one of the two is the victim: {errors:?}"),
    };
    let occupant = gate.occupy();
    survivor.run("SELECT n FROM t");
    victim.send_query("SELECT 7").unwrap();
    assert!(gate.is_held(victim));
    survivor.run("COMMIT");
    gate.release(occupant);
    assert_eq!(victim.value(), "7");
    leave(users);
    gate.wait_empty();
}
