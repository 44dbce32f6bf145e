//! Pages that leave the tally by other ways than an `fsync`, and writes that never are in it.

use super::{IoRegion, tally};
use crate::clock;
use core::sync::atomic::Ordering::Relaxed;
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
}
