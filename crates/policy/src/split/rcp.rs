//! RCP: I/O that a client waits for goes first, whoever issues it.
//!
//! # Problem
//! A commit or a read waits seconds behind a checkpoint, a vacuum or a backup. Neither the kind of
//! an I/O nor its issuer tells whether somebody waits for it: a background task may hold the lock
//! that a client's request needs (RCP, section 3).
//!
//! # The primitive
//! Each call is *critical* or *background* ([`Call::urgency`]). Critical calls are never held.
//! Background ones are held before anything depends on them (section 8: writes at the
//! system call, reads at the block level):
//!
//! * **Writes** go on while background tasks have dirtied less than [`Settings::dirty_max`] bytes
//!   (section 4.3, caching layer). Beyond, the writer's thread first writes some pieces of its own
//!   file back, as a writer does that the kernel throttles. While critical I/O is active, and for
//!   [`DESERTED`] after, a file has [`deadline::Settings::pieces_max`] dirty pieces at most.
//! * **`fsync`s** of the background write their data back first, in batches that critical `fsync`s
//!   and reads hardly notice. [`Deadline`] paces them; critical operations are its small ones.
//! * **Reads** of the background that miss the cache wait in a queue, first come, first served.
//!   While critical I/O is active, [`Settings::slots`] of them run at a time, and at least one
//!   starts every [`READ_EVERY`]. When no critical I/O was seen for [`QUIET`], or for
//!   [`QUIET_ALONE`] if the last one came after such a pause, the slots double with each further
//!   [`READ_EVERY`]. They fall back at the next critical I/O.
//!
//! * **Order and limits of the background.** Of background tasks that wait for the same, the one of
//!   the account with the least [pass](super::afq) goes first, once rules give accounts different
//!   priorities; else the first that came. Writes and reads of an account whose
//!   [tokens](super::token) are used up wait for them first. An `fsync` does not: what it writes
//!   was charged when it became dirty. Critical calls are neither ordered nor limited.
//!
//! A task that a client's request waits for is [promoted](Scheduler::promote): it goes on at once.
//! Where the holder of a lock is not known, it may be a task that is held here
//! ([`Scheduler::may_block_clients`]). It probably is if a client waits and no critical I/O runs.
//! Calls on files of which that was right repeatedly are critical for some time ([`super::trust`]).
//!
//! # Worked example
//! A checkpointer's `fsync` has 300 dirty pieces, and a client commits every 20 ms. The commit goes
//! to the device at once. When it returns, one batch of the checkpointer's pieces is ordered, as
//! large as commits of at most three times their undisturbed time allow.

use super::deadline::{self, DESERTED, Deadline, WRITER_PIECES, deadline_of};
use super::dirty::Dirty;
use super::strides::Strides;
use super::token::Token;
use super::trust::Trust;
use super::waiting::{Waiter, Waiting};
use super::{
    ACCOUNTS, Account, AccountSettings, Call, Cleaned, DeviceCost, Dirtied, Entry, Freed,
    Scheduler, Step, Task, USUAL_LEVEL, Urgency,
};
use crate::Nanos;
use crate::block::{IoClass, Operation, Request};

/// Critical I/O that was last seen so long ago is not waited for.
pub const QUIET: Nanos = Nanos::from_millis(100);

/// The same for critical I/O that came alone: the next one will not come within [`QUIET`] either.
pub const QUIET_ALONE: Nanos = Nanos::from_millis(20);

/// A write to the cache takes microseconds. One that takes so long waits for the device.
pub const BLOCKED_AFTER: Nanos = Nanos::from_millis(2);

/// A background read starts so often at least (section 4.3).
pub const READ_EVERY: Nanos = Nanos::from_millis(10);

