//! LRU-C: a miss takes the page at the LRU-C pointer, and the flusher writes the pages behind it.

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

/// An eager flusher is woken when one in this many frames lies behind the pointer.
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
            // The pointer reached the head: this is the only stall of LRU-C (section 5.2.2).
            None => stall(core, instance),
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
                // It has just been written, and the pointer is about to step back to it.
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

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::config::{PoolConfig, StrategyKind};
    use crate::core::Mode;
    use crate::ids::{Lsn, PageId};
    use crate::storage::MemStorage;
    use crate::wal::NoWal;
    use std::sync::Arc;

    /// A pool whose frames hold the first pages, of which those before page `dirty` are dirty.
    fn filled(strategy: StrategyKind, frames: usize, dirty: u64) -> Core {
        let config = PoolConfig { frames, page_size: 4096, strategy, ..Default::default() };
        let storage = Arc::new(MemStorage::new(4096, 4096));
        let core =
            Core::new(config, storage, Arc::new(NoWal), None, None, Default::default()).unwrap();
        for page in 0..frames as u64 {
            let frame = core.pin(PageId(page), Mode::Fresh).unwrap();
            if page < dirty {
                core.mark_dirty(frame, Lsn(1));
            }
            core.frames.get(frame).unpin();
        }
        core
    }

    /// A checkpoint cleans pages behind the pointer, whether taken over or not: the pointer steps
    /// back to them.
    #[test]
    fn the_pointer_goes_back_to_pages_that_a_checkpoint_cleaned() {
        for (strategy, taken_over) in [
            (StrategyKind::LRU_C_BASIC, false),
            (StrategyKind::LRU_C, false),
            (StrategyKind::LRU_C, true),
        ] {
            let core = filled(strategy, 64, 64);
            let instance = &core.instances[0];
            // The pointer passes all of them, and the miss stalls.
            let stalled = core.pin(PageId(64), Mode::Fresh).unwrap();
            assert_eq!(instance.lru.lengths(), (1, 63), "{strategy:?}");
            if taken_over {
                instance.lru.take_over();
            }
            core.flush_era(instance, &*core.strategies[0], u64::MAX, 64).unwrap();
            assert_eq!(instance.lru.lengths(), (64, 0), "{strategy:?}");
            instance.lru.checked();
            let victim = core.strategies[0].victim(&core, instance, 0).unwrap();
            assert!(victim.is_some_and(|frame| frame != stalled), "{strategy:?}");
            assert_eq!(instance.lru.lengths(), (63, 0), "{strategy:?}");
        }
    }

    /// Once all pages are written, by any call, a working set that fits into the frames stays in
    /// them.
    #[test]
    fn a_working_set_stays_after_a_flush_of_everything() {
        for strategy in [StrategyKind::LRU_C_BASIC, StrategyKind::LRU_C] {
            for by_age in [false, true] {
                let core = filled(strategy, 1000, 1000);
                let instance = &core.instances[0];
                let look = |page: u64| {
                    let frame = core.pin(PageId(page), Mode::OrZero).unwrap();
                    core.frames.get(frame).unpin();
                };
                look(1000);
                if by_age {
                    core.flush_older(instance, Lsn::MAX, usize::MAX).unwrap();
                } else {
                    core.flush_era(instance, &*core.strategies[0], u64::MAX, 128).unwrap();
                }
                (2000..2100).for_each(look);
                let misses = || instance.counters.misses.load(Ordering::Relaxed);
                let before = misses();
                for _ in 0..10 {
                    (2000..2100).for_each(look);
                }
                assert_eq!(misses(), before, "{strategy:?}");
                // A hit keeps a page that came back, although few pages were evicted since its last
                // hit.
                look(500);
                (3000..3800).for_each(look);
                let before = misses();
                look(500);
                assert_eq!(misses(), before, "{strategy:?}");
            }
        }
    }

    /// The full method's flusher frees pages behind the pointer under LRU-D, and takes LRU-M once,
    /// for the take-over. Without the second mutex it takes LRU-M for every page.
    #[test]
    fn only_the_full_method_frees_pages_under_lru_d() {
        for (strategy, full) in [
            (StrategyKind::LRU_C_BASIC, false),
            (StrategyKind::LRU_C_DYNAMIC, false),
            (StrategyKind::LRU_C, true),
        ] {
            let core = filled(strategy, 64, 40);
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
