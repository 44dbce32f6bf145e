//! Prefetching: pages are read in batches before they are needed.

use crate::core::Core;
use crate::error::{PoolError, StorageError};
use crate::ids::{FrameId, PageId};
use crate::memory::ExclusiveBytes;
use crate::stats::bump;
use crate::storage::{IoKind, IoTag, PageRead, check_range};
use std::collections::VecDeque;

/// Most pages of a batch. A page is usable once its whole batch has been read, so a thread that
/// needs one waits for all. Enough to keep a device busy, and no more.
const BATCH: usize = 32;
/// A batch takes at most one in this many frames of an instance: the others are for misses.
const SHARE: usize = 8;

/// A page that is being read, under its exclusive latch.
struct Coming<'c> {
    at: usize,
    page: PageId,
    frame: FrameId,
    bytes: ExclusiveBytes<'c>,
}

impl Core {
    /// Reads pages in batches. Pages that are there, or being read, are skipped.
    pub(crate) fn read_ahead(
        &self,
        pages: &mut dyn Iterator<Item = PageId>,
    ) -> Result<(), PoolError> {
        // The caller's code runs while no lock is held: it may use the pool.
        let mut held = Held { core: self, frames: VecDeque::new() };
        let mut missing = pages.filter(|&page| self.table.lock(page).find(page).is_none());
        loop {
            let mut next: VecDeque<_> = missing.by_ref().take(BATCH).collect();
            if next.is_empty() {
                return Ok(());
            }
            for &page in &next {
                check_range(&*self.storage, page, 1)?;
            }
            while !next.is_empty() {
                let coming = self.announce_batch(&mut next, &mut held)?;
                self.read_batch(coming, &mut held)?;
            }
        }
    }

    /// Reads pages that were announced.
    fn read_batch(
        &self,
        mut coming: Vec<Coming<'_>>,
        held: &mut Held<'_>,
    ) -> Result<(), PoolError> {
        let tag = IoTag { kind: IoKind::Prefetch, cause: self.cause() };
        let unsaid = |page| {
            let message = "storage did not say how it ended".into();
            StorageError::Io { operation: "read", page, errno: None, message }
        };
        let mut ends: Vec<_> = coming.iter().map(|it| Err(unsaid(it.page))).collect();
        let mut reads: Vec<_> = coming
            .iter_mut()
            .map(|it| PageRead { page: it.page, bytes: &mut it.bytes, tag })
            .collect();
        self.storage.read_batch(&mut reads, &mut |at, end| ends[at] = end);
        let mut failed = Vec::new();
        for (mut it, end) in coming.into_iter().zip(ends) {
            let end = end.map_err(PoolError::from).and_then(|()| {
                bump(&self.instances[it.at].counters.reads[IoKind::Prefetch.index()]);
                self.check(it.page, it.frame, &mut it.bytes)
            });
            match end {
                Ok(()) => {
                    self.admit(it.at, it.frame);
                    drop(it.bytes);
                    held.keep(it.frame);
                }
                Err(error) => failed.push((it, error)),
            }
        }
        let mut first_error = None;
        for (it, error) in failed {
            self.turn_away(it.at, it.page, it.frame, it.bytes);
            first_error.get_or_insert(error);
        }
        first_error.map_or(Ok(()), Err)
    }

    /// Announces the pages of a batch, and takes them from `pages`.
    ///
    /// A thread that holds latches must not wait for others, which may wait for it. So only the
    /// first page of a batch waits for a frame, and the batch ends where the next finds none.
    fn announce_batch(
        &self,
        pages: &mut VecDeque<PageId>,
        held: &mut Held<'_>,
    ) -> Result<Vec<Coming<'_>>, PoolError> {
        let most = BATCH.min(self.frames_per_instance as usize / SHARE).max(1);
        let mut coming: Vec<Coming<'_>> = Vec::with_capacity(most);
        while coming.len() < most
            && let Some(&page) = pages.front()
        {
            let at = self.index_of_page(page);
            let frame = match coming.is_empty() {
                true => Some(self.first_frame(at, page, held)?),
                false => self.try_allocate(at, 0),
            };
            let Some(frame) = frame else { break };
            pages.pop_front();
            let Some(mut bytes) = self.announce(at, page, frame) else { continue };
            let (strategy, instance) = (&self.strategies[at], &self.instances[at]);
            if strategy.take_back(self, instance, page, frame, &mut bytes) {
                self.admit(at, frame);
                drop(bytes);
                held.keep(frame);
            } else {
                coming.push(Coming { at, page, frame, bytes });
            }
        }
        Ok(coming)
    }

    /// A frame for the first page of a batch. Pages that the call brought in make room for others
    /// only when nothing else does.
    fn first_frame(
        &self,
        at: usize,
        page: PageId,
        held: &mut Held<'_>,
    ) -> Result<FrameId, PoolError> {
        let mut attempt = 0;
        while !held.frames.is_empty() {
            if let Some(frame) = self.try_allocate(at, attempt) {
                return Ok(frame);
            }
            // The flusher may be about to free frames of dirty pages.
            self.instances[at].wake_flusher();
            if attempt > 0 {
                held.let_one_go();
            }
            self.instances[at].wait_for_frame();
            attempt += 1;
        }
        self.allocate(at, page)
    }
}

/// Pages that a call brought in. They stay pinned until it ends: beside dirty frames they would be
/// the only clean ones, and the next page would evict them.
struct Held<'c> {
    core: &'c Core,
    frames: VecDeque<FrameId>,
}

impl Held<'_> {
    /// Keeps a frame that is pinned. Half of the frames are for others.
    fn keep(&mut self, frame: FrameId) {
        self.frames.push_back(frame);
        if self.frames.len() > self.core.frames_per_instance as usize / 2 {
            self.let_one_go();
        }
    }

    fn let_one_go(&mut self) {
        if let Some(frame) = self.frames.pop_front() {
            self.core.frames.get(frame).unpin();
        }
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        while !self.frames.is_empty() {
            self.let_one_go();
        }
    }
}
