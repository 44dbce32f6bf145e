//! Pages that leave the tally by other ways than an `fsync`, and writes that never are in it.

use super::{CallKind, FREE, IoRegion, RUNNING, STATE, Ticket, returned, tally};
use crate::clock;
use core::sync::atomic::Ordering::{Relaxed, Release};
use headworks_policy::Nanos;
use headworks_policy::split::{Account, CauseSet, DeviceCost, Dirtied, Freed, PAGE_BYTES};

impl IoRegion {
    /// A write of `bytes` at `offset` past the page cache has returned, or was submitted.
    pub fn wrote_through(&self, account: Account, file: u16, offset: u64, bytes: u64) {
        let device = DeviceCost::for_device(self.control.rotational());
        self.counts_write(account, bytes);
        self.locked(|guarded| {
            let Some(state) = guarded.tally.state_mut(usize::from(file)) else { return };
            let cost = device.access(state.last_end, offset, bytes);
            state.last_end = offset.saturating_add(bytes);
            let causes = CauseSet::of(account);
            let (now, file) = (clock::now(), u32::from(file));
            let previous = CauseSet::default();
            let dirtied = Dirtied { account, previous, file, new_bytes: bytes, cost };
            guarded.split.scheduler().buffer_dirty(now, &dirtied);
            let taken = tally::Unmarked {
                pages: bytes.div_ceil(PAGE_BYTES),
                pieces: 1,
                causes,
                charged: cost,
            };
            self.clean(guarded, now, file, &taken);
        });
    }

    pub(super) fn counts_write(&self, account: Account, bytes: u64) {
        if let Some(slot) = self.accounts.get(usize::from(account)) {
            slot.writes.fetch_add(1, Relaxed);
            slot.written_bytes.fetch_add(bytes, Relaxed);
        }
    }

    /// The program has begun to write a range of a file back by itself.
    pub fn wrote_back(&self, file: u16, from: u64, to: u64) {
        self.locked(|guarded| {
            let taken = guarded.tally.unmark(usize::from(file), from, to);
            if taken.pages > 0 {
                let now = clock::now();
                self.clean(guarded, now, file.into(), &taken);
                self.pump(guarded, now);
            }
        });
    }

    /// A range of a file was cut off or punched out: its dirty pages are not written any more.
    pub fn freed(&self, file: u16, from: u64, to: u64) {
        self.locked(|guarded| {
            let taken = if from == 0 && to == u64::MAX {
                guarded.tally.flush(usize::from(file))
            } else {
                guarded.tally.unmark(usize::from(file), from, to)
            };
            if taken.pages == 0 {
                return;
            }
            let freed = Freed {
                causes: taken.causes,
                file: file.into(),
                bytes: taken.pages * PAGE_BYTES,
                cost: taken.charged,
            };
            let now = clock::now();
            guarded.split.scheduler().buffer_free(now, &freed);
            self.pump(guarded, now);
        });
    }

    /// A part of a batch may be submitted. Its turn ends, as nobody will tell of its end.
    pub fn release(&self, ticket: Ticket) {
        let now = clock::now();
        let device = DeviceCost::for_device(self.control.rotational());
        let took = match ticket.kind {
            CallKind::Fsync => device.runs(ticket.call.pieces.into(), ticket.call.bytes),
            _ => Nanos(0),
        };
        let running =
            ticket.slot(self).is_some_and(|slot| slot.word.load(Relaxed) & STATE == RUNNING);
        self.locked(|guarded| {
            if let Some(task) = ticket.task.filter(|_| running) {
                returned(guarded, now, task, ticket.kind, &ticket.call, took);
            }
            self.pump(guarded, now);
        });
        if let Some(slot) = ticket.slot(self) {
            slot.word.store(FREE, Release);
        }
    }

    /// A read of a batch was submitted.
    pub fn read_submitted(&self, account: Account, file: u16, offset: u64, bytes: u64) {
        let device = DeviceCost::for_device(self.control.rotational());
        let cost = self.locked(|guarded| {
            let state = guarded.tally.state_mut(usize::from(file))?;
            let cost = device.access(state.last_end, offset, bytes);
            state.last_end = offset.saturating_add(bytes);
            Some(cost)
        });
        self.read_unasked(account, bytes, cost.flatten().unwrap_or_default());
    }

    /// An `fsync` of a batch was submitted.
    pub fn flushed(&self, account: Account, file: u16) {
        if let Some(slot) = self.accounts.get(usize::from(account)) {
            slot.fsyncs.fetch_add(1, Relaxed);
        }
        self.locked(|guarded| {
            let taken = guarded.tally.flush(usize::from(file));
            if taken.pages > 0 {
                self.clean(guarded, clock::now(), file.into(), &taken);
            }
        });
    }
}
