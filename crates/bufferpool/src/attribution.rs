//! The cause of a thread's work: the tag of its page reads, and of the writes of pages that it
//! dirties.
//!
//! A cause is an opaque number that the pool passes to its storage ([`crate::storage::IoTag`]); 0
//! means none. A thread sets it for a piece of its work ([`with`]). Otherwise the pool asks its
//! [`CauseSource`], for engines that keep track of users themselves.
//!
//! A write is caused by the user that changed the page, not by the thread that writes it back (the
//! split-level framework, Yang et al., SOSP 2015). The pool notes who changed a dirty page and how
//! often, and tags its write with the cause of most changes.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

/// Knows the cause of the calling thread's current work.
///
/// It is called at every miss and at every change of a page, so it should be fast; it must not use
/// the pool. Closures that return a number are sources.
pub trait CauseSource: Send + Sync {
    /// The calling thread's cause; 0 means none.
    fn current(&self) -> u32;
}

impl<F: Fn() -> u32 + Send + Sync> CauseSource for F {
    fn current(&self) -> u32 {
        self()
    }
}

thread_local! {
    static CAUSE: Cell<u32> = const { Cell::new(0) };
}

/// The cause that the calling thread has set; 0 means none.
#[must_use]
pub fn current() -> u32 {
    CAUSE.get()
}

/// The calling thread's cause: the one it has set, else that of `source`.
#[must_use]
pub fn of(source: Option<&dyn CauseSource>) -> u32 {
    match (current(), source) {
        (0, Some(source)) => source.current(),
        (own, _) => own,
    }
}

/// Runs `work` for `cause` (a user's number, for example the gate's slot), then restores the old
/// one.
pub fn with<T>(cause: u32, work: impl FnOnce() -> T) -> T {
    struct Restore(u32);
    impl Drop for Restore {
        fn drop(&mut self) {
            CAUSE.set(self.0);
        }
    }
    let _restore = Restore(CAUSE.replace(cause));
    work()
}

/// Causes that are distinguished on one page.
const KEPT: usize = 4;

/// The causes of changes to a dirty page since its last copy went to storage, with counts.
///
/// Changes are counted by Metwally's *space saving*: with at most [`KEPT`] causes the counts are
/// exact; with more, a cause of more than a [`KEPT`]th of the changes is among those kept.
///
/// One thread at a time calls [`Dirtiers::add`] and [`Dirtiers::reset`]: the holder of the page's
/// exclusive latch. So its loads and stores need no read-modify-write.
#[derive(Default)]
pub(crate) struct Dirtiers {
    /// Cause in the upper half, changes in the lower. Filled from the front; 0 is free.
    entries: [AtomicU64; KEPT],
    /// A copy of the page with all these changes is on its way to storage.
    copied: AtomicBool,
}

impl Dirtiers {
    /// Forgets all causes: the page was clean.
    pub(crate) fn reset(&self) {
        self.copied.store(false, Relaxed);
        for entry in &self.entries {
            entry.store(0, Relaxed);
        }
    }

    /// Counts a change for `cause`. The first one after a copy restarts the counts.
    pub(crate) fn add(&self, cause: u32) {
        if self.copied.load(Relaxed) {
            self.reset();
        }
        if cause == 0 {
            return;
        }
        let mut least = (0, u64::MAX);
        for (at, entry) in self.entries.iter().enumerate() {
            let word = entry.load(Relaxed);
            // The upper half.
            if word == 0 || (word >> 32) as u32 == cause {
                let changes = (word & u64::from(u32::MAX)).saturating_add(1);
                entry.store(pack(cause, changes), Relaxed);
                return;
            }
            if word & u64::from(u32::MAX) < least.1 {
                least = (at, word & u64::from(u32::MAX));
            }
        }
        self.entries[least.0].store(pack(cause, least.1 + 1), Relaxed);
    }

    /// The copy that is now made under a latch contains every change so far.
    pub(crate) fn note_copy(&self) {
        self.copied.store(true, Relaxed);
    }

    /// The copy did not reach storage: its changes still count, if none came after it.
    pub(crate) fn note_failure(&self) {
        self.copied.store(false, Relaxed);
    }

    /// The cause that a write of the page is charged to: the one with the most changes, and of
    /// equals the first. 0 if none is known.
    pub(crate) fn most(&self) -> u32 {
        let mut most = (0, 0);
        for entry in &self.entries {
            let word = entry.load(Relaxed);
            if word & u64::from(u32::MAX) > most.1 {
                // The upper half.
                most = ((word >> 32) as u32, word & u64::from(u32::MAX));
            }
        }
        most.0
    }
}

fn pack(cause: u32, changes: u64) -> u64 {
    u64::from(cause) << 32 | changes.min(u64::from(u32::MAX))
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_says_whom_it_works_for_is_believed_before_the_source() {
        let source: &dyn CauseSource = &|| 5;
        assert_eq!((of(None), of(Some(source))), (0, 5));
        with(9, || {
            assert_eq!((of(None), of(Some(source))), (9, 9));
            std::thread::scope(|scope| scope.spawn(|| assert_eq!(current(), 0)).join().unwrap());
        });
        assert_eq!(current(), 0);
    }

    #[test]
    fn a_write_is_charged_to_whoever_changed_the_page_most_and_first() {
        let dirtiers = Dirtiers::default();
        assert_eq!(dirtiers.most(), 0);
        dirtiers.add(7);
        dirtiers.add(8);
        assert_eq!(dirtiers.most(), 7, "first of equals");
        dirtiers.add(8);
        assert_eq!(dirtiers.most(), 8, "two of three");
        dirtiers.add(0);
        dirtiers.add(0);
        dirtiers.add(0);
        assert_eq!(dirtiers.most(), 8, "cause 0 is not charged");
        dirtiers.reset();
        assert_eq!(dirtiers.most(), 0);
    }

    /// A change after a copy restarts the counts; after a failed copy it does not.
    #[test]
    fn a_copy_carries_its_changes_away_if_it_gets_there() {
        let dirtiers = Dirtiers::default();
        (0..3).for_each(|_| dirtiers.add(7));
        dirtiers.note_copy();
        assert_eq!(dirtiers.most(), 7, "until the page is changed again");
        dirtiers.add(8);
        assert_eq!(dirtiers.most(), 8);
        dirtiers.note_copy();
        dirtiers.note_failure();
        dirtiers.add(9);
        dirtiers.add(9);
        dirtiers.add(8);
        assert_eq!(dirtiers.most(), 8, "two each, 8 was first");
    }

    /// 100 changes, 40 of them for 1, the others for 60 different causes: 1 is still known.
    #[test]
    fn one_of_many_who_made_most_changes_is_kept() {
        let dirtiers = Dirtiers::default();
        for at in 0..20 {
            dirtiers.add(1);
            (0..3).for_each(|more| dirtiers.add(100 + at * 3 + more));
            dirtiers.add(1);
        }
        assert_eq!(dirtiers.most(), 1);
    }
}
