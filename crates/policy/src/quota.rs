//! ζ, the quota of a scheduling round, as large as fairness and steadiness allow.
//!
//! A larger ζ lets each session issue more requests in a row, whose data is then still in the
//! cache. It also makes other sessions wait longer, and unequally. So ζ grows by a little while
//! unfairness and latency variability are clearly below their bounds, and halves when one is above.
//! That is AppleS's Algorithm 2, the additive increase and multiplicative decrease of TCP.
//!
//! That alone breaks a bound once in each cycle of growth and halving: in 0.06 of the windows of
//! `tests/together.rs`. So ζ keeps a distance from the value at which a bound was broken last, and
//! forgets that value slowly. That breaks a bound in 0.04 of the windows.

use crate::Nanos;

/// Bounds and gains. A bound of zero means that this measure does not matter, unless both are zero:
/// then the least ζ is wanted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct QuotaLimits {
    /// Upper bound of unfairness, U_f°: 0.1 for 10 %.
    pub unfairness_max: f64,
    /// Upper bound of the latencies' coefficient of variation, V_l°.
    pub variability_max: f64,
    /// Factor by which ζ falls, d; below one.
    pub decrease: f64,
    /// Part of a bound below which there is room for more, η.
    pub room: f64,
    /// Requests by which ζ grows each time, u.
    pub increase: f64,
    /// Largest ζ.
    pub most: f64,
}

impl Default for QuotaLimits {
    fn default() -> Self {
        QuotaLimits {
            unfairness_max: 0.1,
            variability_max: 0.0,
            decrease: 0.5,
            room: 0.9,
            increase: 16.0,
            most: 65_536.0,
        }
    }
}

/// Turns of a mean session that a window should have, for a bound of one; with less than a part of
/// them nothing is known. Turns come whole. With n turns each, one more or less is 1/n of
/// unfairness. There is one at each end of a window, larger or smaller than the mean. For a bound
/// of 10 % that makes 40. In a simulation with 20 of them a third of all windows is above the bound
/// whatever ζ is.
const TURNS: f64 = 4.0;
const TURNS_PART: f64 = 0.75;

/// Shortest and longest window.
const WINDOW_MIN: Nanos = Nanos::from_millis(100);
const WINDOW_MAX: Nanos = Nanos::from_millis(20_000);

/// Part of one more turn for every session by which ζ grows each time. AppleS does not give its u;
/// as a number of requests it would mean nothing: a transaction has one of them or a hundred.
const INCREASE: f64 = 0.125;

/// Least such step, in requests.
const INCREASE_MIN: f64 = 16.0;

impl QuotaLimits {
    /// Turns of a mean session that a window should have.
    fn turns(&self) -> f64 {
        let bounds = [self.unfairness_max, self.variability_max];
        let tightest = bounds.into_iter().filter(|bound| *bound > 0.0).fold(1.0, f64::min);
        TURNS / tightest
    }

    /// Whether a window is over: it has lasted so long, and `turns` are those of a mean session of
    /// the class that had the fewest.
    pub fn ends(&self, lasted: Nanos, turns: f64) -> bool {
        lasted >= WINDOW_MIN && turns >= self.turns() || lasted >= WINDOW_MAX
    }

    /// Whether a class whose mean session had so many turns can be judged.
    pub fn judges(&self, turns: f64) -> bool {
        turns >= TURNS_PART * self.turns()
    }

    /// Requests by which ζ may grow, with so many sessions and requests of a turn.
    pub fn step(requests: f64, sessions: f64) -> f64 {
        (INCREASE * requests * sessions).max(INCREASE_MIN)
    }
}

/// What was measured over the last scheduling round, at least 100 ms.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct QuotaObservation {
    /// Unfairness, U_f; `None` if too little was served to tell.
    pub unfairness: Option<f64>,
    /// Coefficient of variation of latencies, V_l; `None` likewise.
    pub variability: Option<f64>,
    /// ζ with which each backlogged session can issue at least one request.
    pub least: f64,
}

/// ζ grows again up to this part of the ζ that broke a bound. With each window since, that ζ counts
/// as larger by this factor.
const DISTANCE: f64 = 0.8;
const FORGETS: f64 = 1.01;