/// A client waits for an unknown holder. A held call goes on after this time if no critical I/O has
/// run meanwhile, …
pub const STUCK_ALONE: Nanos = Nanos::from_millis(10);
/// … and after this one if some has.
pub const STUCK_CALL: Nanos = Nanos::from_millis(100);
/// Each piece that the call has to write back adds so much to either, up to the following: if the
/// guess is wrong, everybody waits for the pieces.
pub const STUCK_PIECE: Nanos = Nanos::from_millis(5);
/// See [`STUCK_PIECE`].
pub const STUCK_BIG_ALONE: Nanos = Nanos::from_millis(200);
/// Held calls go on one after the other, so far apart.
pub const GUESS_EVERY: Nanos = Nanos::from_millis(20);
/// See [`STUCK_PIECE`].
pub const STUCK_BIG: Nanos = Nanos::from_millis(1_000);

/// Deadline of the background's `fsync`s without one of their own.
const BACKGROUND_DEADLINE: Nanos = Nanos::from_millis(20_000);

/// Most reads of the background at a time.
const SLOTS_MAX: u32 = 64;

/// The accounts of reads in [`Deadline`]'s streams: a read takes another time than an `fsync`.
const READS: Account = 1 << 14;
const _: () = assert!(ACCOUNTS <= READS as usize);

/// Tunables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Settings {
    /// Bytes that background tasks may have dirtied before their writes are held. Default 64 MiB;
    /// the region sets 1 % of the memory, as the paper does.
    pub dirty_max: u64,
    /// Reads of the background that run while critical I/O is active. Default 1 (section 4.3).
    pub slots: u32,
    /// See [`deadline::Settings`].
    pub writeback: deadline::Settings,
    /// Costs of the device, for shares and tokens.
    pub device: DeviceCost,
}

crate::layout!(Settings { dirty_max, slots, writeback, device });

impl Settings {
    /// The usual ones for a kind of device.
    pub const fn for_device(rotational: bool) -> Self {
        let writeback = deadline::Settings::for_device(rotational);
        let device = DeviceCost::for_device(rotational);
        Settings { dirty_max: 64 << 20, slots: 1, writeback, device }
    }
}

/// See the module.
#[derive(Clone, Debug)]
#[repr(C)]
pub struct Rcp {
    settings: Settings,
    /// `fsync`s and writes of the background that write back first.
    writeback: Deadline,
    reads: Waiting,
    /// Tasks that run as background reads.
    reading: [u64; super::TASKS / 64],
    /// Accounts whose last write was one of the background.
    background: [u64; ACCOUNTS / 64],
    /// Accounts some of whose bytes `dirty` may count.
    dirtied: [u64; ACCOUNTS / 64],
    /// Bytes that accounts have dirtied while they were background.
    dirty: Dirty,
    /// Critical `fsync`s and reads that run.
    critical: u32,
    /// A critical write that runs, plus one: the first that began after the last such one returned.
    write: u32,
    /// When it began.
    write_since: Nanos,
    /// Reads of the background that may run now.
    slots: u32,
    /// When critical I/O was last seen.
    critical_at: Nanos,
    /// How long the next one is waited for.
    quiet: Nanos,
    /// When a background read last started.
    read_at: Nanos,
    /// When the slots were last changed.
    slots_at: Nanos,
    /// When a task last went on because it may have blocked a client.
    guessed_at: Nanos,
    /// Files whose calls are critical.
    trust: Trust,
    /// Shares of the background's accounts.
    strides: Strides,
    /// Not zero: accounts have different levels.
    ranked: u32,
    /// The largest pass with which a task went on.
    reached: u64,
    /// Limits of the background's accounts.
    tokens: Token,
    /// Background tasks that wait for tokens. Their mark says for which call.
    unpaid: Waiting,
}

crate::layout!(Rcp {
    settings,
    writeback,
    reads,
    reading,
    background,
    dirtied,
    dirty,
    critical,
    write,
    write_since,
    slots,
    critical_at,
    quiet,
    read_at,
    slots_at,
    guessed_at,
    trust,
    strides,
    ranked,
    reached,
    tokens,
    unpaid
});

