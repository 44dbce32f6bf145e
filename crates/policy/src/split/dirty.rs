//! Bytes that are dirty as far as a scheduler has heard.
//!
//! Not all that becomes clean is reported: a file is unlinked, a process ends, the kernel's flusher
//! writes by itself. It visits each file 30 s after it became dirty. So bytes count for one to two
//! [`PERIOD`]s, unless they are reported clean before.

use crate::Nanos;

/// See the module.
pub const PERIOD: Nanos = Nanos::from_millis(30_000);

/// All zero bytes: nothing is dirty.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(super) struct DirtyBytes {
    /// Dirtied in the period before this one.
    older: u64,
    /// In this period.
    newer: u64,
    /// When this period began.
    began: Nanos,
}

crate::layout!(DirtyBytes { older, newer, began });

impl DirtyBytes {
    /// How many there are now.
    pub(super) fn at(&mut self, now: Nanos) -> u64 {
        let passed = now.since(self.began).0 / PERIOD.0;
        if passed > 0 {
            self.older = if passed == 1 { self.newer } else { 0 };
            (self.newer, self.began) = (0, now);
        }
        self.older.saturating_add(self.newer)
    }

    pub(super) fn add(&mut self, now: Nanos, bytes: u64) {
        self.at(now);
        self.newer = self.newer.saturating_add(bytes);
    }

    /// So many are clean: the older ones first.
    pub(super) fn remove(&mut self, bytes: u64) {
        let older = self.older.min(bytes);
        self.older -= older;
        self.newer = self.newer.saturating_sub(bytes - older);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nobody_reports_clean_is_forgotten_after_two_periods() {
        let mut dirty = DirtyBytes::default();
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
