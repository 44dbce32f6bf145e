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
use super::trust::Trust;
use super::waiting::{Waiter, Waiting};
use super::{
    ACCOUNTS, Account, Call, Cleaned, Dirtied, Entry, Freed, Scheduler, Step, Task, Urgency,
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
}

crate::layout!(Settings { dirty_max, slots, writeback });

impl Settings {
    /// The usual ones for a kind of device.
    pub const fn for_device(rotational: bool) -> Self {
        let writeback = deadline::Settings::for_device(rotational);
        Settings { dirty_max: 64 << 20, slots: 1, writeback }
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
    /// Bytes that these accounts have dirtied.
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
}

crate::layout!(Rcp {
    settings,
    writeback,
    reads,
    reading,
    background,
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
    trust
});

impl Default for Rcp {
    fn default() -> Self {
        Rcp::new(Settings::for_device(true))
    }
}

fn bit(at: usize) -> (usize, u64) {
    (at / 64, 1 << (at % 64))
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

    fn begin_critical(&mut self, now: Nanos) {
        self.quiet = if now.since(self.critical_at) > QUIET { QUIET_ALONE } else { QUIET };
        self.critical = self.critical.saturating_add(1);
        self.critical_at = now;
        self.slots = self.settings.slots;
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

    fn is_background(&self, account: Account) -> bool {
        let (word, mask) = bit(usize::from(account));
        self.background.get(word).is_some_and(|word| word & mask != 0)
    }

    fn note_account(&mut self, call: &Call) {
        let (word, mask) = bit(usize::from(call.account));
        if let Some(word) = self.background.get_mut(word) {
            if call.urgency == Urgency::Background { *word |= mask } else { *word &= !mask }
        }
    }

    /// The part of the background in what is not dirty any more.
    fn cleaned(&mut self, causes: super::CauseSet, bytes: u64) {
        let mut gone = 0;
        causes.share(bytes, |account, part| {
            gone += if self.is_background(account) { part } else { 0 }
        });
        self.dirty.remove(gone);
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

    /// Whether a background read may start now.
    fn may_read(&mut self, now: Nanos) -> bool {
        if self.is_quiet(now, self.quiet) && now.since(self.slots_at) >= READ_EVERY {
            self.slots = self.slots.saturating_mul(2).clamp(1, SLOTS_MAX);
            self.slots_at = now;
        }
        self.reads_running() < self.slots || now.since(self.read_at) >= READ_EVERY
    }
}

impl Scheduler for Rcp {
    fn name(&self) -> &'static str {
        "rcp"
    }

    fn write_entry(&mut self, now: Nanos, task: Task, call: &Call) -> Entry {
        self.note_account(call);
        // A write to the cache needs no device: what counts is what it leaves dirty.
        let fits = self.dirty.at(now).saturating_add(call.bytes) <= self.settings.dirty_max
            && (self.is_quiet(now, DESERTED) || call.pieces < self.settings.writeback.pieces_max);
        if call.urgency != Urgency::Background {
            // One of them is enough: those that need the journal are blocked together.
            if self.write == 0 || self.write == u32::from(task) + 1 {
                self.write = u32::from(task) + 1;
                self.write_since = now;
            }
            return Entry::Go;
        }
        if fits || call.pieces == 0 {
            return Entry::Go;
        }
        self.writeback.throttle(now, task, &Call { deadline: BACKGROUND_DEADLINE, ..*call });
        Entry::Wait
    }

    fn write_return(&mut self, now: Nanos, task: Task, _: &Call) {
        if self.write == u32::from(task) + 1 {
            if self.write_is_blocked(now) {
                self.critical_at = now;
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
        if call.pieces == 0 {
            return Entry::Go;
        }
        let deadline = if call.deadline > Nanos(0) { call.deadline } else { BACKGROUND_DEADLINE };
        self.writeback.wait_for_writeback(now, task, &Call { deadline, ..*call });
        Entry::Wait
    }

    fn range_entry(&mut self, now: Nanos, task: Task, call: &Call) -> Entry {
        match call.urgency {
            Urgency::Background => self.fsync_entry(now, task, call),
            Urgency::Critical | Urgency::Guessed => Entry::Go,
        }
    }

    fn fsync_return(&mut self, now: Nanos, _: Task, call: &Call, took: Nanos) {
        if is_critical(call) {
            self.end_critical(now);
            let took = self.writeback.is_small(call).then_some(took);
            self.writeback.end_small(now, call.account, took, deadline_of(call));
        }
        self.writeback.flushed(now);
    }

    fn buffer_dirty(&mut self, now: Nanos, dirtied: &Dirtied) {
        if self.is_background(dirtied.account) {
            self.dirty.add(now, dirtied.new_bytes);
        }
    }

    fn buffer_free(&mut self, _: Nanos, freed: &Freed) {
        self.cleaned(freed.causes, freed.bytes);
    }

    fn buffer_clean(&mut self, _: Nanos, cleaned: &Cleaned) {
        self.cleaned(cleaned.causes, cleaned.bytes);
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
        if self.reads.is_empty() && self.may_read(now) {
            self.start_read(now, task);
            return Entry::Go;
        }
        let call = Call { account: request.cause as Account, ..Call::default() };
        self.reads.insert(task, Waiter { call, arrived: now, mark: 0 });
        Entry::Wait
    }

    fn req_complete(&mut self, now: Nanos, task: Task, request: &Request, service: Nanos) {
        if request.operation != Operation::Read {
            return;
        }
        let critical = request.class != IoClass::Idle;
        let (word, mask) = bit(usize::from(task));
        let Some(word) = self.reading.get_mut(word) else {
            // It did not ask before it went to the device.
            self.critical_at = if critical { now } else { self.critical_at };
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
        if !self.reads.is_empty() && self.may_read(now) {
            let first = self.reads.iter().min_by_key(|(_, waiter)| waiter.arrived);
            if let Some(task) = first.map(|(task, _)| task) {
                self.reads.remove(task);
                self.start_read(now, task);
                return Step::Admit(task);
            }
        }
        if self.write_is_blocked(now) {
            self.writeback.stay_active(now);
        }
        let step = self.writeback.dispatch(now);
        if self.reads.is_empty() {
            return step;
        }
        let next_read = self.read_at + READ_EVERY;
        match step {
            Step::Idle => Step::Wait(next_read),
            Step::Wait(until) => Step::Wait(until.min(next_read)),
            step => step,
        }
    }

    fn written_back(&mut self, now: Nanos, task: Task, pieces: u32, left: u32) {
        self.writeback.written_back(now, task, pieces, left);
    }

    fn promote(&mut self, now: Nanos, task: Task, sure: bool) -> bool {
        if !sure && self.is_big(task) {
            return false;
        }
        if self.reads.remove(task).is_some() {
            return true;
        }
        let holds = self.writeback.holds(task);
        self.writeback.cancel(now, task);
        holds
    }

    fn may_block_clients(&mut self, now: Nanos, task: Task, waited: Nanos) -> bool {
        // A wait that is longer than a long call has been held has another reason.
        let held = match self.reads.get(task) {
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
        self.writeback.cancel(now, task);
    }

    fn waiting(&self) -> usize {
        self.reads.len() + self.writeback.waiting()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::split::{CauseSet, dirty};

    const CLIENT: Account = 1;
    const CHECKPOINTER: Account = 2;
    const OTHER: Account = 3;
    const MS: u64 = 1_000_000;

    fn call(account: Account, pieces: u32) -> Call {
        Call {
            account,
            pieces,
            bytes: u64::from(pieces) * 4096,
            urgency: if account == CHECKPOINTER { Urgency::Background } else { Urgency::Critical },
            ..Call::default()
        }
    }

    fn read(account: Account) -> Request {
        Request {
            operation: Operation::Read,
            sector: 0,
            sectors: 16,
            fua: false,
            sync: true,
            cause: account.into(),
            class: if account == CHECKPOINTER { IoClass::Idle } else { IoClass::BestEffort },
            level: 4,
            deadline: None,
        }
    }

    #[test]
    fn critical_calls_never_wait() {
        let mut rcp = Rcp::default();
        for task in 0..100 {
            let now = Nanos(u64::from(task) * MS);
            assert_eq!(rcp.fsync_entry(now, task, &call(CLIENT, 9_000)), Entry::Go);
            assert_eq!(rcp.write_entry(now, task, &call(CLIENT, 9_000)), Entry::Go);
            assert_eq!(rcp.req_add(now, task, &read(CLIENT)), Entry::Go);
        }
        assert_eq!(rcp.waiting(), 0);
    }

    #[test]
    fn a_checkpoint_writes_back_in_small_batches_while_clients_commit() {
        let mut rcp = Rcp::default();
        let mut now = Nanos(0);
        // The client's commit takes 10 ms alone and 2 ms more for each piece in flight.
        assert_eq!(rcp.fsync_entry(now, 9, &call(CHECKPOINTER, 300)), Entry::Wait);
        let (mut left, mut largest) = (300, 0);
        for round in 0..200 {
            assert_eq!(rcp.fsync_entry(now, 0, &call(CLIENT, 1)), Entry::Go);
            let mut ordered = 0;
            while let Step::Writeback { task: 9, pieces } = rcp.dispatch(now) {
                ordered += pieces;
            }
            if round > 20 {
                largest = largest.max(ordered);
            }
            let took = Nanos(10 * MS + u64::from(ordered) * 2 * MS);
            now += took;
            left -= ordered;
            if ordered > 0 {
                rcp.written_back(now, 9, ordered, left);
            }
            rcp.fsync_return(now, 0, &call(CLIENT, 1), took);
            now += Nanos(MS);
            if left == 0 {
                break;
            }
        }
        assert_eq!(left, 0, "the checkpoint makes progress");
        assert!((1..=16).contains(&largest), "{largest} pieces in a batch");
        assert_eq!(rcp.dispatch(now), Step::Admit(9));
    }

    #[test]
    fn reads_of_the_background_have_one_slot_while_clients_read() {
        let mut rcp = Rcp::default();
        let mut now = Nanos(1_000 * MS);
        assert_eq!(rcp.req_add(now, 0, &read(CLIENT)), Entry::Go);
        assert_eq!(rcp.req_add(now, 1, &read(CHECKPOINTER)), Entry::Go);
        assert_eq!(rcp.req_add(now, 2, &read(CHECKPOINTER)), Entry::Wait);
        assert_eq!(rcp.req_add(now, 3, &read(CHECKPOINTER)), Entry::Wait);
        assert_eq!(rcp.dispatch(now), Step::Wait(now + READ_EVERY));
        now += READ_EVERY;
        assert_eq!(rcp.dispatch(now), Step::Admit(2), "one each 10 ms at least, in order");
        assert_eq!(rcp.dispatch(now), Step::Wait(now + READ_EVERY));
        rcp.req_complete(now, 1, &read(CHECKPOINTER), Nanos(MS));
        rcp.req_complete(now, 2, &read(CHECKPOINTER), Nanos(MS));
        assert_eq!(rcp.dispatch(now), Step::Admit(3));
    }

    #[test]
    fn slots_double_when_no_client_reads_and_fall_back_at_once() {
        let mut rcp = Rcp::default();
        let mut now = Nanos(1_000 * MS);
        let mut started = 0;
        for step in 0..20 {
            now += READ_EVERY;
            for task in 0..8 {
                let task = step * 8 + task;
                started += u32::from(rcp.req_add(now, task, &read(CHECKPOINTER)) == Entry::Go);
            }
            while let Step::Admit(_) = rcp.dispatch(now) {
                started += 1;
            }
        }
        assert!((64..=84).contains(&started), "64 slots and one each 10 ms: {started}");
        assert_eq!(rcp.req_add(now, 400, &read(CLIENT)), Entry::Go);
        assert_eq!(rcp.slots, 1);
    }

    #[test]
    fn the_next_read_of_a_client_is_waited_for_unless_they_come_alone() {
        let mut rcp = Rcp::default();
        let mut now = Nanos(1_000 * MS);
        // The slots when a client's next read comes, after so long.
        let mut after = |pause: Nanos| {
            let end = now + pause;
            let mut slots = rcp.slots;
            while now < end {
                let _ = rcp.may_read(now);
                slots = rcp.slots;
                now += READ_EVERY;
            }
            rcp.begin_critical(now);
            rcp.end_critical(now);
            slots
        };
        after(Nanos(2_000 * MS));
        assert_eq!(after(Nanos(60 * MS)), 16, "it came alone: doubled after 20, 30, 40 and 50 ms");
        assert_eq!(after(Nanos(60 * MS)), 1, "they come one after the other");
        assert_eq!(after(Nanos(2_000 * MS)), SLOTS_MAX);
    }

    #[test]
    fn a_background_writer_is_held_beyond_its_part_of_the_memory() {
        let mut rcp = Rcp::default();
        rcp.set_dirty_max(1 << 20);
        let now = Nanos(0);
        let write = |pieces| Call { bytes: 8192, ..call(CHECKPOINTER, pieces) };
        assert_eq!(rcp.write_entry(now, 0, &write(0)), Entry::Go);
        let dirtied = Dirtied { account: CHECKPOINTER, new_bytes: 1 << 20, ..Dirtied::default() };
        rcp.buffer_dirty(now, &dirtied);
        assert_eq!(rcp.write_entry(now, 1, &write(9)), Entry::Wait);
        assert_eq!(rcp.dispatch(now), Step::Writeback { task: 1, pieces: WRITER_PIECES });
        let cleaned =
            Cleaned { causes: CauseSet::of(CHECKPOINTER), bytes: 4 << 12, ..Cleaned::default() };
        rcp.buffer_clean(now, &cleaned);
        rcp.written_back(now, 1, WRITER_PIECES, 5);
        assert_eq!(rcp.dispatch(now), Step::Admit(1));
        assert_eq!(rcp.write_entry(now, 2, &write(5)), Entry::Go, "below again");
        assert_eq!(rcp.write_entry(now, 3, &call(CLIENT, 9_000)), Entry::Go);
    }

    #[test]
    fn a_file_has_few_dirty_pieces_while_clients_commit() {
        let mut rcp = Rcp::default();
        let mut now = Nanos(0) + DESERTED;
        let write = |pieces| Call { bytes: 8192, ..call(CHECKPOINTER, pieces) };
        assert_eq!(rcp.write_entry(now, 0, &write(900)), Entry::Go, "nobody commits");
        assert_eq!(rcp.fsync_entry(now, 1, &call(CLIENT, 1)), Entry::Go);
        assert_eq!(rcp.write_entry(now, 2, &write(31)), Entry::Go);
        assert_eq!(rcp.write_entry(now, 3, &write(32)), Entry::Wait);
        rcp.fsync_return(now, 1, &call(CLIENT, 1), Nanos(MS));
        assert_eq!(rcp.dispatch(now), Step::Writeback { task: 3, pieces: 1 });
        now += QUIET + QUIET;
        assert_eq!(rcp.write_entry(now, 4, &write(32)), Entry::Wait, "clients think");
        now += DESERTED;
        assert_eq!(rcp.write_entry(now, 5, &write(32)), Entry::Go);
    }

    #[test]
    fn held_calls_go_on_for_stuck_clients_one_at_a_time() {
        let mut rcp = Rcp::default();
        let mut now = Nanos(1_000 * MS);
        assert_eq!(rcp.fsync_entry(now, 0, &call(CHECKPOINTER, 300)), Entry::Wait);
        assert_eq!(rcp.fsync_entry(now, 1, &call(CHECKPOINTER, 2)), Entry::Wait);
        assert_eq!(rcp.fsync_entry(now, 2, &call(CHECKPOINTER, 2)), Entry::Wait);
        assert!(!rcp.may_block_clients(now, 1, Nanos(9 * MS)));
        assert!(!rcp.may_block_clients(now, 0, Nanos(10 * MS)), "it has much to write");
        now += GUESS_EVERY;
        assert!(rcp.may_block_clients(now, 1, Nanos(10 * MS)), "no client does I/O");
        assert!(!rcp.may_block_clients(now, 2, Nanos(10 * MS)));
        now += GUESS_EVERY;
        assert_eq!(rcp.fsync_entry(now, 3, &call(CLIENT, 1)), Entry::Go);
        now += STUCK_CALL;
        assert!(!rcp.may_block_clients(now, 2, Nanos(99 * MS)), "it may wait for that");
        assert!(rcp.may_block_clients(now, 2, STUCK_CALL));
        now += STUCK_BIG;
        assert!(rcp.may_block_clients(now, 0, STUCK_BIG));
    }

    #[test]
    fn a_call_is_not_let_go_for_what_a_client_waited_for_before_it() {
        let mut rcp = Rcp::default();
        let mut now = Nanos(1_000 * MS);
        assert_eq!(rcp.fsync_entry(now, 0, &call(CHECKPOINTER, 300)), Entry::Wait);
        assert!(!rcp.may_block_clients(now, 0, STUCK_BIG));
        now += STUCK_BIG_ALONE;
        assert!(rcp.may_block_clients(now, 0, STUCK_BIG));
        assert_eq!(rcp.fsync_entry(now, 0, &call(CHECKPOINTER, 300)), Entry::Wait);
        now += GUESS_EVERY;
        assert!(!rcp.may_block_clients(now, 0, STUCK_BIG), "the next file of the same task");
    }

    #[test]
    fn one_of_many_short_calls_is_let_go_for_a_client_that_has_waited_through_them() {
        let mut rcp = Rcp::default();
        let now = Nanos(1_000 * MS);
        assert_eq!(rcp.fsync_entry(now, 3, &call(CLIENT, 1)), Entry::Go);
        assert_eq!(rcp.write_entry(now, 0, &call(CHECKPOINTER, 300)), Entry::Wait);
        assert!(!rcp.may_block_clients(now, 0, Nanos(99 * MS)));
        assert!(rcp.may_block_clients(now, 0, STUCK_CALL), "the holder has made others before");
    }

    #[test]
    fn what_is_dirty_and_never_reported_clean_holds_nobody_for_ever() {
        let mut rcp = Rcp::default();
        rcp.set_dirty_max(1 << 20);
        let mut now = Nanos(1_000 * MS);
        assert_eq!(rcp.write_entry(now, 0, &call(CHECKPOINTER, 0)), Entry::Go);
        let dirtied = Dirtied { account: CHECKPOINTER, new_bytes: 1 << 30, ..Dirtied::default() };
        rcp.buffer_dirty(now, &dirtied);
        assert_eq!(rcp.write_entry(now, 0, &call(CHECKPOINTER, 1)), Entry::Wait);
        rcp.cancel(now, 0);
        // The file is unlinked, or the kernel's flusher has visited it.
        now += dirty::PERIOD + dirty::PERIOD;
        assert_eq!(rcp.write_entry(now, 0, &call(CHECKPOINTER, 1)), Entry::Go);
    }

    #[test]
    fn a_client_whose_write_is_blocked_paces_the_background() {
        let mut rcp = Rcp::default();
        let mut now = Nanos(1_000 * MS);
        assert_eq!(rcp.fsync_entry(now, 9, &call(CLIENT, 1)), Entry::Go);
        rcp.fsync_return(now, 9, &call(CLIENT, 1), Nanos(5 * MS));
        assert_eq!(rcp.write_entry(now, 0, &Call { bytes: 8192, ..call(CLIENT, 1) }), Entry::Go);
        assert_eq!(rcp.fsync_entry(now, 1, &call(CHECKPOINTER, 300)), Entry::Wait);
        let mut ordered = 0;
        for _ in 0..1_000 {
            now += Nanos(MS);
            // Another client's writes are quick.
            assert_eq!(rcp.write_entry(now, 2, &call(OTHER, 1)), Entry::Go);
            rcp.write_return(now, 2, &call(OTHER, 1));
            if let Step::Writeback { task, pieces } = rcp.dispatch(now) {
                ordered += pieces;
                rcp.written_back(now, task, pieces, 300 - ordered);
            }
        }
        assert!(ordered <= 10, "{ordered} pieces within a second beside a client that waits");
        rcp.write_return(now, 0, &call(CLIENT, 1));
        now += deadline::ACTIVE;
        let step = rcp.dispatch(now);
        assert!(matches!(step, Step::Writeback { pieces: 11.., .. }), "{step:?}: nobody waits");
    }

    #[test]
    fn a_long_commit_paces_the_background() {
        let mut rcp = Rcp::default();
        let mut now = Nanos(1_000 * MS);
        let commit = Call { bytes: 1 << 20, ..call(CLIENT, 40) };
        assert_eq!(rcp.fsync_entry(now, 0, &commit), Entry::Go);
        assert_eq!(rcp.fsync_entry(now, 1, &call(CHECKPOINTER, 300)), Entry::Wait);
        now += deadline::ACTIVE;
        let step = rcp.dispatch(now);
        assert!(matches!(step, Step::Writeback { pieces: 1, .. }), "{step:?}");
    }

    #[test]
    fn a_promoted_task_goes_on_at_once() {
        let mut rcp = Rcp::default();
        let now = Nanos(1_000 * MS);
        assert_eq!(rcp.fsync_entry(now, 0, &call(CHECKPOINTER, 300)), Entry::Wait);
        assert!(!rcp.promote(now, 0, false), "a guess lets no big fsync go");
        assert!(rcp.promote(now, 0, true));
        assert!(!rcp.promote(now, 0, true), "it does not wait any more");
        assert_eq!(rcp.req_add(now, 1, &read(CLIENT)), Entry::Go);
        assert_eq!(rcp.req_add(now, 2, &read(CHECKPOINTER)), Entry::Go);
        assert_eq!(rcp.req_add(now, 3, &read(CHECKPOINTER)), Entry::Wait);
        assert!(rcp.promote(now, 3, false));
        assert_eq!(rcp.waiting(), 0);
        rcp.fsync_return(now, 0, &call(CHECKPOINTER, 0), Nanos(MS));
        rcp.req_complete(now, 3, &read(CHECKPOINTER), Nanos(MS));
    }
}
