//! When to count events, so that recording takes no more of the processors than it may.
//!
//! Events are counted in windows. After each window the recorder pauses until what the window cost,
//! with the pause before it, is no more than the budget's share of window and pause together. So
//! each window with its pause keeps the budget, and no average has to be waited for.
//!
//! How long a window may be follows from what the one before cost. Load may jump meanwhile: so a
//! window is closed as soon as it has cost what a period pays for. At the end of the recording that
//! is what is left of it: a pause that the end cuts off would pay for nothing.

use std::time::Duration;

/// A window. Requests that take longer are seen in parts, of which the sums are right.
const WINDOW: Duration = Duration::from_millis(250);
/// The shortest window that still has whole requests in it.
const SHORTEST: Duration = Duration::from_millis(50);
/// At the end of a recording, a shorter one is not worth opening.
const LEAST: Duration = Duration::from_millis(10);
/// A window and its pause. Where the pause would be longer, windows become shorter.
const PERIOD: Duration = Duration::from_secs(2);

/// See the module.
#[derive(Clone, Debug)]
pub struct Budget {
    /// Processors that it may take on average.
    allowed: f64,
    /// Processors that the last window took while it was open.
    rate: Option<f64>,
}

impl Budget {
    /// `fraction` of `processors`.
    pub fn new(fraction: f64, processors: u32) -> Budget {
        Budget { allowed: fraction * f64::from(processors.max(1)), rate: None }
    }

    /// Length of the next window, if so much of the recording is left. None if what is left does
    /// not pay for one.
    pub fn window(&self, left: Duration) -> Option<Duration> {
        let Some(rate) = self.rate else { return Some((SHORTEST * 2).min(left)) };
        let paid_by = |time: Duration| {
            Duration::from_secs_f64(time.as_secs_f64() * (self.allowed / rate.max(1e-12)).min(1.0))
        };
        let window = WINDOW.min(paid_by(PERIOD)).max(SHORTEST).min(paid_by(left));
        (window >= LEAST).then_some(window)
    }

    /// Processor time for which a window is closed early.
    pub fn most_ns(&self, left: Duration) -> u64 {
        (self.allowed * left.min(PERIOD).as_secs_f64() * 1e9) as u64
    }

    /// Whether programs are detached for a pause. Then they cost nothing. They stay where they are
    /// if attaching them takes longer than the pause: where there are very many context switches,
    /// the kernel takes seconds for that. For a pause above a period they are detached in any case:
    /// it is that long because they cost much.
    pub fn detaches(pause: Duration, attach_took: Duration) -> bool {
        pause > attach_took.min(PERIOD)
    }

