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
//! * **Room.** At most [`Settings::depth`] reads, `fsync`s and metadata calls run at a time.
//!   Buffered writes run while fewer than [`Settings::dirty_max`] bytes are dirty; beyond that the
//!   order of the passes decides who may make more pages dirty as others become clean.
//! * **Charges.** A write is charged when it makes clean pages dirty, by the preliminary model; to
//!   write over dirty pages costs nothing. An `fsync` is charged a seek for its commit.
//! * **Absence.** An account that was away for more than [`Settings::grace`] comes back at the pass
//!   that the others have reached. Shorter pauses lose nothing: a caller that waits for
//!   each answer is always away for a moment.
//!
//! # Invariants
//! While two accounts have tasks waiting, their charges per weight differ by at most one task of
//! each. A task is admitted when there is room, so the device is not idle while anybody waits,
//! except for buffered writes beyond the dirty limit.
//!
//! # Worked example
//! `fsync`s that cost the same; A has level 0 (weight 8), B level 4 (weight 4), depth 1. Both call
//! again at once. A's pass grows by 1/8, B's by 1/4: A, B, A, A, B, A, A, B, …
//!
//! Source: Split, section 2.5.1.

use super::waiting::{Waiter, Waiting};
use super::{
    ACCOUNTS, Account, AccountSettings, Call, Cleaned, DeviceCost, Dirtied, Entry, Freed,
    Scheduler, Step, TASKS, Task,
};
use crate::Nanos;
use crate::block::afq::weight;
use crate::block::{Operation, Request, SECTOR_BYTES};

/// Divisible by every weight, so that passes have no remainders.
const STRIDE: u64 = 840;

/// How long a writer waits for dirty pages to be written before it goes on whatever there is.
const WRITE_HOLD: Nanos = Nanos::from_millis(200);

/// Tunables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Settings {
    /// Reads, `fsync`s and metadata calls that run at a time. Default 2 for a disk, 8 for flash.
    pub depth: u32,
    /// Dirty bytes beyond which buffered writes take turns. Default 32 MiB.
    pub dirty_max: u64,
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
            dirty_max: 32 << 20,
            grace: Nanos::from_millis(20),
            device: DeviceCost::for_device(rotational),
        }
    }
}

/// What a task does, in a waiter's mark.
const WRITE: u64 = 1;
const OTHER: u64 = 2;

/// See the module.
#[derive(Clone, Debug)]
#[repr(C)]
pub struct Afq {
    settings: Settings,
    waiting: Waiting,
    pass: [u64; ACCOUNTS],
    level: [u8; ACCOUNTS],
    seen: [Nanos; ACCOUNTS],
    /// The pass of the account that was admitted last.
    reached: u64,
    /// Bytes that are dirty.
    dirty: u64,
    /// Tasks that run and are no buffered writes.
    running: u32,
}

crate::layout!(Afq { settings, waiting, pass, level, seen, reached, dirty, running });

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
            pass: [0; ACCOUNTS],
            level: [4; ACCOUNTS],
            seen: [Nanos(0); ACCOUNTS],
            reached: 0,
            dirty: 0,
            running: 0,
        }
    }

    fn charge(&mut self, account: Account, cost: Nanos) {
        let Some(pass) = self.pass.get_mut(usize::from(account)) else { return };
        let weight = weight(self.level[usize::from(account)]);
        *pass = pass.saturating_add(cost.0.saturating_mul(STRIDE) / weight);
    }

    fn pass_of(&self, account: Account) -> u64 {
        self.pass.get(usize::from(account)).copied().unwrap_or(u64::MAX)
    }

    fn has_room(&self, kind: u64) -> bool {
        match kind {
            WRITE => self.dirty < self.settings.dirty_max,
            _ => self.running < self.settings.depth.max(1),
        }
    }

    fn admit(&mut self, account: Account, kind: u64) {
        self.reached = self.reached.max(self.pass_of(account));
        if kind == OTHER {
            self.running += 1;
        }
    }

    fn enter(&mut self, now: Nanos, task: Task, call: &Call, kind: u64) -> Entry {
        let at = usize::from(call.account).min(ACCOUNTS - 1);
        if now.since(self.seen[at]) > self.settings.grace {
            self.pass[at] = self.pass[at].max(self.reached);
        }
        self.seen[at] = now;
        if self.has_room(kind) && !self.somebody_first(call.account, kind) {
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
        if kind == OTHER {
            self.running = self.running.saturating_sub(1);
        }
    }

    fn cleaned(&mut self, bytes: u64) {
        self.dirty = self.dirty.saturating_sub(bytes);
    }
}

