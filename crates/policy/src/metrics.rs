//! Metrics of fairness and variability (AppleS, section 3.1).

/// User-level unfairness `U_f = max |Nᵢ/φᵢ − H| / H`, where `H` is the mean of `Nᵢ/φᵢ`
/// (AppleS, section 3.1). Dimensionless; 0 is perfectly fair. `shares` yields `Nᵢ/φᵢ` for each
/// backlogged session. `None` without sessions or without any request.
pub fn unfairness(shares: impl IntoIterator<Item = f64>) -> Option<f64> {
    let (mut count, mut sum, mut least, mut most) = (0u64, 0.0, f64::INFINITY, f64::NEG_INFINITY);
    for share in shares {
        count += 1;
        sum += share;
        least = share.min(least);
        most = share.max(most);
    }
    let mean = sum / count as f64;
    (count > 0 && mean > 0.0).then(|| (most - mean).max(mean - least) / mean)
}

/// Coefficient of variation (standard deviation over mean, of the population) from a count, a
/// sum and a sum of squares. `None` when nothing was counted or the mean is zero.
pub fn coefficient_of_variation(count: u64, sum: f64, sum_of_squares: f64) -> Option<f64> {
    if count == 0 || sum <= 0.0 {
        return None;
    }
    let mean = sum / count as f64;
    let variance = (sum_of_squares / count as f64 - mean * mean).max(0.0);
    Some(variance.sqrt() / mean)
}

/// Latency variability `V_l`: the coefficient of variation of each session's latencies, averaged
/// over sessions (AppleS, section 3.1). `None` when no session has one.
pub fn latency_variability(sessions: impl IntoIterator<Item = Option<f64>>) -> Option<f64> {
    let (sum, count) =
        sessions.into_iter().flatten().fold((0.0, 0u64), |(sum, count), cv| (sum + cv, count + 1));
    (count > 0).then(|| sum / count as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unfairness_is_the_largest_deviation_from_the_mean() {
        // Mean 100; the farthest is 130: 30 / 100.
        assert_eq!(unfairness([100.0, 130.0, 90.0, 80.0]), Some(0.3));
        assert_eq!(unfairness([7.0, 7.0]), Some(0.0));
        // A starved session: mean 50, deviation 50.
        assert_eq!(unfairness([0.0, 100.0]), Some(1.0));
        assert_eq!(unfairness([]), None);
        assert_eq!(unfairness([0.0, 0.0]), None);
    }

    #[test]
    fn variation_of_two_and_four_is_a_third() {
        // Mean 3, standard deviation 1.
        let cv = coefficient_of_variation(2, 6.0, 20.0).unwrap();
        assert!((cv - 1.0 / 3.0).abs() < 1e-12);
        assert_eq!(coefficient_of_variation(0, 0.0, 0.0), None);
    }

    #[test]
    fn variability_averages_over_the_users_that_have_one() {
        assert_eq!(latency_variability([Some(0.5), None, Some(1.5)]), Some(1.0));
        assert_eq!(latency_variability([None]), None);
    }
}
