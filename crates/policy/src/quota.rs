//! ζ, the quota of a scheduling round, as large as fairness and steadiness allow.
//!
//! A larger ζ lets each user issue more requests in a row, whose data is then still in the cache;
//! it also makes the others wait longer, and unequally. ζ therefore grows by a little while unfairness and latency
//! variability are clearly below their bounds, and halves when one is above (AppleS, Algorithm 2:
//! the additive increase and multiplicative decrease of TCP's congestion control).

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

/// What was measured over the last scheduling round, at least 100 ms.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct QuotaSight {
    /// Unfairness, U_f; `None` if too little was served to tell.
    pub unfairness: Option<f64>,
    /// Coefficient of variation of latencies, V_l; `None` likewise.
    pub variability: Option<f64>,
    /// ζ with which each backlogged user can issue at least one request.
    pub least: f64,
}

/// The ζ that follows on `zeta`.
pub fn next_quota(zeta: f64, limits: &QuotaLimits, sight: QuotaSight) -> f64 {
    let least = sight.least.min(limits.most);
    if limits.unfairness_max <= 0.0 && limits.variability_max <= 0.0 {
        return least;
    }
    let zeta = zeta.clamp(least, limits.most);
    let measures =
        [(sight.unfairness, limits.unfairness_max), (sight.variability, limits.variability_max)];
    let mut room = true;
    for (value, bound) in measures.into_iter().filter(|(_, bound)| *bound > 0.0) {
        // What is not known is no reason to grow, nor to fall.
        let Some(value) = value else {
            room = false;
            continue;
        };
        if value > bound {
            return (zeta * limits.decrease).max(least);
        }
        room &= value < limits.room * bound;
    }
    if room { (zeta + limits.increase).min(limits.most) } else { zeta }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sight(unfairness: f64, variability: f64) -> QuotaSight {
        QuotaSight { unfairness: Some(unfairness), variability: Some(variability), least: 10.0 }
    }

    #[test]
    fn each_line_of_the_algorithm() {
        let limits = QuotaLimits { variability_max: 1.0, ..QuotaLimits::default() };
        assert_eq!(next_quota(100.0, &limits, sight(0.05, 0.5)), 116.0, "room in both");
        assert_eq!(next_quota(100.0, &limits, sight(0.095, 0.5)), 100.0, "close to one bound");
        assert_eq!(next_quota(100.0, &limits, sight(0.11, 0.5)), 50.0, "above the one");
        assert_eq!(next_quota(100.0, &limits, sight(0.01, 1.1)), 50.0, "above the other");
        assert_eq!(next_quota(12.0, &limits, sight(0.2, 0.1)), 10.0, "never below the least");
        assert_eq!(next_quota(65_530.0, &limits, sight(0.0, 0.0)), 65_536.0, "nor above the most");
        let strict = QuotaLimits { unfairness_max: 0.0, variability_max: 0.0, ..limits };
        assert_eq!(next_quota(100.0, &strict, sight(0.0, 0.0)), 10.0, "the least is wanted");
        let free = QuotaLimits { variability_max: 0.0, ..limits };
        assert_eq!(next_quota(100.0, &free, sight(0.05, 9.0)), 116.0, "does not matter");
        let unknown = QuotaSight { unfairness: None, ..sight(0.0, 0.0) };
        assert_eq!(next_quota(100.0, &limits, unknown), 100.0);
    }

    #[test]
    fn unfairness_stays_under_its_bound_in_nearly_all_windows() {
        // Unfairness grows with ζ, with noise and a change of its slope on the way.
        let limits = QuotaLimits::default();
        let mut state = 5u64;
        let mut noise = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 40) as f64 / f64::from(1 << 24) - 0.5
        };
        for slope in [1e-5, 1e-4, 1e-3] {
            let (mut zeta, mut above, mut sum) = (10.0, 0, 0.0);
            let windows = 20_000;
            for window in 0..windows {
                let slope = if window > windows / 2 { slope * 2.0 } else { slope };
                let unfairness = (zeta * slope * (1.0 + 0.1 * noise())).max(0.0);
                above += u32::from(unfairness > limits.unfairness_max);
                sum += unfairness;
                zeta = next_quota(zeta, &limits, sight(unfairness, 0.0));
            }
            assert!(f64::from(above) < 0.05 * f64::from(windows), "{slope}: {above}");
            let mean = sum / f64::from(windows);
            assert!(mean > 0.3 * limits.unfairness_max, "{slope}: the room is used, {mean}");
        }
    }
}
