//! Write after read: a dirty victim is copied aside and its frame used at once.
//!
//! Each instance has a *temporary write buffer*. A separate writer writes its whole contents as one
//! batch as soon as there are any. The room is free again when the whole batch is written, so a
//! reader that finds the buffer full waits for that (LRU-C paper, section 5.2.3). A requested page
//! in the buffer is copied back, unless it is being written.

use super::scan::{scan_round, scan_victim};
use super::{Strategy, stall};
use crate::config::PoolConfig;
use crate::core::{Core, Instance};
use crate::error::{PoolError, StorageError};
use crate::frames::{DIRTY, Since, WRITING};
use crate::ids::{FrameId, Lsn, PageId};
use crate::lru::{Area, Visit};
use crate::memory::AlignedBuffer;
use crate::stats::bump;
use crate::storage::{IoKind, IoTag, PageWrite};
use parking_lot::{Condvar, Mutex};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

#[derive(Clone, Copy)]
struct Entry {
    slot: usize,
    oldest: Since,
    cause: u32,
    writing: bool,
}

#[derive(Default)]
struct Buffer {
    entries: HashMap<PageId, Entry>,
    free: Vec<usize>,
}

pub(super) struct War {
    depth: usize,
    batch: usize,
    /// Number of the first slot in the flush list.
    first_slot: FrameId,
    slots: Box<[Mutex<AlignedBuffer>]>,
    buffer: Mutex<Buffer>,
    changed: Condvar,
}

impl War {
    pub(super) fn new(config: &PoolConfig, pages: usize, frames: u32) -> Self {
        let slots = (0..pages).map(|_| Mutex::new(AlignedBuffer::new(config.page_size))).collect();
        Self {
            depth: config.scan_depth,
            batch: config.flush_batch,
            first_slot: frames,
            slots,
            buffer: Mutex::new(Buffer { entries: HashMap::new(), free: (0..pages).collect() }),
            changed: Condvar::new(),
        }
    }

    fn key(&self, slot: usize) -> FrameId {
        // Slots are few, and frames below 2^31.
        self.first_slot + slot as u32
    }

    /// A free slot; waits for the writer if needed.
    fn reserve(&self, instance: &Instance) -> Option<usize> {
        let mut buffer = self.buffer.lock();
        if let Some(slot) = buffer.free.pop() {
            return Some(slot);
        }
        let start = Instant::now();
        self.changed.wait_for(&mut buffer, Duration::from_millis(100));
        bump(&instance.counters.buffer_waits);
        // A wait of 584 years would overflow.
        let waited = start.elapsed().as_nanos() as u64;
        instance.counters.buffer_wait_ns.fetch_add(waited, Ordering::Relaxed);
        buffer.free.pop()
    }

    /// Moves the dirty page nearest to the tail into `slot` and takes its frame.
    fn move_aside(&self, core: &Core, instance: &Instance, slot: usize) -> Option<FrameId> {
        let mut found = None;
        instance.lru.sweep(Area::Main, usize::MAX, &mut |frame| {
            if found.is_some() {
                return Visit::Stop;
            }
            let it = core.frames.get(frame);
            if it.flags() & (DIRTY | WRITING) != DIRTY || !it.try_close(0) {
                return Visit::Leave;
            }
            if it.flags() & (DIRTY | WRITING) != DIRTY {
                it.reopen();
                return Visit::Leave;
            }
            found = Some(frame);
            Visit::Remove
        });
        let frame = found?;
        let it = core.frames.get(frame);
        let page = it.page();
        {
            let mut copy = self.slots[slot].lock();
            copy.copy_from_slice(&core.memory.read(frame));
            core.format.stamp(&mut copy, page);
        }
        let oldest = {
            let state = core.frames.flush_state(frame).lock();
            it.clear_flags(DIRTY);
            let mut list = instance.flush_list.lock();
            list.remove(&(state.oldest.lsn, frame));
            list.insert((state.oldest.lsn, self.key(slot)), state.oldest.era);
            state.oldest
        };
        let cause = core.frames.dirtiers(frame).most();
        // It is in the buffer before it leaves the table: a thread that misses it searches here.
        self.buffer.lock().entries.insert(page, Entry { slot, oldest, cause, writing: false });
        self.changed.notify_all();
        core.detach(frame);
        Some(frame)
    }

    fn forget(&self, instance: &Instance, buffer: &mut Buffer, page: PageId) {
        if let Some(entry) = buffer.entries.remove(&page) {
            instance.flush_list.lock().remove(&(entry.oldest.lsn, self.key(entry.slot)));
            buffer.free.push(entry.slot);
        }
    }

