//! The interface of strategies: Vanilla, CF-LRU, WAR and the versions of LRU-C.
//!
//! A strategy decides two things: which frame a miss gets when the free list is empty, and which
//! pages a round of the flusher writes and frees. All share frames, table, latches, writes and
//! lists.

mod innodb56;
mod lruc;
pub(crate) mod own;
mod scan;
mod war;

use crate::config::{PoolConfig, StrategyKind};
use crate::core::{Core, Instance};
use crate::error::PoolError;
use crate::ids::{FrameId, PageId};
use crate::stats::bump;
use crate::storage::IoKind;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

/// Replacement and flushing of one instance.
pub(crate) trait Strategy: Send + Sync {
    /// Tries to take a frame. The miss's first attempt has number 0. The frame is closed, and its
    /// page has left the table.
    fn victim(
        &self,
        core: &Core,
        instance: &Instance,
        attempt: u32,
    ) -> Result<Option<FrameId>, PoolError>;

    /// One round of the flusher.
    fn round(&self, core: &Core, instance: &Instance) -> Result<(), PoolError>;

    /// Before a page is read or created: returns the copy that the strategy still holds, if any.
    ///
    /// True if the page was copied to `bytes`; `frame` is then marked dirty. No write of it is in
    /// progress after this returns.
    fn take_back(
        &self,
        _core: &Core,
        _instance: &Instance,
        _page: PageId,
        _frame: FrameId,
        _bytes: &mut [u8],
    ) -> bool {
        false
    }

    /// Writes pages that the strategy holds outside the frames.
    fn drain(&self, _core: &Core, _instance: &Instance) -> Result<(), PoolError> {
        Ok(())
    }

    /// The work of a second thread, if the strategy has one: returns after some of it.
    fn assist(&self, _core: &Core, _instance: &Instance) -> bool {
        false
    }
}

/// The strategy of an instance of `each` frames, in a pool of `frames`.
pub(crate) fn new(
    config: &PoolConfig,
    frames: u32,
    each: u32,
    own: Option<&own::Make>,
) -> Box<dyn Strategy> {
    if let Some(make) = own {
        return Box::new(own::Own(make(each)));
    }
    match config.strategy {
        StrategyKind::Vanilla => {
            Box::new(scan::Scan { depth: config.scan_depth, batch: config.flush_batch })
        }
        StrategyKind::InnoDb56 => Box::new(innodb56::InnoDb56::new(config)),
        StrategyKind::CfLru { window } => Box::new(scan::Scan { depth: window, batch: window }),
        StrategyKind::War { buffer_pages } => Box::new(war::War::new(config, buffer_pages, frames)),
        StrategyKind::LruC { dynamic_batch, dirty_mutex, eager } => Box::new(lruc::LruC {
            batch: if dynamic_batch { usize::MAX } else { config.flush_batch },
            dirty_mutex,
            eager,
            flushing: AtomicBool::new(false),
        }),
    }
}

/// A read stall: writes the least recently used dirty page while the reader waits, and takes its
/// frame.
fn stall(core: &Core, instance: &Instance) -> Result<Option<FrameId>, PoolError> {
    let found = instance.lru.find_oldest(usize::MAX, &mut |frame| {
        !core.frames.get(frame).is_pinned() && core.begin_write(frame)
    });
    let Some(frame) = found else { return Ok(None) };
    let start = Instant::now();
    let written = core.write_one(instance, frame, IoKind::StallFlush);
    count_stall(instance, start);
    match written {
        Ok(_) => Ok(instance.lru.evict(frame, false).then(|| {
            core.detach(frame);
            frame
        })),
        Err(error) => {
            // The next stall tries another page.
            instance.lru.touch(frame);
            Err(error)
        }
    }
}

/// A reader waited for a write since `start`.
fn count_stall(instance: &Instance, start: Instant) {
    bump(&instance.counters.read_stalls);
    // A wait of 584 years would overflow.
    let waited = start.elapsed().as_nanos() as u64;
    instance.counters.read_stall_ns.fetch_add(waited, Ordering::Relaxed);
}

/// Empties a frame that was claimed from the list, and counts it as a miss's victim.
fn take_victim(core: &Core, instance: &Instance, frame: FrameId) -> FrameId {
    bump(&instance.counters.clean_victims);
    core.detach(frame);
    frame
}

/// Empties a frame that was claimed from the list, for the free list.
fn set_free(core: &Core, instance: &Instance, frame: FrameId) {
    bump(&instance.counters.freed_by_flusher);
    core.detach(frame);
    instance.push_free(frame);
}
