//! Latency histograms of each class.
//!
//! A histogram is 1.7 KiB, too much to have for each connection, and only the classes' are ever
//! asked for. But two threads that count in the same cache line slow each other down. So each class
//! has [`SHARDS`] of them, and the session's number chooses one. The first [`SHARDS`] sessions
//! share no line. Of those beyond, only sessions inside at the same time could meet. A class that
//! is not used costs no memory, since its pages are never touched.

use core::sync::atomic::{AtomicU64, Ordering};
use headworks_policy::histogram::{BUCKETS, bucket_of};
use headworks_policy::{CLASSES, Nanos};

/// Histograms of one class.
pub const SHARDS: usize = 64;

/// Buckets as in `headworks_policy::histogram`.
type Counts = [AtomicU64; BUCKETS];

#[derive(Debug)]
#[repr(C, align(64))]
struct Shard {
    /// Latencies (wait and time inside) of all requests.
    latency: Counts,
    /// Waits of those that waited: most do not, and write nothing here.
    wait: Counts,
}

/// See the module. All zero bytes are empty histograms.
#[derive(Debug)]
#[repr(C)]
pub struct Histograms([[Shard; SHARDS]; CLASSES]);

headworks_policy::layout!(Shard { latency, wait });
headworks_policy::layout!(Histograms { 0 });

impl Histograms {
    /// Counts requests of `session`; no session's number was ever as large as `sessions`. A class
    /// that cannot be is taken for the last.
    pub(crate) fn record(
        &self,
        class: u32,
        (session, sessions): (u32, u32),
        wait: Nanos,
        latency: Nanos,
        requests: u32,
    ) {
        let class = (class as usize).min(CLASSES - 1);
        let shard = &self.0[class][session as usize % SHARDS];
        let shared = sessions as usize > SHARDS;
        count(&shard.latency, latency, requests, shared);
        if wait.0 > 0 {
            count(&shard.wait, wait, requests, shared);
        }
    }

    /// Adds the counts of a class to the sums; requests that did not wait go to the first bucket
    /// of `wait`. No session's number was ever as large as `sessions`.
    pub(crate) fn add_to(
        &self,
        class: usize,
        sessions: u32,
        wait: &mut [u64; BUCKETS],
        latency: &mut [u64; BUCKETS],
    ) {
        let Some(shards) = self.0.get(class) else { return };
        let (mut requests, mut waited) = (0u64, 0u64);
        // Looking at a page of the region makes the kernel provide it.
        for shard in shards.iter().take(sessions as usize) {
            requests = requests.saturating_add(add(&shard.latency, latency));
            waited = waited.saturating_add(add(&shard.wait, wait));
        }
        wait[0] = wait[0].saturating_add(requests.saturating_sub(waited));
    }
}

/// A locked instruction waits until all that the server stored before has reached its cache, so it
/// is left to those who need it. When the first session beyond [`SHARDS`] comes, one that counts at
/// that moment may take back what the newcomer counts meanwhile. A statistic may be off by that.
fn count(counts: &Counts, value: Nanos, times: u32, shared: bool) {
    let count = &counts[bucket_of(value)];
    if shared {
        count.fetch_add(u64::from(times), Ordering::Relaxed);
    } else {
        count.store(count.load(Ordering::Relaxed).wrapping_add(times.into()), Ordering::Relaxed);
    }
}

fn add(counts: &Counts, sums: &mut [u64; BUCKETS]) -> u64 {
    let mut total = 0u64;
    for (sum, count) in sums.iter_mut().zip(counts) {
        let count = count.load(Ordering::Relaxed);
        // Hostile values must not overflow.
        *sum = sum.saturating_add(count);
        total = total.saturating_add(count);
    }
    total
}
