//! A backend that is held hears of everything that happens meanwhile.

use std::io::Write;
use std::net::TcpStream;
use std::time::{Duration, Instant};

use crate::common::{DEADLINE, Gate, Sent, Setup, wait_until};
use crate::gated::{SOON, state};
use crate::wire::{Wire, message, query};

fn held(gate: &Gate, role: &str) -> Sent {
    let mut sent = gate.user(role).send("SELECT 7");
    assert!(gate.is_held(&mut sent));
    sent
}

#[test]
fn pg_terminate_backend_ends_it() {
    let Some(gate) = Setup::places(1).start() else { return };
    let occupant = gate.occupy();
    let mut victim = Wire::connect(&gate, "victim");
    victim.send(&query("SELECT 7"));
    gate.wait_state("victim", state::WAITING);
    let begun = Instant::now();
    gate.sql(&format!("SELECT pg_terminate_backend({})", victim.pid()));
    let (kind, body) = victim.next();
    assert!(begun.elapsed() < SOON, "{:?}", begun.elapsed());
    let text = String::from_utf8_lossy(&body).into_owned();
    assert!(kind == b'E' && text.contains("57P01"), "{text}");
    gate.wait("the victim is gone", |status| status.state("victim") == state::GONE);
    assert!(begun.elapsed() < 2 * SOON, "{:?}", begun.elapsed());
    let status = gate.status();
    assert_eq!((status.number("waiting"), status.counter("cancelled")), (0, 1));
    gate.release(occupant);
    gate.wait_empty();
}

#[test]
fn pg_cancel_backend_does_it_no_harm_and_a_cancel_request_always_passes() {
    let Some(gate) = Setup::places(1).start() else { return };
    let mut running = Wire::connect(&gate, "running");
    running.send(&query("SELECT pg_sleep(600)"));
    gate.wait_state("running", state::INSIDE);
    let mut victim = held(&gate, "victim");
    // As without the gate: a session that does nothing has nothing to cancel.
    gate.sql(&format!("SELECT pg_cancel_backend({})", victim.pid));
    assert!(gate.is_held(&mut victim), "its turn has not come");
    // The same question of a user that no rule lets pass.
    let signal = format!("SELECT pg_cancel_backend({})", victim.pid);
    assert_eq!(gate.user("helper").send(&signal).value().1, "t");
    let mut cancel = TcpStream::connect(("127.0.0.1", gate.server.port())).unwrap();
    let code = 80_877_102u32.to_be_bytes();
    cancel.write_all(&[&16u32.to_be_bytes()[..], &code, &running.key].concat()).unwrap();
    assert_eq!(running.answer().0, "TEZ");
    assert_eq!(victim.value().1, "7", "not a byte of its request was lost");
    gate.wait_empty();
}

/// CREATE and DROP DATABASE wait until every backend has closed its files.
#[test]
fn it_takes_part_in_barriers() {
    let Some(gate) = Setup::places(1).start() else { return };
    let occupant = gate.user("occupant");
    let mut occupant_wire = Wire::connect(&gate, "transaction");
    occupant_wire.send(&query("BEGIN"));
    occupant_wire.answer();
    drop(occupant);
    let held: Vec<Sent> = (0..8).map(|_| held(&gate, "held")).collect();
    let begun = Instant::now();
    gate.sql("CREATE DATABASE short");
    gate.sql("DROP DATABASE short");
    assert!(begun.elapsed() < SOON, "{:?}", begun.elapsed());
    occupant_wire.send(&query("COMMIT"));
    occupant_wire.answer();
    for sent in held {
        assert_eq!(sent.value().1, "7");
    }
    gate.wait_empty();
}

#[test]
fn notifications_reach_it() {
    let Some(gate) = Setup::places(1).start() else { return };
    let mut listener = Wire::connect(&gate, "listener");
    listener.send(&query("LISTEN news"));
    listener.answer();
    gate.sql("NOTIFY news, 'to an idle one'");
    assert_eq!(listener.next().0, b'A');
    let occupant = gate.occupy();
    listener.send(&query("SELECT 7"));
    gate.wait_state("listener", state::WAITING);
    gate.sql("NOTIFY news, 'to a held one'");
    let (kind, body) = listener.next();
    assert_eq!(kind, b'A');
    assert!(String::from_utf8_lossy(&body).contains("to a held one"));
    gate.wait_state("listener", state::WAITING);
    gate.release(occupant);
    assert_eq!(listener.answer().0, "TDCZ");
    gate.wait_empty();
}

