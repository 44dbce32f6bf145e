//! A late write of a dead connection never follows a write of the next one.

use crate::raw::{DISC, FLUSH, Raw, WRITE};
use crate::rig::{Random, Rig, own_address, times};
use std::net::Shutdown;
use std::time::Duration;

/// Blocks that all rounds write to: few, so that late writes hit what was written since.
const BLOCKS: u64 = 48;

fn store(model: &str, listen: &str) -> Rig {
    Rig::start(&format!(
        "{listen}[device]\nkind = \"array\"\ndisks = 2\ndepth = 4\nmodel = \"{model}\"\n\
         [[volume]]\nname = \"m\"\npath = \"memory\"\nsize = \"64MiB\"\n"
    ))
}

/// A connection writes, and breaks off in some way at some moment. What the next one finds, and
/// what it writes, stays.
fn round(random: &mut Random, round: u64, mut open: impl FnMut(Option<&str>) -> Raw) {
    let session = format!("s{round}");
    // A program of ours names its session, so that its old connection may still be open.
    let ours = random.below(3) == 0;
    let session = ours.then_some(session.as_str());
    let mut dead = open(session);
    let late = 1 + (round % 100) as u8;
    let mut asked = 0;
    for _ in 0..1 + random.below(40) {
        let offset = 4096 * random.below(BLOCKS);
        match random.below(12) {
            0 => dead.send(FLUSH, 0, 0, &[]),
            1 => {
                // Blocks in one request.
                let count = 1 + random.below(4).min(BLOCKS - 1 - offset / 4096);
                let payload = vec![late; 4096 * count as usize];
                dead.send(WRITE, offset, payload.len() as u32, &payload)
            }
            _ => dead.send(WRITE, offset, 4096, &[late; 4096]),
        };
        asked += 1;
    }
    for _ in 0..random.below(asked + 1).min(random.below(8)) {
        assert_eq!(dead.answer().1, 0);
    }
    if random.below(2) == 0 {
        std::thread::sleep(Duration::from_micros(random.below(4_000)));
    }
    let mut kept = None;
    match random.below(4) {
        // Half of a request.
        0 => {
            let _ = std::io::Write::write_all(&mut dead.stream, &[0x25, 0x60, 0x95, 0x13, 0, 0]);
        }
        1 => dead.stream.shutdown(Shutdown::Write).unwrap(),
        2 if ours => kept = Some(dead.stream.try_clone().unwrap()),
        _ => {}
    }
    if random.below(4) == 0 && kept.is_none() {
        kept = Some(dead.stream.try_clone().unwrap());
        let _ = dead.stream.shutdown(Shutdown::Both);
    }
    drop(dead);
    let mut follows = open(session);
    let offsets: Vec<u64> = (0..BLOCKS).map(|block| 4096 * block).collect();
    let mut there = follows.read_all(&offsets);
    for _ in 0..1 + random.below(6) {
        let block = random.below(BLOCKS);
        there[block as usize] = 101 + (round % 100) as u8;
        follows.write(4096 * block, there[block as usize]);
    }
    assert_eq!(follows.read_all(&offsets), there, "round {round}");
    if round.is_multiple_of(25) {
        std::thread::sleep(Duration::from_millis(200));
        assert_eq!(follows.read_all(&offsets), there, "round {round}, later");
    }
    drop(kept);
}

#[test]
fn a_block_never_goes_back_to_what_a_dead_connection_wrote() {
    let rigs = [store("disks", ""), store("flash", "")];
    let mut random = Random(7);
    for number in 0..times("HEADWORKS_STORE_ROUNDS", 1_000) {
        let rig = &rigs[usize::from(number % 10 != 0)];
        round(&mut random, number, |session| match session {
            Some(session) => Raw::ours(&rig.socket(), "m", session),
            None => Raw::open(&rig.socket(), "m"),
        });
    }
}

#[test]
fn by_tcp_the_end_of_a_killed_client_comes_behind_all_that_it_had_sent() {
    let address = own_address();
    let _rig = store("disks", &format!("listen = [\"unix:DIR/socket\", \"tcp:{address}\"]\n"));
    for round in 0..times("HEADWORKS_STORE_ROUNDS", 1_000) / 250 {
        let mut dead = Raw::tcp(address, "m");
        dead.stream.set_write_timeout(Duration::from_millis(50)).unwrap();
        // More than the store reads at a time: the rest waits in the sockets, and the end behind
        // it.
        let payload = vec![9; 64 << 10];
        let offset = 4096 * round;
        let mut left = 150;
        while left > 0 && dead.try_send(WRITE, 1 << 20, payload.len() as u32, &payload).is_ok() {
            left -= 1;
        }
        drop(dead);
        let mut small = Raw::tcp(address, "m");
        for _ in 0..200 {
            small.send(WRITE, offset, 4096, &[1; 4096]);
        }
        drop(small);
        let mut follows = Raw::tcp(address, "m");
        follows.write(offset, 2);
        for _ in 0..20 {
            assert_eq!(follows.read(offset), 2, "round {round}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

#[test]
fn a_client_that_says_that_it_leaves_has_all_done_that_it_asked_for() {
    let rig = store("disks", "");
    for round in 1..20_u8 {
        let mut leaves = Raw::open(&rig.socket(), "m");
        for at in 0..30 {
            leaves.send(WRITE, 4096 * at, 4096, &[round; 4096]);
        }
        leaves.send(DISC, 0, 0, &[]);
        // The store has read all of it.
        for _ in 0..30 {
            leaves.answer();
        }
        drop(leaves);
        let mut follows = Raw::open(&rig.socket(), "m");
        assert!((0..30).all(|at| follows.read(4096 * at) == round));
    }
}
