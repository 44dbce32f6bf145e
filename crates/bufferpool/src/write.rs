//! Pages on their way out.
//!
//! A write begins with [`Core::begin_write`] (a pin and the mark `WRITING`), copies the page under
//! its shared latch, and ends with [`Core::end_write`]. The latch is not held during the I/O: a
//! change after the copy leaves the page dirty from that change on.

use crate::core::{Core, Instance};
use crate::error::{PoolError, StorageError};
use crate::frames::{DIRTY, WRITING};
use crate::ids::{FrameId, Lsn, PageId};
use crate::memory::AlignedBuffer;
use crate::stats::bump;
use crate::storage::{IoKind, IoTag, PageWrite};
use crate::strategy::Strategy;
use parking_lot::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::Builder;
use std::time::Duration;

/// Time between two checks of pages that others are changing or writing. A check walks the flush
/// list under its mutex.
const BUSY: Duration = Duration::from_millis(1);

impl Core {
    /// Begins the write of a dirty page. False if it is clean, being written, or being evicted.
    pub(crate) fn begin_write(&self, frame: FrameId) -> bool {
        let it = self.frames.get(frame);
        if it.flags() & (DIRTY | WRITING) != DIRTY || !it.try_pin_quietly() {
            return false;
        }
        let _state = self.frames.flush_state(frame).lock();
        if it.flags() & (DIRTY | WRITING) != DIRTY {
            it.unpin();
            return false;
        }
        it.set_flags(WRITING);
        true
    }

    /// Ends a write: the page is clean, or dirty from the first change after the copy on.
    pub(crate) fn end_write(&self, frame: FrameId, written: bool) {
        let it = self.frames.get(frame);
        {
            let mut state = self.frames.flush_state(frame).lock();
            if written {
                let mut list = self.instance_of_frame(frame).flush_list.lock();
                list.remove(&(state.oldest.lsn, frame));
                if let Some(since) = state.redirtied {
                    state.oldest = since;
                    list.insert((since.lsn, frame), since.era);
                } else {
                    it.clear_flags(DIRTY);
                }
            } else {
                self.frames.dirtiers(frame).note_failure();
            }
            state.redirtied = None;
            it.clear_flags(WRITING);
        }
        it.unpin();
    }

    /// Copies a page whose write has begun. `None`: a thread is changing it.
    fn copy_out(&self, frame: FrameId, into: &mut [u8]) -> Option<(PageId, Lsn, u32)> {
        let bytes = self.memory.try_read(frame)?;
        into.copy_from_slice(&bytes);
        // No thread changes the page while its latch is held: the copy has every change so far.
        self.frames.flush_state(frame).lock().redirtied = None;
        let dirtiers = self.frames.dirtiers(frame);
        let cause = dirtiers.most();
        dirtiers.note_copy();
        drop(bytes);
        let page = self.frames.get(frame).page();
        self.format.stamp(into, page);
        Some((page, self.format.lsn(into), cause))
    }

    /// Writes one page whose write has begun. `Ok(false)`: a thread was changing it.
    pub(crate) fn write_one(
        &self,
        instance: &Instance,
        frame: FrameId,
        kind: IoKind,
    ) -> Result<bool, PoolError> {
        let mut copy = AlignedBuffer::new(self.config.page_size);
        let Some((page, lsn, cause)) = self.copy_out(frame, &mut copy) else {
            self.end_write(frame, false);
            return Ok(false);
        };
        let write = PageWrite { page, bytes: &copy, tag: IoTag { kind, cause } };
        let result = self.wal.flush_to(lsn).map_err(PoolError::from).and_then(|()| {
            match &self.doublewrite {
                Some(area) => area.write_single(&*self.storage, write)?,
                None => {
                    self.storage.write(page, &copy, write.tag)?;
                    if kind == IoKind::StallFlush && self.config.sync_stall_flush {
                        self.syncs.of_page(&*self.storage)?;
                    }
                }
            }
            Ok(())
        });
        self.count_write(instance, kind, result.is_ok());
        self.end_write(frame, result.is_ok());
        result.map(|()| true)
    }

    fn count_write(&self, instance: &Instance, kind: IoKind, written: bool) {
        if written {
            bump(&instance.counters.writes[kind.index()]);
            if self.doublewrite.is_some() {
                bump(&instance.counters.writes[IoKind::Doublewrite.index()]);
            }
        } else {
            bump(&instance.counters.write_errors);
        }
    }

    /// Processes `items` in batches that suit storage and doublewrite area: as many at a time as
    /// the area has room for, or one without an area. `work` gets the index of a batch's first
    /// item.
    pub(crate) fn in_batches<T: Sync>(
        &self,
        items: &[T],
        work: &(dyn Fn(usize, &[T], &mut AlignedBuffer) + Sync),
    ) {
        if items.is_empty() {
            return;
        }
        let (mut size, mut at_once) = (self.config.io_batch.min(items.len()), 1);
        if let Some(area) = &self.doublewrite {
            size = size.min(area.batch_pages());
            at_once = area.batches();
        }
        let next = AtomicUsize::new(0);
        let run = || {
            let mut copies = AlignedBuffer::new(size * self.config.page_size);
            while let first = next.fetch_add(size, Ordering::Relaxed)
                && first < items.len()
            {
                let end = (first + size).min(items.len());
                work(first, &items[first..end], &mut copies);
            }
        };
        std::thread::scope(|scope| {
            for _ in 1..at_once.min(items.len().div_ceil(size)) {
                // If no more threads can be started, the existing ones do the work.
                if Builder::new().spawn_scoped(scope, run).is_err() {
                    break;
                }
            }
            run();
        });
    }

