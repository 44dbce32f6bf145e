//! AFQ: device time in proportion to priority, for reads and for writes.
//!
//! # Problem
//! A fair block scheduler sees the flusher instead of those who wrote, and cannot hold back a write
//! that a journal has entangled. So it is unfair for buffered writes and for `fsync`.
//!
//! # Terms
//! * *pass*: device time that an account used, divided by its weight ([`crate::stride`]).
//! * *stream*: reads of a descriptor that follow each other, so that the kernel reads ahead.
//! * *piece*: see [`super::pacer`].
//!
//! # The primitive
//! The waiting task of the account with the least pass goes next. Reads wait at the block level, so
//! that cache hits never do. Writes and calls that cause them wait at the system call. Writes at
//! the block level go at once.
//!
//! * **Depth.** At most [`Settings::depth`] reads, `fsync`s, direct writes and metadata calls run
//!   at a time.
//! * **Dirty time.** Buffered writes run while less than [`Settings::dirty_max`] of device time is
//!   dirty. Beyond, the writer with the least pass first writes some pieces of its file back, as a
//!   writer does that the kernel throttles.
//! * **Overwriting.** A writer whose last write was over dirty pages goes at once.
//! * **Streams.** Calls of a sequential reader hardly ever wait for the device themselves. Such
//!   calls (`sync` is false) go if the account's pass is at most [`AHEAD`] beyond the least one of
//!   those that are active.
//! * **Charges.** A write is charged when it makes clean pages dirty, by the preliminary model; to
//!   write over dirty pages costs nothing. An `fsync` is charged a seek for its commit.
//! * **Absence.** An account that was away for more than [`Settings::grace`] comes back at the pass
//!   that the others have reached. Shorter pauses lose nothing: a caller that waits for each answer
//!   is always away for a moment.
//!
//! A big `fsync` is not split. Others' commits wait for it as they do without a scheduler.
//!
//! # Invariants
//! While two accounts have tasks waiting, their charges per weight differ by at most one task of
//! each. A task is admitted when there is room, so the device is not idle while a task waits.
//!
//! # Worked example
//! `fsync`s that cost the same; A has level 0 (weight 8), B level 4 (weight 4), depth 1. Both call
//! again at once. A's pass grows by 1/8, B's by 1/4: A, B, A, A, B, A, A, B, …
//!
//! Source: Split, section 2.5.1.

use super::bits::Bits;
use super::dirty::Dirty;
use super::pacer::WRITER_PIECES;
use super::strides::Strides;
use super::waiting::{Waiter, Waiting};
use super::{
    ACCOUNTS, Account, AccountSettings, Call, Cleaned, DeviceCost, Dirtied, Entry, Freed,
    Scheduler, Step, TASKS, Task, USUAL_LEVEL,
};
use crate::Nanos;
use crate::block::{Operation, Request, SECTOR_BYTES};
use crate::stride::{STRIDE, weight};

/// When to ask again while all tasks that wait depend on others, whose returns cause a dispatch
/// anyway.
const LATER: Nanos = Nanos::from_millis(200);

/// Tunables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Settings {
    /// Reads, `fsync`s, direct writes and metadata calls that run at a time. Default 2 for a disk,
    /// 8 for flash.
    pub depth: u32,
    /// Device time of what is dirty, beyond which buffered writes take turns: random pages are few
    /// megabytes and many seconds. Default 500 ms for a disk, 100 ms for flash.
    pub dirty_max: Nanos,
    /// Absence that loses no claim. Default 20 ms.
    pub grace: Nanos,
    /// Costs of the device.
    pub device: DeviceCost,
}

crate::layout!(Settings { depth, dirty_max, grace, device });

impl Settings {
    /// The usual ones for a kind of device.
    pub const fn for_device(rotational: bool) -> Self {
        Settings {
            depth: if rotational { 2 } else { 8 },
            dirty_max: Nanos::from_millis(if rotational { 500 } else { 100 }),
            grace: Nanos::from_millis(20),
            device: DeviceCost::for_device(rotational),
        }
    }
}