impl Default for Rcp {
    fn default() -> Self {
        Rcp::new(Settings::for_device(true))
    }
}

/// What an unpaid task is about to do, as its mark.
const WRITE: u64 = 0;
const READ: u64 = 1;

fn bit(at: usize) -> (usize, u64) {
    (at / 64, 1 << (at % 64))
}

fn has_bit(set: &[u64; ACCOUNTS / 64], account: Account) -> bool {
    let (word, mask) = bit(usize::from(account));
    set.get(word).is_some_and(|word| word & mask != 0)
}

/// Whether an `fsync` goes at once. If it has much to write, that takes more than a guess.
fn is_critical(call: &Call) -> bool {
    match call.urgency {
        Urgency::Critical => true,
        Urgency::Background => false,
        Urgency::Guessed => call.pieces <= WRITER_PIECES,
    }
}

fn reader(account: Account) -> Account {
    account | READS
}

impl Rcp {
    /// Nobody waits.
    pub fn new(settings: Settings) -> Self {
        Rcp {
            settings,
            writeback: Deadline::new(settings.writeback),
            reads: Waiting::default(),
            reading: [0; super::TASKS / 64],
            background: [0; ACCOUNTS / 64],
            dirtied: [0; ACCOUNTS / 64],
            dirty: Dirty::default(),
            critical: 0,
            write: 0,
            write_since: Nanos(0),
            slots: settings.slots,
            critical_at: Nanos(0),
            quiet: QUIET,
            read_at: Nanos(0),
            slots_at: Nanos(0),
            guessed_at: Nanos(0),
            trust: Trust::default(),
            strides: Strides::default(),
            ranked: 0,
            reached: 0,
            tokens: Token::new(settings.device),
            unpaid: Waiting::default(),
        }
    }

    /// Sets how much background tasks may dirty before their writes are held.
    pub fn set_dirty_max(&mut self, bytes: u64) {
        self.settings.dirty_max = bytes;
    }

    /// Sets how many reads of the background run while critical I/O is active.
    pub fn set_reads(&mut self, count: u32) {
        self.settings.slots = count.clamp(1, SLOTS_MAX);
        self.slots = self.settings.slots;
    }

    /// Critical I/O was seen: the slots fall back.
    fn see_critical(&mut self, now: Nanos) {
        self.quiet = if now.since(self.critical_at) > QUIET { QUIET_ALONE } else { QUIET };
        self.critical_at = now;
        self.slots = self.settings.slots;
    }

    fn begin_critical(&mut self, now: Nanos) {
        self.see_critical(now);
        self.critical = self.critical.saturating_add(1);
    }

    fn end_critical(&mut self, now: Nanos) {
        self.critical = self.critical.saturating_sub(1);
        self.critical_at = now;
    }

    /// A client's write waits in the kernel, usually for the journal.
    fn write_is_blocked(&self, now: Nanos) -> bool {
        self.write > 0 && now.since(self.write_since) >= BLOCKED_AFTER
    }

    /// No critical I/O has been active for so long.
    fn is_quiet(&self, now: Nanos, time: Nanos) -> bool {
        self.critical == 0 && now.since(self.critical_at) >= time && !self.write_is_blocked(now)
    }

    fn note_account(&mut self, call: &Call) {
        let (word, mask) = bit(usize::from(call.account));
        if let Some(word) = self.background.get_mut(word) {
            if call.urgency == Urgency::Background { *word |= mask } else { *word &= !mask }
        }
    }

    /// The part of the background in what is not dirty any more. An account may have become
    /// critical since it dirtied that.
    fn cleaned(&mut self, now: Nanos, causes: super::CauseSet, bytes: u64) {
        let mut gone = 0;
        causes.share(bytes, |account, part| {
            gone += if has_bit(&self.dirtied, account) { part } else { 0 }
        });
        self.dirty.remove(gone);
        if self.dirty.at(now) == 0 {
            self.dirtied = [0; ACCOUNTS / 64];
        }
    }

