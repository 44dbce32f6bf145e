//! The engine against a model of what a volume may hold: random requests, many at a time, that
//! overlap.

mod checker;
mod cut;
mod pieces;
mod random;

use headworks_policy::Nanos;
use headworks_policy::block::{BlockScheduler, Noop, SchedulerKind};
use headworks_volume::layer::{Layer, Parsed, parse};
use headworks_volume::model::Model;
use headworks_volume::store::{File, Memory, Store};
use headworks_volume::{Engine, EngineConfig};
use pieces::{Jumpy, Random, Shuffler};
use random::Run;
use std::sync::Arc;

/// Requests of each run: more in the long test.
fn operations() -> u64 {
    match std::env::var("HEADWORKS_VOLUME_OPERATIONS") {
        Ok(text) => text.parse().expect("HEADWORKS_VOLUME_OPERATIONS is a number"),
        Err(_) => 100_000,
    }
}

/// The seeds of this run; `HEADWORKS_SEED` chooses one.
fn seeds(count: u64) -> Vec<u64> {
    match std::env::var("HEADWORKS_SEED") {
        Ok(text) => vec![text.parse().expect("HEADWORKS_SEED is a number")],
        Err(_) => (1..=count).collect(),
    }
}

const SIZE: u64 = 2 << 20;

fn memory() -> Arc<dyn Store> {
    Arc::new(Memory::new(SIZE, SIZE))
}

fn model(seed: u64, depth: u32, longest_us: u64) -> Option<Box<dyn Model>> {
    Some(Box::new(Jumpy {
        depth,
        longest: Nanos::from_micros(longest_us),
        random: Random::new(seed),
        last: Nanos(0),
    }))
}

fn schedulers(seed: u64) -> Vec<(&'static str, Box<dyn BlockScheduler>)> {
    let mut list: Vec<(&'static str, Box<dyn BlockScheduler>)> =
        SchedulerKind::ALL.iter().map(|kind| (kind.name(), kind.build())).collect();
    list.push(("shuffler", Box::new(Shuffler::new(seed))));
    list
}

fn layers(texts: &[&str]) -> Vec<Box<dyn Layer>> {
    let understood = texts.iter().map(|text| match parse(text).unwrap() {
        Parsed::Layer(layer) => layer,
        _ => panic!("{text} stands elsewhere"),
    });
    understood.collect()
}

#[test]
fn the_store_alone_holds_what_was_written() {
    for seed in seeds(3) {
        let engine = Engine::start(EngineConfig::raw(memory())).unwrap();
        Run { seed, depth: 1, operations: operations() }.against(&engine);
    }
}

#[test]
fn every_scheduler_over_a_device_that_jumps() {
    for seed in seeds(2) {
        for (name, scheduler) in schedulers(seed) {
            println!("{name}, seed {seed}");
            let config = EngineConfig {
                store: memory(),
                model: model(seed, 4, 20),
                scheduler: Some(scheduler),
                layers: Vec::new(),
            };
            let engine = Engine::start(config).unwrap();
            Run { seed, depth: 64, operations: operations() / 2 }.against(&engine);
            let merged = engine.counts().merged;
            assert!(name != "shuffler" || merged > 0, "nothing was merged: {merged}");
        }
    }
}

#[test]
fn more_requests_than_a_scheduler_can_name_wait_before_it() {
    let config = EngineConfig {
        store: memory(),
        model: model(5, 64, 50),
        scheduler: Some(Box::new(Noop::default())),
        layers: Vec::new(),
    };
    let engine = Engine::start(config).unwrap();
    Run { seed: 5, depth: 3_000, operations: operations() / 4 }.against(&engine);
}

#[test]
fn layers_that_hold_requests_lose_none() {
    let config = EngineConfig {
        store: memory(),
        model: None,
        scheduler: None,
        layers: layers(&["stats", "delay:read=20us,flush=50us", "rate:requests=500000,op=write"]),
    };
    let engine = Engine::start(config).unwrap();
    Run { seed: 6, depth: 64, operations: operations() / 4 }.against(&engine);
}

#[test]
fn a_file_behind_workers_holds_what_was_written() {
    let dir = std::env::current_exe().unwrap().parent().unwrap().to_owned();
    let path = dir.join(format!("engine-{}", std::process::id()));
    std::fs::File::create(&path).unwrap().set_len(SIZE).unwrap();
    let store = Arc::new(File::open(&path, SIZE).unwrap());
    std::fs::remove_file(&path).unwrap();
    let config = EngineConfig {
        store,
        model: model(7, 8, 50),
        scheduler: Some(Box::new(Shuffler::new(7))),
        layers: Vec::new(),
    };
    let engine = Engine::start(config).unwrap();
    Run { seed: 7, depth: 32, operations: operations() / 20 }.against(&engine);
}

/// Answers come after the store is done, and that takes longer than this model allows.
#[test]
fn requests_that_end_after_the_models_time_are_counted_as_late() {
    let config = EngineConfig {
        store: memory(),
        model: Some(Box::new(Jumpy {
            depth: 8,
            longest: Nanos(1),
            random: Random::new(8),
            last: Nanos(0),
        })),
        scheduler: None,
        layers: Vec::new(),
    };
    let engine = Engine::start(config).unwrap();
    Run { seed: 8, depth: 8, operations: 3_000 }.against(&engine);
    let lateness = engine.counts().lateness;
    assert!(lateness.part().unwrap() > 1.0, "{lateness:?}");
    engine.forget_counts();
    let counts = engine.counts();
    assert_eq!((counts.read.requests, counts.lateness.commands), (0, 0));
}
