//! Loads of a host, on its volume: OLTP-A as ORION makes it, and transactions of several accesses.
//!
//! Volumes are memory that behaves like disks. So that they stay small, writes go to some hundred
//! places of a load, spread over the whole volume: the arms of the disks move as far.

use anyhow::Result;
use headworks_policy::block::Operation;
use headworks_volume::{Buffer, Engine, Submission};
use serde::{Deserialize, Serialize};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::thread::{JoinHandle, sleep};
use std::time::Duration;

/// Bytes of a small and of a large access.
const SMALL: u64 = 16 << 10;
const LARGE: u64 = 1 << 20;

/// Places that are written, of either kind.
const PLACES: u64 = 512;
const LARGE_PLACES: u64 = 32;

/// What a load does.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(super) enum Kind {
    /// ORION's OLTP mix, half of it reads: so many accesses of 16 KiB and of 1 MiB outstanding. A
    /// transaction is an access.
    OltpA {
        /// Outstanding.
        small: usize,
        /// Outstanding.
        large: usize,
    },
    /// Threads that do transactions: accesses of 16 KiB one after the other, seven of ten reads, a
    /// millisecond between them.
    Transactions {
        /// Threads.
        threads: usize,
        /// Accesses of a transaction, on average.
        accesses: f64,
    },
}

/// Numbers that look random.
#[derive(Debug)]
struct Numbers(AtomicU64);

impl Numbers {
    fn next(&self) -> u64 {
        let step = 0x9e37_79b9_7f4a_7c15;
        mixed(self.0.fetch_add(step, Relaxed))
    }
}