    /// Only what accounts dirtied in the background was charged.
    fn revise(&mut self, now: Nanos, causes: super::CauseSet, charged_and_cost: (Nanos, Nanos)) {
        let (dirtied, background) = (self.dirtied, self.background);
        self.tokens.revise(now, causes, charged_and_cost, |account| {
            has_bit(&dirtied, account) && has_bit(&background, account)
        });
    }

    /// An `fsync` with much left to write back.
    fn is_big(&self, task: Task) -> bool {
        self.writeback.pieces_of(task) > WRITER_PIECES
    }

    fn reads_running(&self) -> u32 {
        self.reading.iter().map(|word| word.count_ones()).sum()
    }

    fn start_read(&mut self, now: Nanos, task: Task) {
        let (word, mask) = bit(usize::from(task));
        if let Some(word) = self.reading.get_mut(word) {
            *word |= mask;
        }
        self.read_at = now;
    }

    /// Sets up a state of all zero bytes.
    pub(super) fn begin(&mut self, settings: Settings) {
        self.settings = settings;
        self.writeback.begin(settings.writeback);
        (self.slots, self.quiet) = (settings.slots, QUIET);
        self.strides.begin();
        self.tokens.begin(settings.device);
    }

    /// Puts an account in its place among those that wait: what it did not use while it was away is
    /// lost.
    fn takes_its_place(&mut self, account: Account) {
        if self.ranked != 0 {
            let reads = self.reads.iter().map(|(_, read)| read.call.account);
            let waiting = reads.chain(self.writeback.accounts());
            let least = waiting.map(|account| self.strides.pass_of(account)).min();
            self.strides.raise(account, least.map_or(self.reached, |pass| pass.min(self.reached)));
        }
    }

    fn rank(&self, account: Account) -> u64 {
        if self.ranked != 0 { self.strides.pass_of(account) } else { 0 }
    }

    /// A call of this account goes on: accounts that come back begin at its pass.
    fn goes(&mut self, account: Account) {
        if self.ranked != 0 {
            self.reached = self.reached.max(self.strides.pass_of(account));
        }
    }

    /// An account has used so much of the device.
    fn uses(&mut self, account: Account, cost: Nanos) {
        if self.ranked != 0 {
            self.strides.charge(account, cost);
        }
    }

    /// A background task goes on to its queue if its account has tokens. Else it waits for them.
    fn pay(&mut self, now: Nanos, task: Task, call: &Call, kind: u64) -> Entry {
        if self.tokens.wait(now, call.account) > Nanos(0) {
            self.unpaid.insert(task, Waiter { call: *call, arrived: now, mark: kind });
            return Entry::Wait;
        }
        self.takes_its_place(call.account);
        match kind {
            WRITE => self.write_in_turn(now, task, call),
            _ => self.read_in_turn(now, task, call),
        }
    }

    fn write_in_turn(&mut self, now: Nanos, task: Task, call: &Call) -> Entry {
        let call = Call { deadline: BACKGROUND_DEADLINE, ..*call };
        if call.is_direct() {
            return self.writeback.write_directly(now, task, &call);
        }
        // A write to the cache needs no device: what counts is what it leaves dirty.
        let fits = self.dirty.at(now).saturating_add(call.bytes) <= self.settings.dirty_max
            && (self.is_quiet(now, DESERTED) || call.pieces < self.settings.writeback.pieces_max);
        if fits || call.pieces == 0 {
            return Entry::Go;
        }
        self.writeback.throttle(now, task, &call);
        Entry::Wait
    }

    fn write_back_in_turn(&mut self, now: Nanos, task: Task, call: &Call) -> Entry {
        if call.pieces == 0 {
            return Entry::Go;
        }
        self.takes_its_place(call.account);
        let deadline = if call.deadline > Nanos(0) { call.deadline } else { BACKGROUND_DEADLINE };
        self.writeback.wait_for_writeback(now, task, &Call { deadline, ..*call });
        Entry::Wait
    }

