//! RCP: I/O that a client waits for goes first, whichever thread issues it.
//!
//! # Problem
//! A commit or a read waits seconds behind a checkpoint, a vacuum or a backup. Neither the kind of
//! an I/O nor its issuer tells whether a client waits for it. A background task may hold the lock
//! that a client's request needs (RCP, section 3).
//!
//! # Terms
//! * *critical*, *background*: of a call: a client waits for it, or not ([`Call::criticality`]).
//! * *quiet*: no critical I/O was seen for [`QUIET`], or for [`QUIET_ALONE`] if the last one was a
//!   single one after such a pause.
//! * *piece*, *batch*, *commit*: see [`super::pacer`]. *Slot*: see [`slots`].
//! * *pass*, *token*: see [`super::strides`] and [`super::token`].
//!
//! # The primitive
//! Critical calls are never held. Background ones are held before anything depends on them (section
//! 8: writes at the system call, reads at the block level):
//!
//! * **Writes** go on while background tasks have dirtied less than [`Settings::dirty_max`] bytes
//!   (section 4.3, caching layer). Beyond, the writer's thread first writes some pieces of the same
//!   file back, as a writer does that the kernel throttles. While critical I/O is active, and for
//!   [`DESERTED`] after, a file has [`pacer::Settings::pieces_max`] dirty pieces at most.
//! * **`fsync`s** write their data back first, in the [pacer](super::pacer)'s batches. To the
//!   pacer, all critical `fsync`s and reads are commits.
//! * **Reads** that miss the cache need one of [`Settings::slots`] slots while critical I/O is
//!   active. While it is quiet, the slots double every 10 ms.
//! * **Order.** Tasks that wait for the same go first come, first served. Once rules give accounts
//!   different priorities, the task of the account with the least pass goes first.
//! * **Limits.** Writes and reads of an account whose tokens are used up wait for tokens first. An
//!   `fsync` does not: what it writes was charged when it became dirty.
//!
//! A task that a client's request waits for is [promoted](Scheduler::promote): it goes on at once.
//! Where the holder of a lock is not known, it may be a task that is held here
//! ([`Scheduler::may_block_clients`]). It probably is if a client waits and no critical I/O runs.
//! Calls on files of which that was right repeatedly are critical for some time ([`super::trust`]).
//!
//! # Invariants
//! No critical call waits, and none is ordered or limited. Every held task goes on if it is driven.
//!
//! # Worked example
//! A checkpointer's `fsync` has 300 dirty pieces, and a client commits every 20 ms. The commit goes
//! to the device at once. When it returns, one batch of the checkpointer's pieces is ordered, as
//! large as commits of at most three times their undisturbed time allow.

mod background;
mod slots;

pub use slots::READ_EVERY;

use super::pacer::{self, DESERTED, Pacer, WRITER_PIECES, deadline_of};
use super::trust::Trust;
use super::{
    ACCOUNTS, Account, AccountSettings, Call, Cleaned, Criticality, DeviceCost, Dirtied, Entry,
    Freed, Scheduler, Step, TASKS, Task,
};
use crate::Nanos;
use crate::block::{IoClass, Operation, Request};
use background::{Background, READ, WRITE};
use slots::Slots;

/// Critical I/O that was last seen so long ago is not waited for.
pub const QUIET: Nanos = Nanos::from_millis(100);

/// The same for critical I/O that came alone: the next one will not come within [`QUIET`] either.
pub const QUIET_ALONE: Nanos = Nanos::from_millis(20);

/// A write to the cache takes microseconds. One that takes so long waits for the device.
pub const BLOCKED_AFTER: Nanos = Nanos::from_millis(2);

/// A client waits for a holder that is not known. A held call goes on after this time:
///
/// | critical I/O meanwhile | at least | and for each piece beyond [`WRITER_PIECES`] | at most |
/// | --- | --- | --- | --- |
/// | none | [`STUCK_ALONE`] | [`STUCK_PIECE`] | [`STUCK_BIG_ALONE`] |
/// | some | [`STUCK_CALL`] | [`STUCK_PIECE`] | [`STUCK_BIG`] |
///
/// If the guess is wrong, all clients wait for the pieces.
pub const STUCK_ALONE: Nanos = Nanos::from_millis(10);
/// See [`STUCK_ALONE`].
pub const STUCK_CALL: Nanos = Nanos::from_millis(100);
/// See [`STUCK_ALONE`].
pub const STUCK_PIECE: Nanos = Nanos::from_millis(5);
/// See [`STUCK_ALONE`].
pub const STUCK_BIG_ALONE: Nanos = Nanos::from_millis(200);
/// See [`STUCK_ALONE`].
pub const STUCK_BIG: Nanos = Nanos::from_millis(1_000);

