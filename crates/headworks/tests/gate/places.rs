//! However a user goes, its place comes back.

use std::io::Read;

use headworks_rig::wire::{command, packet};

use crate::common::{DEADLINE, Gate, Setup, User, wait_until};
use crate::gated::state;

/// A user takes the only place and keeps it; another one is held; the first goes, and the other
/// gets in.
fn comes_back(gate: &Gate, what: &str, take: impl Fn(&mut User), go: impl Fn(&Gate, User)) {
    let mut owner = gate.user("owner");
    let name = owner.name.clone();
    take(&mut owner);
    gate.wait_state(&owner, state::INSIDE);
    let mut heir = gate.user("heir");
    heir.send_query("SELECT 7").unwrap();
    assert!(gate.is_held(&heir), "{what}: the place is taken");
    go(gate, owner);
    assert_eq!(heir.value(), "7", "{what}: the heir gets in");
    heir.quit();
    gate.wait_empty();
    gate.wait(&format!("{what}: {name} is gone"), |status| status.state(&name) == state::GONE);
}

fn begin(user: &mut User) {
    user.run("BEGIN");
}

fn half_a_statement() -> Vec<u8> {
    packet(command::QUERY, b"SELECT 'never complete'")[..14].to_vec()
}

fn kill(gate: &Gate, user: &User) {
    gate.sql(&format!("KILL CONNECTION {}", user.connection_id()));
}

/// Waits until the server has closed the connection.
fn wait_closed(user: &mut User) {
    wait_until("the server closes the connection", DEADLINE, || {
        matches!(user.stream().read(&mut [0; 512]), Ok(0) | Err(_))
    });
}

#[test]
fn a_place_comes_back_when_its_owner_quits_or_vanishes() {
    let Some(gate) = Setup::places(1).start() else {
        return;
    };
    comes_back(&gate, "COM_QUIT in a transaction", begin, |_, owner| {
        owner.quit();
    });
    comes_back(&gate, "closed in a transaction", begin, |_, owner| {
        drop(owner);
    });
    comes_back(&gate, "half a statement in a transaction, then closed", begin, |_, mut owner| {
        owner.send_raw(&half_a_statement()).unwrap();
        drop(owner);
    });
    comes_back(
        &gate,
        "half a statement outside, then closed",
        |owner| owner.send_raw(&half_a_statement()).unwrap(),
        |_, owner| drop(owner),
    );
    comes_back(
        &gate,
        "closed while its statement runs",
        |owner| owner.send_query("SELECT SLEEP(600)").unwrap(),
        |gate, owner| {
            let (id, name) = (owner.connection_id(), owner.name.clone());
            drop(owner);
            wait_until("its statement is over", DEADLINE, || {
                let _ = gate.server.sql(&format!("KILL QUERY {id}"));
                gate.status().state(&name) == state::GONE
            });
        },
    );
}

#[test]
fn a_place_comes_back_when_its_owner_is_killed() {
    let Some(gate) = Setup::places(1).start() else {
        return;
    };
    comes_back(&gate, "killed in a transaction", begin, |gate, mut owner| {
        kill(gate, &owner);
        wait_closed(&mut owner);
    });
    comes_back(
        &gate,
        "killed while its statement runs",
        |owner| owner.send_query("SELECT SLEEP(600)").unwrap(),
        |gate, mut owner| {
            kill(gate, &owner);
            wait_closed(&mut owner);
        },
    );
    comes_back(
        &gate,
        "KILL QUERY",
        |owner| owner.send_query("SELECT SLEEP(600)").unwrap(),
        |gate, owner| gate.release(owner),
    );
    comes_back(
        &gate,
        "wait_timeout",
        |owner| {
            owner.run("SET wait_timeout = 5");
            owner.run("BEGIN");
        },
        |_, mut owner| wait_closed(&mut owner),
    );
}

#[test]
fn a_lent_place_is_not_given_back_twice() {
    let Some(gate) = Setup::places(1).lending().start() else {
        return;
    };
    for go in [User::quit, drop, |user: User| {
        let mut user = user;
        user.send_raw(&half_a_statement()).unwrap();
    }] {
        let mut owner = gate.user("owner");
        owner.run("BEGIN");
        gate.wait_state(&owner, state::THINKING);
        let occupant = gate.occupy();
        let name = owner.name.clone();
        go(owner);
        gate.wait("the owner is gone", |status| status.state(&name) == state::GONE);
        let mut plain = gate.user("plain");
        plain.send_query("SELECT 7").unwrap();
        assert!(gate.is_held(&plain), "the place is still the occupant's");
        gate.release(occupant);
        assert_eq!(plain.value(), "7");
        plain.quit();
        gate.wait_empty();
    }
}

#[test]
fn a_slow_request_does_not_keep_a_place() {
    let Some(gate) = Setup::places(1).lending().start() else {
        return;
    };
    let mut slow = gate.user("slow");
    let statement = packet(command::QUERY, b"SELECT 'late'");
    slow.send_raw(&statement[..14]).unwrap();
    let occupant = gate.occupy();
    gate.release(occupant);
    slow.send_raw(&statement[14..]).unwrap();
    assert_eq!(slow.value(), "late");
    slow.quit();
    gate.wait_empty();
}

#[test]
fn a_held_user_can_be_killed() {
    let Some(gate) = Setup::places(1).start() else {
        return;
    };
    let occupant = gate.occupy();
    let mut held = gate.user("held");
    held.send_query("SELECT 7").unwrap();
    assert!(gate.is_held(&held));
    kill(&gate, &held);
    wait_closed(&mut held);
    gate.wait("the killed user is gone", |status| {
        status.state(&held.name) == state::GONE && status.number("waiting") == 0
    });
    let status = gate.status();
    assert_eq!(status.counter("cancelled"), 1);
    assert_eq!(status.state(&occupant.name), state::INSIDE);
    gate.release(occupant);
    gate.wait_empty();
}

#[test]
fn a_held_user_that_vanishes_or_whose_statement_is_killed_takes_no_place() {
    let Some(gate) = Setup::places(1).start() else {
        return;
    };
    let occupant = gate.occupy();
    let (mut vanishes, mut killed) = (gate.user("vanishes"), gate.user("killed"));
    for user in [&mut vanishes, &mut killed] {
        user.send_query("SELECT 7").unwrap();
        assert!(gate.is_held(user));
    }
    drop(vanishes);
    gate.sql(&format!("KILL QUERY {}", killed.connection_id()));
    gate.release(occupant);
    // Killed before it began, so it may run all the same: answered it is in any case.
    let answer = killed.read_answer();
    assert!(answer.is_ok() || answer.as_ref().unwrap_err().code() == Some(1317), "{answer:?}");
    killed.quit();
    gate.wait("all are gone", |status| status.number("users") == 0);
    gate.wait_empty();
    gate.release(gate.occupy());
}
