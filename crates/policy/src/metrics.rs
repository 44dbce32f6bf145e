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

/// The same of values themselves. `None` for fewer than two, which cannot vary, or a mean of 0.
pub fn variation_of(values: &[f64]) -> Option<f64> {
    let mean = mean(values).filter(|mean| values.len() > 1 && *mean > 0.0)?;
    let squares = values.iter().map(|value| (value - mean).powi(2));
    Some((squares.sum::<f64>() / values.len() as f64).sqrt() / mean)
}

/// Latency variability `V_l`: the coefficient of variation of each session's latencies, averaged
/// over sessions (AppleS, section 3.1). `None` when no session has one.
pub fn latency_variability(sessions: impl IntoIterator<Item = Option<f64>>) -> Option<f64> {
    let (sum, count) =
        sessions.into_iter().flatten().fold((0.0, 0u64), |(sum, count), cv| (sum + cv, count + 1));
    (count > 0).then(|| sum / count as f64)
}

/// Arithmetic mean; `None` of nothing.
pub fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// Median: the middle value, or the mean of the two in the middle; `None` of nothing.
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        odd if odd % 2 == 1 => Some(sorted[middle]),
        _ => Some(f64::midpoint(sorted[middle - 1], sorted[middle])),
    }
}

/// The value that a share `quantile` (0 to 1) of the ascending values does not exceed (nearest
/// rank); `None` of nothing.
pub fn percentile(ascending: &[u32], quantile: f64) -> Option<u32> {
    let rank = (quantile * ascending.len() as f64).ceil() as usize;
    ascending.get(rank.clamp(1, ascending.len().max(1)) - 1).copied()
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

    fn close(a: Option<f64>, b: f64) {
        assert!((a.unwrap() - b).abs() < 1e-12, "{a:?} is not {b}");
    }

    #[test]
    fn variation_is_deviation_over_mean() {
        // Mean 4, deviations -2 and 2, variance (4 + 4) / 2 = 4, standard deviation 2; 2 / 4.
        close(variation_of(&[2.0, 6.0]), 0.5);
        close(variation_of(&[3.0, 3.0, 3.0]), 0.0);
        assert_eq!(variation_of(&[3.0]), None);
    }

    #[test]
    fn medians_take_the_middle() {
        close(median(&[3.0, 1.0, 2.0]), 2.0);
        close(median(&[4.0, 1.0, 2.0, 3.0]), 2.5);
        assert_eq!(median(&[]), None);
    }

    #[test]
    fn percentiles_take_the_nearest_rank() {
        let hundred: Vec<u32> = (1..=100).collect();
        assert_eq!(percentile(&hundred, 0.50), Some(50));
        assert_eq!(percentile(&hundred, 0.95), Some(95));
        assert_eq!(percentile(&hundred, 1.0), Some(100));
        // Rank ceil(0.5 × 3) = 2.
        assert_eq!(percentile(&[10, 20, 30], 0.5), Some(20));
        assert_eq!(percentile(&[7], 0.01), Some(7));
        assert_eq!(percentile(&[], 0.5), None);
    }
}