    fn read_in_turn(&mut self, now: Nanos, task: Task, call: &Call) -> Entry {
        if self.reads.is_empty() && self.may_read(now) {
            self.goes(call.account);
            self.start_read(now, task);
            return Entry::Go;
        }
        self.reads.insert(task, Waiter { call: *call, arrived: now, mark: 0 });
        Entry::Wait
    }

    /// Moves tasks whose accounts have tokens by now to their queues. Returns a task that goes on
    /// at once, or else the time when the next account has tokens.
    fn paid(&mut self, now: Nanos) -> Result<Task, Nanos> {
        loop {
            let wait = |(task, waiter): (Task, &Waiter)| {
                (self.tokens.wait(now, waiter.call.account), waiter.arrived, task)
            };
            match self.unpaid.iter().map(wait).min() {
                None => return Err(Nanos(u64::MAX)),
                Some((wait, ..)) if wait > Nanos(0) => return Err(now + wait),
                Some((.., task)) => {
                    let Some(waiter) = self.unpaid.remove(task) else { continue };
                    if self.pay(now, task, &waiter.call, waiter.mark) == Entry::Go {
                        return Ok(task);
                    }
                }
            }
        }
    }

    /// Whether a background read may start now.
    fn may_read(&mut self, now: Nanos) -> bool {
        if self.is_quiet(now, self.quiet) && now.since(self.slots_at) >= READ_EVERY {
            self.slots = self.slots.saturating_mul(2).clamp(1, SLOTS_MAX);
            self.slots_at = now;
        }
        // One more than there are slots at the most: where the device needs longer than
        // `READ_EVERY`, reads would start faster than they end.
        let running = self.reads_running();
        running < self.slots || running == self.slots && now.since(self.read_at) >= READ_EVERY
    }
}

