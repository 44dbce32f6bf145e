//! The pacer: writes data back in small batches, so that others' commits are hardly disturbed.
//!
//! # Terms
//! * *piece*: dirty pages of a file that lie side by side, about one access of the device.
//! * *commit*, *active*, *probe*: see [`commits`].
//! * *batch*: pieces that are ordered at a time, while other accounts commit.
//! * *in flight*: of a piece: it was ordered, and its thread has not said that it is written.
//! * *backlog*: pieces that the device has taken, and may not have written.
//! * *target* of a commit: its deadline, but no more than [`HEADROOM`] of what it takes
//!   undisturbed.
//!
//! # The primitive
//! Tasks wait here until their pieces are written back ([`Pacer::wait_for_writeback`]), or until
//! there is room for their direct write ([`Pacer::write_directly`]).
//!
//! * **Batches.** While others commit, one batch is ordered when a commit returns, and one whenever
//!   none runs. A commit is several accesses, one after the other. So it waits behind one batch,
//!   and not behind some pieces at each of its accesses.
//! * **No commits.** While no other account is active, [`Settings::window_max`] pieces are kept in
//!   flight, which keeps the device busy.
//! * **Backlog.** A device takes writes into its cache at once, and the next flush pays for all of
//!   them. So a piece counts as unwritten until a commit returns, or until the learned time per
//!   piece has passed. That time is the extra latency of commits divided by the pieces ahead of
//!   them.
//! * **Size of the batch.** A commit that took longer than its target shrinks the batch in
//!   proportion. One in time lets it grow by a quarter of a piece. A commit that took twice as long
//!   as the pieces ahead of it explain changes nothing: others' logs or reads made it wait. If such
//!   commits go on, the time per piece follows them.
//! * **A busy machine** makes batches larger ([`lag`]).
//! * **Probes.** What a commit takes undisturbed is an average of those during which nothing was in
//!   flight. Every [`PROBE_EVERY`] nothing is ordered until there were [`PROBES`] of them.
//! * **Benefit.** If commits gain nothing by what is held, it is let go ([`benefit`]). What a file
//!   may have dirty stays bounded: the kernel's flusher would write it later.
//! * **Commits by the clock.** A commit that begins late ([`commits`]) halves the batch: its caller
//!   would fall further behind with each of them.
//! * **Order.** The task whose deadline is first goes first. Beyond its deadline, its batches
//!   double with each further period, up to what commits by the clock leave of the device. Few
//!   pieces go before many, and direct writes and all others
//!   have batches in turn.
//!
//! # Invariants
//! Every task is admitted: when nothing of it is left, or after [`OVERDUE_MAX`] further periods of
//! its deadline. If much is left and others commit, that is [`BESIDE_COMMITS`] later. Something
//! is ordered every [`PATIENCE`], unless the device is slower.

mod benefit;
mod commits;
mod lag;
mod settings;

#[cfg(test)]
pub(super) use commits::CALLERS;
pub use commits::{ACTIVE, DESERTED, PROBE_EVERY, PROBE_PAUSE, PROBES};
pub use settings::Settings;

use super::bits::Bits;
use super::waiting::{Waiter, Waiting};
use super::{Account, Call, Entry, PIECE_BYTES, SMALL_BYTES, Step, TASKS, Task};
use crate::Nanos;
use benefit::Benefit;
use commits::Commits;
use lag::Lag;

/// A commit may take so many hundredths of what it takes undisturbed.
pub const HEADROOM: u64 = 300;

/// Further periods of its deadline after which a task goes on whatever is left.
pub const OVERDUE_MAX: u64 = 4;

/// How much longer a task is held that has more than a window of pieces left, while others commit.
/// To write all of them at once would make commits wait for seconds.
pub const BESIDE_COMMITS: Nanos = Nanos::from_millis(60_000);

/// A batch is ordered after such a time whatever runs.
pub const PATIENCE: Nanos = Nanos::from_millis(200);

/// Pieces that a throttled writer writes back before it goes on: so many, or under
/// `split-deadline` a whole batch if that is more.
pub const WRITER_PIECES: u32 = 4;

/// Deadline of a call without one.
const USUAL_DEADLINE: Nanos = Nanos::from_millis(1_000);

