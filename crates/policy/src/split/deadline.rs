//! Split-Deadline: small `fsync`s are over in time although others flush much.
//!
//! # Problem
//! An `fsync` of much dirty data floods the device, and a journal makes everybody's `fsync` depend
//! on it. Deadlines of block requests do not help: the requests that matter come after the flood.
//!
//! # The primitive
//! An `fsync` that would cost others their deadlines is not issued. Its data is first written back
//! asynchronously, which is no synchronization point and nobody's dependency, until what is left is
//! small (Split, section 2.5.2). Then the real `fsync` runs.
//!
//! * **Pieces.** Dirty data is counted in contiguous pieces, each about one access of the device.
//! * **Batches.** While others issue small `fsync`s, pieces are ordered in batches: one when such
//!   an `fsync` returns, and one whenever none runs. An `fsync` is several accesses, one after the
//!   other; so it waits behind one batch, and not behind some pieces at each of them. While
//!   nobody issued a small `fsync` for [`ACTIVE`], [`Settings::window_max`] pieces are kept in
//!   flight, which keeps the device busy.
//! * **Backlog.** A device takes writes into its cache at once, and the next flush pays for all of
//!   them. So pieces count until a small `fsync` has returned, or for the time that each seems to
//!   take the device. That time is learned from how much longer small `fsync`s take behind how
//!   many pieces.
//! * **Control of the batch.** Each small `fsync` has a *target*: its deadline, but no more than
//!   [`HEADROOM`] of what it takes undisturbed. One that took longer shrinks the batch in
//!   proportion, one in time lets it grow by a quarter of a piece.
//! * **Probes.** What an `fsync` takes undisturbed is an average of those during which nothing was
//!   in flight. Every [`PROBE_EVERY`] nothing is ordered until there were [`PROBES`] of them.
//! * **Dirty files.** The kernel's flusher visits each file 30 s after it first became dirty,
//!   whatever we do, and writes all that is dirty in it at once. So a file with a deadline of
//!   a second or more has [`Settings::pieces_max`] dirty pieces at most while others issue small
//!   `fsync`s, and for [`DESERTED`] after. Beyond, its writer first writes some of them back.
//! * **Commits** by small writes with `O_DSYNC` or `O_SYNC` are small `fsync`s.
//! * **Direct writes** (`O_DIRECT`) go to the device at once. Those to files with a long deadline
//!   are pieces of a batch, too: they wait at the call until there is room.
//! * **Alone.** An `fsync` that fits into what is in flight at once is not held while no other
//!   account commits. An account ends with its thread.
//! * **Own deadline.** The task whose deadline is first is written back first. Beyond its
//!   deadline, its batches double with each further period.
//!
//! # Invariants
//! Every `fsync` is admitted: when it is small or alone, when nothing of it is left, or after
//! [`OVERDUE_MAX`] periods of its deadline. Nothing of it is in flight for longer than
//! [`PATIENCE`] without progress, unless the device is slower.
//!
//! # Worked example
//! A appends a page and calls `fsync`, which takes 10 ms alone; B's `fsync` has 1,000 pieces of 2
//! ms. A's first one finds 32 pieces in flight and takes 74 ms. Then nothing is ordered during four
//! of them, so that 10 ms become known. The batch grows from 1 by a quarter of a piece with each
//! `fsync`, until it is 10 and A takes 30 ms, within its target of 30 ms.

use super::waiting::{Waiter, Waiting};
use super::{Account, Call, Entry, PIECE_BYTES, SMALL_BYTES, Scheduler, Step, TASKS, Task};
use crate::Nanos;

/// A small `fsync` may take so many hundredths of what it takes undisturbed.
pub const HEADROOM: u64 = 300;

/// Who issued a small `fsync` so long ago is not waited for.
pub const ACTIVE: Nanos = Nanos::from_millis(300);

/// `fsync`s of a probe.
pub const PROBES: u32 = 4;

