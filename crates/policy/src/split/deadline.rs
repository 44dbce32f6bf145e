//! Split-Deadline: small `fsync`s are over in time although others flush much.
//!
//! # Problem
//! An `fsync` of much dirty data floods the device, and a journal makes everybody's `fsync` depend on
//! it. Deadlines of block requests do not help: the requests that matter come after the flood.
//!
//! # The primitive
//! An `fsync` that would cost others their deadlines is not issued. Its data is first written back
//! asynchronously, which is no synchronization point and nobody's dependency, until what is left is
//! small (Split, section 2.5.2). Then the real `fsync` runs.
//!
//! * **Pieces.** Dirty data is counted in contiguous pieces, each about one access of the device.
//! * **Window.** At most so many pieces are being written back at a time, over all tasks. The
//!   pipeline stays full, so that the device is busy, and a small `fsync` waits behind a window at
//!   the most.
//! * **Control of the window.** Each small `fsync` has a *target*: its deadline, but no more than
//!   [`HEADROOM`] of what it takes undisturbed. One that took longer shrinks the window in
//!   proportion, one in time lets it grow by a quarter of a piece. While nobody issued a small `fsync` for
//!   [`ACTIVE`], the window is [`Settings::window_max`], enough to keep the device
//!   busy.
//! * **Probes.** What an `fsync` takes undisturbed is the least of [`PROBES`] in a row during which
//!   the window is one piece. They are repeated every [`PROBE_EVERY`], as devices change.
//! * **Own deadline.** The task whose deadline is first is written back first. Beyond its
//!   deadline, its window doubles with each further period.
//!
//! # Invariants
//! Every `fsync` is admitted: when its pieces fit the window, when nothing of it is left, or after
//! [`OVERDUE_MAX`] periods of its deadline. Fewer pieces than the window are in flight whenever one is
//! ordered.
//!
//! # Worked example
//! A appends a page and calls `fsync`, which takes 10 ms alone; B's `fsync` has 1,000 pieces of 4 ms.
//! A's first one finds a window of 32 and takes 138 ms. Then the window is 1, A takes 14 ms, and the
//! window grows by a quarter of a piece with each `fsync`. At 3, A takes 22 ms: over the target of
//! 17.5 ms, and the window shrinks to 2.4.

use super::waiting::{Waiter, Waiting};
use super::{Account, Call, Entry, PIECE_BYTES, Scheduler, Step, Task};
use crate::Nanos;

/// A small `fsync` may take so many hundredths of what it takes undisturbed.
pub const HEADROOM: u64 = 175;

/// Who issued a small `fsync` so long ago is not waited for.
pub const ACTIVE: Nanos = Nanos::from_millis(300);

/// `fsync`s of a probe.
pub const PROBES: u32 = 8;

/// How often a caller's undisturbed time is measured again.
pub const PROBE_EVERY: Nanos = Nanos::from_millis(10_000);

/// Periods of its deadline after which an `fsync` is issued whatever is left.
pub const OVERDUE_MAX: u64 = 4;

/// Deadline of an `fsync` without one.
const USUAL_DEADLINE: Nanos = Nanos::from_millis(1_000);

/// Callers of small `fsync`s that are remembered.
const STREAMS: usize = 16;

/// The window is kept in quarters of a piece.
const QUARTERS: u32 = 4;

/// Tunables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Settings {
    /// Pieces in flight while nobody needs the device. Default 32 for a disk, 64 for flash.
    pub window_max: u32,
    /// An `fsync` of so many pieces is small whatever the window. Default 2: a log's tail and
    /// its head.
    pub small: u32,
}

impl Settings {
    /// The usual ones for a kind of device.
    pub const fn for_device(rotational: bool) -> Self {
        Settings { window_max: if rotational { 32 } else { 64 }, small: 2 }
    }
}

/// Small `fsync`s of one account.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
struct Stream {
    last: Nanos,
    /// What one takes undisturbed.
    alone: Nanos,
    /// When that was last measured.
    probed: Nanos,
    /// `fsync`s of the probe that is under way; [`PROBES`] if there is none.
    samples: u32,
    /// Account plus one; zero for nobody.
    account: u32,
}