impl Scheduler for Afq {
    fn name(&self) -> &'static str {
        "afq"
    }

    fn set_account(&mut self, _: Nanos, account: Account, settings: &AccountSettings) {
        if let Some(level) = self.level.get_mut(usize::from(account)) {
            *level = settings.level.min(7);
        }
    }

    fn write_entry(&mut self, now: Nanos, task: Task, call: &Call) -> Entry {
        self.enter(now, task, call, WRITE)
    }
    fn write_return(&mut self, now: Nanos, _: Task, call: &Call) {
        self.leave(now, call.account, WRITE);
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

    fn buffer_dirty(&mut self, _: Nanos, dirtied: &Dirtied) {
        self.dirty = self.dirty.saturating_add(dirtied.new_bytes);
        self.charge(dirtied.account, dirtied.cost);
    }
    fn buffer_free(&mut self, _: Nanos, freed: &Freed) {
        self.cleaned(freed.bytes);
    }
    fn buffer_clean(&mut self, _: Nanos, cleaned: &Cleaned) {
        self.cleaned(cleaned.bytes);
    }

    fn req_add(&mut self, now: Nanos, task: Task, request: &Request) -> Entry {
        if request.operation != Operation::Read {
            return Entry::Go;
        }
        let account = Account::try_from(request.cause).unwrap_or(0);
        let bytes = u64::from(request.sectors) * SECTOR_BYTES;
        self.enter(now, task, &Call { account, bytes, ..Call::default() }, OTHER)
    }
    fn req_complete(&mut self, now: Nanos, task: Task, request: &Request, service: Nanos) {
        if request.operation == Operation::Read {
            let account = Account::try_from(request.cause).unwrap_or(0);
            self.charge(account, service);
            // A read that did not ask has nobody's room to give back.
            if usize::from(task) < TASKS {
                self.leave(now, account, OTHER);
            }
        }
    }

    fn dispatch(&mut self, now: Nanos) -> Step {
        let next = self
            .waiting
            .iter()
            .filter(|(_, waiter)| {
                self.has_room(waiter.mark)
                    || waiter.mark == WRITE && now.since(waiter.arrived) >= WRITE_HOLD
            })
            .min_by_key(|(_, waiter)| (self.pass_of(waiter.call.account), waiter.arrived));
        if let Some((task, waiter)) = next {
            let (account, kind) = (waiter.call.account, waiter.mark);
            self.waiting.remove(task);
            self.admit(account, kind);
            return Step::Admit(task);
        }
        let writes = self.waiting.iter().filter(|(_, waiter)| waiter.mark == WRITE);
        match writes.map(|(_, waiter)| waiter.arrived + WRITE_HOLD).min() {
            Some(until) => Step::Wait(until),
            None if self.waiting.is_empty() => Step::Idle,
            // A task that runs returns before anybody goes.
            None => Step::Wait(now + WRITE_HOLD),
        }
    }

    fn cancel(&mut self, _: Nanos, task: Task) {
        self.waiting.remove(task);
    }

    fn waiting(&self) -> usize {
        self.waiting.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn beyond_the_dirty_limit_writers_take_turns_as_pages_become_clean() {
        let mut afq = afq(1, &[0, 4]);
        let mib = 1 << 20;
        let mut written = [0u64; 2];
        let dirty = |afq: &mut Afq, account: Account| {
            let cost = DeviceCost::DISK.transfer(mib);
            let dirtied = Dirtied { account, new_bytes: mib, cost, ..Dirtied::default() };
            afq.buffer_dirty(Nanos(1), &dirtied);
        };
        let mut now = Nanos(1);
        for account in [0u16, 1] {
            while afq.write_entry(now, account, &call(account)) == Entry::Go {
                dirty(&mut afq, account);
            }
        }
        for _ in 0..1_200 {
            now += Nanos::from_millis(8);
            afq.buffer_clean(now, &Cleaned { bytes: mib, ..Cleaned::default() });
            while let Step::Admit(task) = afq.dispatch(now) {
                written[usize::from(task)] += 1;
                dirty(&mut afq, task);
                afq.write_return(now, task, &call(task));
                assert_eq!(afq.write_entry(now, task, &call(task)), Entry::Wait);
            }
        }
        let share = written[0] as f64 / (written[0] + written[1]) as f64;
        assert!((share - 8.0 / 12.0).abs() < 0.02, "{written:?}");
    }

    #[test]
    fn a_writer_goes_on_although_nothing_becomes_clean() {
        let mut afq = afq(1, &[0]);
        let dirtied = Dirtied { new_bytes: 1 << 40, ..Dirtied::default() };
        afq.buffer_dirty(Nanos(0), &dirtied);
        assert_eq!(afq.write_entry(Nanos(0), 3, &call(0)), Entry::Wait);
        let Step::Wait(until) = afq.dispatch(Nanos(0)) else { panic!("it waits") };
        assert_eq!(afq.dispatch(until), Step::Admit(3));
        assert_eq!(afq.dispatch(until), Step::Idle);
    }
}
