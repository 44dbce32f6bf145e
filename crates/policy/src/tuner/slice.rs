//! Slices of time: P is set, the running turns turn over, and then turns are counted until there
//! are enough.
//!
//! # Turning over
//! By Little's law a turn spends running / rate in the database. In that time as many turns end as
//! run, so the running ones have turned over n times after n × running turns. So the rate need not
//! be known in advance, and a load whose turns take seconds gets them. The slice waits for four
//! turnovers, for two if four take longer than [`Limits::slice_max`], and for one if two take
//! longer than [`Limits::slice_rare_max`]. After four times that it counts anyway. After P was
//! lowered, the surplus leaves first. Permits beyond P are not granted again, so that takes as many
//! turns as there are too many.
//!
//! # Enough
//! A slice has [`Limits::completions`] turns, or has lasted [`Limits::slice_max`] and has
//! [`Limits::completions_min`]. With fewer turns the load is slow, and the slice goes on until
//! [`Limits::slice_rare_max`].
//!
//! # Leaving early
//! A sample of a P that is surely worse than another, by its upper confidence bound, is over at
//! once. That is after [`JUDGED_AFTER`], also while what is inside still turns over. Two things are
//! not yet the rate of this P. One is the surplus that leaves after P was lowered. The other is the
//! first turnover after P was raised, in which few turns can have ended. Meanwhile the sample ends
//! only at less than half of the other's throughput.
//!
//! # Silence
//! If hardly a turn ends although the running ones should have turned over several times, nothing
//! can be learned about this P: perhaps a disk flushes. The slice is dropped.

use super::{Limits, Observation};
use crate::Nanos;

/// How a slice ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SliceOutcome {
    /// It tells the rate.
    Telling,
    /// It lasted as long as slices do, and tells nothing yet.
    Few,
    /// Hardly a turn ended of those that should have.
    Silent,
    /// This P is surely worse than another.
    Worse,
}

/// What a slice measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct SliceResult {
    /// Whether the rest says anything.
    pub(super) outcome: SliceOutcome,
    /// Turns that ended.
    pub(super) turns: u64,
    /// Turns a second.
    pub(super) rate: f64,
    /// Length, in seconds.
    pub(super) seconds: f64,
    /// Time that a turn spent inside, in seconds; `None` if none ended.
    pub(super) service_s: Option<f64>,
    /// Requests of a turn; `None` likewise.
    pub(super) requests: Option<f64>,
}

/// How often what is inside turns over before it is counted, and if that takes long. Of what was
/// there when P was set, e^-4 or e^-2 (2 or 14 %) is left then if turns differ much, and nothing if
/// they are alike.
const TURNOVERS: u64 = 4;
const TURNOVERS_LONG: u64 = 2;

/// Turns that say something. Five slices of fewer scatter by more than 30 % (2.78 / sqrt(5 x 16),
/// Student's t for five), which is more than a sample may to be fitted.
pub(super) const TELLING: u64 = 16;

/// A load is silent with fewer turns than this, and than this part of what is expected. Less than
/// twelve of them say nothing: of twelve, one or none ends by chance once in ten thousand times.
const HARDLY: u64 = 10;
const HARDLY_PART: f64 = 1.0 / 6.0;
const EXPECTED_MIN: f64 = 12.0;

/// Time after which a sample may be left.
const JUDGED_AFTER: Nanos = Nanos::from_millis(150);

/// Longest slices of rare turns that are given to what is inside to turn over once.
const SETTLING_MAX: u64 = 4;

/// Longest slices for which the surplus of a P that was left may be silent.
const SURPLUS_TIMEOUT_SLICES: u64 = 3;

/// The upper bound of a rate: three deviations of a Poisson count. Some counts scatter more than
/// that, so it is larger by 10 % after [`JUDGED_AFTER`], and by 4 % after a second.
const DEVIATIONS: f64 = 3.0;
const SCATTER: f64 = 0.04;

/// What is known before a slice begins, in turns a second; zero is nothing.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Known {
    /// What this P should give at least.
    pub(super) expected: f64,
    /// What another P gives at least.
    pub(super) better: f64,
    /// The surplus may have been slowed down by its number, and leave slowly: that is no silence.
    pub(super) patient: bool,
}

