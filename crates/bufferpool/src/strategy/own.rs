//! The interface for strategies that an engine brings ([`crate::Builder::strategy`]).
//!
//! Such a strategy sees numbered slots, each with a page or empty, and says which one a miss gets
//! and which ones the flusher writes. What must hold whatever it says is the pool's: a slot is
//! taken only while its page is clean and no thread has it pinned, and no page leaves before
//! storage has it.

use crate::core::{Core, Instance};
use crate::error::PoolError;
use crate::frames::{DIRTY, WRITING};
use crate::ids::{FrameId, PageId};
use crate::stats::bump;
use crate::storage::IoKind;
use std::sync::atomic::Ordering;
use std::time::Instant;

/// Which page is evicted for a missing one, and which dirty pages are written when.
///
/// Each instance of a pool has one. Calls come from any thread, several at a time. A strategy does
/// not ask the pool for pages: the calling thread may have latches.
pub trait Strategy: Send + Sync {
    /// A miss found no empty slot: takes one. The miss's first attempt has number 0.
    ///
    /// Without one the miss wakes the flusher, waits up to 10 ms for an empty slot, and asks again.
    /// After [`crate::PoolConfig::exhausted_after`] it fails.
    ///
    /// # Errors
    /// Those of writes. The miss asks again, and returns the last one when it gives up.
    fn victim<'p>(&self, slots: &Slots<'p>, attempt: u32) -> Result<Option<Taken<'p>>, PoolError>;

    /// A round of the flusher: every [`crate::PoolConfig::flush_interval`], and when it is woken.
    ///
    /// # Errors
    /// The first failed write's; its page stays dirty.
    fn round(&self, slots: &Slots<'_>) -> Result<(), PoolError>;
}

/// Makes the strategy of an instance with so many slots.
pub(crate) type Make = dyn Fn(u32) -> Box<dyn Strategy> + Send + Sync;

/// The slots of an instance, numbered from 0. Other threads use the pool meanwhile, so an answer
/// about a slot may be out of date at once.
#[derive(Clone, Copy)]
pub struct Slots<'p> {
    core: &'p Core,
    instance: &'p Instance,
}

impl<'p> Slots<'p> {
    /// Slots in use: fewer after [`crate::BufferPool::resize`].
    #[must_use]
    pub fn count(&self) -> u32 {
        self.instance.active.load(Ordering::Acquire)
    }

    fn frame(&self, slot: u32) -> Option<FrameId> {
        (slot < self.count()).then(|| self.instance.first + slot)
    }

    /// The page in a slot.
    #[must_use]
    pub fn page(&self, slot: u32) -> Option<PageId> {
        let page = self.core.frames.get(self.frame(slot)?).page();
        (page != PageId::NONE).then_some(page)
    }

    /// Hits on a slot since the pool was made, whatever page it had, modulo 2^32. A strategy that
    /// notes this number for each slot knows which were hit since.
    #[must_use]
    pub fn hits(&self, slot: u32) -> u32 {
        self.frame(slot).map_or(0, |frame| self.core.frames.get(frame).hits())
    }

    /// Whether storage lacks a change of the slot's page.
    #[must_use]
    pub fn is_dirty(&self, slot: u32) -> bool {
        self.frame(slot)
            .is_some_and(|frame| self.core.frames.get(frame).flags() & (DIRTY | WRITING) != 0)
    }

    /// Whether a thread uses the slot's page.
    #[must_use]
    pub fn is_pinned(&self, slot: u32) -> bool {
        self.frame(slot).is_some_and(|frame| self.core.frames.get(frame).is_pinned())
    }

    /// Empty slots that the next misses get.
    #[must_use]
    pub fn empty(&self) -> usize {
        self.instance.free.lock().len()
    }

    /// Takes the page out of a slot. `None` if the slot is empty, or its page is dirty or pinned.
    #[must_use]
    pub fn take(&self, slot: u32) -> Option<Taken<'p>> {
        let frame = self.frame(slot)?;
        self.instance.lru.evict(frame, false).then(|| {
            self.core.detach(frame);
            Taken { slots: *self, frame }
        })
    }

    /// Writes the pages of those slots that are dirty, in batches. They stay in the pool.
    ///
    /// # Errors
    /// The first failed write's, after all others were tried; its page stays dirty.
    pub fn write(&self, slots: &[u32]) -> Result<(), PoolError> {
        let begun: Vec<FrameId> = slots
            .iter()
            .filter_map(|&slot| self.frame(slot))
            .filter(|&frame| self.core.begin_write(frame))
            .collect();
        self.core.write_many(self.instance, &begun, IoKind::LruFlush, &|_| ())
    }

    /// Writes a dirty page while the caller waits, and takes its slot: a read stall, which is
    /// counted. `None` if it is clean, or if another thread uses it.
    ///
    /// # Errors
    /// The write's; the page stays dirty.
    pub fn write_and_take(&self, slot: u32) -> Result<Option<Taken<'p>>, PoolError> {
        let Some(frame) = self.frame(slot) else { return Ok(None) };
        if self.core.frames.get(frame).is_pinned() || !self.core.begin_write(frame) {
            return Ok(None);
        }
        let start = Instant::now();
        let written = self.core.write_one(self.instance, frame, IoKind::StallFlush);
        super::count_stall(self.instance, start);
        Ok(if written? { self.take(slot) } else { None })
    }

    /// Asks for a round of the flusher at once.
    pub fn wake_flusher(&self) {
        self.instance.wake_flusher();
    }
}

/// An empty slot that no other thread can use. Dropped, it goes to the empty ones.
pub struct Taken<'p> {
    slots: Slots<'p>,
    frame: FrameId,
}

impl Taken<'_> {
    /// Its number.
    #[must_use]
    pub fn slot(&self) -> u32 {
        self.frame - self.slots.instance.first
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        bump(&self.slots.instance.counters.freed_by_flusher);
        self.slots.instance.push_free(self.frame);
    }
}

/// An engine's strategy as one of the pool's.
pub(super) struct Own(pub(super) Box<dyn Strategy>);

impl super::Strategy for Own {
    fn victim(
        &self,
        core: &Core,
        instance: &Instance,
        attempt: u32,
    ) -> Result<Option<FrameId>, PoolError> {
        let taken = self.0.victim(&Slots { core, instance }, attempt)?;
        Ok(taken.map(|taken| {
            bump(&instance.counters.clean_victims);
            let frame = taken.frame;
            std::mem::forget(taken);
            frame
        }))
    }

    fn round(&self, core: &Core, instance: &Instance) -> Result<(), PoolError> {
        self.0.round(&Slots { core, instance })
    }
}
