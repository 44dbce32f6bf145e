//! memcached: several loops in one process, and no transactions.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use headworks_rig::LoopKind;

use crate::common::{Gate, Setup, Wire};

fn start(parallelism: u32) -> Option<Gate> {
    Setup::places(LoopKind::Memcached, parallelism).start()
}

fn binary(opcode: u8, extras: &[u8], key: &[u8], value: &[u8]) -> Vec<u8> {
    let mut header = [0u8; 24];
    (header[0], header[1]) = (0x80, opcode);
    header[2..4].copy_from_slice(&(key.len() as u16).to_be_bytes());
    header[4] = extras.len() as u8;
    let body = (extras.len() + key.len() + value.len()) as u32;
    header[8..12].copy_from_slice(&body.to_be_bytes());
    [&header[..], extras, key, value].concat()
}

#[test]
fn text_meta_and_binary_commands_go_through_unchanged() {
    let Some(gate) = start(1) else { return };
    let mut user = gate.wire();
    user.send(b"set k 5 0 3\r\nabc\r\nget k\r\n");
    user.expect("STORED\r\nVALUE k 5 3\r\nabc\r\nEND\r\n");
    user.send(b"ms m 2 T0\r\nhi\r\nmg m v\r\nmn\r\n");
    user.expect("HD\r\nVA 2\r\nhi\r\nMN\r\n");
    let value = "x".repeat(700_000);
    user.send(format!("set large 0 0 {}\r\n{value}\r\nget large\r\n", value.len()).as_bytes());
    user.expect(&format!("STORED\r\nVALUE large 0 {}\r\n{value}\r\nEND\r\n", value.len()));
    // A long pipeline: the server takes 20 commands at a time out of what it has read.
    user.send(&b"incr none 1\r\n".repeat(1000));
    user.expect(&"NOT_FOUND\r\n".repeat(1000));
    let mut other = gate.wire();
    other.send(&[binary(0x01, &[0; 8], b"b", b"v"), binary(0x0A, &[], &[], &[])].concat());
    let mut status = [0u8; 48];
    use std::io::Read;
    other.stream().read_exact(&mut status).unwrap();
    assert_eq!((status[0], status[6], status[7], status[24], status[25]), (0x81, 0, 0, 0x81, 0x0A));
    gate.wait_empty();
    let requests = gate.status().0["connections"][0]["requests"].as_u64().unwrap();
    assert_eq!(requests, 1006, "but for mn");
}

#[test]
fn words_of_a_profile_take_and_release_a_lock_of_the_session() {
    let setup = Setup::places(LoopKind::Memcached, 1).locks("mutex_taken", "mutex_free");
    let Some(gate) = setup.start() else { return };
    let (mut owner, mut other) = (gate.wire(), gate.wire());
    owner.send(b"set mutex_taken 0 0 1\r\nx\r\n");
    owner.expect("STORED\r\n");
    other.send(b"get mutex_taken_by\r\n");
    assert!(other.is_silent(), "the lock keeps the place");
    owner.send(b"get mutex_free\r\n");
    owner.expect("END\r\n");
    other.expect("END\r\n");
    gate.wait_empty();
}

/// With one place and four loops, a turn is nearly always granted by another thread.
#[test]
fn turns_pass_from_loop_to_loop() {
    let Some(gate) = start(1) else { return };
    let done = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for name in 0..32 {
            let (gate, done) = (&gate, &done);
            scope.spawn(move || {
                let mut user = gate.wire();
                for round in 0..300 {
                    user.send(
                        format!("set k{name} 0 0 {}\r\n{round}\r\n", round.to_string().len())
                            .as_bytes(),
                    );
                    user.expect("STORED\r\n");
                    done.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
    });
    assert_eq!(done.into_inner(), 32 * 300);
    gate.wait("all are gone", |status| status.number("users") == 0);
    let status = gate.status();
    assert_eq!(status.number("inside") + status.number("waiting"), 0);
    assert_eq!(
        (status.counter("hold_limit"), status.counter("stalls"), status.counter("panic")),
        (0, 0, 0)
    );
}

/// The operator withdraws permits and gives them again, while all users work.
#[test]
fn off_and_on_under_load() {
    let Some(gate) = start(1) else { return };
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..16)
            .map(|_| {
                let gate = &gate;
                scope.spawn(move || {
                    let mut user = Wire::connect(&gate.server);
                    for _ in 0..400 {
                        user.send(b"get k\r\n");
                        user.expect("END\r\n");
                    }
                })
            })
            .collect();
        while workers.iter().any(|worker| !worker.is_finished()) {
            for switch in ["off", "on"] {
                assert!(gate.headworks(&[switch]).status.success());
                std::thread::sleep(Duration::from_millis(20));
            }
        }
    });
    gate.wait_empty();
}