    /// The pause after a window of this length that cost this much processor time, and with the
    /// pause before it so much.
    pub fn pause(&mut self, window: Duration, [open_ns, all_ns]: [u64; 2]) -> Duration {
        let [open_s, all_s] = [open_ns, all_ns].map(|ns| ns as f64 / 1e9);
        let whole_s = if self.allowed > 0.0 { all_s / self.allowed } else { f64::MAX };
        self.rate = Some(open_s / window.as_secs_f64().max(1e-9));
        let pause = (whole_s - window.as_secs_f64()).clamp(0.0, PERIOD.as_secs_f64() * 5.0);
        Duration::from_secs_f64(pause)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const LONG: Duration = Duration::from_secs(3_600);
    /// How often the recorder looks at what a window costs.
    const LOOK: Duration = Duration::from_millis(10);

    #[test]
    fn what_costs_less_than_the_budget_is_always_counted() {
        let mut budget = Budget::new(0.01, 2);
        assert_eq!(budget.pause(WINDOW, [1_000_000; 2]), Duration::ZERO);
        assert_eq!(budget.window(LONG), Some(WINDOW));
        assert_eq!(budget.window(WINDOW / 2), Some(WINDOW / 2));
    }

    #[test]
    fn what_a_pause_costs_makes_the_next_pause_longer_and_no_window_shorter() {
        let mut budget = Budget::new(0.01, 2);
        let pause = budget.pause(SHORTEST, [1_000_000, 40_000_000]);
        assert_eq!(pause, PERIOD - SHORTEST);
        assert_eq!(budget.window(LONG), Some(WINDOW));
    }

    #[test]
    fn programs_stay_attached_in_pauses_that_attaching_would_outlast() {
        assert!(!Budget::detaches(Duration::ZERO, Duration::ZERO));
        assert!(!Budget::detaches(WINDOW, PERIOD));
        assert!(Budget::detaches(PERIOD, WINDOW));
        assert!(Budget::detaches(PERIOD + WINDOW, PERIOD * 100), "the budget goes before");
    }

    /// Windows of a recording: when each began, when the next one did, and what it cost, in
    /// processor seconds. `load` tells the processors that programs take while a window is open.
    fn recorded(
        mut budget: Budget,
        length: Duration,
        load: impl Fn(Duration) -> f64,
    ) -> Vec<(Duration, Duration, f64)> {
        let (mut now, mut windows) = (Duration::ZERO, Vec::new());
        while let Some(window) = (now < length).then(|| budget.window(length - now)).flatten() {
            let (opened, most_ns, mut cost_ns) = (now, budget.most_ns(length - now), 0);
            while now < opened + window && now < length && cost_ns < most_ns {
                cost_ns += (load(now) * LOOK.as_nanos() as f64) as u64;
                now += LOOK;
            }
            now += budget.pause(now - opened, [cost_ns; 2]);
            windows.push((opened, now, cost_ns as f64 / 1e9));
        }
        windows
    }

    /// Two processors, one percent. The load jumps from nearly nothing to a fifth of both.
    #[test]
    fn a_load_that_jumps_is_paid_for_within_two_seconds() {
        let jump = |at: Duration| if at.as_secs() % 8 < 4 { 0.002 } else { 0.4 };
        let windows = recorded(Budget::new(0.01, 2), Duration::from_secs(60), jump);
        for (opened, next, cost_s) in &windows {
            let (time, what) =
                ((*next - *opened).as_secs_f64(), format!("at {opened:?}: {next:?}"));
            assert!(cost_s / time <= 0.02 * 1.001, "{what}: {cost_s}");
            // A look late costs as much as it is late.
            assert!(time <= 2.0 + 0.4 / 0.02 * LOOK.as_secs_f64() + 0.001, "{what}");
        }
        let high = windows.iter().filter(|(opened, ..)| opened.as_secs() % 8 >= 4).count();
        assert!(high >= 8, "it counts all the same: {high}");
    }

    /// No second takes a tenth of the program's processors: not the first, not the last.
    #[test]
    fn no_second_takes_a_tenth() {
        for length_ms in [900, 3_500, 10_000] {
            let length = Duration::from_millis(length_ms);
            let windows = recorded(Budget::new(0.01, 2), length, |_| 0.4);
            for second in 0..length_ms / 10 {
                let from = Duration::from_millis(second * 10);
                let within = |opened: &Duration| (from..from + SECOND).contains(opened);
                let own = windows.iter().filter(|(opened, ..)| within(opened));
                let cost_s: f64 = own.map(|(.., cost_s)| cost_s).sum();
                assert!(cost_s < 0.1 * 2.0, "{length:?}, {from:?}: {cost_s}");
            }
        }
    }

    const SECOND: Duration = Duration::from_secs(1);

    proptest! {
        #[test]
        fn a_window_and_its_pause_keep_the_budget(
            fraction in 0.001..0.2f64,
            processors in 1u32..64,
            rate in 0.0..0.3f64,
        ) {
            let mut budget = Budget::new(fraction, processors);
            for _ in 0..20 {
                let window = budget.window(LONG).expect("there is time");
                let cost = rate * f64::from(processors) * window.as_secs_f64();
                let pause = budget.pause(window, [(cost * 1e9) as u64; 2]);
                let share = cost / f64::from(processors) / (window + pause).as_secs_f64();
                // What the shortest window costs cannot be spread over more than ten seconds.
                let bound = PERIOD * 5 == pause || share <= fraction * 1.001;
                prop_assert!(bound, "{share} of {fraction}: window {window:?}, pause {pause:?}");
            }
        }

        /// Of any length, and under any load that jumps: the last pause is not cut off.
        #[test]
        fn a_whole_recording_keeps_the_budget(
            fraction in 0.005..0.2f64,
            length_ms in 500u64..12_000,
            loads in proptest::collection::vec(0.0..0.6f64, 1..8),
            each_ms in 100u128..3_000,
        ) {
            let load = |at: Duration| loads[(at.as_millis() / each_ms) as usize % loads.len()];
            let length = Duration::from_millis(length_ms);
            let windows = recorded(Budget::new(fraction, 2), length, load);
            let cost_s: f64 = windows.iter().map(|(.., cost_s)| cost_s).sum();
            // The last window may be a look late.
            let most_s = fraction * 2.0 * length.as_secs_f64() + 0.6 * LOOK.as_secs_f64();
            prop_assert!(cost_s <= most_s * 1.001, "{cost_s} of {most_s}: {windows:?}");
            prop_assert!(!windows.is_empty());
        }
    }
}