/// Device time, at the usual level, by which a stream may be ahead of others: some of the kernel's
/// reads.
pub const AHEAD: Nanos = Nanos::from_millis(20);
const AHEAD_PASS: u64 = AHEAD.0 * STRIDE / weight(USUAL_LEVEL);

/// What a task does, in the lowest bits of a waiter's mark.
const STREAM: u64 = 0;
const WRITE: u64 = 1;
const OTHER: u64 = 2;
/// A write whose thread writes pieces back: the number of those that are left is above.
const THROTTLED: u64 = 3;
const KIND: u64 = 3;
const PIECE: u64 = 4;

/// See the module.
#[derive(Clone, Debug)]
#[repr(C)]
pub struct Afq {
    settings: Settings,
    waiting: Waiting,
    strides: Strides,
    seen: [Nanos; ACCOUNTS],
    /// The pass of the account that was admitted last.
    reached: u64,
    /// Device time of what is dirty.
    dirty: Dirty,
    /// Accounts whose last write was over dirty pages.
    over: Bits<{ ACCOUNTS / 64 }>,
    /// Tasks that run and are no buffered writes.
    running: u32,
    /// Writers that write pieces back.
    throttled: u32,
    /// Accounts that read a stream at the moment.
    streams: Bits<{ ACCOUNTS / 64 }>,
}

crate::layout!(Afq {
    settings,
    waiting,
    strides,
    seen,
    reached,
    dirty,
    over,
    running,
    throttled,
    streams
});

impl Default for Afq {
    fn default() -> Self {
        Afq::new(Settings::for_device(true))
    }
}

impl Afq {
    /// No task waits, and all accounts have level 4.
    pub fn new(settings: Settings) -> Self {
        Afq {
            settings,
            waiting: Waiting::default(),
            strides: Strides::default(),
            seen: [Nanos(0); ACCOUNTS],
            reached: 0,
            dirty: Dirty::default(),
            over: Bits::default(),
            running: 0,
            throttled: 0,
            streams: Bits::default(),
        }
    }

    /// Sets up a state of all zero bytes.
    pub(super) fn begin(&mut self, settings: Settings) {
        self.settings = settings;
        self.strides.begin();
    }

    fn charge(&mut self, account: Account, cost: Nanos) {
        self.strides.charge(account, cost);
    }

    fn pass_of(&self, account: Account) -> u64 {
        self.strides.pass_of(account)
    }

    /// The least pass of those that use the device.
    fn least_pass(&self, now: Nanos) -> Option<u64> {
        let is_active = |at: &usize| {
            self.streams.has(*at as Account)
                || now.since(self.seen[*at]) <= self.settings.grace && self.seen[*at] > Nanos(0)
        };
        (0..ACCOUNTS).filter(is_active).map(|at| self.pass_of(at as Account)).min()
    }

    /// How far ahead of the others a stream may be.
    fn pass_ahead(&self, now: Nanos) -> u64 {
        self.least_pass(now).unwrap_or(u64::MAX).saturating_add(AHEAD_PASS)
    }

    fn has_room(&mut self, now: Nanos, kind: u64) -> bool {
        match kind {
            STREAM => true,
            WRITE => self.dirty.at(now) < self.settings.dirty_max.0,
            _ => self.running < self.settings.depth.max(1),
        }
    }

    fn admit(&mut self, account: Account, kind: u64) {
        self.reached = self.reached.max(self.pass_of(account));
        match kind {
            OTHER => self.running += 1,
            STREAM => {
                self.streams.set(account, true);
            }
            _ => {}
        }
    }