/// Held calls go on one after the other, so far apart.
pub const GUESS_EVERY: Nanos = Nanos::from_millis(20);

/// Deadline of the background's `fsync`s for which no rule sets one.
const BACKGROUND_DEADLINE: Nanos = Nanos::from_millis(20_000);

/// Marks the accounts of reads for the pacer: a read takes another time than an `fsync`.
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
    /// See [`pacer::Settings`].
    pub writeback: pacer::Settings,
    /// Costs of the device, for shares and tokens.
    pub device: DeviceCost,
}

crate::layout!(Settings { dirty_max, slots, writeback, device });

impl Settings {
    /// The usual ones for a kind of device.
    pub const fn for_device(rotational: bool) -> Self {
        let writeback = pacer::Settings::for_device(rotational);
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
    pacer: Pacer,
    /// Reads of the background.
    reads: Slots,
    /// Shares and limits, and what is dirty.
    background: Background,
    /// Critical `fsync`s and reads that run.
    critical: u32,
    /// A critical write that runs, plus one: the first that began after the last such one returned.
    write: u32,
    /// When it began.
    write_since: Nanos,
    /// When critical I/O was last seen.
    critical_at: Nanos,
    /// How long the next one is waited for.
    quiet: Nanos,
    /// When a task last went on because it may have blocked a client.
    guessed_at: Nanos,
    /// Files whose calls are critical.
    trust: Trust,
}

crate::layout!(Rcp {
    settings,
    pacer,
    reads,
    background,
    critical,
    write,
    write_since,
    critical_at,
    quiet,
    guessed_at,
    trust
});

impl Default for Rcp {
    fn default() -> Self {
        Rcp::new(Settings::for_device(true))
    }
}

/// Whether an `fsync` goes at once. If it has much to write, that takes more than a guess.
fn is_critical(call: &Call) -> bool {
    match call.criticality {
        Criticality::Critical => true,
        Criticality::Background => false,
        Criticality::Guessed => call.pieces <= WRITER_PIECES,
    }
}

fn reader(account: Account) -> Account {
    account | READS
}

impl Rcp {
    /// No task waits.
    pub fn new(settings: Settings) -> Self {
        Rcp {
            settings,
            pacer: Pacer::new(settings.writeback),
            reads: Slots::new(settings.slots),
            background: Background::new(settings.device),
            critical: 0,
            write: 0,
            write_since: Nanos(0),
            critical_at: Nanos(0),
            quiet: QUIET,
            guessed_at: Nanos(0),
            trust: Trust::default(),
        }
    }

    /// Sets how much background tasks may dirty before their writes are held.
    pub fn set_dirty_max(&mut self, bytes: u64) {
        self.settings.dirty_max = bytes;
    }

    /// Sets how many reads of the background run while critical I/O is active.
    pub fn set_reads(&mut self, count: u32) {
        self.reads.begin(count);
    }

