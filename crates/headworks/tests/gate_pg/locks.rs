//! Session-level advisory locks, and prepared transactions, which no session owns.

use crate::common::Setup;
use crate::gated::state;

#[test]
fn an_advisory_lock_keeps_its_place_until_it_is_released() {
    let Some(gate) = Setup::places(1).start() else { return };
    for (take, release) in [
        ("SELECT pg_advisory_lock(1)", "SELECT pg_advisory_unlock(1)"),
        ("SELECT pg_try_advisory_lock(1)", "SELECT pg_advisory_unlock_all()"),
        ("DO $$ BEGIN PERFORM pg_advisory_lock(1); END $$", "DISCARD ALL"),
    ] {
        let mut owner = gate.user("owner");
        owner.run(take);
        gate.wait_state(&owner.name, state::INSIDE);
        let mut other = gate.user("other").send("SELECT 7");
        assert!(gate.is_held(&mut other), "{take}");
        owner.run("SELECT 1");
        assert!(gate.is_held(&mut other), "{take}");
        assert_eq!(gate.status().holding(&owner.name), "advisory-lock");
        owner.run(release);
        assert_eq!(other.value().1, "7", "{release}");
        gate.wait_empty();
    }
}

#[test]
fn a_prepared_statement_that_locks_is_known_when_it_is_executed() {
    let Some(gate) = Setup::places(1).start() else { return };
    let mut owner = gate.user("owner");
    let lock = owner.client.prepare("SELECT pg_advisory_lock($1)").unwrap();
    let unlock = owner.client.prepare("SELECT pg_advisory_unlock($1)").unwrap();
    gate.wait_empty();
    owner.client.query(&lock, &[&5i64]).unwrap();
    gate.wait_state(&owner.name, state::INSIDE);
    let mut other = gate.user("other").send("SELECT 7");
    assert!(gate.is_held(&mut other));
    owner.client.query(&unlock, &[&5i64]).unwrap();
    assert_eq!(other.value().1, "7");
    gate.wait_empty();
}

#[test]
fn a_prepared_transaction_is_nobodys_and_its_end_passes() {
    let Some(gate) = Setup::places(1).setting("max_prepared_transactions", 5).start() else {
        return;
    };
    let mut user = gate.user("two-phase");
    user.run("BEGIN");
    user.run("INSERT INTO t VALUES (1)");
    user.run("PREPARE TRANSACTION 'one'");
    gate.wait_state(&user.name, state::IDLE);
    let occupant = gate.occupy();
    user.run("COMMIT PREPARED 'one'");
    assert_eq!(gate.sql("SELECT count(*) FROM t"), "1");
    gate.release(occupant);
    gate.wait_empty();
}
