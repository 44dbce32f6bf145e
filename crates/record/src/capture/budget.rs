//! When to count events, so that recording takes no more of the processors than it may.
//!
//! Events are counted in windows. After each window the recorder pauses until what the window cost,
//! with the pause before it, is no more than the budget's share of window and pause together. So
//! each window with its pause keeps the budget, and no average has to be waited for.

use std::time::Duration;

/// A window. Requests that take longer are seen in parts, of which the sums are right.
const WINDOW: Duration = Duration::from_millis(250);
/// The shortest window that still has whole requests in it.
const SHORTEST: Duration = Duration::from_millis(50);
/// A window and its pause. Where the pause would be longer, windows become shorter.
const PERIOD: Duration = Duration::from_secs(2);

/// See the module.
#[derive(Clone, Debug)]
pub struct Budget {
    /// Fraction of all processors.
    fraction: f64,
    processors: u32,
    window: Duration,
}

impl Budget {
    /// `fraction` of `processors`.
    pub fn new(fraction: f64, processors: u32) -> Budget {
        Budget { fraction, processors: processors.max(1), window: SHORTEST * 2 }
    }

    /// Length of the next window.
    pub fn window(&self) -> Duration {
        self.window
    }

    /// Whether programs are detached for a pause. Then they cost nothing. They stay where they are
    /// if attaching them takes longer than the pause: where there are very many context switches,
    /// the kernel takes seconds for that. For a pause above a period they are detached in any case:
    /// it is that long because they cost much.
    pub fn detaches(pause: Duration, attach_took: Duration) -> bool {
        pause > attach_took.min(PERIOD)
    }

    /// The pause after a window of this length that cost this much processor time.
    pub fn pause(&mut self, window: Duration, cost_ns: u64) -> Duration {
        let allowed_per_s = self.fraction * f64::from(self.processors);
        let cost_s = cost_ns as f64 / 1e9;
        let whole_s = if allowed_per_s > 0.0 { cost_s / allowed_per_s } else { f64::MAX };
        let rate = cost_s / window.as_secs_f64().max(1e-9);
        // The next window is as long as a period can bear at this rate.
        let bearable = PERIOD.as_secs_f64() * (allowed_per_s / rate.max(1e-12)).min(1.0);
        self.window = WINDOW.min(Duration::from_secs_f64(bearable)).max(SHORTEST);
        let pause = (whole_s - window.as_secs_f64()).clamp(0.0, PERIOD.as_secs_f64() * 5.0);
        Duration::from_secs_f64(pause)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_costs_less_than_the_budget_is_always_counted() {
        let mut budget = Budget::new(0.01, 2);
        assert_eq!(budget.pause(WINDOW, 1_000_000), Duration::ZERO);
        assert_eq!(budget.window(), WINDOW);
    }

    #[test]
    fn programs_stay_attached_in_pauses_that_attaching_would_outlast() {
        assert!(!Budget::detaches(Duration::ZERO, Duration::ZERO));
        assert!(!Budget::detaches(WINDOW, PERIOD));
        assert!(Budget::detaches(PERIOD, WINDOW));
        assert!(Budget::detaches(PERIOD + WINDOW, PERIOD * 100), "the budget goes before");
    }

    proptest! {
        #[test]
        fn a_window_and_its_pause_keep_the_budget(
            fraction in 0.001..0.2f64,
            processors in 1u32..64,
            rate in 0.0..0.3f64,
        ) {
            let mut budget = Budget::new(fraction, processors);
            for _ in 0..20 {
                let window = budget.window();
                let cost = rate * f64::from(processors) * window.as_secs_f64();
                let pause = budget.pause(window, (cost * 1e9) as u64);
                let share = cost / f64::from(processors) / (window + pause).as_secs_f64();
                // What the shortest window costs cannot be spread over more than ten seconds.
                let bound = PERIOD * 5 == pause || share <= fraction * 1.001;
                prop_assert!(bound, "{share} of {fraction}: window {window:?}, pause {pause:?}");
            }
        }
    }
}
