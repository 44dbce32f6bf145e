//! What the pool counts.

use crate::frames::Frames;
use crate::storage::IoKind;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The sum of all frames' hits, of which each frame counts 32 bits.
pub(crate) struct Hits {
    /// Each frame's count at the last call.
    seen: Box<[u32]>,
    sum: u64,
}

impl Hits {
    pub(crate) fn new(frames: usize) -> Self {
        Self { seen: vec![0; frames].into(), sum: 0 }
    }

    /// Hits so far; exact as long as no frame has more than 2^32 between two calls.
    pub(crate) fn sum(&mut self, frames: &Frames) -> u64 {
        for (frame, seen) in (0..).zip(&mut self.seen) {
            let now = frames.get(frame).hits();
            self.sum += u64::from(now.wrapping_sub(*seen));
            *seen = now;
        }
        self.sum
    }
}

/// Counters of one instance, written by the threads that do the counted work.
#[derive(Default)]
#[repr(align(64))]
pub(crate) struct Counters {
    pub(crate) misses: AtomicU64,
    pub(crate) read_ns: AtomicU64,
    pub(crate) from_free_list: AtomicU64,
    pub(crate) clean_victims: AtomicU64,
    pub(crate) scanned: AtomicU64,
    pub(crate) read_stalls: AtomicU64,
    pub(crate) read_stall_ns: AtomicU64,
    pub(crate) buffer_waits: AtomicU64,
    pub(crate) buffer_wait_ns: AtomicU64,
    pub(crate) frame_waits: AtomicU64,
    pub(crate) frame_wait_ns: AtomicU64,
    pub(crate) dirty_region_hits: AtomicU64,
    pub(crate) rounds: AtomicU64,
    pub(crate) freed_by_flusher: AtomicU64,
    pub(crate) write_errors: AtomicU64,
    pub(crate) reads: [AtomicU64; IoKind::COUNT],
    pub(crate) writes: [AtomicU64; IoKind::COUNT],
}

pub(crate) fn bump(counter: &AtomicU64) {
    counter.fetch_add(1, Relaxed);
}

/// Totals since the pool was made, over all instances.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PoolStats {
    /// Requested pages that were in the pool.
    pub hits: u64,
    /// Pages that had to be read or created.
    pub misses: u64,
    /// Time that misses waited for storage to read their pages, added up.
    pub read_ns: u64,
    /// Frames that a miss found in the free list.
    pub from_free_list: u64,
    /// Frames that a miss took from a clean page.
    pub clean_victims: u64,
    /// Pages that misses scanned to find those (Vanilla and its kin).
    pub scanned: u64,
    /// Misses that waited for the write of a dirty page to get its frame (read stalls).
    pub read_stalls: u64,
    /// Time they waited, added up.
    pub read_stall_ns: u64,
    /// Misses that waited for room in the temporary write buffer (WAR), or for the end of the
    /// flusher's batch ([`crate::StrategyKind::InnoDb56`]).
    pub buffer_waits: u64,
    /// Time they waited, added up.
    pub buffer_wait_ns: u64,
    /// Waits (10 ms at most) of misses until another thread frees a frame: all were pinned or being
    /// written.
    pub frame_waits: u64,
    /// Time they took, added up.
    pub frame_wait_ns: u64,
    /// Hits that brought a page back from behind the LRU-C pointer.
    pub dirty_region_hits: u64,
    /// Rounds of the flushers.
    pub rounds: u64,
    /// Frames that flushers gave to the free list.
    pub freed_by_flusher: u64,
    /// Writes that failed; their pages stayed dirty.
    pub write_errors: u64,
    /// Acquisitions of LRU mutexes (LRU-M and LRU-D).
    pub lru_mutex_acquired: u64,
    /// Those that found the mutex held.
    pub lru_mutex_waits: u64,
    /// Time they waited, added up.
    pub lru_mutex_wait_ns: u64,
    /// Pages read, by [`IoKind::index`].
    pub reads: [u64; IoKind::COUNT],
    /// Pages written, by [`IoKind::index`].
    pub writes: [u64; IoKind::COUNT],
    /// Dirty pages at this moment.
    pub dirty_pages: u64,
    /// Frames in free lists at this moment.
    pub free_frames: u64,
    /// Bytes of a page.
    pub page_size: u64,
}

