//! What is dirty as far as a scheduler has heard: bytes, or the device time that they will take.
//!
//! Data becomes clean without a report if its file was unlinked, if its process ended, or if the
//! kernel's flusher wrote it. The flusher writes data that has been dirty for 30 s. So data counts
//! as dirty for one to two [`PERIOD`]s, unless a report comes before.

use crate::Nanos;

/// See the module.
pub const PERIOD: Nanos = Nanos::from_millis(30_000);

/// All zero bytes: nothing is dirty.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(super) struct Dirty {
    /// Dirtied in the period before this one.
    older: u64,
    /// In this period.
    newer: u64,
    /// When this period began.
    began: Nanos,
}

crate::layout!(Dirty { older, newer, began });

impl Dirty {
    /// How much there is now.
    pub(super) fn at(&mut self, now: Nanos) -> u64 {
        let passed = now.since(self.began).0 / PERIOD.0;
        if passed > 0 {
            self.older = if passed == 1 { self.newer } else { 0 };
            (self.newer, self.began) = (0, now);
        }
        self.older.saturating_add(self.newer)
    }

    pub(super) fn add(&mut self, now: Nanos, amount: u64) {
        self.at(now);
        self.newer = self.newer.saturating_add(amount);
    }

    /// So much is clean: of the older part first.
    pub(super) fn remove(&mut self, amount: u64) {
        let older = self.older.min(amount);
        self.older -= older;
        self.newer = self.newer.saturating_sub(amount - older);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nobody_reports_clean_is_forgotten_after_two_periods() {
        let mut dirty = Dirty::default();
        let mut now = PERIOD + PERIOD;
        dirty.add(now, 100);
        now += PERIOD;
        dirty.add(now, 10);
        assert_eq!(dirty.at(now), 110);
        dirty.remove(95);
        assert_eq!(dirty.at(now), 15);
        now += PERIOD;
        assert_eq!(dirty.at(now), 10);
        dirty.remove(u64::MAX);
        dirty.add(now, 7);
        assert_eq!(dirty.at(now + PERIOD + PERIOD), 0);
    }
}