impl Scheduler for Rcp {
    fn name(&self) -> &'static str {
        "rcp"
    }

    fn set_account(&mut self, now: Nanos, account: Account, settings: &AccountSettings) {
        self.strides.set_level(account, settings.level);
        self.ranked |= u32::from(settings.level != USUAL_LEVEL);
        self.tokens.set_account(now, account, settings);
    }

    fn forget_account(&mut self, account: Account) {
        self.strides.forget(account);
        self.tokens.forget_account(account);
        self.writeback.forget_account(account);
        self.writeback.forget_account(reader(account));
    }

    fn forget_ended(&mut self, now: Nanos, lives: &dyn Fn(Account) -> bool) -> bool {
        self.writeback.forget_ended(now, &|account| lives(account & !READS))
    }

    fn write_entry(&mut self, now: Nanos, task: Task, call: &Call) -> Entry {
        self.note_account(call);
        if call.urgency != Urgency::Background {
            // One of them is enough: those that need the journal are blocked together.
            if self.write == 0 || self.write == u32::from(task) + 1 {
                self.write = u32::from(task) + 1;
                self.write_since = now;
            }
            return Entry::Go;
        }
        self.pay(now, task, call, WRITE)
    }

    fn write_return(&mut self, now: Nanos, task: Task, call: &Call) {
        if self.writeback.end_direct(now, task) {
            self.goes(call.account);
            self.uses(call.account, self.settings.device.runs(1, call.bytes));
        }
        if self.write == u32::from(task) + 1 {
            if self.write_is_blocked(now) {
                self.see_critical(now);
            }
            self.write = 0;
        }
    }

    fn fsync_entry(&mut self, now: Nanos, task: Task, call: &Call) -> Entry {
        if is_critical(call) {
            self.begin_critical(now);
            // A long one paces the background, too: clients wait for it, and a log is long after
            // they have waited.
            self.writeback.begin_small(now, call.account);
            return Entry::Go;
        }
        self.write_back_in_turn(now, task, call)
    }

    fn commit_entry(&mut self, now: Nanos, task: Task, call: &Call) -> Entry {
        if is_critical(call) {
            self.note_account(call);
            return self.fsync_entry(now, task, call);
        }
        self.write_entry(now, task, call)
    }

    fn commit_return(&mut self, now: Nanos, task: Task, call: &Call, took: Nanos) {
        if is_critical(call) {
            return self.fsync_return(now, task, call, took);
        }
        self.write_return(now, task, call);
    }

    fn range_entry(&mut self, now: Nanos, task: Task, call: &Call) -> Entry {
        match call.urgency {
            Urgency::Background => self.fsync_entry(now, task, call),
            Urgency::Critical | Urgency::Guessed => Entry::Go,
        }
    }

    fn fsync_return(&mut self, now: Nanos, task: Task, call: &Call, took: Nanos) {
        if is_critical(call) {
            self.end_critical(now);
            let took = self.writeback.is_small(call).then_some(took);
            self.writeback.end_small(now, call.account, took, deadline_of(call));
        } else {
            self.tokens.fsync_return(now, task, call, took);
        }
        self.writeback.flushed(now);
    }

    fn buffer_dirty(&mut self, now: Nanos, dirtied: &Dirtied) {
        if !has_bit(&self.background, dirtied.account) {
            return;
        }
        self.tokens.buffer_dirty(now, dirtied);
        if dirtied.new_bytes > 0 {
            let (word, mask) = bit(usize::from(dirtied.account));
            self.dirtied[word] |= mask;
            self.dirty.add(now, dirtied.new_bytes);
        }
    }

    fn buffer_free(&mut self, now: Nanos, freed: &Freed) {
        self.revise(now, freed.causes, (freed.cost, Nanos(0)));
        self.cleaned(now, freed.causes, freed.bytes);
    }

    fn buffer_clean(&mut self, now: Nanos, cleaned: &Cleaned) {
        self.revise(now, cleaned.causes, (cleaned.charged, cleaned.cost));
        self.cleaned(now, cleaned.causes, cleaned.bytes);
    }

    fn req_add(&mut self, now: Nanos, task: Task, request: &Request) -> Entry {
        if request.operation != Operation::Read {
            return Entry::Go;
        }
        if request.class != IoClass::Idle {
            self.begin_critical(now);
            self.writeback.begin_small(now, reader(request.cause as Account));
            return Entry::Go;
        }
        let call = Call { account: request.cause as Account, ..Call::default() };
        self.pay(now, task, &call, READ)
    }

    fn req_complete(&mut self, now: Nanos, task: Task, request: &Request, service: Nanos) {
        if request.operation != Operation::Read {
            return;
        }
        let critical = request.class != IoClass::Idle;
        if !critical {
            self.uses(request.cause as Account, service);
            self.tokens.req_complete(now, task, request, service);
        }
        let (word, mask) = bit(usize::from(task));
        let Some(word) = self.reading.get_mut(word) else {
            // It did not ask before it went to the device.
            if critical {
                self.see_critical(now);
            }
            return;
        };
        if *word & mask != 0 {
            *word &= !mask;
        } else if critical {
            self.end_critical(now);
            let account = reader(request.cause as Account);
            self.writeback.end_small(now, account, Some(service), Nanos::from_millis(1_000));
        }
    }

    fn dispatch(&mut self, now: Nanos) -> Step {
        let next_paid = match self.paid(now) {
            Ok(task) => return Step::Admit(task),
            Err(next) => next,
        };
        if !self.reads.is_empty() && self.may_read(now) {
            let place = |(_, read): &(Task, &Waiter)| (self.rank(read.call.account), read.arrived);
            if let Some(task) = self.reads.iter().min_by_key(place).map(|(task, _)| task) {
                let read = self.reads.remove(task);
                self.goes(read.map_or(0, |read| read.call.account));
                self.start_read(now, task);
                return Step::Admit(task);
            }
        }
        if self.write_is_blocked(now) {
            self.writeback.stay_active(now);
        }
        let (strides, ranked) = (&self.strides, self.ranked != 0);
        let rank = |account| if ranked { strides.pass_of(account) } else { 0 };
        let step = self.writeback.dispatch_by(now, rank);
        if let Step::Writeback { task, pieces } = step {
            let cost = self.settings.device.runs(u64::from(pieces), 0);
            let account = self.writeback.account_of(task).unwrap_or_default();
            self.goes(account);
            self.uses(account, cost);
        }
        // If more reads run than there are slots, the next one to end calls `dispatch`.
        let next_read = match self.read_at + READ_EVERY {
            _ if self.reads.is_empty() => Nanos(u64::MAX),
            next if next > now => next,
            _ => now + READ_EVERY,
        };
        match (step, next_read.min(next_paid)) {
            (Step::Wait(until), next) => Step::Wait(until.min(next)),
            (Step::Idle, next) if next < Nanos(u64::MAX) => Step::Wait(next),
            (step, _) => step,
        }
    }

    fn waits_in_turn(&self, task: Task) -> bool {
        self.writeback.holds(task)
    }

    fn written_back(&mut self, now: Nanos, task: Task, pieces: u32, left: u32) {
        self.writeback.written_back(now, task, pieces, left);
    }

    fn promote(&mut self, now: Nanos, task: Task, sure: bool) -> bool {
        if !sure && self.is_big(task) {
            return false;
        }
        if self.reads.remove(task).is_some() || self.unpaid.remove(task).is_some() {
            self.see_critical(now);
            return true;
        }
        let holds = self.writeback.holds(task);
        self.writeback.cancel(now, task);
        if holds {
            self.see_critical(now);
        }
        holds
    }

    fn may_block_clients(&mut self, now: Nanos, task: Task, waited: Nanos) -> bool {
        // A wait that is longer than a long call has been held has another reason.
        let held = match self.reads.get(task).or(self.unpaid.get(task)) {
            Some(read) => now.since(read.arrived),
            None => self.writeback.held_for(now, task),
        };
        let pieces = self.writeback.pieces_of(task).saturating_sub(WRITER_PIECES);
        // A holder may make many short calls under one lock: each is held for a short time only.
        let waited = if pieces > 0 { waited.min(held) } else { waited };
        // What a client waits for is usually other clients' I/O.
        let alone = self.critical == 0
            && now.since(self.critical_at) >= STUCK_ALONE
            && !self.write_is_blocked(now);
        let (least, most) = match alone {
            true => (STUCK_ALONE, STUCK_BIG_ALONE),
            false => (STUCK_CALL, STUCK_BIG),
        };
        let patience = (least + Nanos(STUCK_PIECE.0 * u64::from(pieces))).min(most);
        // One at a time: it is a guess, and one of many held writes is enough for a holder.
        if waited < patience || now.since(self.guessed_at) < GUESS_EVERY {
            return false;
        }
        self.guessed_at = now;
        self.promote(now, task, true)
    }

    fn guessed(&mut self, now: Nanos, file: u32, right: bool) {
        self.trust.guessed(now, file, right);
    }

    fn trusts(&self, now: Nanos, file: u32) -> bool {
        self.trust.trusts(now, file)
    }

    fn cancel(&mut self, now: Nanos, task: Task) {
        self.reads.remove(task);
        self.unpaid.remove(task);
        let (word, mask) = bit(usize::from(task));
        if let Some(word) = self.reading.get_mut(word) {
            *word &= !mask;
        }
        self.writeback.cancel(now, task);
    }

    fn waiting(&self) -> usize {
        self.reads.len() + self.unpaid.len() + self.writeback.waiting()
    }
}

#[cfg(test)]
mod tests;
