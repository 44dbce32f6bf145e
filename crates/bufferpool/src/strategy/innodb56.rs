//! How InnoDB 5.6 gets a frame. The LRU-C paper's prototype is a modified InnoDB 5.6.
//!
//! Section 2.2 of the paper describes only what [`super::scan`] implements. InnoDB's source, in the
//! comment of `buf_LRU_get_free_block`, has more:
//! - A frame that a miss has freed goes to the free list, where other threads may take it.
//! - With doublewrite, a miss may find the free list empty while the flusher writes a batch from
//!   the LRU list. It then waits for the batch's end before anything else.
//! - From the third attempt on, it sleeps first.

use super::scan::{scan_round, scan_victim};
use super::{Strategy, stall};
use crate::config::PoolConfig;
use crate::core::{Core, Instance};
use crate::error::PoolError;
use crate::ids::FrameId;
use crate::stats::bump;
use parking_lot::{Condvar, Mutex};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// From the third attempt on (`os_thread_sleep`).
const SLEEP: Duration = Duration::from_millis(100);

pub(super) struct InnoDb56 {
    depth: usize,
    batch: usize,
    /// The flusher is writing a batch.
    flushing: Mutex<bool>,
    ended: Condvar,
}

impl InnoDb56 {
    pub(super) fn new(config: &PoolConfig) -> Self {
        Self {
            depth: config.scan_depth,
            batch: config.flush_batch,
            flushing: Mutex::new(false),
            ended: Condvar::new(),
        }
    }

    /// Waits for the end of the flusher's batch; false if there is none.
    fn await_batch(&self, instance: &Instance) -> bool {
        let mut flushing = self.flushing.lock();
        if !*flushing {
            return false;
        }
        let start = Instant::now();
        self.ended.wait(&mut flushing);
        bump(&instance.counters.buffer_waits);
        // A wait of 584 years would overflow.
        let waited = start.elapsed().as_nanos() as u64;
        instance.counters.buffer_wait_ns.fetch_add(waited, Ordering::Relaxed);
        true
    }
}

impl Strategy for InnoDb56 {
    fn victim(
        &self,
        core: &Core,
        instance: &Instance,
        attempt: u32,
    ) -> Result<Option<FrameId>, PoolError> {
        if attempt > 1 {
            std::thread::sleep(SLEEP);
        }
        if attempt == 0 && core.doublewrite.is_some() && self.await_batch(instance) {
            let free = instance.free.lock().pop();
            if free.is_some() {
                bump(&instance.counters.from_free_list);
                return Ok(free);
            }
        }
        if let Some(frame) = scan_victim(core, instance, self.depth, attempt) {
            return Ok(Some(frame));
        }
        if let Some(frame) = stall(core, instance)? {
            instance.push_free(frame);
        }
        Ok(None)
    }

    fn round(&self, core: &Core, instance: &Instance) -> Result<(), PoolError> {
        *self.flushing.lock() = true;
        let written = scan_round(core, instance, self.batch);
        *self.flushing.lock() = false;
        self.ended.notify_all();
        written
    }
}