/// The slice under way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slice {
    /// When P was set, or when the surplus had left.
    set: Nanos,
    /// When P was set.
    begun: Nanos,
    /// It was set, and is not what it was from the start.
    settling: bool,
    /// Turns that had ended then; not known before the first look.
    base: Option<u64>,
    /// Sessions beyond P that were inside then.
    surplus: u64,
    /// Sessions that P lets in.
    inside: u32,
    /// What had been counted when counting began.
    from: Option<Observation>,
    /// Since when silence is looked for, and the turns until then.
    heard: (Nanos, u64),
    /// Since when the P is judged, and the turns until then.
    judged: (Nanos, u64),
    /// P was raised, and what has come in has not turned over.
    raised: bool,
    /// Rate of the latest slice that told one, and how many were inside.
    pace: (f64, u32),
}

impl Slice {
    pub(super) const fn new() -> Slice {
        Slice {
            set: Nanos(0),
            begun: Nanos(0),
            settling: false,
            base: None,
            surplus: 0,
            inside: 0,
            from: None,
            heard: (Nanos(0), 0),
            judged: (Nanos(0), 0),
            raised: false,
            pace: (0.0, 0),
        }
    }

    /// Begins another one, with so many inside until now and `inside` from now on. `completed` are
    /// the turns until now, if they are known.
    pub(super) fn begin(&mut self, now: Nanos, completed: Option<u64>, were: u64, inside: u32) {
        (self.set, self.settling, self.base, self.from) = (now, true, completed, None);
        self.begun = now;
        self.surplus = were.saturating_sub(u64::from(inside));
        self.inside = inside;
        self.heard = (now, completed.unwrap_or(0));
        self.judged = self.heard;
        self.raised = u64::from(inside) > were;
    }

    /// Forgets what was counted, at the same P.
    pub(super) fn again(&mut self, observation: &Observation) {
        self.begin(
            observation.now,
            Some(observation.completed),
            u64::from(self.inside),
            self.inside,
        );
    }

    /// P was set, and what is inside has not turned over.
    pub(super) fn settling(&self) -> bool {
        self.settling && self.from.is_none()
    }

    /// Time since P was set.
    pub(super) fn since_set(&self, now: Nanos) -> Nanos {
        now.since(self.begun)
    }

    /// Forgets how quick the load was.
    pub(super) fn forget(&mut self) {
        self.pace = (0.0, 0);
    }

    /// Sessions that are still inside although P lets in fewer.
    pub(super) fn surplus(&self, completed: u64) -> u64 {
        let left = completed.saturating_sub(self.base.unwrap_or(completed));
        self.surplus.saturating_sub(left)
    }

    /// What the slice showed, if it is over; the next one follows at once. P lets in so many
    /// `inside`; what is known of it is beside what the slice before says.
    pub(super) fn ended(
        &mut self,
        observation: &Observation,
        inside: u32,
        known: Known,
        limits: &Limits,
    ) -> Option<SliceResult> {
        self.inside = inside;
        if self.base.is_none() {
            self.base = Some(observation.completed);
            self.heard = (observation.now, observation.completed);
            self.judged = self.heard;
        }
        let Some(from) = self.from else {
            return self
                .settle(observation, limits)
                .or_else(|| self.worse(observation, known.better))
                .or_else(|| self.silence(observation, known, limits));
        };
        let span = observation.now.since(from.now);
        let turns = observation.completed.saturating_sub(from.completed);
        let enough = span >= limits.slice && turns >= limits.completions
            || span >= limits.slice_max && turns >= limits.completions_min
            || span >= limits.slice_rare_max;
        if !enough {
            let worse = self.worse(observation, known.better);
            return worse.or_else(|| self.silence(observation, known, limits));
        }
        self.count_from(observation);
        self.judged = self.heard;
        let outcome = if turns >= TELLING { SliceOutcome::Telling } else { SliceOutcome::Few };
        let shown = SliceResult::between(&from, observation, outcome);
        if outcome == SliceOutcome::Telling {
            // A slice may end in the middle of silence: one alone does not make a quick load a slow
            // one.
            self.pace = (shown.rate.max(self.usual() / 2.0), self.inside);
        }
        Some(shown)
    }

    fn count_from(&mut self, observation: &Observation) {
        self.from = Some(*observation);
        self.heard = (observation.now, observation.completed);
    }