/// ζ and what is remembered of it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct QuotaControl {
    zeta: f64,
    /// ζ that broke a bound, as far as it is remembered; zero if none has.
    broke: f64,
    /// The window before broke a bound.
    breaking: bool,
}

impl QuotaControl {
    /// Begins with this ζ.
    pub fn new(zeta: f64) -> QuotaControl {
        QuotaControl { zeta, ..QuotaControl::default() }
    }

    /// Takes what a window showed and returns the ζ that follows.
    pub fn observe(&mut self, limits: &QuotaLimits, observation: QuotaObservation) -> f64 {
        let least = observation.least.min(limits.most);
        if limits.unfairness_max <= 0.0 && limits.variability_max <= 0.0 {
            *self = QuotaControl::new(least);
            return least;
        }
        let zeta = self.zeta.clamp(least, limits.most);
        let measures = [
            (observation.unfairness, limits.unfairness_max),
            (observation.variability, limits.variability_max),
        ];
        let bounded = || measures.into_iter().filter(|(_, bound)| *bound > 0.0);
        self.zeta = if bounded().any(|(value, bound)| value.is_some_and(|value| value > bound)) {
            // Chance breaks a bound at the least ζ, too, and what goes on breaking it is another
            // load.
            if zeta > least && !self.breaking {
                self.broke = zeta;
            }
            self.breaking = true;
            (zeta * limits.decrease).max(least)
        } else {
            self.breaking = false;
            self.broke = (self.broke * FORGETS).min(limits.most / DISTANCE);
            // What is not known is no reason to grow, nor to fall.
            let room = |(value, bound): (Option<f64>, f64)| {
                value.is_some_and(|value| value < limits.room * bound)
            };
            let most = if self.broke > 0.0 { DISTANCE * self.broke } else { limits.most };
            if bounded().all(room) { (zeta + limits.increase).min(most).max(zeta) } else { zeta }
        };
        self.zeta = self.zeta.min(limits.most);
        self.zeta
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn observation(unfairness: f64, variability: f64) -> QuotaObservation {
        QuotaObservation {
            unfairness: Some(unfairness),
            variability: Some(variability),
            least: 10.0,
        }
    }

    /// What follows on a ζ of which nothing is remembered.
    fn next(zeta: f64, limits: &QuotaLimits, observation: QuotaObservation) -> f64 {
        QuotaControl::new(zeta).observe(limits, observation)
    }

    #[test]
    fn each_line_of_the_algorithm() {
        let limits = QuotaLimits { variability_max: 1.0, ..QuotaLimits::default() };
        assert_eq!(next(100.0, &limits, observation(0.05, 0.5)), 116.0, "room in both");
        assert_eq!(next(100.0, &limits, observation(0.095, 0.5)), 100.0, "close to one bound");
        assert_eq!(next(100.0, &limits, observation(0.11, 0.5)), 50.0, "above the one");
        assert_eq!(next(100.0, &limits, observation(0.01, 1.1)), 50.0, "above the other");
        assert_eq!(next(12.0, &limits, observation(0.2, 0.1)), 10.0, "never below the least");
        assert_eq!(next(65_530.0, &limits, observation(0.0, 0.0)), 65_536.0, "nor above the most");
        let strict = QuotaLimits { unfairness_max: 0.0, variability_max: 0.0, ..limits };
        assert_eq!(next(100.0, &strict, observation(0.0, 0.0)), 10.0, "the least is wanted");
        let free = QuotaLimits { variability_max: 0.0, ..limits };
        assert_eq!(next(100.0, &free, observation(0.05, 9.0)), 116.0, "does not matter");
        let unknown = QuotaObservation { unfairness: None, ..observation(0.0, 0.0) };
        assert_eq!(next(100.0, &limits, unknown), 100.0);
        let one_broken = QuotaObservation { unfairness: None, ..observation(0.0, 1.5) };
        assert_eq!(next(100.0, &limits, one_broken), 50.0, "whatever is not known of the other");
    }

    #[test]
    fn a_window_lasts_until_turns_can_be_told_from_chance() {
        let ms = Nanos::from_millis;
        let limits = QuotaLimits::default();
        assert!(!limits.ends(ms(50), 99.0), "too short");
        assert!(!limits.ends(ms(5_000), 39.0) && limits.ends(ms(5_000), 40.0));
        assert!(limits.ends(ms(20_000), 0.0), "whatever was seen");
        assert!(!limits.judges(29.0) && limits.judges(30.0));
        let loose = QuotaLimits { unfairness_max: 0.0, variability_max: 2.0, ..limits };
        assert!(loose.ends(ms(100), 4.0), "no bound is looser than one here");
        // 25 requests, 256 sessions: an eighth of a turn each.
        assert_eq!(QuotaLimits::step(25.0, 256.0), 800.0);
        assert_eq!(QuotaLimits::step(1.0, 4.0), 16.0);
    }

    #[test]
    fn what_breaks_a_bound_at_the_least_quota_is_not_remembered() {
        let limits = QuotaLimits { increase: 100.0, ..QuotaLimits::default() };
        let mut control = QuotaControl::new(10.0);
        assert_eq!(control.observe(&limits, observation(0.2, 0.0)), 10.0);
        assert_eq!(control.observe(&limits, observation(0.0, 0.0)), 110.0);
        // Half a minute of another load, and then the one before again.
        let mut control = QuotaControl::new(1_000.0);
        for _ in 0..7 {
            control.observe(&limits, observation(0.2, 0.0));
        }
        let after =
            (0..20).map(|_| control.observe(&limits, observation(0.0, 0.0))).fold(0.0, f64::max);
        assert!(after > 800.0, "{after}");
    }

    #[test]
    fn a_distance_is_kept_from_what_broke_a_bound_and_forgotten() {
        let limits = QuotaLimits { increase: 100.0, ..QuotaLimits::default() };
        let mut control = QuotaControl::new(1_000.0);
        assert_eq!(control.observe(&limits, observation(0.2, 0.0)), 500.0);
        let mut after = |windows: u32| {
            (0..windows)
                .map(|_| control.observe(&limits, observation(0.0, 0.0)))
                .fold(0.0, f64::max)
        };
        assert_eq!(after(3), 800.0);
        // 0.8 of 1,000, which is held to be 1.01^4 times as much by now, instead of 900.
        assert!((after(1) - 800.0 * 1.01f64.powi(4)).abs() < 1e-9);
        assert!(after(1_000) > 8_000.0, "it grows once that is forgotten");
    }

    /// Noise that differs, slopes over four decades, and twice the slope on the way.
    #[test]
    fn unfairness_stays_under_its_bound_in_nearly_all_windows() {
        let limits = QuotaLimits::default();
        let (seeds, windows) = (2_000u64, 400);
        let (mut above, mut slowest, mut used) = (0, 0, 0.0);
        for seed in 0..seeds {
            let mut state = seed;
            let mut random = || {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695);
                (state >> 40) as f64 / f64::from(1 << 24)
            };
            // Unfairness grows with ζ: 0.1 at 50 to 5,000.
            let slope = 2e-3 * 0.01f64.powf(random());
            let scatter = 0.3 * random();
            let mut control = QuotaControl::new(10.0);
            let mut settled = None;
            for window in 0..windows {
                let slope = if window >= windows / 2 { 2.0 * slope } else { slope };
                let zeta = control.zeta.max(10.0);
                let unfairness = zeta * slope * (1.0 + scatter * (random() + random() - 1.0));
                above += u32::from(unfairness > limits.unfairness_max);
                if window >= windows / 2 && unfairness <= limits.unfairness_max {
                    settled = settled.or(Some(window - windows / 2));
                }
                used += zeta * slope / limits.unfairness_max / f64::from(windows);
                control.observe(
                    &limits,
                    QuotaObservation { unfairness: Some(unfairness), ..observation(0.0, 0.0) },
                );
            }
            slowest = slowest.max(settled.unwrap_or(windows));
        }
        let above = f64::from(above) / (seeds as f64 * f64::from(windows));
        let used = used / seeds as f64;
        println!(
            "{above:.4} of the windows above, {used:.2} of the room used; after a shift {slowest} windows at most"
        );
        assert!(above < 0.035, "{above}");
        assert!(slowest <= 3, "{slowest}");
        assert!(used > 0.4, "{used}");
    }
}