/// A probe ends early if its caller has neither begun nor ended an `fsync` for so long.
pub const PROBE_PAUSE: Nanos = Nanos::from_millis(60);

/// How often a caller's undisturbed time is measured again.
pub const PROBE_EVERY: Nanos = Nanos::from_millis(10_000);

/// Periods of its deadline after which an `fsync` is issued whatever is left.
pub const OVERDUE_MAX: u64 = 4;

/// A batch is ordered after such a time whatever runs.
pub const PATIENCE: Nanos = Nanos::from_millis(200);

/// A small `fsync` that runs for longer is not waited for.
const LOST: Nanos = Nanos::from_millis(10_000);

/// After such a time without small `fsync`s, the dirty pieces of a file are not bounded. If clients
/// come back before the flusher's visit, they wait for all of these pieces.
pub const DESERTED: Nanos = Nanos::from_millis(5_000);

/// Writes are held to files whose deadline is this long or longer: the file of a log is not.
const LONG: Nanos = Nanos::from_millis(1_000);

/// Pieces that a throttled writer writes back before it goes on: so many, or under
/// `split-deadline` a whole batch if that is more.
pub(super) const WRITER_PIECES: u32 = 4;

/// Deadline of an `fsync` without one.
const USUAL_DEADLINE: Nanos = Nanos::from_millis(1_000);

/// Callers of small `fsync`s that are remembered.
const STREAMS: usize = 64;

/// The size of a batch is kept in quarters of a piece.
const QUARTERS: u32 = 4;

/// Tunables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Settings {
    /// Pieces in flight while nobody needs the device, and in the largest batch. Default 32 for a
    /// disk, 64 for flash.
    pub window_max: u32,
    /// An `fsync` of so many pieces is small whatever a batch is. Default 2: a log's tail and its
    /// head.
    pub small: u32,
    /// Dirty pieces of a file with a long deadline, beyond which writes to it are held while others
    /// issue small `fsync`s. Default 32 for a disk, 256 for flash.
    pub pieces_max: u32,
}

crate::layout!(Settings { window_max, small, pieces_max });

impl Settings {
    /// The usual ones for a kind of device.
    pub const fn for_device(rotational: bool) -> Self {
        let (window_max, pieces_max) = if rotational { (32, 32) } else { (64, 256) };
        Settings { window_max, small: 2, pieces_max }
    }
}

/// Small `fsync`s of one account.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
struct Stream {
    /// When one last began or ended.
    last: Nanos,
    /// What one takes undisturbed; zero for not known.
    alone: Nanos,
    /// When that was measured.
    probed: Nanos,
    /// Undisturbed ones that are still to be measured.
    probes: u32,
    /// Those that run.
    running: u32,
    /// Account plus one; zero for nobody.
    account: u32,
    /// Backlog, in quarters of a piece, when the last one began.
    behind: u32,
}

crate::layout!(Stream { last, alone, probed, probes, running, account, behind });

impl Stream {
    fn runs(&self, now: Nanos) -> bool {
        self.running > 0 && now.since(self.last) < LOST
    }

    fn is_active(&self, now: Nanos) -> bool {
        self.account != 0 && (self.runs(now) || now.since(self.last) < ACTIVE)
    }
}

/// See the module.
#[derive(Clone, Debug)]
#[repr(C)]
pub struct Deadline {
    settings: Settings,
    /// `fsync`s whose data is written back. Their mark counts pieces: those in flight (upper half)
    /// and those not ordered yet (lower half).
    waiting: Waiting,
    streams: [Stream; STREAMS],
    /// In quarters of a piece.
    batch: u32,
    in_flight: u32,
    /// Direct writes that run.
    direct: [u64; TASKS / 64],
    /// Direct writes that the last batch has room for.
    open: u32,
    /// Not zero: the last batch was one of direct writes.
    was_direct: u32,
    /// Not zero: a small `fsync` has returned since the last batch was ordered.
    due: u32,
    /// Pieces of which the device may not have written all, in quarters, at the time `counted`.
    backlog: u32,
    /// Device time of a piece; zero for not known.
    piece: Nanos,
    /// See `backlog`.
    counted: Nanos,
    /// When the last batch was ordered.
    ordered: Nanos,
    /// When something was last in flight.
    disturbed: Nanos,
}