impl PoolStats {
    pub(crate) fn add(&mut self, from: &Counters) {
        let pairs = [
            (&mut self.misses, &from.misses),
            (&mut self.read_ns, &from.read_ns),
            (&mut self.from_free_list, &from.from_free_list),
            (&mut self.clean_victims, &from.clean_victims),
            (&mut self.scanned, &from.scanned),
            (&mut self.read_stalls, &from.read_stalls),
            (&mut self.read_stall_ns, &from.read_stall_ns),
            (&mut self.buffer_waits, &from.buffer_waits),
            (&mut self.buffer_wait_ns, &from.buffer_wait_ns),
            (&mut self.frame_waits, &from.frame_waits),
            (&mut self.frame_wait_ns, &from.frame_wait_ns),
            (&mut self.dirty_region_hits, &from.dirty_region_hits),
            (&mut self.rounds, &from.rounds),
            (&mut self.freed_by_flusher, &from.freed_by_flusher),
            (&mut self.write_errors, &from.write_errors),
        ];
        for (sum, counter) in pairs {
            *sum += counter.load(Relaxed);
        }
        for at in 0..IoKind::COUNT {
            self.reads[at] += from.reads[at].load(Relaxed);
            self.writes[at] += from.writes[at].load(Relaxed);
        }
    }

    /// The difference between `earlier` and this; levels keep this one's value.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let mut out = *self;
        let minus = |a: &mut u64, b: u64| *a = a.wrapping_sub(b);
        minus(&mut out.hits, earlier.hits);
        minus(&mut out.misses, earlier.misses);
        minus(&mut out.read_ns, earlier.read_ns);
        minus(&mut out.from_free_list, earlier.from_free_list);
        minus(&mut out.clean_victims, earlier.clean_victims);
        minus(&mut out.scanned, earlier.scanned);
        minus(&mut out.read_stalls, earlier.read_stalls);
        minus(&mut out.read_stall_ns, earlier.read_stall_ns);
        minus(&mut out.buffer_waits, earlier.buffer_waits);
        minus(&mut out.buffer_wait_ns, earlier.buffer_wait_ns);
        minus(&mut out.frame_waits, earlier.frame_waits);
        minus(&mut out.frame_wait_ns, earlier.frame_wait_ns);
        minus(&mut out.dirty_region_hits, earlier.dirty_region_hits);
        minus(&mut out.rounds, earlier.rounds);
        minus(&mut out.freed_by_flusher, earlier.freed_by_flusher);
        minus(&mut out.write_errors, earlier.write_errors);
        minus(&mut out.lru_mutex_acquired, earlier.lru_mutex_acquired);
        minus(&mut out.lru_mutex_waits, earlier.lru_mutex_waits);
        minus(&mut out.lru_mutex_wait_ns, earlier.lru_mutex_wait_ns);
        for at in 0..IoKind::COUNT {
            minus(&mut out.reads[at], earlier.reads[at]);
            minus(&mut out.writes[at], earlier.writes[at]);
        }
        out
    }

    /// Misses per request, 0 to 1.
    #[must_use]
    pub fn miss_ratio(&self) -> f64 {
        // Counts are far below 2^52.
        self.misses as f64 / ((self.hits + self.misses) as f64).max(1.0)
    }

    /// Read stalls per miss, 0 to 1 (Table 3 of the LRU-C paper).
    #[must_use]
    pub fn stall_ratio(&self) -> f64 {
        self.read_stalls as f64 / (self.misses as f64).max(1.0)
    }

    /// Pages written in place, of all kinds but doublewrite copies.
    #[must_use]
    pub fn pages_written(&self) -> u64 {
        self.writes.iter().sum::<u64>() - self.writes[IoKind::Doublewrite.index()]
    }
}