    /// Writes the whole buffer as one batch.
    fn write_out(&self, core: &Core, instance: &Instance) -> Result<(), PoolError> {
        let batch: Vec<(PageId, Entry)> = {
            let mut buffer = self.buffer.lock();
            let waiting = buffer.entries.iter_mut().filter(|(_, entry)| !entry.writing);
            waiting
                .map(|(&page, entry)| {
                    entry.writing = true;
                    (page, *entry)
                })
                .collect()
        };
        let written: Vec<AtomicBool> = batch.iter().map(|_| AtomicBool::new(false)).collect();
        let first_error = Mutex::new(None);
        core.in_batches(&batch, &|first, chunk, copies| {
            let flags = &written[first..first + chunk.len()];
            if let Err(error) = self.write_chunk(core, instance, chunk, copies, flags) {
                first_error.lock().get_or_insert(error);
            }
        });
        let mut buffer = self.buffer.lock();
        for ((page, _), written) in batch.into_iter().zip(written) {
            if written.into_inner() {
                self.forget(instance, &mut buffer, page);
            } else if let Some(entry) = buffer.entries.get_mut(&page) {
                entry.writing = false;
            }
        }
        self.changed.notify_all();
        first_error.into_inner().map_or(Ok(()), Err)
    }

    /// Writes pages of the buffer as one batch; `written` tells which reached storage.
    fn write_chunk(
        &self,
        core: &Core,
        instance: &Instance,
        chunk: &[(PageId, Entry)],
        copies: &mut AlignedBuffer,
        written: &[AtomicBool],
    ) -> Result<(), PoolError> {
        let page_size = core.config.page_size;
        let mut newest = Lsn(0);
        for ((_, entry), copy) in chunk.iter().zip(copies.chunks_mut(page_size)) {
            copy.copy_from_slice(&self.slots[entry.slot].lock());
            newest = newest.max(core.format.lsn(copy));
        }
        core.wal.flush_to(newest)?;
        let tag = |cause| IoTag { kind: IoKind::LruFlush, cause };
        let writes: Vec<_> = chunk
            .iter()
            .zip(copies.chunks(page_size))
            .map(|(&(page, entry), bytes)| PageWrite { page, bytes, tag: tag(entry.cause) })
            .collect();
        let mut first_error = None;
        let mut done = |at: usize, result: Result<(), StorageError>| match result {
            Ok(()) => {
                written[at].store(true, Ordering::Relaxed);
                bump(&instance.counters.writes[IoKind::LruFlush.index()]);
                if core.doublewrite.is_some() {
                    bump(&instance.counters.writes[IoKind::Doublewrite.index()]);
                }
            }
            Err(error) => {
                bump(&instance.counters.write_errors);
                first_error.get_or_insert(PoolError::from(error));
            }
        };
        let bytes = &copies[..chunk.len() * page_size];
        let mut synced = Ok(());
        match &core.doublewrite {
            Some(area) => {
                synced = area.write_batch(&*core.storage, bytes, &writes, &mut done);
            }
            None => core.storage.write_batch(&writes, &mut done),
        }
        first_error.map_or(Ok(()), Err)?;
        synced.map_err(PoolError::from)
    }
}

impl Strategy for War {
    fn victim(
        &self,
        core: &Core,
        instance: &Instance,
        attempt: u32,
    ) -> Result<Option<FrameId>, PoolError> {
        if let Some(frame) = scan_victim(core, instance, self.depth, attempt) {
            return Ok(Some(frame));
        }
        if !core.config.background {
            // No thread would empty the buffer.
            return stall(core, instance);
        }
        let Some(slot) = self.reserve(instance) else { return Ok(None) };
        let taken = self.move_aside(core, instance, slot);
        if taken.is_none() {
            self.buffer.lock().free.push(slot);
        }
        Ok(taken)
    }

    fn round(&self, core: &Core, instance: &Instance) -> Result<(), PoolError> {
        scan_round(core, instance, self.batch)
    }

    fn take_back(
        &self,
        core: &Core,
        instance: &Instance,
        page: PageId,
        frame: FrameId,
        bytes: &mut [u8],
    ) -> bool {
        let mut buffer = self.buffer.lock();
        loop {
            let Some(entry) = buffer.entries.get(&page).copied() else { return false };
            if entry.writing {
                self.changed.wait(&mut buffer);
                continue;
            }
            bytes.copy_from_slice(&self.slots[entry.slot].lock());
            core.mark_dirty_for(entry.cause, frame, entry.oldest);
            self.forget(instance, &mut buffer, page);
            self.changed.notify_all();
            return true;
        }
    }

    fn drain(&self, core: &Core, instance: &Instance) -> Result<(), PoolError> {
        let mut buffer = self.buffer.lock();
        while buffer.entries.values().any(|entry| entry.writing) {
            self.changed.wait_for(&mut buffer, Duration::from_millis(10));
        }
        drop(buffer);
        self.write_out(core, instance)
    }

    fn assist(&self, core: &Core, instance: &Instance) -> bool {
        let mut buffer = self.buffer.lock();
        if buffer.entries.is_empty() {
            self.changed.wait_for(&mut buffer, Duration::from_millis(100));
        }
        let empty = buffer.entries.is_empty();
        drop(buffer);
        if !empty && let Err(error) = self.write_out(core, instance) {
            *instance.last_error.lock() = Some(error);
            // A storage that fails at once must not make this thread spin.
            std::thread::sleep(Duration::from_millis(10));
        }
        true
    }
}
