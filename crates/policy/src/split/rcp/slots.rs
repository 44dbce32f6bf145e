//! Slots: how many reads of the background run at a time.
//!
//! # Terms
//! * *slot*: room for one read of the background.
//! * *quiet*: no critical I/O was seen for a while. The caller says so.
//!
//! # The primitive
//! At least one read starts every [`READ_EVERY`], beyond the slots if need be. While it is quiet,
//! the slots double every [`READ_EVERY`]. The next critical I/O sets them back.

use super::super::bits::Bits;
use super::super::waiting::{Waiter, Waiting};
use super::super::{Account, Call, Entry, TASKS, Task};
use crate::Nanos;

/// A background read starts so often at least (RCP, section 4.3).
pub const READ_EVERY: Nanos = Nanos::from_millis(10);

/// Most reads of the background at a time.
pub(super) const SLOTS_MAX: u32 = 64;

/// See the module.
#[derive(Clone, Debug)]
#[repr(C)]
pub(super) struct Slots {
    waiting: Waiting,
    running: Bits<{ TASKS / 64 }>,
    /// Slots while it is not quiet.
    least: u32,
    count: u32,
    /// When a read last started.
    started: Nanos,
    /// When the slots last grew.
    grown: Nanos,
}

crate::layout!(Slots { waiting, running, least, count, started, grown });

impl Slots {
    pub(super) fn new(least: u32) -> Self {
        Slots {
            waiting: Waiting::default(),
            running: Bits::default(),
            least,
            count: least,
            started: Nanos(0),
            grown: Nanos(0),
        }
    }

    /// Sets up a state of all zero bytes, or changes how many slots there are.
    pub(super) fn begin(&mut self, least: u32) {
        self.least = least.clamp(1, SLOTS_MAX);
        self.count = self.least;
    }

    /// Critical I/O was seen.
    pub(super) fn fall_back(&mut self) {
        self.count = self.least;
    }

    /// Whether a read may start at this time.
    pub(super) fn has_room(&mut self, now: Nanos, quiet: bool) -> bool {
        if quiet && now.since(self.grown) >= READ_EVERY {
            self.count = self.count.saturating_mul(2).clamp(1, SLOTS_MAX);
            self.grown = now;
        }
        // One more than there are slots at the most: where the device needs longer than
        // `READ_EVERY`, reads would start faster than they end.
        let running = self.running.len() as u32;
        running < self.count || running == self.count && now.since(self.started) >= READ_EVERY
    }

    fn start(&mut self, now: Nanos, task: Task) {
        self.running.set(task, true);
        self.started = now;
    }

    /// A read comes. It starts, or waits until it is the [next](Slots::next) one.
    pub(super) fn enter(&mut self, now: Nanos, task: Task, call: &Call, quiet: bool) -> Entry {
        if self.waiting.is_empty() && self.has_room(now, quiet) {
            self.start(now, task);
            return Entry::Go;
        }
        self.waiting.insert(task, Waiter { call: *call, arrived: now, mark: 0 });
        Entry::Wait
    }

    /// The next read to start, if there is room: of the account with the least `rank`, else the
    /// first that came.
    pub(super) fn next(
        &mut self,
        now: Nanos,
        quiet: bool,
        rank: impl Fn(Account) -> u64,
    ) -> Option<(Task, Account)> {
        if self.waiting.is_empty() || !self.has_room(now, quiet) {
            return None;
        }
        let place = |(_, read): &(Task, &Waiter)| (rank(read.call.account), read.arrived);
        let (task, read) = self.waiting.iter().min_by_key(place)?;
        let account = read.call.account;
        self.waiting.remove(task);
        self.start(now, task);
        Some((task, account))
    }

    /// When to ask for the next one again. If more reads run than there are slots, the first to end
    /// asks.
    pub(super) fn ask_again(&self, now: Nanos) -> Nanos {
        match self.started + READ_EVERY {
            _ if self.waiting.is_empty() => Nanos(u64::MAX),
            next if next > now => next,
            _ => now + READ_EVERY,
        }
    }

    /// A task has ended. Says whether it was a read that had started here.
    pub(super) fn end(&mut self, task: Task) -> bool {
        self.running.set(task, false)
    }

    /// The read waits no more. Says whether it did.
    pub(super) fn remove(&mut self, task: Task) -> bool {
        self.waiting.remove(task).is_some()
    }

    /// When the task came, if it waits here.
    pub(super) fn arrived(&self, task: Task) -> Option<Nanos> {
        self.waiting.get(task).map(|read| read.arrived)
    }

    /// Accounts of the reads that wait.
    pub(super) fn accounts(&self) -> impl Iterator<Item = Account> {
        self.waiting.iter().map(|(_, read)| read.call.account)
    }

    /// Reads that wait.
    pub(super) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Reads that may run at a time.
    #[cfg(test)]
    pub(super) fn count(&self) -> u32 {
        self.count
    }
}