    /// Critical I/O was seen: the slots fall back.
    fn see_critical(&mut self, now: Nanos) {
        self.quiet = if now.since(self.critical_at) > QUIET { QUIET_ALONE } else { QUIET };
        self.critical_at = now;
        self.reads.fall_back();
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

    /// An `fsync` with much left to write back.
    fn is_big(&self, task: Task) -> bool {
        self.pacer.pieces_of(task) > WRITER_PIECES
    }

    /// Sets up a state of all zero bytes.
    pub(super) fn begin(&mut self, settings: Settings) {
        self.settings = settings;
        self.pacer.begin(settings.writeback);
        self.reads.begin(settings.slots);
        self.quiet = QUIET;
        self.background.begin(settings.device);
    }

    /// Puts an account in its place among those that wait.
    fn takes_its_place(&mut self, account: Account) {
        let waiting = self.reads.accounts().chain(self.pacer.accounts());
        self.background.takes_its_place(account, waiting);
    }

    /// A background task goes on to its queue if its account has tokens. Else it waits for them.
    fn pay(&mut self, now: Nanos, task: Task, call: &Call, kind: u64) -> Entry {
        if self.background.waits_for_tokens(now, task, call, kind) {
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
            return self.pacer.write_directly(now, task, &call);
        }
        // A write to the cache needs no device: what counts is what it leaves dirty.
        let fits = self.background.dirty(now).saturating_add(call.bytes) <= self.settings.dirty_max
            && (self.is_quiet(now, DESERTED) || call.pieces < self.settings.writeback.pieces_max);
        if fits || call.pieces == 0 {
            return Entry::Go;
        }
        self.pacer.throttle(now, task, &call);
        Entry::Wait
    }

    fn write_back_in_turn(&mut self, now: Nanos, task: Task, call: &Call) -> Entry {
        if call.pieces == 0 {
            return Entry::Go;
        }
        self.takes_its_place(call.account);
        let deadline = if call.deadline > Nanos(0) { call.deadline } else { BACKGROUND_DEADLINE };
        self.pacer.wait_for_writeback(now, task, &Call { deadline, ..*call });
        Entry::Wait
    }

    fn read_in_turn(&mut self, now: Nanos, task: Task, call: &Call) -> Entry {
        let entry = self.reads.enter(now, task, call, self.is_quiet(now, self.quiet));
        if entry == Entry::Go {
            self.background.goes(call.account);
        }
        entry
    }

    /// Moves tasks whose accounts have tokens by now to their queues. Returns a task that goes on
    /// at once, or else the time when the next account has tokens.
    fn paid(&mut self, now: Nanos) -> Result<Task, Nanos> {
        loop {
            let (task, waiter) = self.background.next_paid(now)?;
            if self.pay(now, task, &waiter.call, waiter.mark) == Entry::Go {
                return Ok(task);
            }
        }
    }
}

impl Scheduler for Rcp {
    fn name(&self) -> &'static str {
        "rcp"
    }

    fn set_account(&mut self, now: Nanos, account: Account, settings: &AccountSettings) {
        self.background.set_account(now, account, settings);
    }

    fn forget_account(&mut self, account: Account) {
        self.background.forget_account(account);
        self.pacer.forget_account(account);
        self.pacer.forget_account(reader(account));
    }

    fn forget_ended(&mut self, now: Nanos, lives: &dyn Fn(Account) -> bool) -> bool {
        self.pacer.forget_ended(now, &|account| lives(account & !READS))
    }

