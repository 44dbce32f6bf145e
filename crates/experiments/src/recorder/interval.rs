//! How far a figure of a few trials may be from the truth.

/// The interval of a proportion that holds with 95 % (Wilson's).
pub(super) fn proportion(right: f64, of: f64) -> [f64; 2] {
    const Z: f64 = 1.96;
    if of <= 0.0 {
        return [0.0, 1.0];
    }
    let (part, spread) = (right / of, Z * Z / of);
    let middle = (part + spread / 2.0) / (1.0 + spread);
    let half = (part * (1.0 - part) / of + spread / (4.0 * of)).sqrt() * Z / (1.0 + spread);
    [(middle - half).max(0.0), (middle + half).min(1.0)]
}

/// The median, and the interval that has it with 95 %, by ranks alone. The values are sorted.
pub(super) fn median(values: &mut [f64]) -> Option<[f64; 3]> {
    values.sort_by(f64::total_cmp);
    let middle = headworks_policy::metrics::median(values)?;
    // As many values lie below the median as heads fall in so many throws.
    let n = values.len() as f64;
    let rank = ((n / 2.0 - 0.98 * n.sqrt()).floor() - 1.0).max(0.0) as usize;
    Some([values[rank], middle, values[values.len() - 1 - rank]])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_have_what_was_found_and_shrink_with_trials() {
        let [low, high] = proportion(97.0, 100.0);
        assert!((0.90..0.93).contains(&low) && (0.98..1.0).contains(&high), "{low} {high}");
        let [low, high] = proportion(10.0, 10.0);
        assert!((0.70..0.75).contains(&low) && high == 1.0, "{low} {high}");
        assert_eq!(proportion(0.0, 0.0), [0.0, 1.0]);
        let mut values: Vec<f64> = (1..=100).map(f64::from).collect();
        // Ranks 40 and 61, as tables of the binomial distribution have them.
        assert_eq!(median(&mut values), Some([40.0, 50.5, 61.0]));
        assert_eq!(median(&mut [3.0, 1.0, 2.0]), Some([1.0, 2.0, 3.0]));
        assert_eq!(median(&mut []), None);
    }
}
