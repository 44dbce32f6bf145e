//! The numbers an experiment reports, as pure functions.
//!
//! Definitions follow AppleS, section 3.1: unfairness is the largest deviation of one user's throughput from the mean,
//! and the variability of latency is each user's coefficient of variation, averaged over the users.

/// Unfairness U_f of users with equal weights: `max |Nᵢ − H| / H`, with H the mean of the counts Nᵢ.
///
/// 0 is perfectly fair. `None` when there is no user or nobody was served.
pub fn unfairness(counts: &[f64]) -> Option<f64> {
    let mean = mean(counts)?;
    let largest = counts.iter().map(|count| (count - mean).abs()).fold(0.0, f64::max);
    (mean > 0.0).then(|| largest / mean)
}

/// Coefficient of variation: the standard deviation of the whole population over its mean.
///
/// `None` for fewer than two values, which cannot vary, or a mean of 0.
pub fn coefficient_of_variation(values: &[f64]) -> Option<f64> {
    let mean = mean(values)?;
    if values.len() < 2 || mean <= 0.0 {
        return None;
    }
    let variance =
        values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / values.len() as f64;
    Some(variance.sqrt() / mean)
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

/// The value that a share `quantile` (0 to 1) of the ascending values does not exceed (nearest rank); `None` of nothing.
pub fn percentile(ascending: &[u32], quantile: f64) -> Option<u32> {
    let rank = (quantile * ascending.len() as f64).ceil() as usize;
    ascending.get(rank.clamp(1, ascending.len().max(1)) - 1).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(a: Option<f64>, b: f64) {
        assert!((a.unwrap() - b).abs() < 1e-12, "{a:?} is not {b}");
    }

    #[test]
    fn unfairness_is_the_largest_deviation_from_the_mean() {
        // Mean of 8, 10, 12 is 10; the largest deviation is 2; 2 / 10.
        close(unfairness(&[8.0, 10.0, 12.0]), 0.2);
        close(unfairness(&[7.0, 7.0]), 0.0);
        // One of four starves: the mean is 3, the starved one deviates by 3.
        close(unfairness(&[4.0, 4.0, 4.0, 0.0]), 1.0);
        assert_eq!(unfairness(&[]), None);
        assert_eq!(unfairness(&[0.0, 0.0]), None);
    }

    #[test]
    fn coefficient_of_variation_is_deviation_over_mean() {
        // Mean 4, deviations -2 and 2, variance (4 + 4) / 2 = 4, standard deviation 2; 2 / 4.
        close(coefficient_of_variation(&[2.0, 6.0]), 0.5);
        close(coefficient_of_variation(&[3.0, 3.0, 3.0]), 0.0);
        assert_eq!(coefficient_of_variation(&[3.0]), None);
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
