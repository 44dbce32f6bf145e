//! Vanilla and CF-LRU: search the tail for a clean page.

use super::{Strategy, set_free, stall, take_victim};
use crate::core::{Core, Instance};
use crate::error::PoolError;
use crate::ids::FrameId;
use crate::lru::{Area, Claim, Nodes, Visit};
use crate::storage::IoKind;
use std::sync::atomic::Ordering;

pub(super) struct Scan {
    /// Pages that a miss scans from the tail.
    pub(super) depth: usize,
    /// Pages that a round scans from the tail, and free frames that it aims at.
    pub(super) batch: usize,
}

/// A clean page from the last `depth`. After a first attempt without success it scans the whole
/// list, as InnoDB does: clean pages may lie before pinned ones.
pub(super) fn scan_victim(
    core: &Core,
    instance: &Instance,
    depth: usize,
    attempt: u32,
) -> Option<FrameId> {
    let depth = if attempt == 0 { depth } else { usize::MAX };
    let (found, looked) = instance.lru.scan_clean(depth);
    // A count of pages.
    instance.counters.scanned.fetch_add(looked as u64, Ordering::Relaxed);
    found.map(|frame| take_victim(core, instance, frame))
}

/// InnoDB's LRU batch: clean pages of the tail go to the free list, dirty ones are written first.
pub(super) fn scan_round(core: &Core, instance: &Instance, batch: usize) -> Result<(), PoolError> {
    let mut left = batch.saturating_sub(instance.free.lock().len());
    let (mut clean, mut dirty) = (Vec::new(), Vec::new());
    instance.lru.sweep(Area::Main, batch, &mut |frame| {
        if left == 0 {
            return Visit::Stop;
        }
        if core.begin_write(frame) {
            left -= 1;
            dirty.push(frame);
            return Visit::Leave;
        }
        if core.frames.claim(frame) == Claim::Claimed {
            left -= 1;
            clean.push(frame);
            return Visit::Remove;
        }
        Visit::Leave
    });
    for frame in clean {
        set_free(core, instance, frame);
    }
    core.write_many(instance, &dirty, IoKind::LruFlush, &|frame| {
        if instance.lru.evict(frame, false) {
            set_free(core, instance, frame);
        }
    })
}

impl Strategy for Scan {
    fn victim(
        &self,
        core: &Core,
        instance: &Instance,
        attempt: u32,
    ) -> Result<Option<FrameId>, PoolError> {
        match scan_victim(core, instance, self.depth, attempt) {
            Some(frame) => Ok(Some(frame)),
            None => stall(core, instance),
        }
    }

    fn round(&self, core: &Core, instance: &Instance) -> Result<(), PoolError> {
        scan_round(core, instance, self.batch)
    }
}