impl Stream {
    fn is_probed(&self, now: Nanos) -> bool {
        self.account != 0 && self.samples < PROBES && now.since(self.last) < ACTIVE
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
    window: u32,
    in_flight: u32,
    /// When something was last in flight.
    disturbed: Nanos,
}

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

fn deadline_of(call: &Call) -> Nanos {
    if call.deadline > Nanos(0) { call.deadline } else { USUAL_DEADLINE }
}

impl Deadline {
    /// Nobody waits.
    pub fn new(settings: Settings) -> Self {
        Deadline {
            settings,
            waiting: Waiting::default(),
            streams: [Stream::default(); STREAMS],
            window: QUARTERS,
            in_flight: 0,
            disturbed: Nanos(0),
        }
    }

    /// Pieces that may be in flight now.
    fn window(&self, now: Nanos, account: Account) -> u32 {
        let active = self.streams.iter().any(|stream| {
            stream.account != 0
                && stream.account != u32::from(account) + 1
                && now.since(stream.last) < ACTIVE
        });
        match (active, self.streams.iter().any(|stream| stream.is_probed(now))) {
            (false, _) => self.settings.window_max,
            (true, true) => 1,
            (true, false) => (self.window / QUARTERS).max(1),
        }
    }

    fn is_small(&self, call: &Call, window: u32) -> bool {
        call.pieces <= self.settings.small.max(window) && call.bytes <= PIECE_BYTES * 2
    }

    /// The place of an account, or the one that was used longest ago.
    fn stream(&mut self, account: Account) -> &mut Stream {
        let account = u32::from(account) + 1;
        let found = self.streams.iter().position(|stream| stream.account == account);
        let at = found.unwrap_or_else(|| {
            let oldest = (0..STREAMS).min_by_key(|at| self.streams[*at].last);
            oldest.unwrap_or(0)
        });
        if found.is_none() {
            self.streams[at] = Stream { account, ..Stream::default() };
        }
        &mut self.streams[at]
    }

    /// A small `fsync` took so long: what that says of the window.
    fn learn(&mut self, now: Nanos, call: &Call, took: Nanos) {
        let disturbed = self.in_flight > 0 || now.since(self.disturbed) < took;
        let stream = self.stream(call.account);
        stream.last = now;
        if stream.samples >= PROBES && now.since(stream.probed) >= PROBE_EVERY {
            stream.samples = 0;
        }
        if stream.samples == 0 {
            // This one may still have been disturbed by what was in flight before.
            (stream.probed, stream.alone) = (now, took);
        }
        stream.samples = (stream.samples + 1).min(PROBES);
        stream.alone = stream.alone.min(took);
        let probed = stream.samples < PROBES;
        let alone = stream.alone;
        if !disturbed || probed {
            return;
        }
        let target = Nanos(alone.0.saturating_mul(HEADROOM) / 100).min(deadline_of(call));
        let most = self.settings.window_max.saturating_mul(QUARTERS);
        self.window = if took > target {
            // Halved at the most: one answer may have had bad luck.
            let part = u64::from(self.window) * target.0 / took.0.max(1);
            u32::try_from(part).unwrap_or(u32::MAX).max(self.window / 2)
        } else {
            self.window + 1
        }
        .clamp(QUARTERS, most.max(QUARTERS));
    }
}

impl Scheduler for Deadline {
    fn name(&self) -> &'static str {
        "split-deadline"
    }

    fn fsync_entry(&mut self, now: Nanos, task: Task, call: &Call) -> Entry {
        let window = self.window(now, call.account);
        if self.is_small(call, window) {
            // From its entry on others keep the device free for it.
            let stream = self.stream(call.account);
            stream.last = stream.last.max(now);
            return Entry::Go;
        }
        let mark = mark_of(0, call.pieces);
        self.waiting.insert(task, Waiter { call: *call, arrived: now, mark });
        Entry::Wait
    }

    fn fsync_return(&mut self, now: Nanos, _: Task, call: &Call, took: Nanos) {
        if self.is_small(call, 0) {
            self.learn(now, call, took);
        }
    }