crate::layout!(Deadline {
    settings,
    waiting,
    streams,
    batch,
    in_flight,
    direct,
    open,
    was_direct,
    due,
    backlog,
    piece,
    counted,
    ordered,
    disturbed
});

impl Default for Deadline {
    fn default() -> Self {
        Deadline::new(Settings::for_device(true))
    }
}

fn mark_of(in_flight: u32, left: u32) -> u64 {
    u64::from(in_flight) << 32 | u64::from(left)
}

/// Pieces in flight, and pieces not ordered yet.
fn of_mark(mark: u64) -> (u32, u32) {
    ((mark >> 32) as u32, mark as u32)
}

pub(super) fn deadline_of(call: &Call) -> Nanos {
    if call.deadline > Nanos(0) { call.deadline } else { USUAL_DEADLINE }
}

impl Deadline {
    /// Nobody waits.
    pub fn new(settings: Settings) -> Self {
        Deadline {
            settings,
            waiting: Waiting::default(),
            streams: [Stream::default(); STREAMS],
            batch: QUARTERS,
            in_flight: 0,
            direct: [0; TASKS / 64],
            open: 0,
            was_direct: 0,
            due: 0,
            backlog: 0,
            piece: Nanos(0),
            counted: Nanos(0),
            ordered: Nanos(0),
            disturbed: Nanos(0),
        }
    }

    /// Sets up a state of all zero bytes.
    pub(super) fn begin(&mut self, settings: Settings) {
        (self.settings, self.batch) = (settings, QUARTERS);
    }

    /// Those whose small `fsync`s matter to somebody else's big one.
    fn others(&self, now: Nanos, account: Account) -> impl Iterator<Item = &Stream> {
        self.streams
            .iter()
            .filter(move |stream| stream.is_active(now) && stream.account != u32::from(account) + 1)
    }

    /// Pieces in writeback, and direct writes that run.
    fn flying(&self) -> u32 {
        let direct: u32 = self.direct.iter().map(|word| word.count_ones()).sum();
        self.in_flight + direct
    }

    /// The backlog now, in quarters of a piece.
    fn backlog(&self, now: Nanos) -> u32 {
        let quarter = self.piece.0 / u64::from(QUARTERS);
        let written = match quarter {
            0 => 0,
            quarter => now.since(self.counted).0 / quarter,
        };
        let left = u64::from(self.backlog).saturating_sub(written) as u32;
        left.max(self.flying().saturating_mul(QUARTERS))
    }

    /// The device is given so many pieces.
    fn puts_in_flight(&mut self, now: Nanos, pieces: u32) {
        self.backlog = self.backlog(now).saturating_add(pieces.saturating_mul(QUARTERS));
        (self.counted, self.disturbed) = (now, now);
    }

    /// The last batch was ordered a short time ago.
    fn is_patient(&self, now: Nanos) -> bool {
        now.since(self.ordered) < PATIENCE
    }

    /// Undisturbed `fsync`s of others are waited for.
    fn is_probed(&self, now: Nanos, account: Account) -> bool {
        // Those whose `fsync`s a probe waits for may themselves wait for this task.
        self.others(now, account).any(|stream| {
            stream.probes > 0 && (stream.runs(now) || now.since(stream.last) < PROBE_PAUSE)
        })
    }

