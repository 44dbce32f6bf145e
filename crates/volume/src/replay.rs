//! Replays a recorded trace against an engine.

use crate::buffer::Buffer;
use crate::clock;
use crate::engine::{Engine, Submission, TRANSFER_BYTES_MAX};
use crate::layer::Traced;
use headworks_policy::Nanos;
use headworks_policy::block::{Operation, SECTOR_BYTES};
use headworks_policy::histogram::{BUCKETS, bucket_of, percentile};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// When requests come.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pace {
    /// At their recorded times, this many times as fast, however many are in flight.
    Recorded(f64),
    /// As soon as fewer than this many are in flight.
    Depth(u32),
}

/// What came of it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Outcome {
    /// Requests that were made.
    pub requests: u64,
    /// Of these, failed.
    pub errors: u64,
    /// Requests that lie outside the volume, and were not made.
    pub outside: u64,
    /// Time from the first request to the last answer.
    pub took: Nanos,
    /// Median latency.
    pub latency_p50: Nanos,
    /// 99th percentile of the latency.
    pub latency_p99: Nanos,
}

struct Tally {
    in_flight: u32,
    errors: u64,
    counts: [u64; BUCKETS],
}

struct Shared {
    tally: Mutex<Tally>,
    answered: Condvar,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Tally> {
        self.tally.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Replays the requests in order. `progress` gets the number made so far. Writes write a pattern.
pub fn replay(
    engine: &Engine,
    trace: &[Traced],
    pace: Pace,
    mut progress: impl FnMut(usize),
) -> Outcome {
    let tally = Tally { in_flight: 0, errors: 0, counts: [0; BUCKETS] };
    let shared = Arc::new(Shared { tally: Mutex::new(tally), answered: Condvar::new() });
    let began = clock::now();
    let mut outcome = Outcome::default();
    for (at, traced) in trace.iter().enumerate() {
        if traced.request.end() > engine.size_bytes() / SECTOR_BYTES {
            outcome.outside += 1;
            continue;
        }
        let depth = match pace {
            Pace::Recorded(speed) => {
                // A trace is far shorter than 2^53 ns.
                let due = Nanos((traced.came.0 as f64 / speed.max(1e-9)) as u64);
                let left = due.since(clock::now().since(began));
                std::thread::sleep(Duration::from_nanos(left.0));
                u32::MAX
            }
            Pace::Depth(depth) => depth.max(1),
        };
        let mut tally = shared.lock();
        while tally.in_flight >= depth {
            tally = shared.answered.wait(tally).unwrap_or_else(PoisonError::into_inner);
        }
        tally.in_flight += 1;
        drop(tally);
        submit(engine, traced, &shared);
        outcome.requests += 1;
        progress(at + 1);
    }
    let mut tally = shared.lock();
    while tally.in_flight > 0 {
        tally = shared.answered.wait(tally).unwrap_or_else(PoisonError::into_inner);
    }
    outcome.took = clock::now().since(began);
    outcome.errors = tally.errors;
    outcome.latency_p50 = percentile(&tally.counts, 0.5).unwrap_or_default();
    outcome.latency_p99 = percentile(&tally.counts, 0.99).unwrap_or_default();
    outcome
}

fn submit(engine: &Engine, traced: &Traced, shared: &Arc<Shared>) {
    let request = traced.request;
    let shared = Arc::clone(shared);
    let came = clock::now();
    let done = Box::new(move |result: std::io::Result<Buffer>| {
        let mut tally = shared.lock();
        tally.in_flight -= 1;
        tally.errors += u64::from(result.is_err());
        tally.counts[bucket_of(clock::now().since(came))] += 1;
        drop(tally);
        shared.answered.notify_all();
    });
    let mut submission = Submission::of(request, done);
    // A longer write is refused as malformed.
    if request.operation == Operation::Write && submission.len_bytes() <= TRANSFER_BYTES_MAX {
        submission.data = Buffer::new(submission.len_bytes() as usize);
        // The lowest byte of the sector marks the origin of a block.
        submission.data.fill(request.sector.to_le_bytes()[0]);
    }
    engine.submit(submission);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::EngineConfig;
    use crate::layer::read_trace;
    use crate::store::Memory;

    const TRACE: &str = "# headworks block trace 1\n\
        W 8 8 0 1000 - 0\nF 0 0 1000 500 s 0\nR 8 8 2000 900 s 0\nR 999999 8 3000 900 s 0\n";

    #[test]
    fn a_trace_is_played_and_what_lies_outside_is_left_out() {
        let trace = read_trace(TRACE.as_bytes()).unwrap();
        for pace in [Pace::Depth(2), Pace::Recorded(2.0)] {
            let store = Arc::new(Memory::new(1 << 20, 1 << 20));
            let engine = Engine::start(EngineConfig::raw(store)).unwrap();
            let mut last = 0;
            let outcome = replay(&engine, &trace, pace, |done| last = done);
            assert_eq!((outcome.requests, outcome.errors, outcome.outside), (3, 0, 1));
            assert_eq!(last, 3);
            let counts = engine.counts();
            assert_eq!((counts.write.bytes, counts.read.bytes), (4096, 4096));
            let data =
                engine.call(|done| Submission::new(Operation::Read, 4096, 512, done)).unwrap();
            assert!(data.iter().all(|byte| *byte == 8));
        }
    }
}