    fn dispatch(&mut self, now: Nanos) -> Step {
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
        if let Some((task, waiter)) = done {
            self.in_flight = self.in_flight.saturating_sub(of_mark(waiter.mark).0);
            self.waiting.remove(task);
            return Step::Admit(task);
        }
        let first = self
            .waiting
            .iter()
            .filter(|(_, waiter)| of_mark(waiter.mark).1 > 0)
            .min_by_key(|(_, waiter)| waiter.arrived + deadline_of(&waiter.call))
            .map(|(task, waiter)| (task, *waiter));
        let Some((task, waiter)) = first else { return Step::Wait(now + ACTIVE) };
        let (in_flight, left) = of_mark(waiter.mark);
        let period = deadline_of(&waiter.call).0.max(1);
        let overdue = (now.since(waiter.arrived).0 / period).min(OVERDUE_MAX) as u32;
        let window = self.window(now, waiter.call.account) << overdue;
        let room = window.min(self.settings.window_max.max(1)).saturating_sub(self.in_flight);
        let pieces = room.min(left);
        if pieces == 0 {
            return Step::Wait(now + ACTIVE);
        }
        if let Some(waiter) = self.waiting.get_mut(task) {
            waiter.mark = mark_of(in_flight + pieces, left - pieces);
        }
        self.in_flight += pieces;
        self.disturbed = now;
        Step::Writeback { task, pieces }
    }

    fn written_back(&mut self, now: Nanos, task: Task, pieces: u32, left: u32) {
        self.in_flight = self.in_flight.saturating_sub(pieces);
        self.disturbed = now;
        if let Some(waiter) = self.waiting.get_mut(task) {
            let (in_flight, ordered_left) = of_mark(waiter.mark);
            let in_flight = in_flight.saturating_sub(pieces);
            // What was dirtied since is not this call's.
            let left = left.min(ordered_left);
            waiter.mark = mark_of(in_flight, left);
        }
    }

    fn cancel(&mut self, _: Nanos, task: Task) {
        if let Some(waiter) = self.waiting.remove(task) {
            self.in_flight = self.in_flight.saturating_sub(of_mark(waiter.mark).0);
        }
    }

