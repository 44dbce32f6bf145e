//! Users' records of their results.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hdrhistogram::Histogram;

use crate::db::ErrorKind;

/// Larger latencies count as this: one hour, in µs.
pub(super) const LATENCY_US_MAX: u64 = 3_600_000_000;

/// An empty histogram of latencies in µs, which keeps `digits` significant digits.
pub(super) fn histogram(digits: u8) -> Histogram<u64> {
    // The bounds are constants that the library accepts: 1 ≤ low, 2 × low ≤ high, digits ≤ 5.
    Histogram::new_with_bounds(1, LATENCY_US_MAX, digits.min(5))
        .expect("constant bounds are accepted")
}

/// A latency as the histograms keep it.
pub(super) fn microseconds(latency: Duration) -> u64 {
    u64::try_from(latency.as_micros()).unwrap_or(LATENCY_US_MAX).clamp(1, LATENCY_US_MAX)
}

/// Results of some of the users together.
pub(super) struct Shard {
    /// Per kind, of requests answered in the window.
    pub(super) latencies: Vec<Histogram<u64>>,
    /// Per second since the begin and per kind: requests answered, warm-up included.
    pub(super) series: Vec<Vec<u32>>,
    /// All requests answered.
    pub(super) answered: u64,
    /// Per error kind, in the window: attempts that were tried again.
    pub(super) retries: [u64; ErrorKind::ALL.len()],
    /// Per error kind, in the window: requests given up.
    pub(super) failures: [u64; ErrorKind::ALL.len()],
    /// The first message of a request given up.
    pub(super) first_failure: Option<String>,
}

impl Shard {
    pub(super) fn new(kinds: usize) -> Self {
        Self {
            latencies: (0..kinds).map(|_| histogram(3)).collect(),
            series: Vec::new(),
            answered: 0,
            retries: [0; ErrorKind::ALL.len()],
            failures: [0; ErrorKind::ALL.len()],
            first_failure: None,
        }
    }

    /// Counts an answer `at` this time since the beginning; `latency` only inside the window.
    pub(super) fn answer(&mut self, kind: usize, at: Duration, latency: Option<Duration>) {
        self.answered += 1;
        let kinds = self.latencies.len();
        let second = at.as_secs() as usize;
        while self.series.len() <= second {
            self.series.push(vec![0; kinds]);
        }
        if let Some(count) = self.series[second].get_mut(kind) {
            *count += 1;
        }
        if let (Some(latency), Some(histogram)) = (latency, self.latencies.get_mut(kind)) {
            histogram.saturating_record(microseconds(latency));
        }
    }
}

/// The shard of a user that panicked still has valid numbers.
pub(super) fn lock(shard: &Mutex<Shard>) -> MutexGuard<'_, Shard> {
    shard.lock().unwrap_or_else(PoisonError::into_inner)
}
