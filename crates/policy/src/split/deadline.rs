//! Split-Deadline: small `fsync`s are over in time although others flush much.
//!
//! # Problem
//! An `fsync` of much dirty data floods the device, and a journal makes every `fsync` depend on it.
//! Deadlines of block requests do not help: the requests that matter come after the flood.
//!
//! # Terms
//! * *piece*, *batch*, *backlog*, *target*: see [`super::pacer`].
//! * *commit*: a small `fsync`, or a small write with `O_DSYNC` or `O_SYNC`.
//! * *long*: of a deadline: a second or more. A file without a rule has one second.
//!
//! # The primitive
//! A big `fsync` is not issued while others commit. Its data is first written back asynchronously,
//! which is no synchronization point and which no other call depends on (Split, section 2.5.2).
//! The [pacer](super::pacer) does that in small batches. Then the real `fsync` runs.
//!
//! * **Commits** go at once.
//! * **Logs.** A file with a deadline below [`WHOLE`] is a log, and so is one in which others
//!   commit. An `fsync` of much in it goes at once, too: what others commit lies behind the same
//!   data, and in a database behind the same lock. So a bulk load, whose log is large, does not
//!   hold the commits beside it.
//! * **Dirty files.** The kernel's flusher visits each file 30 s after it first became dirty, and
//!   writes all that is dirty in it at once. So a file with a long deadline has
//!   [`Settings::pieces_max`] dirty pieces at most while others commit, and for
//!   [`DESERTED`](super::pacer::DESERTED) after. Beyond, its writer first writes some of them back.
//! * **Direct writes** (`O_DIRECT`) go to the device at once. Those to files with a long deadline
//!   wait at the call until a batch has room for them.
//! * **Alone.** An `fsync` that fits into what is in flight at once is not held while no other
//!   account commits. An account ends with its thread.
//!
//! # Invariants
//! Every `fsync` is admitted: when it is small or alone, when nothing of it is left, or at the end
//! of [`OVERDUE_MAX`](super::pacer::OVERDUE_MAX) further periods of its deadline. With much left
//! beside commits, that is [`BESIDE_COMMITS`](super::pacer::BESIDE_COMMITS) later. No commit waits.
//!
//! # Worked example
//! A appends a page and calls `fsync`, which takes 10 ms alone; B's `fsync` has 1,000 pieces of 2
//! ms. A's first one finds 32 pieces in flight and takes 74 ms. Then nothing is ordered during four
//! of them, so that 10 ms become known. The batch grows from 1 by a quarter of a piece with each
//! `fsync`, until it is 10 and A takes 30 ms, within its target of 30 ms.

use super::pacer::{Pacer, Settings, deadline_of};
use super::{Account, Call, Entry, Scheduler, Step, Task};
use crate::Nanos;

/// Writes are held to files whose deadline is this long or longer: the file of a log is not.
const LONG: Nanos = Nanos::from_millis(1_000);

/// An `fsync` that is due sooner is not written in parts: there is time for one or two batches.
const WHOLE: Nanos = Nanos::from_millis(50);

/// See the module.
#[derive(Clone, Debug)]
#[repr(C)]
pub struct Deadline {
    pacer: Pacer,
}

crate::layout!(Deadline { pacer });

impl Default for Deadline {
    fn default() -> Self {
        Deadline::new(Settings::for_device(true))
    }
}

impl Deadline {
    /// No task waits.
    pub fn new(settings: Settings) -> Self {
        Deadline { pacer: Pacer::new(settings) }
    }

    /// Sets up a state of all zero bytes.
    pub(super) fn begin(&mut self, settings: Settings) {
        self.pacer.begin(settings);
    }

    fn is_commit(&self, now: Nanos, call: &Call) -> bool {
        self.pacer.is_small(call) || deadline_of(call) < WHOLE || self.pacer.is_of_a_log(now, call)
    }

    /// Whether others commit while this call's file, which has a long deadline, is written.
    fn hurts(&self, now: Nanos, call: &Call) -> bool {
        deadline_of(call) >= LONG && self.pacer.others_commit(now, call.account)
    }
}

impl Scheduler for Deadline {
    fn name(&self) -> &'static str {
        "split-deadline"
    }

    fn forget_account(&mut self, account: Account) {
        self.pacer.forget_account(account);
    }

    fn forget_ended(&mut self, now: Nanos, lives: &dyn Fn(Account) -> bool) -> bool {
        self.pacer.forget_ended(now, lives)
    }

    fn write_entry(&mut self, now: Nanos, task: Task, call: &Call) -> Entry {
        if call.is_direct() && self.hurts(now, call) {
            return self.pacer.write_directly(now, task, call);
        }
        if call.pieces < self.pacer.settings().pieces_max || !self.hurts(now, call) {
            return Entry::Go;
        }
        let pieces = call.pieces.min(self.pacer.few());
        self.pacer.wait_for_writeback(now, task, &Call { pieces, ..*call });
        Entry::Wait
    }

    fn write_return(&mut self, now: Nanos, task: Task, _: &Call) {
        self.pacer.end_direct(now, task);
    }

    fn commit_entry(&mut self, now: Nanos, task: Task, call: &Call) -> Entry {
        self.fsync_entry(now, task, call)
    }

    fn commit_return(&mut self, now: Nanos, task: Task, call: &Call, took: Nanos) {
        self.fsync_return(now, task, call, took);
    }

    fn range_entry(&mut self, now: Nanos, task: Task, call: &Call) -> Entry {
        if self.pacer.is_small(call) || !self.hurts(now, call) {
            return Entry::Go;
        }
        self.pacer.wait_for_writeback(now, task, call);
        Entry::Wait
    }

    fn woke_late(&mut self, by: Nanos) {
        self.pacer.woke_late(by);
    }

    fn commits_unseen(&mut self, now: Nanos, call: &Call) -> bool {
        let is_commit = self.is_commit(now, call);
        if is_commit {
            self.pacer.commits_unseen(now, call);
        }
        is_commit
    }

    fn fsync_entry(&mut self, now: Nanos, task: Task, call: &Call) -> Entry {
        if self.is_commit(now, call) {
            self.pacer.begin_commit(now, call.account, Some(call.file));
            return Entry::Go;
        }
        if self.pacer.goes_as_a_whole(now, call) {
            return Entry::Go;
        }
        self.pacer.wait_for_writeback(now, task, call);
        Entry::Wait
    }

    fn fsync_return(&mut self, now: Nanos, _: Task, call: &Call, took: Nanos) {
        if self.pacer.end_commit(now, call.account, Some(took), deadline_of(call)) {
            self.pacer.flushed(now);
        }
    }

    fn dispatch(&mut self, now: Nanos) -> Step {
        self.pacer.dispatch_by(now, |_| 0)
    }

    fn waits_in_turn(&self, task: Task) -> bool {
        self.pacer.holds(task)
    }

    fn written_back(&mut self, now: Nanos, task: Task, pieces: u32, left: u32) {
        self.pacer.written_back(now, task, pieces, left);
    }

    fn cancel(&mut self, now: Nanos, task: Task) {
        self.pacer.cancel(now, task);
    }

    fn waiting(&self) -> usize {
        self.pacer.waiting()
    }
}

#[cfg(test)]
mod by_the_clock;
#[cfg(test)]
mod tests;
