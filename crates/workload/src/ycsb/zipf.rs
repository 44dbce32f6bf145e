//! Exact sampling from Zipf's law.
//!
//! Rank k of n is drawn with probability k^−s / ζ(n, s), ζ(n, s) = Σ i^−s. YCSB approximates this
//! (Gray and others 1994) after summing ζ(n, s). The sum takes time in proportion to n, and must be
//! updated when n grows. Rejection-inversion (Hörmann and Derflinger 1996) needs no sum and is
//! exact for every n. It finds a point under the curve x^−s over [½, n + ½] by inverting the
//! curve's integral. It keeps the point if it lies in the bar of the nearest whole number. For s =
//! 0.99 some 98 of 100 points are kept.

use crate::random::Random;

/// Zipf's law with one exponent, for any number of ranks.
#[derive(Debug, Clone, Copy)]
pub struct Zipf {
    exponent: f64,
    /// H(3/2) − 1: the lower end of the integral's values. The bar of rank 1 is as wide as its
    /// probability.
    low: f64,
    /// Points nearer to their rank than this are kept without a further check.
    near: f64,
}

impl Zipf {
    /// YCSB's exponent.
    pub const YCSB: f64 = 0.99;

    /// The law with `exponent` s, above 0 and not 1 (where the integral is another function).
    ///
    /// # Panics
    /// If the exponent is outside that range.
    pub fn new(exponent: f64) -> Self {
        assert!(exponent > 0.0 && (exponent - 1.0).abs() > 1e-6, "no exponent of ours: {exponent}");
        let mut law = Self { exponent, low: 0.0, near: 0.0 };
        law.low = law.integral(1.5) - 1.0;
        law.near = 2.0 - law.inverse(law.integral(2.5) - law.height(2.0));
        law
    }

    /// x^−s.
    fn height(&self, x: f64) -> f64 {
        x.powf(-self.exponent)
    }

    /// H(x): the integral of [`Zipf::height`] from 1 to x.
    fn integral(&self, x: f64) -> f64 {
        let power = 1.0 - self.exponent;
        (power * x.ln()).exp_m1() / power
    }

    /// The x at which the integral has this value.
    fn inverse(&self, value: f64) -> f64 {
        let power = 1.0 - self.exponent;
        // Rounding must not take the argument of the logarithm to −1 or below.
        ((value * power).max(-1.0 + f64::EPSILON).ln_1p() / power).exp()
    }

    /// A rank from 1 (the most frequent) to `ranks`; 1 if there are none.
    pub fn draw(&self, ranks: u64, random: &mut Random) -> u64 {
        // Above 2^53 ranks, neighbours would be drawn together; no store has that many records.
        let high = self.integral(ranks.max(1) as f64 + 0.5);
        loop {
            let value = high + random.unit() * (self.low - high);
            let x = self.inverse(value);
            // Saturates; the clamp keeps rounding at both ends inside.
            let rank = (x.round() as u64).clamp(1, ranks.max(1));
            let bar = rank as f64;
            if bar - x <= self.near || value >= self.integral(bar + 0.5) - self.height(bar) {
                return rank;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Enough to detect an error of 2 % in rank 2 of 10, as keeping every point would make.
    const DRAWS: u64 = 2_000_000;

    /// How often each rank is drawn.
    fn counts(exponent: f64, ranks: u64) -> Vec<u64> {
        let (law, mut random) = (Zipf::new(exponent), Random::stream(7, 0));
        let mut counts = vec![0; ranks as usize];
        for _ in 0..DRAWS {
            counts[law.draw(ranks, &mut random) as usize - 1] += 1;
        }
        counts
    }

    /// Σ (observed − expected)² / expected, over bins that expect at least 20 (later ranks
    /// together).
    fn chi_square(counts: &[u64], exponent: f64) -> (f64, f64) {
        let weights: Vec<f64> = (1..=counts.len()).map(|k| (k as f64).powf(-exponent)).collect();
        let zeta: f64 = weights.iter().sum();
        let (mut sum, mut bins, mut seen, mut due) = (0.0, 0.0, 0.0, 0.0);
        for (count, weight) in counts.iter().zip(weights) {
            seen += *count as f64;
            due += DRAWS as f64 * weight / zeta;
            if due >= 20.0 {
                sum += (seen - due).powi(2) / due;
                bins += 1.0;
                (seen, due) = (0.0, 0.0);
            }
        }
        (sum, bins - 1.0)
    }

    #[test]
    fn frequencies_follow_the_law() {
        for (exponent, ranks) in [(0.99, 10), (0.99, 1_000), (0.5, 100), (1.5, 1_000)] {
            let (sum, freedom) = chi_square(&counts(exponent, ranks), exponent);
            // Mean f, standard deviation √(2f): five of them.
            let bound = freedom + 5.0 * (2.0 * freedom).sqrt();
            assert!(sum < bound, "exponent {exponent}, {ranks} ranks: {sum} of {bound}");
        }
    }

    #[test]
    fn another_exponent_is_told_apart() {
        let (sum, freedom) = chi_square(&counts(0.99, 1_000), 0.97);
        assert!(sum > freedom + 5.0 * (2.0 * freedom).sqrt(), "{sum}");
    }

    #[test]
    fn few_and_very_many_ranks() {
        let (law, mut random) = (Zipf::new(Zipf::YCSB), Random::stream(1, 0));
        assert!((0..100).all(|_| law.draw(1, &mut random) == 1));
        assert_eq!(law.draw(0, &mut random), 1);
        let many = 10_000_000_000;
        let firsts = (0..DRAWS).filter(|_| law.draw(many, &mut random) == 1).count() as f64;
        // ζ(10^10, 0.99) = 26.469 (the constant in YCSB's sources): 75,560 of 2,000,000; standard
        // deviation 270.
        assert!((firsts - DRAWS as f64 / 26.469).abs() < 1_350.0, "{firsts}");
    }
}