fn mixed(number: u64) -> u64 {
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

/// What all accesses of a load have in common.
struct Common {
    engine: Arc<Engine>,
    tag: u16,
    numbers: Numbers,
    ends: AtomicBool,
    /// Accesses that were answered.
    accesses: AtomicU64,
    failed: AtomicBool,
}

impl Common {
    fn submission(&self, bytes: u64, reads: u64, done: headworks_volume::Completion) -> Submission {
        let slots = self.engine.size_bytes() / bytes;
        let mut submission = if self.numbers.next() % 10 < reads {
            let offset = self.numbers.next() % slots * bytes;
            Submission::new(Operation::Read, offset, bytes, done)
        } else {
            let places = if bytes == LARGE { LARGE_PLACES } else { PLACES };
            let place = (u64::from(self.tag) << 32) | (self.numbers.next() % places);
            let offset = mixed(place) % slots * bytes;
            Submission::write(offset, Buffer::zeroed(bytes as usize), done)
        };
        submission.tag = self.tag;
        submission.request.cause = self.tag.into();
        submission
    }

    fn answered(&self, result: &io::Result<Buffer>) {
        self.accesses.fetch_add(1, Relaxed);
        if result.is_err() {
            self.failed.store(true, Relaxed);
            self.ends.store(true, Relaxed);
        }
    }
}

/// Accesses of one size, so many at a time.
struct Lane {
    common: Arc<Common>,
    bytes: u64,
    wanted: AtomicUsize,
    open: AtomicUsize,
}

/// Submits until as many are open as are wanted.
fn fill(lane: &Arc<Lane>) {
    let wanted = || if lane.common.ends.load(Relaxed) { 0 } else { lane.wanted.load(Relaxed) };
    let more = |open: usize| (open < wanted()).then_some(open + 1);
    while lane.open.fetch_update(Relaxed, Relaxed, more).is_ok() {
        let again = Arc::clone(lane);
        let done = Box::new(move |result: io::Result<Buffer>| {
            again.common.answered(&result);
            again.open.fetch_sub(1, Relaxed);
            fill(&again);
        });
        lane.common.engine.submit(lane.common.submission(lane.bytes, 5, done));
    }
}

/// What threads of transactions share.
struct Crew {
    common: Arc<Common>,
    active: AtomicUsize,
    /// Accesses of a transaction, in thousandths.
    accesses_milli: AtomicU64,
    done: AtomicU64,
}

fn work(crew: &Crew, number: usize) {
    while !crew.common.ends.load(Relaxed) {
        if number >= crew.active.load(Relaxed) {
            sleep(Duration::from_millis(20));
            continue;
        }
        // Between half and one and a half times as many as on average.
        let mean = crew.accesses_milli.load(Relaxed);
        let milli = mean / 2 + crew.common.numbers.next() % mean.max(1);
        for _ in 0..(milli / 1_000).max(1) {
            let one = |done| crew.common.submission(SMALL, 7, done);
            crew.common.answered(&crew.common.engine.call(one));
            sleep(Duration::from_millis(1));
        }
        crew.done.fetch_add(1, Relaxed);
    }
}

enum Way {
    Lanes([Arc<Lane>; 2]),
    Crew(Arc<Crew>, Vec<JoinHandle<()>>),
}

/// A load that runs until it is dropped.
pub(super) struct Load {
    kind: Kind,
    common: Arc<Common>,
    way: Way,
    /// How many times the usual a transaction costs.
    cost: f64,
}

impl Load {
    /// Idle at first.
    pub(super) fn new(engine: &Arc<Engine>, tag: u16, kind: Kind, seed: u64) -> Result<Load> {
        let common = Arc::new(Common {
            engine: Arc::clone(engine),
            tag,
            numbers: Numbers(mixed((seed << 8) | u64::from(tag)).into()),
            ends: AtomicBool::new(false),
            accesses: AtomicU64::new(0),
            failed: AtomicBool::new(false),
        });
        let way = match kind {
            Kind::OltpA { .. } => Way::Lanes([SMALL, LARGE].map(|bytes| {
                let (wanted, open) = (AtomicUsize::new(0), AtomicUsize::new(0));
                Arc::new(Lane { common: Arc::clone(&common), bytes, wanted, open })
            })),
            Kind::Transactions { threads, accesses } => {
                let crew = Arc::new(Crew {
                    common: Arc::clone(&common),
                    active: AtomicUsize::new(0),
                    accesses_milli: AtomicU64::new((1e3 * accesses) as u64),
                    done: AtomicU64::new(0),
                });
                let thread = |number| {
                    let crew = Arc::clone(&crew);
                    std::thread::Builder::new().spawn(move || work(&crew, number))
                };
                let threads = (0..threads).map(thread).collect::<io::Result<Vec<_>>>()?;
                Way::Crew(crew, threads)
            }
        };
        Ok(Load { kind, common, way, cost: 1.0 })
    }

    /// From now on this part of it is there, and a transaction costs so many times the usual.
    pub(super) fn set(&mut self, part: f64, cost: f64) {
        self.cost = cost;
        let of = |count: usize| (count as f64 * part).round() as usize;
        match (&self.way, self.kind) {
            (Way::Lanes(lanes), Kind::OltpA { small, large }) => {
                for (lane, count) in lanes.iter().zip([small, large]) {
                    lane.wanted.store(of(count), Relaxed);
                    fill(lane);
                }
            }
            (Way::Crew(crew, _), Kind::Transactions { threads, accesses }) => {
                crew.accesses_milli.store((1e3 * accesses * cost) as u64, Relaxed);
                crew.active.store(of(threads), Relaxed);
            }
            _ => {}
        }
    }

    /// Accesses so far.
    pub(super) fn accesses(&self) -> u64 {
        self.common.accesses.load(Relaxed)
    }

    /// Transactions of so many accesses since the last look, of which `done` is the counter.
    pub(super) fn transactions(&self, before: &mut u64) -> f64 {
        let (now, cost) = match &self.way {
            Way::Lanes(_) => (self.accesses(), self.cost),
            Way::Crew(crew, _) => (crew.done.load(Relaxed), 1.0),
        };
        (now - std::mem::replace(before, now)) as f64 / cost
    }

    /// An access failed.
    pub(super) fn has_failed(&self) -> bool {
        self.common.failed.load(Relaxed)
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.common.ends.store(true, Relaxed);
        match &mut self.way {
            Way::Lanes(lanes) => {
                while lanes.iter().any(|lane| lane.open.load(Relaxed) > 0) {
                    sleep(Duration::from_millis(1));
                }
            }
            Way::Crew(_, threads) => {
                for thread in threads.drain(..) {
                    // It panics only by a bug of ours, which was reported then.
                    let _ = thread.join();
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use headworks_volume::EngineConfig;
    use headworks_volume::store::{Memory, Store};

    fn engine() -> (Arc<Memory>, Arc<Engine>) {
        let memory = Arc::new(Memory::new(8 << 30, 1 << 30));
        let store = Arc::clone(&memory) as Arc<dyn Store>;
        // A device that takes time: an access is not answered within the call that submits it.
        let model = Some(headworks_store::sim::array::Kind::Flash.model(1));
        let config = EngineConfig { store, model, scheduler: None, layers: Vec::new() };
        (memory, Arc::new(Engine::start(config).unwrap()))
    }

    fn until(mut is: impl FnMut() -> bool) {
        while !is() {
            sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn a_load_has_as_many_outstanding_as_it_is_told_and_takes_little_memory() {
        let (memory, engine) = engine();
        let mut load = Load::new(&engine, 1, Kind::OltpA { small: 20, large: 2 }, 1).unwrap();
        let mut before = 0;
        assert_eq!(load.transactions(&mut before), 0.0, "idle at first");
        load.set(1.0, 2.0);
        until(|| load.accesses() > 5_000);
        let done = load.transactions(&mut before);
        assert_eq!(done, before as f64 / 2.0, "each costs two accesses");
        let most = PLACES * (64 << 10) + LARGE_PLACES * (LARGE + (64 << 10));
        let allocated = memory.allocated_bytes().unwrap();
        assert!(allocated <= most, "{allocated} of {most}");
        load.set(0.0, 1.0);
        let Way::Lanes(lanes) = &load.way else { panic!("accesses") };
        until(|| lanes.iter().all(|lane| lane.open.load(Relaxed) == 0));
        assert!(!load.has_failed());
    }

    #[test]
    fn transactions_are_as_long_as_they_cost() {
        let (_, engine) = engine();
        let kind = Kind::Transactions { threads: 4, accesses: 8.0 };
        let mut load = Load::new(&engine, 1, kind, 1).unwrap();
        let mut before = 0;
        load.set(1.0, 1.0);
        let mut done = 0.0;
        until(|| {
            done += load.transactions(&mut before);
            done >= 200.0
        });
        let each = load.accesses() as f64 / done;
        assert!((7.0..9.0).contains(&each), "{each} accesses a transaction");
    }
}