    /// Pieces that may be ordered now for a task of this account.
    fn room(&self, now: Nanos, account: Account, overdue: u32) -> u32 {
        let most = self.settings.window_max.max(1);
        if self.others(now, account).next().is_none() {
            // Refilled by halves, so that the device has something to sort.
            let flying = self.flying();
            return if flying <= most / 2 { most - flying } else { 0 };
        }
        let patient = self.is_patient(now);
        let probed = self.is_probed(now, account);
        let runs = self.others(now, account).any(|stream| stream.runs(now));
        let waits = self.flying() > 0 || probed || (runs && self.due == 0);
        if self.in_flight > 0 || (patient && waits) {
            return 0;
        }
        let batch = ((self.batch / QUARTERS).max(1) << overdue).min(most);
        let backlog = self.backlog(now) / QUARTERS;
        if backlog <= batch / 2 || !patient { batch - backlog.min(batch - 1) } else { 0 }
    }

    pub(super) fn is_small(&self, call: &Call) -> bool {
        call.pieces <= self.settings.small.max(self.batch / QUARTERS) && call.bytes <= SMALL_BYTES
    }

    /// Whether others commit while this call's file, which has a long deadline, is written.
    fn hurts(&self, now: Nanos, call: &Call) -> bool {
        let own = u32::from(call.account) + 1;
        let commits = |stream: &Stream| {
            stream.account != 0 && stream.account != own && now.since(stream.last) < DESERTED
        };
        deadline_of(call) >= LONG && self.streams.iter().any(commits)
    }

    /// The place of an account, or the one that was used longest ago.
    fn stream(&mut self, account: Account) -> &mut Stream {
        let account = u32::from(account) + 1;
        let found = self.streams.iter().position(|stream| stream.account == account);
        let at = found.unwrap_or_else(|| {
            let oldest = |at: &usize| (self.streams[*at].running > 0, self.streams[*at].last);
            (0..STREAMS).min_by_key(oldest).unwrap_or(0)
        });
        if found.is_none() {
            self.streams[at] = Stream { account, ..Stream::default() };
        }
        &mut self.streams[at]
    }

    /// A small operation of this account begins. Everything else is paced by such operations until
    /// it [ends](Deadline::end_small).
    pub(super) fn begin_small(&mut self, now: Nanos, account: Account) {
        let behind = self.backlog(now);
        // An idle device had room for more direct writes than may run beside this operation.
        self.open = self.open.min(self.batch / QUARTERS);
        let stream = self.stream(account);
        stream.last = now;
        stream.running = stream.running.saturating_add(1);
        stream.behind = behind;
    }

    /// When there may be room. Returns and pieces that land ask by themselves.
    fn ask_again(&self, now: Nanos) -> Nanos {
        now + self.piece.max(Nanos::from_millis(1)).min(PATIENCE)
    }

    /// Keeps active callers active: their clients wait for something other than a small `fsync`.
    pub(super) fn stay_active(&mut self, now: Nanos) {
        for stream in self.streams.iter_mut().filter(|stream| stream.is_active(now)) {
            stream.last = now;
        }
    }

    /// A small operation has ended. If `took` is given, the batch learns from it. Says whether the
    /// operation [had begun](Deadline::begin_small).
    pub(super) fn end_small(
        &mut self,
        now: Nanos,
        account: Account,
        took: Option<Nanos>,
        deadline: Nanos,
    ) -> bool {
        let number = u32::from(account) + 1;
        let found = self.streams.iter_mut().find(|stream| stream.account == number);
        let Some(stream) = found.filter(|stream| stream.running > 0) else {
            // A big one; or its stream was forgotten, as there were too many.
            return false;
        };
        stream.running -= 1;
        stream.last = now;
        (self.due, self.open) = (1, 0);
        if let Some(took) = took {
            self.learn(now, account, took, deadline);
        }
        true
    }

    /// A task waits until its `pieces` are written back.
    pub(super) fn wait_for_writeback(&mut self, now: Nanos, task: Task, call: &Call) {
        let mark = mark_of(0, call.pieces);
        self.waiting.insert(task, Waiter { call: *call, arrived: now, mark });
    }

    /// Pieces that fit into one batch, and what a throttled writer has at least.
    fn few(&self) -> u32 {
        WRITER_PIECES.max(self.batch / QUARTERS)
    }

