//! What calls did to pages: which are dirty, which were written, and what that costs.

use super::layout::{Guarded, IoRegion};
use super::tally::{self, Piece};
use super::tasks::returned;
use super::waits;
use crate::clock;
use crate::text::Text;
use core::sync::atomic::Ordering::Relaxed;
use headworks_policy::Nanos;
use headworks_policy::split::{
    Account, Call, CallKind, CauseSet, Cleaned, DeviceCost, Dirtied, Freed, PAGE_BYTES, Task,
};

impl IoRegion {
    /// A write of `bytes` at `offset` has returned. Says whether pages were clean before.
    pub fn wrote(&self, account: Account, file: u16, offset: u64, bytes: u64) -> bool {
        self.counts_write(account, bytes);
        self.dirtied_unseen(account, file, offset, bytes)
    }

    /// A range holds dirty pages, but the call that wrote them was not seen. Says whether pages
    /// were clean before.
    pub fn dirtied_unseen(&self, account: Account, file: u16, offset: u64, bytes: u64) -> bool {
        self.locked(|guarded| self.dirty(guarded, account, file, offset, bytes)).unwrap_or(false)
    }

    pub(super) fn counts_write(&self, account: Account, bytes: u64) {
        if let Some(slot) = self.accounts.get(usize::from(account)) {
            slot.writes.fetch_add(1, Relaxed);
            slot.written_bytes.fetch_add(bytes, Relaxed);
        }
    }

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
            // The preliminary model knows where the last write ended: there is nothing to revise.
            let cleaned = Cleaned { causes, file, bytes, charged: cost, cost };
            guarded.split.scheduler().buffer_clean(now, &cleaned);
        });
    }

    pub(super) fn dirty(
        &self,
        guarded: &mut Guarded,
        account: Account,
        file: u16,
        offset: u64,
        bytes: u64,
    ) -> bool {
        let device = DeviceCost::for_device(self.control.rotational());
        let end = offset.saturating_add(bytes);
        let marked = guarded.tally.mark(clock::now(), usize::from(file), offset, end, account);
        let Some(state) = guarded.tally.state_mut(usize::from(file)) else { return false };
        let new_bytes = marked.new_pages * PAGE_BYTES;
        // A page that was written in part goes on where it ended.
        let cost = match new_bytes {
            0 => Nanos(0),
            new => device.access(state.last_end, offset, new.min(bytes.max(PAGE_BYTES))),
        };
        state.last_end = end;
        state.charged += cost;
        let dirtied =
            Dirtied { account, previous: marked.previous, file: file.into(), new_bytes, cost };
        guarded.split.scheduler().buffer_dirty(clock::now(), &dirtied);
        new_bytes > 0
    }

    /// The next dirty piece of a file from `offset` on.
    pub fn take_piece(&self, file: u16, offset: u64) -> Piece {
        self.locked(|guarded| guarded.tally.take_piece(usize::from(file), offset, 1 << 12))
            .unwrap_or(Piece::End)
    }

    /// The program itself has begun to write a range of a file back.
    pub fn wrote_back(&self, file: u16, from: u64, to: u64) {
        self.locked(|guarded| {
            let taken = guarded.tally.unmark(usize::from(file), from, to);
            if taken.pages > 0 {
                let now = clock::now();
                self.clean(guarded, now, file.into(), &taken);
                self.dispatch(guarded, now);
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
            self.dispatch(guarded, now);
        });
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

    pub(super) fn clean(
        &self,
        guarded: &mut Guarded,
        now: Nanos,
        file: u32,
        taken: &tally::Unmarked,
    ) {
        let device = DeviceCost::for_device(self.control.rotational());
        let bytes = taken.pages * PAGE_BYTES;
        // The tally cuts a long run at each end of a chunk; the device does not.
        let runs = taken.pieces.saturating_sub(bytes / tally::CHUNK_BYTES).max(1);
        let cleaned = Cleaned {
            causes: taken.causes,
            file,
            bytes,
            charged: taken.charged,
            cost: device.runs(runs, bytes),
        };
        guarded.split.scheduler().buffer_clean(now, &cleaned);
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

    /// A read went to the device without having asked.
    pub fn read_unasked(&self, account: Account, bytes: u64, took: Nanos) {
        let criticality = self.criticality(account);
        let call = Call { account, bytes, criticality, ..Call::default() };
        let now = clock::now();
        if let Some(slot) = self.accounts.get(usize::from(account)) {
            slot.reads.fetch_add(1, Relaxed);
            slot.read_bytes.fetch_add(bytes, Relaxed);
        }
        let began = Nanos(now.0.saturating_sub(took.0));
        if took >= waits::SHORTEST
            && let Some(wait) =
                self.client_wait(account, waits::cause_of(CallKind::Read), began, took)
        {
            self.waits.note(wait, || Text::EMPTY);
        }
        self.locked(|guarded| {
            returned(guarded, now, Task::MAX, CallKind::Read, &call, took);
        });
    }
}
