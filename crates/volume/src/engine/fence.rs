//! Keeps late requests of a client that is gone away from the store.
//!
//! # Problem
//! A connection breaks while its writes are queued. The client connects again, repeats a write,
//! gets its answer, and writes the block a second time. If the first connection's write still
//! waited somewhere, it would then put the old bytes back.
//!
//! # The primitive
//! Each connection has a [`Fence`], which its requests pass on their way to the store. Once it is
//! closed none begins, and [`Fence::close`] has waited for those that had begun.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

const CLOSED: u64 = 1 << 63;

/// See the module.
#[derive(Debug, Default)]
pub struct Fence {
    /// Requests inside, and whether it is closed.
    state: AtomicU64,
    waits: Mutex<()>,
    left: Condvar,
}

/// A request of the connection is at the store.
pub struct Inside<'a>(&'a Fence);

impl Fence {
    /// A request goes to the store, until what this returns is dropped. None if it must not.
    pub fn enter(&self) -> Option<Inside<'_>> {
        let inside = Inside(self);
        // Dropped again if the fence was closed.
        (self.state.fetch_add(1, Ordering::AcqRel) & CLOSED == 0).then_some(inside)
    }

    /// Whether no request passes any more.
    pub fn is_closed(&self) -> bool {
        self.state.load(Ordering::Acquire) & CLOSED != 0
    }

    /// From now on no request passes. Waits until none is at the store; says whether that came in
    /// time.
    pub fn close(&self, patience: Duration) -> bool {
        self.state.fetch_or(CLOSED, Ordering::AcqRel);
        let until = Instant::now() + patience;
        let mut waits = self.waits.lock().unwrap_or_else(PoisonError::into_inner);
        while self.state.load(Ordering::Acquire) != CLOSED {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            let waited = self.left.wait_timeout(waits, left);
            waits = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }
}

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        if self.0.state.fetch_sub(1, Ordering::AcqRel) == CLOSED + 1 {
            drop(self.0.waits.lock().unwrap_or_else(PoisonError::into_inner));
            self.0.left.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn nothing_begins_behind_a_closed_fence_and_closing_waits_for_what_had_begun() {
        let fence = Arc::new(Fence::default());
        let inside = fence.enter();
        assert!(inside.is_some() && !fence.is_closed());
        assert!(!fence.close(Duration::from_millis(5)), "one is inside");
        assert!(fence.enter().is_none());
        let closing = {
            let fence = Arc::clone(&fence);
            std::thread::spawn(move || fence.close(Duration::from_secs(60)))
        };
        drop(inside);
        assert!(closing.join().unwrap());
        assert!(fence.enter().is_none() && fence.close(Duration::ZERO));
    }
}
