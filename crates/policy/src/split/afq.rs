//! AFQ: device time in proportion to priority, for reads and for writes.
//!
//! # Problem
//! A fair block scheduler sees the flusher instead of those who wrote, and cannot hold back a write
//! that a journal has entangled. So it is unfair for buffered writes and for `fsync`.
//!
//! # The primitive
//! Strides over accounts: each has a *pass*, which grows by `cost / (8 − level)`, and the waiting
//! task of the account with the least pass goes next. Reads wait at the block level, so that cache
//! hits never do. Writes and calls that cause them wait at the system call. Writes at the block
//! level go at once.
//!
//! * **Room.** At most [`Settings::depth`] reads, `fsync`s, direct writes and metadata calls run at
//!   a time.
//!   Buffered writes run while less than [`Settings::dirty_max`] of device time is dirty. Beyond,
//!   the writer with the least pass first writes some pieces of its file back, as a writer does
//!   that the kernel throttles. A writer whose last write was over dirty pages goes at once.
//! * **Streams.** The kernel reads ahead of a sequential reader, so that its calls hardly ever wait
//!   for the device themselves. Such calls (`sync` is false) go if the account's pass is at most
//!   [`AHEAD`] beyond the least one of those that are active.
//! * **Charges.** A write is charged when it makes clean pages dirty, by the preliminary model; to
//!   write over dirty pages costs nothing. An `fsync` is charged a seek for its commit.
//! * **Absence.** An account that was away for more than [`Settings::grace`] comes back at the pass
//!   that the others have reached. Shorter pauses lose nothing: a caller that waits for
//!   each answer is always away for a moment.
//!
//! # Invariants
//! While two accounts have tasks waiting, their charges per weight differ by at most one task of
//! each. A task is admitted when there is room, so the device is not idle while anybody waits.
//!
//! # Worked example
//! `fsync`s that cost the same; A has level 0 (weight 8), B level 4 (weight 4), depth 1. Both call
//! again at once. A's pass grows by 1/8, B's by 1/4: A, B, A, A, B, A, A, B, …
//!
//! Source: Split, section 2.5.1.

use super::deadline::WRITER_PIECES;
use super::dirty::Dirty;
use super::strides::{STRIDE, Strides};
use super::waiting::{Waiter, Waiting};
use super::{
    ACCOUNTS, Account, AccountSettings, Call, Cleaned, DeviceCost, Dirtied, Entry, Freed,
    Scheduler, Step, TASKS, Task,
};
use crate::Nanos;
use crate::block::{Operation, Request, SECTOR_BYTES};

