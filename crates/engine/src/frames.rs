//! Frames of the pool that operations may pin at the same time.
//!
//! An operation that has pinned a page holds its frame while it waits for the next one. If all
//! frames are held like that, none comes free. So an operation first reserves as many frames as it
//! may pin at once, and pins none meanwhile. Operations that have reserved get on, because the
//! reservations are never more than the frames.
//!
//! An operation that pins one page at a time needs no reservation.

use crate::error::EngineError;
use headworks_bufferpool::{BufferPool, PageId, PoolError};
use parking_lot::{Condvar, Mutex};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

/// A descent holds a page while it reads the one below. An append holds the root and one other.
pub(crate) const DESCENT: usize = 2;

/// A put into a tree whose root is at `level`: all pages from the root down, one more for each, and
/// one for a new root. The root may rise by two levels before the put is made.
pub(crate) fn of_put(level: u64) -> usize {
    // Levels are few: a node has many children.
    2 * (level as usize + 2) + 3
}

/// Counts reservations. Those that find too few frames wait in the order in which they came.
#[derive(Default)]
pub(crate) struct Frames {
    reserved: AtomicUsize,
    waiting: AtomicUsize,
    /// Held by the one that is served next.
    turn: Mutex<()>,
    released: (Mutex<()>, Condvar),
}

/// Reserved frames; dropping it gives them back.
pub(crate) struct ReservedFrames<'f> {
    frames: &'f Frames,
    count: usize,
}

impl Frames {
    /// Reserves frames for an operation on the tree or heap file with this root. One that needs
    /// more frames than there are gets all of them.
    ///
    /// # Errors
    /// [`PoolError::Exhausted`] after the pool's limit for that.
    pub(crate) fn reserve(
        &self,
        pool: &BufferPool,
        count: usize,
        root: PageId,
    ) -> Result<ReservedFrames<'_>, EngineError> {
        let count = count.min(pool.frames_together());
        let at_once = self.waiting.load(Ordering::SeqCst) == 0 && self.try_reserve(pool, count);
        if at_once || self.wait(pool, count) {
            return Ok(ReservedFrames { frames: self, count });
        }
        Err(EngineError::Pool(PoolError::Exhausted {
            page: root,
            // Settings are far below 584 million years.
            waited_ms: pool.config().exhausted_after.as_millis() as u64,
            pinned: self.reserved.load(Ordering::Relaxed),
            frames: pool.frames_together(),
        }))
    }

    fn try_reserve(&self, pool: &BufferPool, count: usize) -> bool {
        // The pool may have shrunk below what is reserved.
        let fits =
            |reserved: usize| Some(reserved + count).filter(|&sum| sum <= pool.frames_together());
        self.reserved.fetch_update(Ordering::SeqCst, Ordering::Relaxed, fits).is_ok()
    }

    fn wait(&self, pool: &BufferPool, count: usize) -> bool {
        self.waiting.fetch_add(1, Ordering::SeqCst);
        let served = self.wait_until(pool, count, Instant::now() + pool.config().exhausted_after);
        self.waiting.fetch_sub(1, Ordering::SeqCst);
        served
    }

    fn wait_until(&self, pool: &BufferPool, count: usize, deadline: Instant) -> bool {
        let Some(_turn) = self.turn.try_lock_until(deadline) else { return false };
        let (lock, released) = &self.released;
        let mut guard = lock.lock();
        while !self.try_reserve(pool, count) {
            if released.wait_until(&mut guard, deadline).timed_out() {
                return self.try_reserve(pool, count);
            }
        }
        true
    }
}

impl Drop for ReservedFrames<'_> {
    fn drop(&mut self) {
        self.frames.reserved.fetch_sub(self.count, Ordering::SeqCst);
        if self.frames.waiting.load(Ordering::SeqCst) > 0 {
            let (lock, released) = &self.frames.released;
            drop(lock.lock());
            released.notify_all();
        }
    }
}
