//! Power cuts: what was flushed survives, and every sector is old, new, or torn if that was asked
//! for.

use crate::pieces::{Jumpy, Random, Shuffler};
use crate::random::Flight;
use crate::{SIZE, memory, seeds};
use headworks_policy::Nanos;
use headworks_policy::block::{Operation, SECTOR_BYTES};
use headworks_volume::layer::{PowerCut, PowerCutSettings};
use headworks_volume::{Engine, EngineConfig, Submission};
use std::sync::Arc;

/// Requests before the cut.
const BEFORE: u64 = 3_000;

fn cut_once(seed: u64, settings: PowerCutSettings) -> (u64, u64) {
    println!("seed {seed}, {settings:?}");
    let power = Arc::new(PowerCut::new(memory(), settings, 512));
    let config = EngineConfig {
        store: Arc::clone(&power) as _,
        model: Some(Box::new(Jumpy {
            depth: 8,
            longest: Nanos::from_micros(10),
            random: Random::new(seed),
            last: Nanos(0),
        })),
        scheduler: Some(Box::new(Shuffler::new(seed))),
        layers: Vec::new(),
    };
    let engine = Engine::start(config).unwrap();
    let mut flight = Flight::new(SIZE / SECTOR_BYTES, seed);
    let when = Random::new(seed ^ 0xdead).below(BEFORE);
    let mut lost = 0;
    for number in 0..BEFORE {
        if number == when {
            // In the middle of what is in flight.
            let report = power.cut();
            lost = report.dropped + report.torn;
        }
        flight.one(&engine);
        while flight.in_flight() >= 32 {
            flight.take(true);
        }
        while flight.take(false) {}
    }
    flight.land();
    assert!(flight.failed > 0 || when + 1 == BEFORE, "requests without power fail");
    power.restore();
    let found = engine.call(|done| Submission::new(Operation::Read, 0, SIZE, done)).unwrap();
    match flight.checker.check_cut(0, &found, settings.torn > 0.0) {
        Ok(torn) => (lost, torn),
        Err(wrong) => panic!("{wrong}"),
    }
}

#[test]
fn what_was_flushed_survives_and_every_sector_is_old_or_new() {
    let mut lost = 0;
    for seed in seeds(40) {
        let cache_bytes = if seed % 2 == 0 { 64 << 10 } else { 64 << 20 };
        let keep = [0.0, 0.5, 1.0][(seed % 3) as usize];
        let settings =
            PowerCutSettings { seed: Some(seed), cache_bytes, keep, ..Default::default() };
        lost += cut_once(seed, settings).0;
    }
    assert!(lost > 0, "the cuts cost nothing, so they show nothing");
}

#[test]
fn sectors_are_torn_only_where_that_was_asked_for() {
    let mut torn = 0;
    for seed in seeds(20) {
        let settings =
            PowerCutSettings { seed: Some(seed), keep: 0.3, torn: 0.5, ..Default::default() };
        torn += cut_once(seed + 1_000, settings).1;
    }
    assert!(torn > 0, "nothing was torn");
}
