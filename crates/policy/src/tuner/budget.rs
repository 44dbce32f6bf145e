//! What looking for a better P may cost: a token bucket in seconds of lost throughput.
//!
//! A second at nine tenths of what the held P gives loses 0.1 s. The bucket refills with time, and
//! each observation takes out what the P in force has really lost since the one before. A P that
//! gives more than the held one puts the gain back in. A sample begins only if the bucket has the
//! loss that is expected of it. Until then the best known P is in force.
//!
//! In any 10 s a search therefore loses what the bucket holds and what flows in. That is 0.25 + 10
//! x 0.02 = 0.45 s, 4.5 %.

use super::Observation;
use crate::Nanos;

/// What the bucket holds.
const CAPACITY_S: f64 = 0.25;

/// What it holds at first. Nothing is known of the load by then, so the first samples are paid for
/// one by one. A search among P that are alike costs about 2 % of the first 10 s.
const FIRST_S: f64 = 0.05;

/// Largest debt. A single slice of a slow load may lose seconds, and nothing else must wait for
/// minutes because of that.
const DEBT_S: f64 = 0.2;

/// Part of the time that runs in while P is searched for, and while one is held and probed beside.
pub(super) const SEARCHING: f64 = 0.02;
pub(super) const HOLDING: f64 = 0.005;

/// What P is in force, and the turns a second that the held one gives (zero if that is not known).
#[derive(Clone, Copy, Debug)]
pub(super) enum Stands {
    /// The held one.
    Held,
    /// The held one, with what another has let in still inside.
    Back(f64),
    /// Another one.
    Tried(f64),
}

/// See the module.
#[derive(Clone, Copy, Debug)]
pub(super) struct Budget {
    left_s: f64,
    /// What was lost, ever.
    lost_s: f64,
    /// The latest look, and the turns until then.
    seen: Option<(Nanos, u64)>,
}

impl Budget {
    /// One of which nothing was taken.
    pub(super) const fn new() -> Budget {
        Budget { left_s: FIRST_S, lost_s: 0.0, seen: None }
    }

    /// Nothing is charged for the time until the next look.
    pub(super) fn skip(&mut self) {
        self.seen = None;
    }

    /// Time has passed: something has run in, and what was lost is taken out.
    pub(super) fn observe(&mut self, observation: &Observation, refill: f64, stands: Stands) {
        if let Some((then, before)) = self.seen {
            let seconds = observation.now.since(then).0 as f64 / 1e9;
            let turns = observation.completed.saturating_sub(before) as f64;
            let gained_s = |rate: f64| if rate > 0.0 { turns / rate - seconds } else { 0.0 };
            let gained_s = match stands {
                Stands::Held => 0.0,
                Stands::Back(rate) => gained_s(rate),
                Stands::Tried(rate) => gained_s(rate),
            };
            self.lost_s -= gained_s;
            let left_s = self.left_s + refill * seconds + gained_s;
            self.left_s = left_s.clamp(-DEBT_S, CAPACITY_S);
        }
        self.seen = Some((observation.now, observation.completed));
    }

    /// What was lost, ever, in seconds.
    pub(super) fn lost_s(&self) -> f64 {
        self.lost_s
    }

    /// Whether a sample may begin that is expected to lose so much. A full bucket is enough for
    /// any.
    pub(super) fn affords(&self, loss_s: f64) -> bool {
        self.left_s >= loss_s.min(CAPACITY_S)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn observation(ms: u64, completed: u64) -> Observation {
        let (now, run) = (Nanos::from_millis(ms), Nanos(0));
        Observation { now, completed, requests: completed, run, sessions: 64, long: 0 }
    }

    #[test]
    fn what_a_sample_loses_is_taken_out_and_runs_in_again() {
        let mut budget = Budget { left_s: CAPACITY_S, ..Budget::new() };
        budget.observe(&observation(0, 0), SEARCHING, Stands::Held);
        assert!(budget.affords(CAPACITY_S));
        // 1 s at 800 of 1,000 turns a second: 0.25 - 0.2 + 0.02.
        budget.observe(&observation(1_000, 800), SEARCHING, Stands::Tried(1_000.0));
        assert!(budget.affords(0.069) && !budget.affords(0.071));
        // 5 s with the held P: + 0.1.
        budget.observe(&observation(6_000, 5_000), SEARCHING, Stands::Held);
        assert!(budget.affords(0.169) && !budget.affords(0.171));
        // 1 s at 1,100: full, and no fuller.
        budget.observe(&observation(7_000, 6_100), SEARCHING, Stands::Tried(1_000.0));
        assert!(budget.affords(9.0));
        budget.observe(&observation(8_000, 6_850), 0.0, Stands::Tried(1_000.0));
        assert!(budget.affords(0.0) && !budget.affords(0.001));
    }

    #[test]
    fn a_debt_is_paid_before_anything_is_tried_and_is_bounded() {
        let mut budget = Budget { left_s: CAPACITY_S, ..Budget::new() };
        budget.observe(&observation(0, 0), SEARCHING, Stands::Held);
        budget.observe(&observation(60_000, 0), SEARCHING, Stands::Tried(10.0));
        // -0.2 s, and 10 s until it is paid.
        budget.observe(&observation(69_000, 90), SEARCHING, Stands::Held);
        assert!(!budget.affords(0.0));
        budget.observe(&observation(70_001, 100), SEARCHING, Stands::Held);
        assert!(budget.affords(0.0));
        // Nothing was observed, so nothing is known of that time.
        budget.skip();
        budget.observe(&observation(990_000, 0), SEARCHING, Stands::Tried(10.0));
        assert!(budget.affords(0.0) && !budget.affords(0.001));
    }
}