    fn waiting(&self) -> usize {
        self.waiting.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: Account = 1;
    const B: Account = 2;

    fn small(account: Account) -> Call {
        Call {
            account,
            bytes: 4096,
            pieces: 1,
            deadline: Nanos::from_millis(100),
            ..Call::default()
        }
    }

    fn big(pieces: u32) -> Call {
        Call {
            account: B,
            bytes: u64::from(pieces) * 4096,
            pieces,
            deadline: Nanos::from_millis(10_000),
            ..Call::default()
        }
    }

    /// What a simulated run gave.
    struct Run {
        /// Latencies of A's `fsync`s, sorted.
        a: Vec<Nanos>,
        /// Pieces of B that were written in a second.
        b_per_s: f64,
    }

    impl Run {
        fn p99(&self) -> Nanos {
            self.a[self.a.len() * 99 / 100]
        }
    }

    /// A disk serves one access after the other, in order of arrival: 4 ms for a piece of B's, 9 ms
    /// for an `fsync` of A's. B always has an `fsync` of 1,000 pieces; A pauses between its own.
    fn run(pause: Option<Nanos>, seconds: u64) -> Run {
        let mut deadline = Box::new(Deadline::default());
        let (piece, own) = (Nanos::from_millis(4), Nanos::from_millis(9));
        let end = Nanos::from_millis(1_000 * seconds);
        let mut now = Nanos(0);
        let mut disk_free = Nanos(0);
        // Completions of B's pieces, and of A's call.
        let mut pieces: std::collections::VecDeque<Nanos> = Default::default();
        let (mut left, mut written) = (1_000u32, 0u64);
        let mut b_call = big(left);
        let mut a_next = pause;
        let mut a_started: Option<(Nanos, Nanos)> = None;
        let mut a = Vec::new();
        assert_eq!(deadline.fsync_entry(now, 0, &b_call), Entry::Wait);
        while now < end {
            loop {
                match deadline.dispatch(now) {
                    Step::Writeback { task, pieces: ordered } => {
                        assert_eq!(task, 0);
                        for _ in 0..ordered {
                            disk_free = disk_free.max(now) + piece;
                            pieces.push_back(disk_free);
                        }
                    }
                    Step::Admit(_) => {
                        // The rest, by the call itself.
                        written += u64::from(left);
                        disk_free = disk_free.max(now) + Nanos(piece.0 * u64::from(left)) + own;
                        deadline.fsync_return(now, 0, &b_call, own);
                        left = 1_000;
                        b_call = big(left);
                        assert_eq!(deadline.fsync_entry(now, 0, &b_call), Entry::Wait);
                    }
                    _ => break,
                }
            }
            let next_b = pieces.front().copied().unwrap_or(Nanos(u64::MAX));
            let next_a = a_started.map(|(_, end)| end).or(a_next).unwrap_or(Nanos(u64::MAX));
            now = next_a.min(next_b);
            if next_b <= next_a {
                pieces.pop_front();
                left -= 1;
                written += 1;
                deadline.written_back(now, 0, 1, left.saturating_sub(pieces.len() as u32));
            } else if let Some((start, _)) = a_started.take() {
                a.push(now - start);
                deadline.fsync_return(now, 1, &small(A), now - start);
                a_next = pause.map(|pause| now + pause);
            } else {
                assert_eq!(deadline.fsync_entry(now, 1, &small(A)), Entry::Go);
                disk_free = disk_free.max(now) + own;
                a_started = Some((now, disk_free));
            }
        }
        a.sort();
        Run { a, b_per_s: written as f64 / seconds as f64 }
    }

    #[test]
    fn alone_the_big_one_has_the_device() {
        let run = run(None, 60);
        assert!(run.b_per_s > 0.95 * 250.0, "{}", run.b_per_s);
    }

    #[test]
    fn in_a_closed_loop_the_small_one_is_short_and_the_big_one_goes_on() {
        let run = run(Some(Nanos::from_micros(20)), 60);
        assert!(run.p99() <= Nanos::from_millis(27), "{}: three times its own", run.p99());
        assert!(run.b_per_s > 0.4 * 250.0, "{}", run.b_per_s);
    }

    #[test]
    fn beside_twenty_small_ones_a_second_the_big_one_has_the_rest() {
        let run = run(Some(Nanos::from_millis(40)), 60);
        assert!(run.p99() <= Nanos::from_millis(27), "{}", run.p99());
        // A needs 9 of 50 ms.
        assert!(run.b_per_s > 0.9 * 0.82 * 250.0, "{}", run.b_per_s);
    }

    #[test]
    fn what_is_small_or_has_nothing_to_write_goes_at_once() {
        let mut deadline = Box::new(Deadline::default());
        assert_eq!(deadline.fsync_entry(Nanos(1), 0, &big(0)), Entry::Go);
        assert_eq!(deadline.fsync_entry(Nanos(1), 1, &big(32)), Entry::Go, "fits the window");
        assert_eq!(deadline.fsync_entry(Nanos(1), 2, &big(33)), Entry::Wait);
        assert_eq!(deadline.waiting(), 1);
        deadline.cancel(Nanos(2), 2);
        assert_eq!(deadline.dispatch(Nanos(3)), Step::Idle);
    }

    #[test]
    fn a_call_is_issued_at_last_whatever_the_device_does() {
        let mut deadline = Box::new(Deadline::default());
        assert_eq!(deadline.fsync_entry(Nanos(0), 2, &big(500)), Entry::Wait);
        assert!(matches!(deadline.dispatch(Nanos(0)), Step::Writeback { task: 2, pieces: 32 }));
        assert!(matches!(deadline.dispatch(Nanos(0)), Step::Wait(_)));
        let late = Nanos::from_millis(10_000 * (1 + OVERDUE_MAX));
        assert_eq!(deadline.dispatch(late), Step::Admit(2));
        assert_eq!(deadline.dispatch(late), Step::Idle);
        deadline.written_back(late, 2, 32, 0);
    }

    #[test]
    fn the_earlier_deadline_is_written_back_first() {
        let mut deadline = Box::new(Deadline::default());
        let urgent = Call { account: 3, deadline: Nanos::from_millis(200), ..big(100) };
        assert_eq!(deadline.fsync_entry(Nanos(0), 0, &big(100)), Entry::Wait);
        assert_eq!(deadline.fsync_entry(Nanos(5), 1, &urgent), Entry::Wait);
        assert!(matches!(deadline.dispatch(Nanos(5)), Step::Writeback { task: 1, .. }));
    }
}
