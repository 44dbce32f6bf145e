//! Counters of an engine.

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

    pub(super) fn read(&self, operation: Operation) -> Count {
        let counter = &self.of[operation as usize];
        Count {
            requests: counter.requests.load(Ordering::Relaxed),
            bytes: counter.bytes.load(Ordering::Relaxed),
            errors: counter.errors.load(Ordering::Relaxed),
        }
    }
}