    /// Begins to count once what is inside has turned over. Something is shown only if that does
    /// not come true.
    fn settle(&mut self, observation: &Observation, limits: &Limits) -> Option<SliceResult> {
        if !self.settling {
            self.count_from(observation);
            return None;
        }
        let base = self.base.unwrap_or(observation.completed);
        let (turns, span) =
            (observation.completed.saturating_sub(base), observation.now.since(self.set));
        let late = span.0 >= SETTLING_MAX * limits.slice_rare_max.0;
        let long = span >= limits.slice_rare_max;
        if self.surplus > 0 {
            let left = turns >= self.surplus;
            if left || late {
                self.surplus -= turns.min(self.surplus);
                (self.set, self.base) = (observation.now, Some(observation.completed));
                self.judged = (observation.now, observation.completed);
            }
            return (late && !left && turns < TELLING).then(|| SliceResult::few(turns, span));
        }
        let inside = u64::from(self.inside);
        let over = turns >= TURNOVERS * inside && span.0 >= limits.slice.0 / 4
            || turns >= TURNOVERS_LONG * inside && span >= limits.slice_max
            || turns >= inside && long
            || turns >= TELLING && late;
        if over {
            self.count_from(observation);
        } else if late {
            (self.set, self.base) = (observation.now, Some(observation.completed));
            return Some(SliceResult::few(turns, span));
        }
        None
    }

    /// Turns a second that the pace of the slice before promises.
    fn usual(&self) -> f64 {
        let (pace, at) = self.pace;
        least_rate(pace, at, self.inside)
    }

    /// Looks whether this P is surely worse than one that gives so much.
    fn worse(&mut self, observation: &Observation, better: f64) -> Option<SliceResult> {
        let (since, before) = self.judged;
        let span = observation.now.since(since);
        let turnover_s = if self.raised { f64::from(self.inside) / better } else { 0.0 };
        if better <= 0.0 || span < JUDGED_AFTER || seconds(span) < turnover_s {
            return None;
        }
        let turns = observation.completed.saturating_sub(before);
        let count = turns as f64 + DEVIATIONS * (turns as f64).sqrt() + DEVIATIONS;
        let most = count * (1.0 + SCATTER / seconds(span).sqrt());
        let early = self.raised || self.surplus > 0;
        if most < better * seconds(span) * if early { 0.5 } else { 1.0 } {
            if turns >= TELLING {
                self.judged = (observation.now, observation.completed);
                self.from = self.from.map(|_| *observation);
            }
            return Some(SliceResult {
                outcome: SliceOutcome::Worse,
                ..SliceResult::few(turns, span)
            });
        }
        if early {
            self.judged = (observation.now, observation.completed);
            self.raised = false;
        }
        None
    }

    /// Looks whether hardly anything happens although much should.
    fn silence(
        &mut self,
        observation: &Observation,
        known: Known,
        limits: &Limits,
    ) -> Option<SliceResult> {
        let lately =
            self.since_set(observation.now).0 < SURPLUS_TIMEOUT_SLICES * limits.slice_max.0;
        if known.patient && self.surplus > 0 && lately {
            self.heard = (observation.now, observation.completed);
        }
        let (since, before) = self.heard;
        let span = observation.now.since(since);
        let expected = known.expected.max(self.usual()) * seconds(span);
        let several = EXPECTED_MIN.max(TURNOVERS as f64 * f64::from(self.inside));
        if span < limits.slice_max || expected < several {
            return None;
        }
        self.heard = (observation.now, observation.completed);
        let turns = observation.completed.saturating_sub(before);
        if turns >= HARDLY || turns as f64 >= HARDLY_PART * expected {
            return None;
        }
        self.from = self.from.map(|_| *observation);
        Some(SliceResult { outcome: SliceOutcome::Silent, ..SliceResult::few(turns, span) })
    }
}

/// Turns a second that so many inside give at least if `at` inside gave `rate`. Fewer have each at
/// least what they had among more, and more are not slower together than fewer. If they are slower
/// by a few times, several turnovers still tell silence.
pub(super) fn least_rate(rate: f64, at: u32, inside: u32) -> f64 {
    rate * (f64::from(inside) / f64::from(at.max(1))).min(1.0)
}