/// When to ask again while all who wait depend on others: those ask by themselves.
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
const AHEAD_PASS: u64 = AHEAD.0 * STRIDE / 4;

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
    over: [u64; ACCOUNTS / 64],
    /// Tasks that run and are no buffered writes.
    running: u32,
    /// Writers that write pieces back.
    throttled: u32,
    /// Accounts that read a stream at the moment.
    streams: [u64; ACCOUNTS / 64],
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
    /// Nobody waits, and all accounts have level 4.
    pub fn new(settings: Settings) -> Self {
        Afq {
            settings,
            waiting: Waiting::default(),
            strides: Strides::default(),
            seen: [Nanos(0); ACCOUNTS],
            reached: 0,
            dirty: Dirty::default(),
            over: [0; ACCOUNTS / 64],
            running: 0,
            throttled: 0,
            streams: [0; ACCOUNTS / 64],
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
            self.streams[at / 64] & 1 << (at % 64) != 0
                || now.since(self.seen[*at]) <= self.settings.grace && self.seen[*at] > Nanos(0)
        };
        (0..ACCOUNTS).filter(is_active).map(|at| self.pass_of(at as Account)).min()
    }

    /// How far ahead of the others a stream may be.
    fn pass_ahead(&self, now: Nanos) -> u64 {
        self.least_pass(now).unwrap_or(u64::MAX).saturating_add(AHEAD_PASS)
    }

    fn streams(&mut self, account: Account, runs: bool) {
        let at = usize::from(account);
        if let Some(word) = self.streams.get_mut(at / 64) {
            let mask = 1 << (at % 64);
            if runs { *word |= mask } else { *word &= !mask }
        }
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
            STREAM => self.streams(account, true),
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

    /// Whether somebody waits for the same room whose pass is less.
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
            STREAM => self.streams(account, false),
            _ => {}
        }
    }

    /// A writer that the dirty pages do not concern: its file has none, or it writes over them.
    fn makes_none_dirty(&self, call: &Call) -> bool {
        let at = usize::from(call.account);
        call.pieces == 0 || self.over.get(at / 64).is_some_and(|word| word & 1 << (at % 64) != 0)
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
        let at = usize::from(dirtied.account);
        if let Some(word) = self.over.get_mut(at / 64) {
            let mask = 1 << (at % 64);
            if dirtied.new_bytes == 0 { *word |= mask } else { *word &= !mask }
        }
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
            // A read that did not ask has nobody's room to give back.
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
mod tests {
    use super::*;
    use crate::block::IoClass;

    fn call(account: Account) -> Call {
        Call { account, bytes: 4096, ..Call::default() }
    }

    fn afq(depth: u32, levels: &[u8]) -> Box<Afq> {
        let mut afq = Box::new(Afq::new(Settings { depth, ..Settings::for_device(true) }));
        for (account, level) in levels.iter().enumerate() {
            let settings = AccountSettings { level: *level, ..AccountSettings::default() };
            afq.set_account(Nanos(0), account as Account, &settings);
        }
        afq
    }

    /// Callers of random writes with `fsync`, several for each level, which call again 50 µs after
    /// each return. Returns how often each account was served.
    fn synchronous(levels: &[u8], callers: usize, depth: u32, rounds: usize) -> Vec<usize> {
        let mut afq = afq(depth, levels);
        let mut served = vec![0; levels.len()];
        let mut now;
        let account_of = |task: Task| (usize::from(task) / callers) as Account;
        let mut running: Vec<(Nanos, Task)> = Vec::new();
        let mut calls: Vec<(Nanos, Task)> =
            (0..(levels.len() * callers) as Task).map(|task| (Nanos(0), task)).collect();
        while served.iter().sum::<usize>() < rounds {
            let start = |running: &mut Vec<(Nanos, Task)>, now: Nanos, task| {
                let busy = running.iter().map(|(end, _)| *end).max().unwrap_or(now).max(now);
                running.push((busy + Nanos::from_millis(8), task));
            };
            calls.sort();
            running.sort();
            let call_first =
                calls.first().is_some_and(|c| running.first().is_none_or(|r| c.0 <= r.0));
            if call_first {
                let (at, task) = calls.remove(0);
                now = at;
                let cost = DeviceCost::DISK.access(1 << 40, 0, 4096);
                let account = account_of(task);
                afq.buffer_dirty(
                    now,
                    &Dirtied { account, new_bytes: 4096, cost, ..Dirtied::default() },
                );
                if afq.fsync_entry(now, task, &call(account)) == Entry::Go {
                    start(&mut running, now, task);
                }
            } else {
                let (at, task) = running.remove(0);
                now = at;
                let account = account_of(task);
                served[usize::from(account)] += 1;
                afq.buffer_clean(now, &Cleaned { bytes: 4096, ..Cleaned::default() });
                afq.fsync_return(now, task, &call(account), Nanos::from_millis(8));
                calls.push((now + Nanos::from_micros(50), task));
            }
            while let Step::Admit(task) = afq.dispatch(now) {
                start(&mut running, now, task);
            }
        }
        served
    }

    /// The paper's Figure 2.13(c): 5 callers for each of 8 priorities; 3 % from the ideal.
    #[test]
    fn synchronous_random_writes_follow_the_priorities() {
        let levels: Vec<u8> = (0..8).collect();
        for depth in [1, 2, 8] {
            let served = synchronous(&levels, 5, depth, 7_200);
            for (level, count) in served.iter().enumerate() {
                let ideal = 7_200.0 * (8 - level) as f64 / 36.0;
                let off = (*count as f64 - ideal).abs() / ideal;
                assert!(off < 0.03, "level {level}: {count} of {ideal} at depth {depth}");
            }
        }
    }

    /// The paper's Figure 2.13(a): threads that read in sequence while the kernel reads ahead.
    #[test]
    fn streams_follow_the_priorities_although_their_calls_hardly_wait() {
        let levels: Vec<u8> = (0..8).collect();
        let mut afq = afq(2, &levels);
        let stream = |account: Account| Request {
            operation: Operation::Read,
            sector: 0,
            sectors: 512,
            fua: false,
            sync: false,
            cause: account.into(),
            class: IoClass::BestEffort,
            level: 4,
            deadline: None,
        };
        let mut bytes = [0u64; 8];
        let mut now = Nanos(1_000_000_000);
        let mut waiting = [false; 8];
        // Each call that may go reads 256 KiB. Its thread calls again after 2 ms.
        for _ in 0..20_000 {
            now += Nanos::from_millis(2);
            let mut done: Vec<Task> = (0..8)
                .filter(|task| !waiting[usize::from(*task)])
                .filter(|task| afq.req_add(now, *task, &stream(*task)) == Entry::Go)
                .collect();
            waiting = [true; 8];
            for task in &done {
                afq.req_complete(now, *task, &stream(*task), Nanos(10_000));
            }
            while let Step::Admit(task) = afq.dispatch(now) {
                afq.req_complete(now, task, &stream(task), Nanos(10_000));
                done.push(task);
            }
            for task in done {
                waiting[usize::from(task)] = false;
                bytes[usize::from(task)] += 1;
            }
        }
        let all: u64 = bytes.iter().sum();
        for (level, count) in bytes.iter().enumerate() {
            let share = *count as f64 / all as f64 / ((8 - level) as f64 / 36.0);
            assert!((share - 1.0).abs() < 0.1, "level {level}: {bytes:?}");
        }
    }

    #[test]
    fn who_was_away_claims_nothing_and_a_moment_loses_nothing() {
        let mut afq = afq(1, &[4, 4]);
        assert_eq!(afq.fsync_entry(Nanos(0), 0, &call(0)), Entry::Go);
        for step in 1..100 {
            let now = Nanos::from_millis(8 * step);
            afq.fsync_return(now, 0, &call(0), Nanos(0));
            assert_eq!(afq.fsync_entry(now, 0, &call(0)), Entry::Go, "nobody else");
        }
        let now = Nanos::from_millis(800);
        assert_eq!(afq.fsync_entry(now, 1, &call(1)), Entry::Wait);
        afq.fsync_return(now, 0, &call(0), Nanos(0));
        assert_eq!(afq.dispatch(now), Step::Admit(1));
        assert_eq!(afq.fsync_entry(now, 0, &call(0)), Entry::Wait);
        afq.fsync_return(now, 1, &call(1), Nanos(0));
        assert_eq!(afq.fsync_entry(now, 2, &call(1)), Entry::Wait);
        assert_eq!(afq.dispatch(now), Step::Admit(0), "a second turn in a row for nobody");
    }

    #[test]
    fn writes_over_dirty_pages_are_never_held_and_cost_nothing() {
        let mut afq = afq(1, &[0, 7]);
        for _ in 0..1_000 {
            assert_eq!(afq.write_entry(Nanos(5), 0, &call(1)), Entry::Go);
            afq.buffer_dirty(Nanos(5), &Dirtied { account: 1, ..Dirtied::default() });
            afq.write_return(Nanos(5), 0, &call(1));
        }
        assert_eq!(afq.pass_of(1), 0);
    }

    #[test]
    fn direct_writes_take_turns() {
        let mut afq = afq(1, &[0, 4]);
        let write = |account| Call { direct: 1, ..call(account) };
        let mut served = [0; 2];
        assert_eq!(afq.write_entry(Nanos(1), 0, &write(0)), Entry::Go);
        assert_eq!(afq.write_entry(Nanos(1), 1, &write(1)), Entry::Wait);
        let (mut now, mut running) = (Nanos(1), 0);
        for _ in 0..300 {
            now += Nanos::from_millis(8);
            let cost = Nanos::from_millis(8);
            let dirtied = Dirtied { account: running, new_bytes: 4096, cost, ..Dirtied::default() };
            afq.buffer_dirty(now, &dirtied);
            afq.buffer_clean(now, &Cleaned { charged: cost, ..Cleaned::default() });
            afq.write_return(now, running, &write(running));
            served[usize::from(running)] += 1;
            if afq.write_entry(now, running, &write(running)) == Entry::Wait {
                let Step::Admit(next) = afq.dispatch(now) else { panic!("the device is idle") };
                running = next;
            }
        }
        assert!(served[0] >= 198 && served[1] >= 98, "weights 8 and 4: {served:?}");
    }

    /// Writers without a pause; each piece takes 8 ms on the device. Returns the megabytes that
    /// each
    /// wrote.
    fn buffered(levels: &[u8], pieces: u32) -> Vec<u64> {
        let mut afq = afq(1, levels);
        let mut written = vec![0; levels.len()];
        let mib = 1 << 20;
        let write = |account| Call { pieces: 100, ..call(account) };
        let mut now = Nanos(1);
        let mut ordered = None;
        let mut calls: Vec<Task> = (0..levels.len() as Task).collect();
        for _ in 0..pieces {
            loop {
                let entered = calls.pop();
                let goes = match entered {
                    Some(task) => {
                        (afq.write_entry(now, task, &write(task)) == Entry::Go).then_some(task)
                    }
                    None => match afq.dispatch(now) {
                        Step::Admit(task) => Some(task),
                        Step::Writeback { task, pieces } => {
                            ordered = Some((task, pieces));
                            None
                        }
                        _ => break,
                    },
                };
                if let Some(task) = goes {
                    let cost = DeviceCost::DISK.transfer(mib);
                    let dirtied =
                        Dirtied { account: task, new_bytes: mib, cost, ..Dirtied::default() };
                    afq.buffer_dirty(now, &dirtied);
                    afq.write_return(now, task, &write(task));
                    written[usize::from(task)] += 1;
                    calls.push(task);
                }
            }
            now += Nanos::from_millis(8);
            let (task, left) = ordered.expect("the device is not idle");
            ordered = (left > 1).then_some((task, left - 1));
            let charged = DeviceCost::DISK.transfer(mib);
            afq.buffer_clean(now, &Cleaned { bytes: mib, charged, ..Cleaned::default() });
            afq.written_back(now, task, 1, 99);
        }
        written
    }

    /// The paper's Figure 2.13(b): 16 % from the ideal.
    #[test]
    fn beyond_the_dirty_limit_writers_take_turns_and_write_back() {
        let written = buffered(&[0, 4, 7], 2_600);
        let all: u64 = written.iter().sum();
        assert!(all >= 2_600, "{written:?}: the device wrote all the time");
        for (account, weight) in [8.0, 4.0, 1.0].into_iter().enumerate() {
            let share = written[account] as f64 / all as f64;
            assert!((share / (weight / 13.0) - 1.0).abs() < 0.05, "{written:?}");
        }
    }

    #[test]
    fn a_writer_goes_on_when_it_has_written_back_or_makes_nothing_dirty() {
        let mut afq = afq(1, &[0, 0]);
        let dirtied =
            Dirtied { new_bytes: 1 << 40, cost: Nanos::from_millis(9_000), ..Dirtied::default() };
        afq.buffer_dirty(Nanos(0), &dirtied);
        assert_eq!(afq.write_entry(Nanos(0), 2, &call(0)), Entry::Go, "nothing of its own");
        let write = |account| Call { pieces: 2, ..call(account) };
        assert_eq!(afq.write_entry(Nanos(0), 3, &write(0)), Entry::Wait);
        assert_eq!(afq.dispatch(Nanos(0)), Step::Writeback { task: 3, pieces: 2 });
        assert_eq!(afq.write_entry(Nanos(0), 4, &write(0)), Entry::Wait);
        assert_eq!(afq.dispatch(Nanos(0)), Step::Wait(LATER), "one at a time");
        afq.written_back(Nanos(1), 3, 1, 1);
        assert_eq!(afq.dispatch(Nanos(1)), Step::Wait(Nanos(1) + LATER));
        afq.written_back(Nanos(1), 3, 1, 0);
        assert_eq!(afq.dispatch(Nanos(1)), Step::Admit(3));
        assert_eq!(afq.dispatch(Nanos(1)), Step::Writeback { task: 4, pieces: 2 });
        afq.cancel(Nanos(1), 4);
        assert_eq!(afq.dispatch(Nanos(1)), Step::Idle);
        // A write over dirty pages.
        afq.buffer_dirty(Nanos(1), &Dirtied { account: 1, ..Dirtied::default() });
        assert_eq!(afq.write_entry(Nanos(1), 5, &write(1)), Entry::Go);
    }

    #[test]
    fn an_account_that_changes_hands_owes_nothing() {
        let mut afq = afq(1, &[4, 4]);
        let now = Nanos(1);
        assert_eq!(afq.fsync_entry(now, 0, &call(0)), Entry::Go);
        afq.charge(0, Nanos::from_millis(500));
        afq.fsync_return(now, 0, &call(0), Nanos::from_millis(500));
        assert!(afq.pass_of(0) > 0);
        afq.forget_account(0);
        assert_eq!(afq.pass_of(0), 0);
    }

    #[test]
    fn whoever_comes_back_is_not_behind_all_for_one_long_call_of_a_neighbour() {
        let mut afq = afq(2, &[0, 7, 4]);
        let now = Nanos::from_millis(1_000);
        // One of low priority was admitted after it had used much, another one all the time.
        assert_eq!(afq.fsync_entry(now, 2, &call(2)), Entry::Go);
        afq.charge(1, Nanos::from_millis(500));
        assert_eq!(afq.fsync_entry(now, 1, &call(1)), Entry::Go);
        assert!(afq.reached > afq.pass_of(2));
        assert_eq!(afq.fsync_entry(now, 0, &call(0)), Entry::Wait);
        assert!(afq.pass_of(0) <= afq.pass_of(2));
    }
}