    fn enter(&mut self, now: Nanos, task: Task, call: &Call, kind: u64) -> Entry {
        let at = usize::from(call.account).min(ACCOUNTS - 1);
        if now.since(self.seen[at]) > self.settings.grace {
            // An account that was idle saves up no share: its pass is at least the least pass of
            // the active ones. It is not raised further: one long call may have put a neighbour's
            // pass far ahead.
            let floor = self.least_pass(now).map_or(self.reached, |least| least.min(self.reached));
            self.strides.raise(call.account, floor);
        }
        self.seen[at] = now;
        let may_stream = kind != STREAM || self.pass_of(call.account) <= self.pass_ahead(now);
        if may_stream && self.has_room(now, kind) && !self.somebody_first(call.account, kind) {
            self.admit(call.account, kind);
            return Entry::Go;
        }
        self.waiting.insert(task, Waiter { call: *call, arrived: now, mark: kind });
        Entry::Wait
    }

    /// Whether an account with a lesser pass waits for the same room.
    fn somebody_first(&self, account: Account, kind: u64) -> bool {
        let own = self.pass_of(account);
        self.waiting
            .iter()
            .any(|(_, other)| other.mark == kind && self.pass_of(other.call.account) <= own)
    }

    fn leave(&mut self, now: Nanos, account: Account, kind: u64) {
        self.seen[usize::from(account).min(ACCOUNTS - 1)] = now;
        match kind {
            OTHER => self.running = self.running.saturating_sub(1),
            STREAM => {
                self.streams.set(account, false);
            }
            _ => {}
        }
    }

    /// A writer that the dirty pages do not concern: its file has none, or it writes over them.
    fn makes_none_dirty(&self, call: &Call) -> bool {
        call.pieces == 0 || self.over.has(call.account)
    }

    /// A task does not write back any more.
    fn ends_throttle(&mut self, waiter: &Waiter) {
        if waiter.mark & KIND == THROTTLED {
            self.throttled = self.throttled.saturating_sub(1);
        }
    }
}