    /// The writer waits until some pieces of its file are written back.
    pub(super) fn throttle(&mut self, now: Nanos, task: Task, call: &Call) {
        let pieces = call.pieces.min(WRITER_PIECES);
        self.wait_for_writeback(now, task, &Call { pieces, ..*call });
    }

    /// A direct write waits until there is room for it.
    pub(super) fn write_directly(&mut self, now: Nanos, task: Task, call: &Call) -> Entry {
        if self.waiting.is_empty() && self.has_room_for_direct(now, call.account) {
            self.begin_direct(now, task, call);
            return Entry::Go;
        }
        self.waiting.insert(task, Waiter { call: *call, arrived: now, mark: mark_of(0, 1) });
        Entry::Wait
    }

    /// A direct write has returned, if the task is one. Says whether it is.
    pub(super) fn end_direct(&mut self, now: Nanos, task: Task) -> bool {
        let Some(word) = self.direct.get_mut(usize::from(task) / 64) else { return false };
        let mask = 1 << (task % 64);
        let was = *word & mask != 0;
        if was {
            *word &= !mask;
            self.disturbed = now;
        }
        was
    }

    fn has_room_for_direct(&mut self, now: Nanos, account: Account) -> bool {
        if self.is_patient(now) && self.is_probed(now, account) {
            return false;
        }
        if self.open == 0 {
            self.open = self.room(now, account, 0);
            if self.open > 0 {
                self.due = 0;
            }
        }
        self.open > 0
    }

    fn begin_direct(&mut self, now: Nanos, task: Task, call: &Call) {
        let pieces = u32::try_from(call.bytes.div_ceil(PIECE_BYTES)).unwrap_or(u32::MAX);
        self.open = self.open.saturating_sub(pieces.max(1));
        self.was_direct = 1;
        self.puts_in_flight(now, pieces);
        self.ordered = now;
        if let Some(word) = self.direct.get_mut(usize::from(task) / 64) {
            *word |= 1 << (task % 64);
        }
    }

    /// Pieces that the task waits for here.
    pub(super) fn pieces_of(&self, task: Task) -> u32 {
        self.waiting.get(task).map_or(0, |waiter| {
            let (in_flight, left) = of_mark(waiter.mark);
            in_flight.saturating_add(left)
        })
    }

    /// Account of a task that waits here.
    pub(super) fn account_of(&self, task: Task) -> Option<Account> {
        self.waiting.get(task).map(|waiter| waiter.call.account)
    }

    /// Accounts of all tasks that wait here.
    pub(super) fn accounts(&self) -> impl Iterator<Item = Account> {
        self.waiting.iter().map(|(_, waiter)| waiter.call.account)
    }

    /// For how long the task has waited here; zero if it does not.
    pub(super) fn held_for(&self, now: Nanos, task: Task) -> Nanos {
        self.waiting.get(task).map_or(Nanos(0), |waiter| now.since(waiter.arrived))
    }

    /// Whether the task waits here.
    pub(super) fn holds(&self, task: Task) -> bool {
        self.waiting.contains(task)
    }

    /// What was written before is durable now: an `fsync` has returned.
    pub(super) fn flushed(&mut self, now: Nanos) {
        (self.backlog, self.counted) = (self.flying().saturating_mul(QUARTERS), now);
    }