fn seconds(span: Nanos) -> f64 {
    span.0 as f64 / 1e9
}

impl SliceResult {
    /// What was counted between these two.
    fn between(from: &Observation, to: &Observation, outcome: SliceOutcome) -> SliceResult {
        let turns = to.completed.saturating_sub(from.completed);
        let each = |sum: f64| (turns > 0).then(|| sum / turns as f64);
        SliceResult {
            outcome,
            service_s: each(seconds(to.run.since(from.run))),
            requests: each(to.requests.saturating_sub(from.requests) as f64),
            ..SliceResult::few(turns, to.now.since(from.now))
        }
    }

    fn few(turns: u64, span: Nanos) -> SliceResult {
        let seconds = seconds(span);
        let rate = turns as f64 / seconds;
        SliceResult {
            outcome: SliceOutcome::Few,
            turns,
            rate,
            seconds,
            service_s: None,
            requests: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn observation(ms: u64, completed: u64) -> Observation {
        Observation {
            now: Nanos::from_millis(ms),
            completed,
            requests: completed * 25,
            run: Nanos::from_millis(completed * 16),
            sessions: 64,
            long: 0,
        }
    }

    fn observe(slice: &mut Slice, ms: u64, completed: u64) -> Option<SliceResult> {
        slice.ended(&observation(ms, completed), 16, Known::default(), &Limits::default())
    }

    /// A slice at P = 16 that begins at 1,000 ms, after 1,000 turns.
    fn begun(were: u64) -> Slice {
        let mut slice = Slice::new();
        slice.begin(Nanos::from_millis(1_000), Some(1_000), were, 16);
        slice
    }

    #[test]
    fn a_slice_counts_after_what_is_inside_has_turned_over() {
        // 1,000 turns a second: 4 x 16 take 64 ms, less than a quarter of a slice.
        let mut slice = begun(16);
        assert_eq!(observe(&mut slice, 1_070, 1_070), None, "not yet 75 ms");
        assert_eq!(observe(&mut slice, 1_100, 1_100), None, "counting begins");
        assert_eq!(observe(&mut slice, 1_400, 1_400), None, "300 completions of 400");
        let shown = observe(&mut slice, 1_500, 1_500).unwrap();
        let (rate, service_s) = (shown.rate, shown.service_s.unwrap());
        assert!((rate - 1_000.0).abs() < 1e-6 && (service_s - 0.016).abs() < 1e-9, "{shown:?}");
        assert_eq!((shown.requests, shown.outcome), (Some(25.0), SliceOutcome::Telling));
    }

    #[test]
    fn a_slow_load_gets_the_time_to_turn_over_and_for_enough_turns() {
        // With 16 inside: turns a second, when the slice is over (counting from 1 s on), and its
        // turns.
        for (rate, end_ms, turns) in [
            // Two turnovers take 4 s, and 64 turns 8 s.
            (8, 13_000, 64),
            // 8 s and 16 s.
            (4, 25_000, 64),
            // 16 s, and then no more than 20 s.
            (2, 37_000, 40),
            // One turnover takes 16 s, and two more than 20 s.
            (1, 41_000, 20),
        ] {
            let mut slice = begun(16);
            let mut looks = (1_100..60_000).step_by(100).filter_map(|ms| {
                let shown = observe(&mut slice, ms, 1_000 + (ms - 1_000) * rate / 1_000);
                shown.map(|shown| (ms, shown.turns, shown.outcome))
            });
            assert_eq!(
                looks.next(),
                Some((end_ms, turns, SliceOutcome::Telling)),
                "{rate} a second"
            );
        }
    }

    #[test]
    fn the_surplus_leaves_first() {
        // From 256 down to 16 at 1,000 turns a second: 240 ms, then 75 ms.
        let mut slice = begun(256);
        assert_eq!(observe(&mut slice, 1_200, 1_200), None);
        assert_eq!(slice.surplus(1_200), 40);
        for (ms, counting) in [(1_240, false), (1_300, false), (1_315, true)] {
            assert_eq!(observe(&mut slice, ms, ms), None);
            assert_eq!(slice.from.is_some(), counting, "{ms}");
        }
    }

    #[test]
    fn what_does_not_turn_over_tells_nothing() {
        // 8 turns in 80 s of 16 that are inside.
        let mut slice = begun(16);
        assert_eq!(observe(&mut slice, 80_900, 1_008), None);
        let shown = observe(&mut slice, 81_000, 1_008).unwrap();
        assert_eq!((shown.outcome, shown.turns, shown.seconds), (SliceOutcome::Few, 8, 80.0));
        // A surplus that leaves slowly is waited for, one that does not leave tells nothing.
        let mut slice = begun(256);
        assert_eq!(observe(&mut slice, 81_000, 1_120), None);
        assert_eq!(slice.surplus(1_120), 120);
        assert_eq!(
            observe(&mut slice, 161_000, 1_120).map(|shown| shown.outcome),
            Some(SliceOutcome::Few)
        );
    }

    #[test]
    fn a_sample_that_is_surely_worse_is_left() {
        // Another P gives 1,000 a second: after when this one is left, and with what worth.
        let left = |were: u64, rate: u64| {
            let mut slice = begun(were);
            let known = Known { better: 1_000.0, ..Known::default() };
            (1_050..1_600).step_by(50).find_map(|ms| {
                let observation = observation(ms, 1_000 + (ms - 1_000) * rate / 1_000);
                let shown = slice.ended(&observation, 16, known, &Limits::default())?;
                (shown.outcome == SliceOutcome::Worse).then_some(ms - 1_000)
            })
        };
        // 150 ms: 15 + 3 sqrt(15) + 3 = 30, x 1.10 = 33 of 150; 90 -> 121 x 1.10 = 134.
        // 450 ms: 360 -> 420 x 1.06 = 445 of 450.
        assert_eq!(
            [left(16, 100), left(16, 600), left(16, 800)],
            [Some(150), Some(150), Some(450)]
        );
        // A surplus that leaves slowly is left at half, also before it has left.
        assert_eq!([left(256, 100), left(256, 950)], [Some(150), None]);
        // What came in has to turn over first: 16 turns, and then half would be 75 of 150.
        assert_eq!([left(2, 100), left(2, 950)], [Some(150), None]);
    }

    #[test]
    fn a_slice_without_a_turn_has_no_means() {
        let mut slice = begun(0);
        slice.from = Some(observation(1_000, 1_000));
        let shown = observe(&mut slice, 21_000, 1_000).unwrap();
        assert_eq!((shown.outcome, shown.rate), (SliceOutcome::Few, 0.0));
        assert_eq!((shown.service_s, shown.requests), (None, None));
    }

    #[test]
    fn silence_is_that_of_a_load_that_was_quick() {
        // 32 turns a second are 64 in two seconds, in which 16 turn over four times.
        for (rate, silent) in [(1_000.0, true), (32.0, true), (31.0, false), (0.0, false)] {
            let mut slice = begun(16);
            slice.pace = (rate, 16);
            slice.from = Some(observation(1_000, 1_000));
            let shown = observe(&mut slice, 3_000, 1_009).map(|shown| shown.outcome);
            assert_eq!(shown, silent.then_some(SliceOutcome::Silent), "{rate}");
        }
        // Ten turns are more than hardly any.
        let mut slice = begun(16);
        (slice.pace, slice.from) = ((1_000.0, 16), Some(observation(1_000, 1_000)));
        assert_eq!(observe(&mut slice, 3_000, 1_010), None);
        // 1,000 a second of 256 are 15 of two in two seconds: of those, two are hardly any and
        // three are some.
        for (turns, silent) in [(2, true), (3, false)] {
            let mut slice = begun(16);
            (slice.pace, slice.from) = ((1_000.0, 256), Some(observation(1_000, 1_000)));
            let shown = slice.ended(
                &observation(3_000, 1_000 + turns),
                2,
                Known::default(),
                &Limits::default(),
            );
            assert_eq!(shown.is_some(), silent, "{turns}");
        }
    }

    #[test]
    fn a_slice_in_the_middle_of_silence_does_not_make_a_load_slow() {
        let mut slice = begun(16);
        (slice.pace, slice.from) = ((1_000.0, 16), Some(observation(1_000, 1_000)));
        assert_eq!(observe(&mut slice, 3_000, 1_064).map(|shown| shown.rate), Some(32.0));
        assert_eq!(slice.pace, (500.0, 16));
    }
}