impl Scheduler for Afq {
    fn name(&self) -> &'static str {
        "afq"
    }

    fn set_account(&mut self, _: Nanos, account: Account, settings: &AccountSettings) {
        self.strides.set_level(account, settings.level);
    }

    fn forget_account(&mut self, account: Account) {
        self.strides.forget(account);
        if let Some(seen) = self.seen.get_mut(usize::from(account)) {
            *seen = Nanos(0);
        }
    }

    fn write_entry(&mut self, now: Nanos, task: Task, call: &Call) -> Entry {
        if call.is_direct() {
            return self.enter(now, task, call, OTHER);
        }
        if self.makes_none_dirty(call) {
            return Entry::Go;
        }
        self.enter(now, task, call, WRITE)
    }
    fn write_return(&mut self, now: Nanos, _: Task, call: &Call) {
        self.leave(now, call.account, if call.is_direct() { OTHER } else { WRITE });
    }
    fn fsync_entry(&mut self, now: Nanos, task: Task, call: &Call) -> Entry {
        self.enter(now, task, call, OTHER)
    }
    fn fsync_return(&mut self, now: Nanos, _: Task, call: &Call, _: Nanos) {
        self.charge(call.account, self.settings.device.runs(1, super::PAGE_BYTES));
        self.leave(now, call.account, OTHER);
    }
    fn creat_entry(&mut self, now: Nanos, task: Task, call: &Call) -> Entry {
        self.enter(now, task, call, OTHER)
    }
    fn creat_return(&mut self, now: Nanos, _: Task, call: &Call) {
        self.charge(call.account, self.settings.device.transfer(super::PAGE_BYTES));
        self.leave(now, call.account, OTHER);
    }
    fn mkdir_entry(&mut self, now: Nanos, task: Task, call: &Call) -> Entry {
        self.creat_entry(now, task, call)
    }
    fn mkdir_return(&mut self, now: Nanos, task: Task, call: &Call) {
        self.creat_return(now, task, call);
    }

    fn buffer_dirty(&mut self, now: Nanos, dirtied: &Dirtied) {
        self.dirty.add(now, dirtied.cost.0);
        self.charge(dirtied.account, dirtied.cost);
        self.over.set(dirtied.account, dirtied.new_bytes == 0);
    }
    fn buffer_free(&mut self, _: Nanos, freed: &Freed) {
        self.dirty.remove(freed.cost.0);
    }
    fn buffer_clean(&mut self, _: Nanos, cleaned: &Cleaned) {
        self.dirty.remove(cleaned.charged.0);
    }

    fn req_add(&mut self, now: Nanos, task: Task, request: &Request) -> Entry {
        if request.operation != Operation::Read {
            return Entry::Go;
        }
        let account = Account::try_from(request.cause).unwrap_or(0);
        let bytes = u64::from(request.sectors) * SECTOR_BYTES;
        let kind = if request.sync { OTHER } else { STREAM };
        self.enter(now, task, &Call { account, bytes, ..Call::default() }, kind)
    }
    fn req_complete(&mut self, now: Nanos, task: Task, request: &Request, service: Nanos) {
        if request.operation == Operation::Read {
            let account = Account::try_from(request.cause).unwrap_or(0);
            if !request.sync {
                let bytes = u64::from(request.sectors) * SECTOR_BYTES;
                self.charge(account, self.settings.device.transfer(bytes));
                return self.leave(now, account, STREAM);
            }
            self.charge(account, service);
            // A read that did not ask has no room to give back.
            if usize::from(task) < TASKS {
                self.leave(now, account, OTHER);
            }
        }
    }

    fn dispatch(&mut self, now: Nanos) -> Step {
        let (room_to_write, room) = (self.has_room(now, WRITE), self.has_room(now, OTHER));
        let streams = self.waiting.iter().any(|(_, waiter)| waiter.mark == STREAM);
        let ahead = if streams { self.pass_ahead(now) } else { 0 };
        let least =
            |(_, waiter): &(Task, &Waiter)| (self.pass_of(waiter.call.account), waiter.arrived);
        // What a writer has cleaned makes room for itself first.
        let throttled = self.waiting.iter().filter(|(_, waiter)| waiter.mark & KIND == THROTTLED);
        let before = throttled.map(|(_, waiter)| self.pass_of(waiter.call.account)).min();
        let may_go = |waiter: &Waiter| match waiter.mark {
            WRITE => {
                let own = self.pass_of(waiter.call.account);
                room_to_write && before.is_none_or(|pass| own < pass)
            }
            OTHER => room,
            STREAM => self.pass_of(waiter.call.account) <= ahead,
            left => left < PIECE,
        };
        let next = self.waiting.iter().filter(|(_, waiter)| may_go(waiter)).min_by_key(least);
        if let Some((task, waiter)) = next.map(|(task, waiter)| (task, *waiter)) {
            self.waiting.remove(task);
            self.ends_throttle(&waiter);
            self.admit(waiter.call.account, waiter.mark & KIND);
            return Step::Admit(task);
        }
        let writers = self.waiting.iter().filter(|(_, waiter)| waiter.mark == WRITE);
        if self.throttled < self.settings.depth.max(1)
            && let Some((task, waiter)) = writers.min_by_key(least)
        {
            let pieces = waiter.call.pieces.min(WRITER_PIECES);
            if let Some(waiter) = self.waiting.get_mut(task) {
                waiter.mark = THROTTLED | (u64::from(pieces) * PIECE);
            }
            self.throttled += 1;
            return Step::Writeback { task, pieces };
        }
        if self.waiting.is_empty() {
            return Step::Idle;
        }
        // An account that is away drops out of the comparison after the grace period.
        Step::Wait(now + if streams { self.settings.grace } else { LATER })
    }

    fn written_back(&mut self, _: Nanos, task: Task, pieces: u32, _: u32) {
        if let Some(waiter) = self.waiting.get_mut(task)
            && waiter.mark & KIND == THROTTLED
        {
            waiter.mark -= u64::from(pieces).min(waiter.mark / PIECE) * PIECE;
        }
    }

    fn cancel(&mut self, _: Nanos, task: Task) {
        if let Some(waiter) = self.waiting.remove(task) {
            self.ends_throttle(&waiter);
        }
    }

    fn waiting(&self) -> usize {
        self.waiting.len()
    }
}

#[cfg(test)]
mod tests;
