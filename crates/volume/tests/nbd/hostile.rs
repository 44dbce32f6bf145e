//! Arbitrary bytes and broken conversations against a real server: it goes on serving others, holds
//! nothing afterwards, and the other export stays as it was.

use std::cell::RefCell;
use std::io::{Read, Write};
use std::net::Shutdown;

use headworks_volume::nbd::Export;
use headworks_volume::nbd::export::Mode;
use proptest::prelude::*;
use proptest::test_runner::TestRunner;

use crate::raw::{Client, MODES, hello, request};
use crate::served::{MIB, Served, memory};

/// What a hostile client sends.
fn stream() -> impl Strategy<Value = Vec<u8>> {
    let garbage = prop::collection::vec(any::<u8>(), 0..300);
    let requests = prop::collection::vec(
        (0..9_u16, 0..64_u16, any::<u64>(), any::<u32>(), any::<bool>(), 0..5000_usize),
        0..10,
    );
    let talk = (0..3_usize, requests).prop_map(|(mode, requests)| {
        let mode = MODES[mode];
        let mut bytes = hello(mode, "prey");
        for (kind, flags, offset, len, near, payload) in requests {
            let offset = if near { (offset % MIB) & !511 } else { offset };
            let len = u64::from(if near { (len % 65536) & !511 } else { len });
            bytes.extend(request(mode, kind, flags, 1, offset, len));
            bytes.extend(vec![0xee; payload]);
        }
        bytes
    });
    let flipped = (talk.clone(), prop::collection::vec((any::<usize>(), 0..8_u8), 0..4));
    let flipped = flipped.prop_map(|(mut bytes, flips)| {
        for (at, bit) in flips {
            let at = at % bytes.len();
            bytes[at] ^= 1 << bit;
        }
        bytes
    });
    prop_oneof![1 => garbage, 3 => talk, 3 => flipped]
}

#[test]
fn hostile_clients_harm_nobody() {
    let exports = vec![Export::new("prey", memory(MIB)), Export::new("safe", memory(MIB))];
    let served = Served::new(exports);
    let whole = vec![0x77; MIB as usize];
    let good = RefCell::new(Client::new(&served.path, Mode::Structured, "safe"));
    good.borrow_mut().write(0, &whole);
    let mut runner = TestRunner::new(ProptestConfig::with_cases(400));
    let outcome = runner.run(&stream(), |bytes| {
        let mut socket = Client::mute(&served.path);
        // The server may hang up at any byte.
        let _ = socket.write_all(&bytes);
        let _ = socket.shutdown(Shutdown::Write);
        let mut out = Vec::new();
        let _ = socket.read_to_end(&mut out);
        prop_assert!(out.len() < 20 << 20);
        prop_assert_eq!(good.borrow_mut().read(MIB - 512, 512), vec![0x77; 512]);
        Ok(())
    });
    outcome.unwrap();
    assert!(good.borrow_mut().read(0, MIB) == whole);
    drop(good);
    served.wait_empty();
}
