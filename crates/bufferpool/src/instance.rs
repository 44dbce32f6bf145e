//! The instances of a pool: parts of its frames.

use crate::error::PoolError;
use crate::frames::Frames;
use crate::ids::{FrameId, Lsn};
use crate::lru::{Lru, Order};
use crate::stats::Counters;
use parking_lot::{Condvar, Mutex};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// Time between two attempts to get a frame.
const RETRY: Duration = Duration::from_millis(10);

/// A range of the frames, with its own lists and mutexes.
pub(crate) struct Instance {
    pub(crate) first: FrameId,
    pub(crate) count: u32,
    /// Frames from `first + active` on are withdrawn.
    pub(crate) active: AtomicU32,
    pub(crate) lru: Lru<Arc<Frames>>,
    pub(crate) free: Mutex<Vec<FrameId>>,
    /// A frame was freed, or can be evicted.
    freed: Condvar,
    pub(crate) withdrawn: Mutex<Vec<FrameId>>,
    /// Dirty pages by the oldest change that storage lacks, with its era. WAR's buffer slots come
    /// after the frames' numbers.
    pub(crate) flush_list: Mutex<BTreeMap<(Lsn, FrameId), u64>>,
    pub(crate) counters: Counters,
    pub(crate) last_error: Mutex<Option<PoolError>>,
    /// A thread wants the flusher to begin a round.
    wanted: Mutex<bool>,
    wake: Condvar,
}

impl Instance {
    pub(crate) fn new(first: FrameId, count: u32, frames: &Arc<Frames>, order: Order) -> Self {
        Self {
            first,
            count,
            active: AtomicU32::new(count),
            lru: Lru::new(Arc::clone(frames), order),
            free: Mutex::new((first..first + count).rev().collect()),
            freed: Condvar::new(),
            withdrawn: Mutex::default(),
            flush_list: Mutex::default(),
            counters: Counters::default(),
            last_error: Mutex::default(),
            wanted: Mutex::new(false),
            wake: Condvar::new(),
        }
    }

    /// Gives an empty, closed frame to the free list.
    pub(crate) fn push_free(&self, frame: FrameId) {
        let mut free = self.free.lock();
        // Under the mutex: a thread that shrinks the pool takes the list afterwards.
        if frame - self.first >= self.active.load(Ordering::Acquire) {
            drop(free);
            self.withdrawn.lock().push(frame);
            return;
        }
        free.push(frame);
        drop(free);
        self.freed.notify_one();
    }

    pub(crate) fn quarter(&self) -> u32 {
        self.active.load(Ordering::Relaxed) / 4
    }

    /// Asks the flusher for a round at once.
    pub(crate) fn wake_flusher(&self) {
        *self.wanted.lock() = true;
        self.wake.notify_all();
    }

    /// Sleeps until a round is due or wanted.
    pub(crate) fn await_round(&self, interval: Duration) {
        let mut wanted = self.wanted.lock();
        if !*wanted {
            self.wake.wait_for(&mut wanted, interval);
        }
        *wanted = false;
    }

    pub(crate) fn wait_for_frame(&self) {
        let mut free = self.free.lock();
        if free.is_empty() {
            self.freed.wait_for(&mut free, RETRY);
        }
    }
}