/// The size of a batch is kept in quarters of a piece.
const QUARTERS: u32 = 4;

/// See the module.
#[derive(Clone, Debug)]
#[repr(C)]
pub(super) struct Pacer {
    settings: Settings,
    /// Their mark counts pieces: those in flight (upper half) and those not ordered yet (lower
    /// half).
    waiting: Waiting,
    commits: Commits,
    benefit: Benefit,
    lag: Lag,
    /// In quarters of a piece.
    batch: u32,
    in_flight: u32,
    /// Direct writes that run.
    direct: Bits<{ TASKS / 64 }>,
    /// Direct writes that the last batch has room for.
    open: u32,
    /// Not zero: the last batch was one of direct writes.
    was_direct: u32,
    /// Not zero: a commit has returned since the last batch was ordered.
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

crate::layout!(Pacer {
    settings,
    waiting,
    commits,
    benefit,
    lag,
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

impl Pacer {
    /// No task waits.
    pub(super) fn new(settings: Settings) -> Self {
        Pacer {
            settings,
            waiting: Waiting::default(),
            commits: Commits::default(),
            benefit: Benefit::default(),
            lag: Lag::default(),
            batch: QUARTERS,
            in_flight: 0,
            direct: Bits::default(),
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

    pub(super) fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Pieces in writeback, and direct writes that run.
    fn flying(&self) -> u32 {
        self.in_flight + self.direct.len() as u32
    }

    /// The backlog at this time, in quarters of a piece.
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

    /// Whether another account is active, and its commits gain by what is held.
    fn commits_matter(&self, now: Nanos, account: Account) -> bool {
        !self.benefit.is_free() && self.commits.matter(now, account)
    }

    /// Pieces that may be ordered at this time for a task of this account.
    fn room(&self, now: Nanos, account: Account, overdue: u32) -> u32 {
        let most = self.settings.window_max.max(1);
        if !self.commits_matter(now, account) {
            // Refilled by halves, so that the device has something to sort.
            let flying = self.flying();
            return if flying <= most / 2 { most - flying } else { 0 };
        }
        let patient = self.is_patient(now);
        let probed = self.commits.are_probed(now, account);
        let runs = self.commits.run(now, account);
        let waits = self.flying() > 0 || probed || (runs && self.due == 0);
        if self.in_flight > 0 || (patient && waits) {
            return 0;
        }
        let taken = self.commits.take(now, account);
        let least = self.least().min(self.lag.most(self.settings.piece, taken));
        let shift = self.benefit.shift();
        let batch = self.grown(now, account, overdue).max(least) << shift;
        // A trial of batches that are as large as before would show nothing.
        let batch = batch.min(most.max(least << shift));
        let backlog = self.backlog(now) / QUARTERS;
        if backlog <= batch / 2 || !patient { batch - backlog.min(batch - 1) } else { 0 }
    }

    /// Pieces of a batch for a task that is overdue by so many periods. If others commit by the
    /// clock, a batch does not grow beyond what they leave of the device: it would go on growing.
    fn grown(&self, now: Nanos, account: Account, overdue: u32) -> u32 {
        let batch = (self.batch / QUARTERS).max(1);
        let most = match self.commits.leave(now, account) {
            None => u64::MAX,
            Some(left) => left.0 / self.piece.0.max(1),
        };
        let most = u32::try_from(most).unwrap_or(u32::MAX).max(batch);
        (batch << overdue).min(most)
    }

    /// Pieces of a batch on a busy machine.
    fn least(&self) -> u32 {
        // What was learned is too short: pieces wait for their thread while commits pass them.
        let piece = Nanos(self.settings.piece.0 / 2);
        self.lag.least(piece).min(2 * self.settings.window_max)
    }

    /// See [`Scheduler::woke_late`](super::Scheduler::woke_late).
    pub(super) fn woke_late(&mut self, by: Nanos) {
        self.lag.saw(by);
    }

    pub(super) fn is_small(&self, call: &Call) -> bool {
        call.pieces <= self.settings.small.max(self.batch / QUARTERS) && call.bytes <= SMALL_BYTES
    }

    /// Whether another account has committed within [`DESERTED`].
    pub(super) fn others_commit(&self, now: Nanos, account: Account) -> bool {
        self.commits.were_seen(now, account)
    }

    /// A big `fsync` may go at once if all of it would be ordered at once. Says whether it does.
    pub(super) fn goes_as_a_whole(&mut self, now: Nanos, call: &Call) -> bool {
        let goes = !self.commits.matter(now, call.account)
            && self.waiting.is_empty()
            && self.flying().saturating_add(call.pieces) <= self.settings.window_max;
        if goes {
            self.puts_in_flight(now, call.pieces);
        }
        goes
    }

    /// Whether others commit in the file of this call. They need the same pages to be durable.
    pub(super) fn is_of_a_log(&self, now: Nanos, call: &Call) -> bool {
        self.commits.are_of(now, call.account, call.file)
    }

    /// A commit of this account begins. `file` is the file of an `fsync`. Everything else is paced
    /// by commits until it [ends](Pacer::end_commit).
    pub(super) fn begin_commit(&mut self, now: Nanos, account: Account, file: Option<u32>) {
        let behind = self.backlog(now);
        // An idle device had room for more direct writes than may run beside this commit.
        if !self.benefit.is_tried() {
            self.open = self.open.min(self.batch / QUARTERS);
        }
        self.commits.begin(now, account, file, behind);
    }

    /// A commit has ended. If `took` is given, the batch learns from it. Says whether the commit
    /// [had begun](Pacer::begin_commit).
    pub(super) fn end_commit(
        &mut self,
        now: Nanos,
        account: Account,
        took: Option<Nanos>,
        deadline: Nanos,
    ) -> bool {
        if !self.commits.end(now, account) {
            return false;
        }
        (self.due, self.open) = (1, 0);
        if let Some(took) = took {
            self.learn(now, account, took, deadline);
        }
        true
    }

    /// A commit begins of which the end is not seen: its account is active, and nothing is learned.
    pub(super) fn commits_unseen(&mut self, now: Nanos, call: &Call) {
        self.begin_commit(now, call.account, Some(call.file));
        self.end_commit(now, call.account, None, Nanos(0));
        if self.piece == Nanos(0) {
            self.piece = self.settings.piece;
        }
    }

    /// Keeps active accounts active: their clients wait for something other than a commit.
    pub(super) fn stay_active(&mut self, now: Nanos) {
        self.commits.stay_active(now);
    }

    /// The account is another thread's from here on.
    pub(super) fn forget_account(&mut self, account: Account) {
        self.commits.forget(account);
    }

    /// See [`Scheduler::forget_ended`](super::Scheduler::forget_ended).
    pub(super) fn forget_ended(&mut self, now: Nanos, lives: &dyn Fn(Account) -> bool) -> bool {
        self.commits.forget_ended(now, lives)
    }

    /// What was written before is durable: an `fsync` has returned.
    pub(super) fn flushed(&mut self, now: Nanos) {
        (self.backlog, self.counted) = (self.flying().saturating_mul(QUARTERS), now);
    }

    /// A commit took so long: what that says of the batch.
    fn learn(&mut self, now: Nanos, account: Account, took: Nanos, deadline: Nanos) {
        let disturbed = self.flying() > 0 || now.since(self.disturbed) < took;
        let Some(sample) = self.commits.learn(now, account, took, disturbed) else { return };
        let alone = sample.alone;
        let mut explained = true;
        if sample.behind >= QUARTERS {
            let piece = took.since(alone).0 / u64::from(sample.behind) * u64::from(QUARTERS);
            explained = self.piece == Nanos(0) || piece <= 2 * self.piece.0;
            self.piece = match self.piece {
                Nanos(0) => Nanos(piece),
                known => Nanos(known.0 - known.0 / 4 + piece / 4),
            };
        }
        self.benefit.saw(now, took, alone, sample.late);
        if self.benefit.is_tried() {
            return;
        }
        let target = Nanos(alone.0.saturating_mul(HEADROOM) / 100).min(deadline);
        let most = self.settings.window_max.saturating_mul(QUARTERS).max(QUARTERS);
        self.batch = if sample.late {
            self.batch / 2
        } else if took > target && !explained {
            self.batch
        } else if took > target {
            // Halved at the most: one answer may have had bad luck.
            let part = u64::from(self.batch) * target.0 / took.0.max(1);
            u32::try_from(part).unwrap_or(u32::MAX).max(self.batch / 2)
        } else {
            self.batch + 1
        }
        .clamp(QUARTERS, most);
    }

    /// A task waits until its `pieces` are written back.
    pub(super) fn wait_for_writeback(&mut self, now: Nanos, task: Task, call: &Call) {
        let mark = mark_of(0, call.pieces);
        self.waiting.insert(task, Waiter { call: *call, arrived: now, mark });
    }

    /// Pieces that fit into one batch, and what a throttled writer has at least.
    pub(super) fn few(&self) -> u32 {
        WRITER_PIECES.max(self.batch / QUARTERS).max(self.least())
    }

    /// The writer waits until some pieces of its file are written back.
    pub(super) fn throttle(&mut self, now: Nanos, task: Task, call: &Call) {
        let pieces = call.pieces.min(WRITER_PIECES.max(self.least()));
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
        let was = self.direct.set(task, false);
        if was {
            self.disturbed = now;
        }
        was
    }

    fn has_room_for_direct(&mut self, now: Nanos, account: Account) -> bool {
        let matter = self.commits_matter(now, account);
        if matter && self.is_patient(now) && self.commits.are_probed(now, account) {
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
        self.direct.set(task, true);
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

    /// Tasks that wait here.
    pub(super) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// When there may be room. Returns and pieces that land cause a dispatch anyway.
    fn ask_again(&self, now: Nanos) -> Nanos {
        now + self.piece.max(Nanos::from_millis(1)).min(PATIENCE)
    }

    /// A task whose wait is over.
    fn done(&mut self, now: Nanos) -> Option<Task> {
        let is_done = |(_, waiter): &(Task, &Waiter)| {
            let held = now.since(waiter.arrived);
            let most = Nanos(deadline_of(&waiter.call).0.saturating_mul(1 + OVERDUE_MAX));
            let is_much = || {
                of_mark(waiter.mark).1 > self.settings.window_max
                    && self.commits_matter(now, waiter.call.account)
            };
            waiter.mark == 0 || held >= most && (held.since(most) >= BESIDE_COMMITS || !is_much())
        };
        let task = self.waiting.iter().find(is_done)?.0;
        let waiter = self.waiting.remove(task)?;
        self.in_flight = self.in_flight.saturating_sub(of_mark(waiter.mark).0);
        if waiter.call.is_direct() {
            self.begin_direct(now, task, &waiter.call);
        }
        Some(task)
    }

    /// The next step. Among calls of a kind, the account with the least `rank` goes first. Of the
    /// same rank, the call with the earliest deadline goes first.
    pub(super) fn dispatch_by(&mut self, now: Nanos, rank: impl Fn(Account) -> u64) -> Step {
        if self.waiting.is_empty() {
            // No task is left that reports what was ordered.
            self.in_flight = 0;
            return Step::Idle;
        }
        if let Some(task) = self.done(now) {
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
        self.order(now, task, &waiter)
    }

    /// Orders pieces of a task, if there is room.
    fn order(&mut self, now: Nanos, task: Task, waiter: &Waiter) -> Step {
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

    /// So many pieces of a task are written; `left` are dirty and not ordered.
    pub(super) fn written_back(&mut self, now: Nanos, task: Task, pieces: u32, left: u32) {
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

    /// Accounts of which a commit runs.
    #[cfg(test)]
    pub(super) fn running(&self) -> usize {
        self.commits.running()
    }

    /// The next batch has so many pieces.
    #[cfg(test)]
    pub(super) fn set_batch(&mut self, pieces: u32) {
        self.batch = pieces * QUARTERS;
    }

    /// The task waits no more. Says whether it did.
    pub(super) fn cancel(&mut self, now: Nanos, task: Task) -> bool {
        self.end_direct(now, task);
        let Some(waiter) = self.waiting.remove(task) else { return false };
        self.in_flight = self.in_flight.saturating_sub(of_mark(waiter.mark).0);
        true
    }
}