    fn write_entry(&mut self, now: Nanos, task: Task, call: &Call) -> Entry {
        self.background.writes(call);
        if call.criticality != Criticality::Background {
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
        if self.pacer.end_direct(now, task) {
            self.background.goes(call.account);
            self.background.uses(call.account, self.settings.device.runs(1, call.bytes));
        }
        if self.write == u32::from(task) + 1 {
            if self.write_is_blocked(now) {
                self.see_critical(now);
            }
            self.write = 0;
        }
    }

    fn woke_late(&mut self, by: Nanos) {
        self.pacer.woke_late(by);
    }

    fn commits_unseen(&mut self, now: Nanos, call: &Call) -> bool {
        if is_critical(call) {
            self.see_critical(now);
            self.pacer.commits_unseen(now, call);
        }
        is_critical(call)
    }

    fn fsync_entry(&mut self, now: Nanos, task: Task, call: &Call) -> Entry {
        if is_critical(call) {
            self.begin_critical(now);
            // A long one paces the background, too: clients wait for it, and a log is long after
            // they have waited.
            self.pacer.begin_commit(now, call.account, Some(call.file));
            return Entry::Go;
        }
        self.write_back_in_turn(now, task, call)
    }

    fn commit_entry(&mut self, now: Nanos, task: Task, call: &Call) -> Entry {
        if is_critical(call) {
            self.background.writes(call);
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
        match call.criticality {
            Criticality::Background => self.fsync_entry(now, task, call),
            Criticality::Critical | Criticality::Guessed => Entry::Go,
        }
    }

    fn fsync_return(&mut self, now: Nanos, task: Task, call: &Call, took: Nanos) {
        if is_critical(call) {
            self.end_critical(now);
            let took = self.pacer.is_small(call).then_some(took);
            self.pacer.end_commit(now, call.account, took, deadline_of(call));
        } else {
            self.background.tokens.fsync_return(now, task, call, took);
        }
        self.pacer.flushed(now);
    }

    fn buffer_dirty(&mut self, now: Nanos, dirtied: &Dirtied) {
        self.background.dirties(now, dirtied);
    }

    fn buffer_free(&mut self, now: Nanos, freed: &Freed) {
        self.background.frees(now, freed);
    }

    fn buffer_clean(&mut self, now: Nanos, cleaned: &Cleaned) {
        self.background.cleans(now, cleaned);
    }

    fn req_add(&mut self, now: Nanos, task: Task, request: &Request) -> Entry {
        if request.operation != Operation::Read {
            return Entry::Go;
        }
        if request.class != IoClass::Idle {
            self.begin_critical(now);
            self.pacer.begin_commit(now, reader(request.cause as Account), None);
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
            self.background.uses(request.cause as Account, service);
            self.background.tokens.req_complete(now, task, request, service);
        }
        if usize::from(task) >= TASKS {
            // It did not ask before it went to the device.
            if critical {
                self.see_critical(now);
            }
        } else if !self.reads.end(task) && critical {
            self.end_critical(now);
            let account = reader(request.cause as Account);
            self.pacer.end_commit(now, account, Some(service), Nanos::from_millis(1_000));
        }
    }

    fn dispatch(&mut self, now: Nanos) -> Step {
        let next_paid = match self.paid(now) {
            Ok(task) => return Step::Admit(task),
            Err(next) => next,
        };
        let quiet = self.is_quiet(now, self.quiet);
        if let Some((task, account)) = self.reads.next(now, quiet, self.background.rank()) {
            self.background.goes(account);
            return Step::Admit(task);
        }
        if self.write_is_blocked(now) {
            self.pacer.stay_active(now);
        }
        let step = self.pacer.dispatch_by(now, self.background.rank());
        if let Step::Writeback { task, pieces } = step {
            let cost = self.settings.device.runs(u64::from(pieces), 0);
            let account = self.pacer.account_of(task).unwrap_or_default();
            self.background.goes(account);
            self.background.uses(account, cost);
        }
        let next_read = self.reads.ask_again(now);
        match (step, next_read.min(next_paid)) {
            (Step::Wait(until), next) => Step::Wait(until.min(next)),
            (Step::Idle, next) if next < Nanos(u64::MAX) => Step::Wait(next),
            (step, _) => step,
        }
    }

    fn waits_in_turn(&self, task: Task) -> bool {
        self.pacer.holds(task)
    }

    fn written_back(&mut self, now: Nanos, task: Task, pieces: u32, left: u32) {
        self.pacer.written_back(now, task, pieces, left);
    }

    fn promote(&mut self, now: Nanos, task: Task, sure: bool) -> bool {
        if !sure && self.is_big(task) {
            return false;
        }
        let held =
            self.reads.remove(task) || self.background.remove(task) || self.pacer.cancel(now, task);
        if held {
            self.see_critical(now);
        }
        held
    }

    fn may_block_clients(&mut self, now: Nanos, task: Task, waited: Nanos) -> bool {
        // A wait that is longer than a long call has been held has another reason.
        let held = match self.reads.arrived(task).or(self.background.arrived(task)) {
            Some(arrived) => now.since(arrived),
            None => self.pacer.held_for(now, task),
        };
        let pieces = self.pacer.pieces_of(task).saturating_sub(WRITER_PIECES);
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

    fn trusts(&self, now: Nanos, file: u32) -> Option<Criticality> {
        self.trust.trusts(now, file)
    }

    fn cancel(&mut self, now: Nanos, task: Task) {
        self.reads.remove(task);
        self.background.remove(task);
        self.reads.end(task);
        self.pacer.cancel(now, task);
    }

    fn waiting(&self) -> usize {
        self.reads.waiting() + self.background.waiting() + self.pacer.waiting()
    }
}

#[cfg(test)]
mod tests;
