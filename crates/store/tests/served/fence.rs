//! A late write of a dead connection never follows a write of the next one.

use crate::raw::{Raw, WRITE};
use crate::rig::Rig;

const SLOW: &str = "\
[device]
kind = \"array\"
disks = 2
depth = 4
model = \"disks\"
[[volume]]
name = \"m\"
path = \"memory\"
size = \"64MiB\"
";

/// Numbers that look random.
fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    *state >> 33
}

#[test]
fn a_block_never_goes_back_to_what_a_dead_connection_wrote() {
    let rig = Rig::start(SLOW);
    let mut seed = 7;
    for round in 0..200 {
        let block = 4096 * (next(&mut seed) % 8_000);
        let mut dead = Raw::open(&rig.socket(), "m");
        // Its writes wait in the queue, and in the socket.
        for _ in 0..1 + next(&mut seed) % 40 {
            let other = 4096 * (next(&mut seed) % 8_000);
            dead.send(WRITE, other, 4096, &[9; 4096]);
        }
        dead.send(WRITE, block, 4096, &[1; 4096]);
        if next(&mut seed).is_multiple_of(2) {
            std::thread::sleep(std::time::Duration::from_micros(next(&mut seed) % 3_000));
        }
        drop(dead);
        let mut follows = Raw::open(&rig.socket(), "m");
        follows.write(block, 2);
        assert_eq!(follows.read(block), 2, "round {round}");
        if round % 20 == 0 {
            std::thread::sleep(std::time::Duration::from_millis(150));
            assert_eq!(follows.read(block), 2, "round {round}, later");
        }
    }
}

#[test]
fn a_client_that_says_that_it_leaves_has_all_done_that_it_asked_for() {
    let rig = Rig::start(SLOW);
    for round in 1..20_u8 {
        let mut leaves = Raw::open(&rig.socket(), "m");
        for at in 0..30 {
            leaves.send(WRITE, 4096 * at, 4096, &[round; 4096]);
        }
        leaves.send(crate::raw::DISC, 0, 0, &[]);
        // The store has read all of it.
        for _ in 0..30 {
            leaves.answer();
        }
        drop(leaves);
        let mut follows = Raw::open(&rig.socket(), "m");
        assert!((0..30).all(|at| follows.read(4096 * at) == round));
    }
}