    /// The next step. Among calls of a kind, the account with the least `rank` goes first. Of the
    /// same rank, the call with the earliest deadline goes first.
    pub(super) fn dispatch_by(&mut self, now: Nanos, rank: impl Fn(Account) -> u64) -> Step {
        if self.waiting.is_empty() {
            // Nothing that was ordered will be reported any more.
            self.in_flight = 0;
            return Step::Idle;
        }
        let done = self.waiting.iter().find(|(_, waiter)| {
            let (in_flight, left) = of_mark(waiter.mark);
            let period = deadline_of(&waiter.call);
            (in_flight == 0 && left == 0)
                || now.since(waiter.arrived).0 >= period.0.saturating_mul(1 + OVERDUE_MAX)
        });
        if let Some((task, waiter)) = done.map(|(task, waiter)| (task, *waiter)) {
            self.in_flight = self.in_flight.saturating_sub(of_mark(waiter.mark).0);
            self.waiting.remove(task);
            if waiter.call.is_direct() {
                self.begin_direct(now, task, &waiter.call);
            }
            return Step::Admit(task);
        }
        let few = self.few();
        let first = self
            .waiting
            .iter()
            .filter(|(_, waiter)| of_mark(waiter.mark).1 > 0)
            .min_by_key(|(_, waiter)| {
                // A throttled writer's few pieces do not wait behind an `fsync` of many. Direct
                // writes and the rest have batches in turn.
                let class = match waiter.call.is_direct() {
                    true if self.was_direct != 0 && self.open == 0 => 2,
                    true => 0,
                    false => u8::from(of_mark(waiter.mark).1 > few),
                };
                (class, rank(waiter.call.account), waiter.arrived + deadline_of(&waiter.call))
            })
            .map(|(task, waiter)| (task, *waiter));
        let Some((task, waiter)) = first else { return Step::Wait(now + ACTIVE) };
        if waiter.call.is_direct() {
            if !self.has_room_for_direct(now, waiter.call.account) {
                return Step::Wait(self.ask_again(now));
            }
            self.waiting.remove(task);
            self.begin_direct(now, task, &waiter.call);
            return Step::Admit(task);
        }
        let (in_flight, left) = of_mark(waiter.mark);
        let period = deadline_of(&waiter.call).0.max(1);
        let overdue = (now.since(waiter.arrived).0 / period).min(OVERDUE_MAX) as u32;
        let pieces = self.room(now, waiter.call.account, overdue).min(left);
        if pieces == 0 {
            return Step::Wait(self.ask_again(now));
        }
        self.puts_in_flight(now, pieces);
        self.ordered = now;
        (self.due, self.open, self.was_direct) = (0, 0, 0);
        if let Some(waiter) = self.waiting.get_mut(task) {
            waiter.mark = mark_of(in_flight + pieces, left - pieces);
        }
        self.in_flight += pieces;
        Step::Writeback { task, pieces }
    }

    /// A small operation took so long: what that says of the batch.
    fn learn(&mut self, now: Nanos, account: Account, took: Nanos, deadline: Nanos) {
        let stream = self.stream(account);
        let behind = stream.behind;
        let disturbed = behind > 0 || self.flying() > 0 || now.since(self.disturbed) < took;
        let stream = self.stream(account);
        if now.since(stream.probed) >= PROBE_EVERY {
            (stream.probed, stream.probes) = (now, PROBES);
        }
        if !disturbed {
            stream.alone = match stream.alone {
                Nanos(0) => took,
                alone => Nanos(alone.0 - alone.0 / 4 + took.0 / 4),
            };
            stream.probes = stream.probes.saturating_sub(1);
            stream.probed = now;
            return;
        }
        let alone = stream.alone;
        if alone == Nanos(0) {
            stream.probes = PROBES;
            return;
        }
        if behind >= QUARTERS {
            let sample = took.since(alone).0 / u64::from(behind) * u64::from(QUARTERS);
            self.piece = match self.piece {
                Nanos(0) => Nanos(sample),
                piece => Nanos(piece.0 - piece.0 / 4 + sample / 4),
            };
        }
        let target = Nanos(alone.0.saturating_mul(HEADROOM) / 100).min(deadline);
        let most = self.settings.window_max.saturating_mul(QUARTERS).max(QUARTERS);
        self.batch = if took > target {
            // Halved at the most: one answer may have had bad luck.
            let part = u64::from(self.batch) * target.0 / took.0.max(1);
            u32::try_from(part).unwrap_or(u32::MAX).max(self.batch / 2)
        } else {
            self.batch + 1
        }
        .clamp(QUARTERS, most);
    }
}

