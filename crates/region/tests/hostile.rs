//! A region full of nonsense. Whatever its bytes are, no operation crashes the process, hangs, or
//! holds a request for longer than its limit. A panic is allowed: the library catches it and stands
//! aside. A wild access, an endless loop or an abort is not.

#[allow(dead_code)] // each test program uses a part of it
mod common;

use common::{region, session, stop_beating};
use headworks_policy::{Nanos, SESSIONS};
use headworks_region::control::Settings;
use headworks_region::{Region, clock};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

/// xorshift64*, so that a failure is repeated by its seed.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }
}

fn scribble(region: &Region, random: &mut Random, words: u64) {
    let start = std::ptr::from_ref::<Region>(region).cast_mut().cast::<u32>();
    let length = size_of::<Region>() as u64 / 4;
    for _ in 0..words {
        // The part before the sessions is denser with meaning.
        let at = if !random.next().is_multiple_of(4) {
            random.next() % (length / 40)
        } else {
            random.next() % length
        };
        let value = match random.next() % 4 {
            0 => 0,
            1 => u32::MAX,
            2 => (random.next() % (2 * SESSIONS as u64)) as u32,
            _ => random.next() as u32,
        };
        // SAFETY: inside the mapping; other threads' accesses are what the test is about.
        unsafe { start.add(at as usize).write_volatile(value) };
    }
}

fn operations(region: &Region, random: &mut Random) {
    let session = (random.next() % (SESSIONS as u64 + 10)) as u32;
    match random.next() % 10 {
        0 | 1 => {
            region.enter(session, clock::now());
        }
        2 => region.leave(session),
        3 => drop(region.lend(session, headworks_region::Pause::Thinking)),
        4 => region.reenter(session),
        5 => region.cancel(session),
        6 => region.unregister(session),
        7 => region.classify(session, random.next() as u32, false, 2),
        8 => region.dispatch_all(),
        _ => drop(region.register(1, clock::now())),
    }
}

#[test]
fn no_bytes_crash_or_hang_an_operation() {
    std::panic::set_hook(Box::new(|_| {}));
    let seed = std::env::var("HEADWORKS_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1);
    println!("HEADWORKS_SEED={seed}");
    let mut random = Random(seed);
    let (mut panics, start) = (0, Instant::now());
    for round in 0..60 {
        let region = region();
        let settings =
            Settings { parallelism: 4, hold_max: Nanos::from_millis(20), ..Settings::default() };
        stop_beating(region);
        region.apply(&settings);
        for _ in 0..20 {
            session(region);
        }
        for step in 0..40 {
            let words = 1 << (random.next() % 12);
            scribble(region, &mut random, words);
            let began = Instant::now();
            let result = catch_unwind(AssertUnwindSafe(|| operations(region, &mut random)));
            panics += u32::from(result.is_err());
            // A scribbled limit or heartbeat may allow a long hold. Each operation checks every
            // fifth of a second, and here there is always a reason to pass.
            assert!(
                began.elapsed() < Duration::from_secs(20),
                "seed {seed} round {round} step {step}"
            );
            // What the daemon does. It may end by a panic, too: then all requests pass.
            let result = catch_unwind(AssertUnwindSafe(|| region.apply(&settings)));
            panics += u32::from(result.is_err());
        }
    }
    println!("{panics} caught panics in {:?}", start.elapsed());
    let _ = std::panic::take_hook();
}
