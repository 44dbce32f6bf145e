//! LRU-C: a miss takes the page at the LRU-C pointer, the flusher writes what is behind it.

use super::{Strategy, set_free, stall, take_victim};
use crate::core::{Core, Instance};
use crate::error::PoolError;
use crate::ids::FrameId;
use crate::lru::{Area, Claim, Nodes, Visit};
use crate::storage::IoKind;
use std::sync::atomic::{AtomicBool, Ordering};

pub(super) struct LruC {
    /// Pages of a round: all behind the pointer with dynamic batch writes.
    pub(super) batch: usize,
    /// LRU-D guards the pages behind the pointer.
    pub(super) dirty_mutex: bool,
    /// Wake the flusher early, and wait for it rather than stall.
    pub(super) eager: bool,
    /// The flusher is writing pages and will free their frames.
    pub(super) flushing: AtomicBool,
}

/// An eager flusher is woken when one of so many frames lies behind the pointer.
const EAGER_SHARE: u32 = 8;

impl Strategy for LruC {
    fn victim(
        &self,
        core: &Core,
        instance: &Instance,
        _attempt: u32,
    ) -> Result<Option<FrameId>, PoolError> {
        let found = instance.lru.select_clean();
        if self.eager
            && instance.lru.passed() > instance.active.load(Ordering::Relaxed) / EAGER_SHARE
        {
            instance.wake_flusher();
        }
        match found {
            Some(frame) => Ok(Some(take_victim(core, instance, frame))),
            None if self.eager && self.flushing.load(Ordering::Acquire) => Ok(None),
            // The pointer reached the head: only here LRU-C stalls (section 5.2.2).
            None => Ok(match stall(core, instance)? {
                Some(frame) => Some(frame),
                None => clean_behind(core, instance),
            }),
        }
    }

    fn round(&self, core: &Core, instance: &Instance) -> Result<(), PoolError> {
        let area = if self.dirty_mutex {
            instance.lru.take_over();
            Area::Dirty
        } else {
            Area::Passed
        };
        let (mut clean, mut dirty) = (Vec::new(), Vec::new());
        instance.lru.sweep(area, self.batch, &mut |frame| {
            if core.begin_write(frame) {
                dirty.push(frame);
            } else if core.frames.claim(frame) == Claim::Claimed {
                // A checkpoint or a failed claim of an earlier round left it clean.
                clean.push(frame);
                return Visit::Remove;
            }
            Visit::Leave
        });
        for frame in clean {
            set_free(core, instance, frame);
        }
        self.flushing.store(!dirty.is_empty(), Ordering::Release);
        let written = core.write_many(instance, &dirty, IoKind::LruFlush, &|frame| {
            if instance.lru.evict(frame, true) {
                set_free(core, instance, frame);
            }
        });
        self.flushing.store(false, Ordering::Release);
        written
    }
}

/// A page behind the pointer that a checkpoint left clean. The flusher would free it in its next round.
fn clean_behind(core: &Core, instance: &Instance) -> Option<FrameId> {
    let mut found = None;
    for area in [Area::Dirty, Area::Passed] {
        instance.lru.sweep(area, usize::MAX, &mut |frame| match found {
            Some(_) => Visit::Stop,
            None if core.frames.claim(frame) == Claim::Claimed => {
                found = Some(frame);
                Visit::Remove
            }
            None => Visit::Leave,
        });
    }
    found.map(|frame| take_victim(core, instance, frame))
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::config::{PoolConfig, StrategyKind};
    use crate::core::Mode;
    use crate::ids::{Lsn, PageId};
    use crate::storage::MemStorage;
    use crate::wal::NoWal;
    use std::sync::Arc;

    /// A checkpoint cleans pages behind the pointer: without a flusher they are the only ones that can be taken.
    #[test]
    fn pages_that_a_checkpoint_cleaned_behind_the_pointer_can_be_taken() {
        for strategy in [StrategyKind::LRU_C_BASIC, StrategyKind::LRU_C] {
            let config = PoolConfig { frames: 64, page_size: 4096, strategy, ..Default::default() };
            let storage = Arc::new(MemStorage::new(4096, 100));
            let core = Core::new(config, storage, Arc::new(NoWal), None, None).unwrap();
            for page in 0..64 {
                let frame = core.pin(PageId(page), Mode::Fresh).unwrap();
                core.mark_dirty(frame, Lsn(1));
                core.frames.get(frame).unpin();
            }
            let instance = &core.instances[0];
            // The pointer passes all of them, and the miss stalls.
            let taken = core.pin(PageId(64), Mode::Fresh).unwrap();
            assert_eq!(instance.lru.lengths(), (1, 63), "{strategy:?}");
            core.flush_era(instance, &*core.strategies[0], u64::MAX, 64).unwrap();
            let victim = core.strategies[0].victim(&core, instance, 0).unwrap();
            assert!(victim.is_some_and(|frame| frame != taken), "{strategy:?}");
            assert_eq!(instance.lru.lengths(), (1, 62), "{strategy:?}");
        }
    }

    /// The flusher of the full method frees what is behind the pointer under LRU-D, and takes LRU-M once, to
    /// take it over; without the second mutex it takes LRU-M for every page.
    #[test]
    fn only_the_full_method_frees_pages_under_lru_d() {
        for (strategy, full) in [
            (StrategyKind::LRU_C_BASIC, false),
            (StrategyKind::LRU_C_DYNAMIC, false),
            (StrategyKind::LRU_C, true),
        ] {
            let config = PoolConfig { frames: 64, page_size: 4096, strategy, ..Default::default() };
            let storage = Arc::new(MemStorage::new(4096, 100));
            let core = Core::new(config, storage, Arc::new(NoWal), None, None).unwrap();
            for page in 0..64 {
                let frame = core.pin(PageId(page), Mode::Fresh).unwrap();
                if page < 40 {
                    core.mark_dirty(frame, Lsn(1));
                }
                core.frames.get(frame).unpin();
            }
            let instance = &core.instances[0];
            assert!(core.strategies[0].victim(&core, instance, 0).unwrap().is_some());
            assert_eq!(instance.lru.lengths(), (23, 40));
            let counts = || {
                [&instance.lru.waits_m, &instance.lru.waits_d]
                    .map(|waits| waits.acquired.load(Ordering::Relaxed))
            };
            let before = counts();
            core.strategies[0].round(&core, instance).unwrap();
            let [of_m, of_d] = [0, 1].map(|at| counts()[at] - before[at]);
            assert_eq!(instance.lru.lengths(), (23, 0), "{strategy:?}");
            assert!(
                if full { of_m == 1 && of_d > 40 } else { of_m > 40 && of_d == 0 },
                "{of_m}, {of_d}"
            );
        }
    }
}
