//! Fairness and variability of what users were served (AppleS, section 3.1).
//!
//! The same formulas as in the policy crate, repeated because a workload measures databases with and without any part
//! of this project and depends on none.

/// User-level unfairness `U_f = max |Nᵢ/φᵢ − H| / H`, where `H` is the mean of `Nᵢ/φᵢ` over users. Dimensionless; 0 is
/// perfectly fair. `shares` yields `Nᵢ/φᵢ`. `None` without users or without any request.
pub fn unfairness(shares: impl IntoIterator<Item = f64>) -> Option<f64> {
    let shares: Vec<f64> = shares.into_iter().collect();
    let mean = shares.iter().sum::<f64>() / shares.len() as f64;
    let farthest = shares.iter().map(|share| (share - mean).abs()).fold(0.0, f64::max);
    (!shares.is_empty() && mean > 0.0).then(|| farthest / mean)
}

/// Coefficient of variation (standard deviation of the population over mean). `None` when nothing was counted or the
/// mean is zero.
pub fn coefficient_of_variation(count: u64, sum: f64, sum_of_squares: f64) -> Option<f64> {
    if count == 0 || sum <= 0.0 {
        return None;
    }
    let mean = sum / count as f64;
    let variance = (sum_of_squares / count as f64 - mean * mean).max(0.0);
    Some(variance.sqrt() / mean)
}

/// The mean over users of each user's coefficient of variation, `None` when no user has one.
pub fn mean_variability(users: impl IntoIterator<Item = Option<f64>>) -> Option<f64> {
    let (sum, count) =
        users.into_iter().flatten().fold((0.0, 0u64), |(sum, count), cv| (sum + cv, count + 1));
    (count > 0).then(|| sum / count as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unfairness_is_the_largest_deviation_from_the_mean() {
        // Mean 100; the farthest is 130: 30 / 100.
        assert_eq!(unfairness([100.0, 130.0, 90.0, 80.0]), Some(0.3));
        assert_eq!(unfairness([0.0, 100.0]), Some(1.0));
        assert_eq!(unfairness([]), None);
        assert_eq!(unfairness([0.0]), None);
    }

    #[test]
    fn variation_is_deviation_over_mean() {
        // 1 and 3: mean 2, variance (1 + 9) / 2 − 4 = 1, so 1 / 2.
        assert_eq!(coefficient_of_variation(2, 4.0, 10.0), Some(0.5));
        assert_eq!(coefficient_of_variation(0, 0.0, 0.0), None);
        assert_eq!(mean_variability([Some(0.5), None, Some(1.5)]), Some(1.0));
    }
}