/// A request of many reads, held at its beginning.
#[test]
fn a_large_request_arrives_whole() {
    let Some(gate) = Setup::places(1).start() else { return };
    let occupant = gate.occupy();
    let text = format!("SELECT md5('{}')", "x".repeat(300_000));
    let mut plain = gate.user("large").send(&text);
    assert!(gate.is_held(&mut plain));
    let mut wire = Wire::connect(&gate, "several");
    // Two requests in one receipt, and the beginning of a third.
    let third = query("SELECT 3");
    wire.send(&[&query("SELECT 1")[..], &query("SELECT 2"), &third[..8]].concat());
    gate.wait_state("several", state::WAITING);
    std::thread::sleep(Duration::from_millis(500));
    wire.send(&[&third[8..], &message(b'X', &[])].concat());
    gate.release(occupant);
    assert_eq!(plain.value().1, gate.sql(&text));
    for _ in 0..3 {
        assert_eq!(wire.answer().0, "TDCZ");
    }
    gate.wait_empty();
}

/// Its bytes are no longer the kernel's: a read that is left out would leave them lying.
#[test]
fn a_request_that_waited_arrives_although_reads_were_left_out() {
    let Some(gate) = Setup::places(1).start() else { return };
    let mut wire = Wire::connect(&gate, "trained");
    for _ in 0..20 {
        wire.send(&query("SELECT 1"));
        wire.answer();
        // The server reads again, and finds nothing.
        std::thread::sleep(Duration::from_millis(5));
    }
    for size in [1, 20_000] {
        let occupant = gate.occupy();
        // The second one is read while the first one's answer is under way, or comes with it.
        wire.send(&[query(&format!("SELECT '{}'", "x".repeat(size))), query("SELECT 2")].concat());
        gate.wait_state("trained", state::WAITING);
        gate.release(occupant);
        assert_eq!((wire.answer().0, wire.answer().0), ("TDCZ".into(), "TDCZ".into()));
        // Held in the early read: it comes while the one before is answered.
        wire.send(&query("SELECT pg_sleep(0.2)"));
        std::thread::sleep(Duration::from_millis(50));
        let occupied = gate.user("occupant").send("SELECT pg_sleep(0.5)");
        wire.send(&query("SELECT 3"));
        assert_eq!((wire.answer().0, wire.answer().0), ("TDCZ".into(), "TDCZ".into()));
        occupied.value();
    }
    gate.wait_empty();
}

#[test]
fn a_fast_shutdown_ends_all_of_them() {
    let Some(mut gate) = Setup::places(1).start() else { return };
    let _occupant = gate.occupy();
    let held: Vec<Sent> = (0..30).map(|_| held_quickly(&gate)).collect();
    gate.wait("all are held", |status| status.number("waiting") == 30);
    let stopped = gate.server.end(libc::SIGINT, 2 * SOON).unwrap();
    assert!(stopped.status.success(), "{:?}", stopped.status);
    assert!(stopped.took < SOON, "{:?}", stopped.took);
    for sent in held {
        let error = sent.result().1.unwrap_err();
        assert!(error.is_closed() || error.code().is_some(), "{error:?}");
    }
}

fn held_quickly(gate: &Gate) -> Sent {
    gate.user("held").send("SELECT 7")
}

#[test]
fn a_smart_shutdown_waits_for_them_as_for_everybody() {
    let Some(mut gate) = Setup::places(1).start() else { return };
    let mut owner = Wire::connect(&gate, "owner");
    owner.send(&query("BEGIN"));
    owner.answer();
    let held: Vec<Sent> = (0..5).map(|_| held_quickly(&gate)).collect();
    gate.wait("all are held", |status| status.number("waiting") == 5);
    gate.server.signal(libc::SIGTERM).unwrap();
    std::thread::sleep(Duration::from_millis(300));
    assert!(gate.server.is_running());
    owner.send(&[query("COMMIT"), message(b'X', &[])].concat());
    assert_eq!(owner.answer().1, b'I');
    for sent in held {
        assert_eq!(sent.value().1, "7");
    }
    wait_until("the server has ended", DEADLINE, || !gate.server.is_running());
}