impl Scheduler for Deadline {
    fn name(&self) -> &'static str {
        "split-deadline"
    }

    fn forget_account(&mut self, account: Account) {
        let number = u32::from(account) + 1;
        for stream in self.streams.iter_mut().filter(|stream| stream.account == number) {
            *stream = Stream::default();
        }
    }

    fn forget_ended(&mut self, now: Nanos, lives: &dyn Fn(Account) -> bool) -> bool {
        let mut found = false;
        for stream in &mut self.streams {
            let Some(account) = stream.account.checked_sub(1) else { continue };
            let matters = stream.running > 0 || now.since(stream.last) < DESERTED;
            if matters && !lives(account as Account) {
                *stream = Stream::default();
                found = true;
            }
        }
        found
    }

    fn write_entry(&mut self, now: Nanos, task: Task, call: &Call) -> Entry {
        if call.is_direct() && self.hurts(now, call) {
            return self.write_directly(now, task, call);
        }
        if call.pieces < self.settings.pieces_max || !self.hurts(now, call) {
            return Entry::Go;
        }
        let pieces = call.pieces.min(self.few());
        self.wait_for_writeback(now, task, &Call { pieces, ..*call });
        Entry::Wait
    }

    fn write_return(&mut self, now: Nanos, task: Task, _: &Call) {
        self.end_direct(now, task);
    }

    fn commit_entry(&mut self, now: Nanos, task: Task, call: &Call) -> Entry {
        self.fsync_entry(now, task, call)
    }

    fn commit_return(&mut self, now: Nanos, task: Task, call: &Call, took: Nanos) {
        self.fsync_return(now, task, call, took);
    }

    fn range_entry(&mut self, now: Nanos, task: Task, call: &Call) -> Entry {
        if self.is_small(call) || !self.hurts(now, call) {
            return Entry::Go;
        }
        self.wait_for_writeback(now, task, call);
        Entry::Wait
    }

    fn fsync_entry(&mut self, now: Nanos, task: Task, call: &Call) -> Entry {
        if self.is_small(call) {
            self.begin_small(now, call.account);
            return Entry::Go;
        }
        if self.others(now, call.account).next().is_none()
            && self.waiting.is_empty()
            && self.flying().saturating_add(call.pieces) <= self.settings.window_max
        {
            // All of it would be ordered at once.
            self.puts_in_flight(now, call.pieces);
            return Entry::Go;
        }
        self.wait_for_writeback(now, task, call);
        Entry::Wait
    }

    fn fsync_return(&mut self, now: Nanos, _: Task, call: &Call, took: Nanos) {
        if self.end_small(now, call.account, Some(took), deadline_of(call)) {
            self.flushed(now);
        }
    }

    fn dispatch(&mut self, now: Nanos) -> Step {
        self.dispatch_by(now, |_| 0)
    }

    fn waits_in_turn(&self, task: Task) -> bool {
        self.holds(task)
    }

    fn written_back(&mut self, now: Nanos, task: Task, pieces: u32, left: u32) {
        self.disturbed = now;
        if let Some(waiter) = self.waiting.get_mut(task) {
            self.in_flight = self.in_flight.saturating_sub(pieces);
            let (in_flight, ordered_left) = of_mark(waiter.mark);
            let in_flight = in_flight.saturating_sub(pieces);
            // What was dirtied since is not this call's.
            let left = left.min(ordered_left);
            waiter.mark = mark_of(in_flight, left);
        }
    }

    fn cancel(&mut self, now: Nanos, task: Task) {
        self.end_direct(now, task);
        if let Some(waiter) = self.waiting.remove(task) {
            self.in_flight = self.in_flight.saturating_sub(of_mark(waiter.mark).0);
        }
    }

    fn waiting(&self) -> usize {
        self.waiting.len()
    }
}

#[cfg(test)]
mod tests;
