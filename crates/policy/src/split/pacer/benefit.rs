//! Decides whether held calls still make commits shorter.
//!
//! # Problem
//! A held call takes longer, so that commits are shorter. They are not if what makes them slow is
//! something else: a log that others fill, or a flush that the held call itself delays. Then the
//! held call pays for nothing.
//!
//! # Terms
//! * *slowdown* of a commit: what it took, in hundredths of what it takes undisturbed.
//! * *held slowdown*: the average while tasks are held as usual.
//! * *trial*: batches are four times as large, then sixteen times.
//!
//! # The primitive
//! After [`HELD_FOR`] of holding, a trial begins. [`STAGE`] commits decide on each step of it. If
//! their slowdown grows by no more than half, the next step follows. After the last step the pacer
//! holds no task for [`FREE_FOR`], as long as that stays true. Else all is held as before, and the
//! next trial comes after four times as long. A trial ends with the first commit that decides it:
//! it costs few commits, which wait for a few pieces more. Slowdowns count up to three times the
//! held one, as some commits always take long by chance.
//!
//! # Worked example
//! The first step of a trial has batches of four pieces instead of one. If commits take 15 ms
//! behind one piece and 45 ms behind four, five of them show that holding helps. If they take 20 ms
//! behind one, four and sixteen, since each of them makes another client's log durable, the held
//! calls go on.

use crate::Nanos;

/// How long tasks are held before a trial begins.
pub const HELD_FOR: Nanos = Nanos::from_millis(3_000);

/// How long no task is held after a trial in which commits stayed as short.
pub const FREE_FOR: Nanos = Nanos::from_millis(30_000);

/// Trials without success are at most so far apart. After such a time they are forgotten.
const HELD_FOR_MAX: Nanos = Nanos::from_millis(300_000);

/// After such a time without commits beside held tasks, holding begins from the start.
const PAUSE: Nanos = Nanos::from_millis(2_000);

/// Commits that decide on a step.
pub const STAGE: u32 = 8;

/// A trial fails if slowdowns exceed the held one by more than this, in hundredths of it.
const SAME: u64 = 150;

/// The level at which no task is held.
const FREE: u32 = 3;

/// All zero bytes: nothing is known.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(super) struct Benefit {
    /// The held slowdown; zero for not known.
    held: u64,
    /// Sum of slowdowns at this level.
    sum: u64,
    /// When this level began.
    since: Nanos,
    /// When a commit last counted.
    last: Nanos,
    /// How long tasks are held before the next trial; zero for [`HELD_FOR`].
    wait: Nanos,
    /// When a trial last failed.
    failed: Nanos,
    /// Commits at this level.
    count: u32,
    /// 0: tasks are held. Up to [`FREE`]: a trial.
    level: u32,
}

crate::layout!(Benefit { held, sum, since, last, wait, failed, count, level });

impl Benefit {
    /// No task is held.
    pub(super) fn is_free(&self) -> bool {
        self.level == FREE
    }

    /// A trial runs, or no task is held.
    pub(super) fn is_tried(&self) -> bool {
        self.level > 0
    }

    /// Batches are larger by this power of two.
    pub(super) fn shift(&self) -> u32 {
        2 * self.level
    }

    fn begin(&mut self, now: Nanos, level: u32) {
        (self.level, self.since, self.sum, self.count) = (level, now, 0, 0);
    }

    fn fail(&mut self, now: Nanos) {
        self.wait = Nanos(self.wait.max(HELD_FOR).0.saturating_mul(4)).min(HELD_FOR_MAX);
        self.failed = now;
        self.begin(now, 0);
    }

    /// A commit ended that tasks were held for, or would have been. If it began [late], a trial has
    /// failed.
    ///
    /// [late]: super::commits
    pub(super) fn saw(&mut self, now: Nanos, took: Nanos, alone: Nanos, late: bool) {
        let mut slowdown = took.0.saturating_mul(100) / alone.0.max(1);
        if now.since(self.last) > PAUSE {
            self.begin(now, 0);
            self.held = 0;
        }
        if now.since(self.failed) > HELD_FOR_MAX {
            self.wait = HELD_FOR;
        }
        if self.held > 0 {
            // A single one that took long says little.
            let most = if self.level == 0 { 2 } else { 3 };
            slowdown = slowdown.min(most * self.held);
        }
        self.last = now;
        self.count += 1;
        if self.level == 0 {
            self.held = match self.held {
                0 => slowdown,
                held => held - held / 8 + slowdown / 8,
            };
            if self.count >= 2 * STAGE && now.since(self.since) >= self.wait.max(HELD_FOR) {
                self.begin(now, 1);
            }
            return;
        }
        self.sum = self.sum.saturating_add(slowdown);
        let most = self.held.saturating_mul(SAME) / 100 * u64::from(STAGE);
        if self.sum > most || late {
            self.fail(now);
        } else if self.count >= STAGE {
            match self.level {
                FREE if now.since(self.since) >= FREE_FOR => self.begin(now, 0),
                FREE => (self.sum, self.count) = (0, 0),
                level => self.begin(now, level + 1),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALONE: Nanos = Nanos::from_millis(10);

    /// Commits every 25 ms that take `took` hundredths of what they take alone, by the level.
    /// Returns how many were not held as usual, and when the first was free.
    fn run(seconds: u64, took: impl Fn(u32) -> u64) -> (usize, Option<Nanos>) {
        let (mut benefit, mut tried, mut free) = (Benefit::default(), 0, None);
        for step in 0..seconds * 40 {
            let now = Nanos::from_millis(10_000 + step * 25);
            tried += usize::from(benefit.is_tried());
            if benefit.is_free() && free.is_none() {
                free = Some(now.since(Nanos::from_millis(10_000)));
            }
            benefit.saw(now, Nanos(ALONE.0 * took(benefit.level) / 100), ALONE, false);
        }
        (tried, free)
    }

    #[test]
    fn holding_that_brings_nothing_ends_after_some_seconds() {
        let (tried, free) = run(30, |_| 250);
        assert!(free.is_some_and(|free| free < Nanos::from_millis(4_000)), "{free:?}");
        assert!(tried > 25 * 40, "{tried}");
    }

    #[test]
    fn holding_that_helps_goes_on_and_its_trials_are_short() {
        let (tried, free) = run(60, |level| [150, 450, 1_000, 20_000][level as usize]);
        assert_eq!(free, None);
        assert!((1..=12).contains(&tried), "{tried} of 2,400 commits");
    }

    #[test]
    fn one_commit_of_seconds_neither_frees_nor_counts_for_long() {
        let mut benefit = Benefit::default();
        for step in 0..100 {
            let slow = if step == 50 { 100_000 } else { 150 };
            let now = Nanos::from_millis(10_000 + step * 25);
            benefit.saw(now, Nanos(ALONE.0 * slow / 100), ALONE, false);
        }
        assert!(benefit.held < 160, "{}", benefit.held);
    }

    #[test]
    fn what_turns_out_to_hurt_is_held_again() {
        let mut benefit = Benefit::default();
        let mut now = Nanos::from_millis(10_000);
        while !benefit.is_free() {
            now += Nanos::from_millis(25);
            benefit.saw(now, ALONE, ALONE, false);
        }
        for _ in 0..STAGE {
            now += Nanos::from_millis(25);
            benefit.saw(now, Nanos(ALONE.0 * 2), ALONE, false);
        }
        assert!(!benefit.is_tried());
    }
}
