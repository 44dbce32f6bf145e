//! A server that reads what the TLS library kept back when the turn is over, without an event
//! (`victims/tlskept.c`).

use std::time::Duration;

use headworks_rig::LoopKind;

use crate::certificate::Certificate;
use crate::common::{Setup, command};
use crate::compile::Workshop;
use crate::gated::state;
use crate::tls::{Encrypted, Tunnel};

/// With one place.
fn start() -> Option<(Encrypted, Workshop)> {
    let (workshop, certificate) = (Workshop::open()?, Certificate::make()?);
    let program = workshop.compile("tlskept.c", &["-l:libssl.so.3", "-l:libcrypto.so.3"]);
    let setup = Setup::places(LoopKind::Redis, 1);
    let files = [certificate.certificate(), certificate.key()];
    let gate = setup.options(files).start_other(program);
    let address = gate.server.address();
    Some((Encrypted { gate, address, certificate }, workshop))
}

/// A command of exactly what this server reads at once.
fn filling() -> Vec<u8> {
    let bytes = command(&["SET", "k", &"x".repeat(37)]);
    assert_eq!(bytes.len(), 64);
    bytes
}

/// Takes the place, and waits for its end.
fn occupy(user: &mut Tunnel, it: &Encrypted, name: &str) {
    user.ask(&["MULTI"], "+OK\r\n");
    it.gate.wait_state(name, state::INSIDE);
}

#[test]
fn a_transaction_that_begins_in_kept_bytes_has_the_place() {
    let Some((it, _workshop)) = start() else { return };
    let (mut owner, mut other) = (it.user("owner"), it.user("other"));
    for _ in 0..20 {
        // One record, of which the server reads the first command only.
        owner.send(&[filling(), command(&["MULTI"])].concat());
        owner.expect("+OK\r\n+OK\r\n");
        it.gate.wait_state("owner", state::INSIDE);
        other.tell(&["GET", "k"]);
        it.gate.wait_state("other", state::WAITING);
        owner.ask(&["GET", "k"], "+QUEUED\r\n");
        owner.ask(&["EXEC"], "*1\r\n+DONE\r\n");
        other.expect("+OK\r\n");
    }
    it.nothing_went_wrong();
}

/// Two records are there. With the second one its user is held, as another has the permit. Then the
/// rest of the first record begins a transaction.
#[test]
fn who_is_held_goes_on_once_kept_bytes_begin_a_transaction() {
    let Some((it, _workshop)) = start() else { return };
    let mut rounds = 0;
    for _ in 0..40 {
        // Of those who wait in the same round, the first one to connect is the first.
        let (mut late, mut other, mut owner) =
            (it.user("late"), it.user("other"), it.user("owner"));
        occupy(&mut other, &it, "other");
        late.send(&[filling(), command(&["MULTI"])].concat());
        std::thread::sleep(Duration::from_millis(20));
        late.tell(&["GET", "k"]);
        it.gate.wait_state("late", state::WAITING);
        owner.tell(&["MULTI"]);
        it.gate.wait_state("owner", state::WAITING);
        other.ask(&["EXEC"], "*0\r\n");
        owner.expect("+OK\r\n");
        // The place is taken until the owner's transaction ends.
        if !late.is_silent() {
            late.expect("+OK\r\n+OK\r\n+QUEUED\r\n");
            late.ask(&["EXEC"], "*1\r\n+DONE\r\n");
            rounds += 1;
        }
        owner.ask(&["EXEC"], "*0\r\n");
        drop((owner, other, late));
        it.gate.wait("all are gone", |status| status.number("users") == 0);
        if rounds == 5 {
            break;
        }
    }
    assert_eq!(rounds, 5, "rounds in which it was served before the owner");
    it.nothing_went_wrong();
}

/// What is read without an event is no way around the gate: it is counted, and charged.
#[test]
fn kept_requests_are_counted() {
    let Some((it, _workshop)) = start() else { return };
    let (mut user, mut other) = (it.user("user"), it.user("other"));
    for _ in 0..20 {
        user.send(&filling().repeat(50));
        other.ask(&["GET", "k"], "+OK\r\n");
        user.expect(&"+OK\r\n".repeat(50));
    }
    it.gate.wait("all are counted", |status| {
        let all = status.0["connections"].as_array().unwrap();
        [("user", 1_000), ("other", 20)].iter().all(|&(name, count)| {
            all.iter().any(|one| one["application"] == name && one["requests"] == count)
        })
    });
    it.nothing_went_wrong();
}