    /// Writes pages whose writes have begun, in batches. `after` is called for each that is clean.
    ///
    /// All writes have ended on return. The first error is returned; the pages concerned stay
    /// dirty.
    pub(crate) fn write_many(
        &self,
        instance: &Instance,
        frames: &[FrameId],
        kind: IoKind,
        after: &(dyn Fn(FrameId) + Sync),
    ) -> Result<(), PoolError> {
        let first_error = Mutex::new(None);
        self.in_batches(frames, &|_, batch, copies| {
            if let Err(error) = self.write_batch(instance, batch, kind, copies, after) {
                first_error.lock().get_or_insert(error);
            }
        });
        first_error.into_inner().map_or(Ok(()), Err)
    }

    fn write_batch(
        &self,
        instance: &Instance,
        batch: &[FrameId],
        kind: IoKind,
        copies: &mut AlignedBuffer,
        after: &(dyn Fn(FrameId) + Sync),
    ) -> Result<(), PoolError> {
        let page_size = self.config.page_size;
        let mut order = Vec::with_capacity(batch.len());
        let mut newest = Lsn(0);
        for &frame in batch {
            let at = order.len() * page_size;
            match self.copy_out(frame, &mut copies[at..at + page_size]) {
                Some((page, lsn, cause)) => {
                    newest = newest.max(lsn);
                    order.push((frame, page, cause));
                }
                None => self.end_write(frame, false),
            }
        }
        if let Err(error) = self.wal.flush_to(newest) {
            for (frame, ..) in order {
                self.count_write(instance, kind, false);
                self.end_write(frame, false);
            }
            return Err(PoolError::from(error));
        }
        let writes: Vec<_> = order
            .iter()
            .zip(copies.chunks(page_size))
            .map(|(&(_, page, cause), bytes)| PageWrite { page, bytes, tag: IoTag { kind, cause } })
            .collect();
        let mut first_error = None;
        let mut left = vec![true; order.len()];
        let mut done = |at: usize, result: Result<(), StorageError>| {
            let frame = order[at].0;
            left[at] = false;
            self.count_write(instance, kind, result.is_ok());
            self.end_write(frame, result.is_ok());
            match result {
                Ok(()) => after(frame),
                Err(error) => drop(first_error.get_or_insert(PoolError::from(error))),
            }
        };
        let mut synced = Ok(());
        match &self.doublewrite {
            Some(area) => {
                let bytes = &copies[..order.len() * page_size];
                synced = area.write_batch(&*self.storage, bytes, &writes, &mut done);
            }
            None => self.storage.write_batch(&writes, &mut done),
        }
        // A storage that does not report the end of a write must not block its page for ever.
        for ((frame, ..), _) in order.iter().zip(left).filter(|(_, left)| *left) {
            self.end_write(*frame, false);
        }
        first_error.map_or(Ok(()), Err)?;
        synced.map_err(PoolError::from)
    }

    /// Writes the pages with changes before `limit`, oldest first, at most `max` of them. Pages
    /// that are being changed are skipped.
    pub(crate) fn flush_older(
        &self,
        instance: &Instance,
        limit: Lsn,
        max: usize,
    ) -> Result<(), PoolError> {
        let oldest: Vec<FrameId> = {
            let list = instance.flush_list.lock();
            list.range(..(limit, 0)).take(max).map(|(key, _)| key.1).collect()
        };
        // WAR's buffer empties itself; its slots have numbers above the frames'.
        let end = instance.first + instance.count;
        let begun: Vec<FrameId> =
            oldest.into_iter().filter(|&frame| frame < end && self.begin_write(frame)).collect();
        self.write_in_place(instance, &begun)
    }

    /// Writes pages that stay in their frames.
    fn write_in_place(&self, instance: &Instance, begun: &[FrameId]) -> Result<(), PoolError> {
        let kind = IoKind::CheckpointFlush;
        self.write_many(instance, begun, kind, &|frame| instance.lru.cleaned(frame))
    }

    /// Writes every page of the instance that was changed up to `era` and not written since,
    /// `batch` at a time. A page that is changed again meanwhile does not prolong the call. Pages
    /// that cannot be written do not block others; the first error is returned.
    pub(crate) fn flush_era(
        &self,
        instance: &Instance,
        strategy: &dyn Strategy,
        era: u64,
        batch: usize,
    ) -> Result<(), PoolError> {
        let end = instance.first + instance.count;
        let due = || -> Vec<FrameId> {
            let list = instance.flush_list.lock();
            list.iter().filter(|&(_, &since)| since <= era).map(|(key, _)| key.1).collect()
        };
        let mut left = due();
        while !left.is_empty() {
            let mut result = strategy.drain(self, instance);
            for some in left.chunks(batch) {
                let frames = some.iter().copied().filter(|&frame| frame < end);
                let begun: Vec<FrameId> = frames.filter(|&frame| self.begin_write(frame)).collect();
                result = result.and(self.write_in_place(instance, &begun));
            }
            result?;
            left = due();
            if !left.is_empty() {
                // The remaining pages are being changed or written.
                std::thread::sleep(BUSY);
            }
        }
        Ok(())
    }
}
