//! Counters of an engine.

use headworks_policy::Nanos;
use headworks_policy::block::Operation;
use serde::{Deserialize, Serialize};
use std::sync::atomic::{AtomicU64, Ordering};

/// Requests of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Count {
    /// Answered, well or not.
    pub requests: u64,
    /// Bytes that they asked for.
    pub bytes: u64,
    /// Answered with an error.
    pub errors: u64,
}

/// Figures of an engine since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Reads.
    pub read: Count,
    /// Writes.
    pub write: Count,
    /// Flushes.
    pub flush: Count,
    /// Discards.
    pub discard: Count,
    /// Zeroing.
    pub write_zeroes: Count,
    /// Requests that were merged into another one.
    pub merged: u64,
    /// Requests that are not answered yet.
    pub outstanding: u64,
    /// Requests at the device.
    pub in_flight: u64,
    /// How late the last thousands of commands were.
    pub lateness: Lateness,
}

/// How late commands were against the model. Sums in which the past fades: they are halved after
/// every [`Lateness::COMMANDS`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lateness {
    /// Commands that the sums are of.
    pub commands: u64,
    /// Nanoseconds that the model gave them.
    pub modelled_ns: u64,
    /// Nanoseconds that they took beyond that.
    pub late_ns: u64,
}

impl Lateness {
    const COMMANDS: u64 = 8_192;

    /// A command that the model gave until `due` is over.
    pub(super) fn add(&mut self, started: Nanos, due: Nanos, now: Nanos) {
        if self.commands == Self::COMMANDS {
            self.commands /= 2;
            self.modelled_ns /= 2;
            self.late_ns /= 2;
        }
        self.commands += 1;
        self.modelled_ns += due.since(started).0;
        self.late_ns += now.since(due).0;
    }

    /// Lateness as a part of the model's time. `None` as long as commands are too few to tell.
    pub fn part(&self) -> Option<f64> {
        const ENOUGH: u64 = 1_000;
        // Times of thousands of commands: far below 2^53 ns.
        (self.commands >= ENOUGH && self.modelled_ns > 0)
            .then(|| self.late_ns as f64 / self.modelled_ns as f64)
    }
}

#[derive(Default)]
struct Counter {
    requests: AtomicU64,
    bytes: AtomicU64,
    errors: AtomicU64,
}

/// The counters behind [`Counts`].
#[derive(Default)]
pub(super) struct Counters {
    of: [Counter; 5],
}

impl Counters {
    pub(super) fn add(&self, operation: Operation, bytes: u64, failed: bool) {
        let counter = &self.of[operation as usize];
        counter.requests.fetch_add(1, Ordering::Relaxed);
        counter.bytes.fetch_add(bytes, Ordering::Relaxed);
        if failed {
            counter.errors.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(super) fn forget(&self) {
        for counter in &self.of {
            for number in [&counter.requests, &counter.bytes, &counter.errors] {
                number.store(0, Ordering::Relaxed);
            }
        }
    }

    pub(super) fn read(&self, operation: Operation) -> Count {
        let counter = &self.of[operation as usize];
        Count {
            requests: counter.requests.load(Ordering::Relaxed),
            bytes: counter.bytes.load(Ordering::Relaxed),
            errors: counter.errors.load(Ordering::Relaxed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn added(lateness: &mut Lateness, commands: u64, late: Nanos) {
        let (started, due) = (Nanos(1_000), Nanos(101_000));
        (0..commands).for_each(|_| lateness.add(started, due, due + late));
    }

    #[test]
    fn lateness_is_a_part_of_the_models_time_and_the_past_fades() {
        let mut lateness = Lateness::default();
        added(&mut lateness, 999, Nanos(50_000));
        assert_eq!(lateness.part(), None, "too few to tell");
        added(&mut lateness, 1, Nanos(50_000));
        assert_eq!(lateness.part(), Some(0.5));
        added(&mut lateness, 40_000, Nanos(0));
        assert!(lateness.part().unwrap() < 0.02, "{lateness:?}");
    }

    #[test]
    fn what_comes_early_is_not_late() {
        let mut lateness = Lateness::default();
        (0..2_000).for_each(|_| lateness.add(Nanos(0), Nanos(100_000), Nanos(60_000)));
        assert_eq!(lateness.part(), Some(0.0));
    }
}
