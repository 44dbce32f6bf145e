//! What only a server with a pool of threads has to show.

use std::time::Instant;

use crate::common::{DEADLINE, Setup, wait_until};
use crate::gated::{SOON, state};

/// More users are held than the pool has threads, and all others are served meanwhile.
#[test]
fn held_users_take_no_thread() {
    let Some(gate) = Setup::places(1).option("--thread-pool-max-threads=8").start() else {
        return;
    };
    let occupant = gate.occupy();
    let mut held: Vec<_> = (0..40).map(|_| gate.user("held")).collect();
    for user in &mut held {
        user.send_query("SELECT 7").unwrap();
    }
    gate.wait("all are held", |status| status.number("waiting") == 40);
    let begun = Instant::now();
    for _ in 0..20 {
        gate.sql("SELECT 1");
    }
    assert!(begun.elapsed() < SOON, "{:?}", begun.elapsed());
    // A held one is killed, and hears of it.
    let mut victim = held.pop().unwrap();
    gate.sql(&format!("KILL CONNECTION {}", victim.connection_id()));
    wait_until("the victim is gone", DEADLINE, || gate.status().state(&victim.name) == state::GONE);
    assert!(victim.read_answer().is_err());
    gate.release(occupant);
    for user in &mut held {
        assert_eq!(user.value(), "7");
    }
    gate.wait_empty();
}

/// A statement that may end the wait of others goes through, although it is not known before it was
/// read.
#[test]
fn a_kill_of_an_ordinary_user_passes() {
    let Some(gate) = Setup::places(1).start() else {
        return;
    };
    let mut occupant = gate.occupy();
    let mut held = gate.user("held");
    held.send_query("SELECT 7").unwrap();
    assert!(gate.is_held(&held));
    let mut helper = gate.user("helper");
    helper.run(&format!("KILL QUERY {}", occupant.connection_id()));
    let answer = occupant.read_answer();
    assert!(answer.is_ok() || answer.as_ref().unwrap_err().code() == Some(1317), "{answer:?}");
    assert_eq!(held.value(), "7");
    gate.wait_empty();
}
