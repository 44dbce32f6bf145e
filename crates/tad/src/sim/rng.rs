//! Random numbers that are the same on every machine and in every version.
//!
//! SplitMix64 (G. L. Steele et al., Fast splittable pseudorandom number generators): a dozen lines
//! whose output is fixed by its definition, which no library promises for its own generator.

/// A generator.
#[derive(Clone, Debug)]
pub(crate) struct Rng(u64);

impl Rng {
    pub(crate) fn new(seed: u64) -> Rng {
        Rng(seed)
    }

    /// 64 random bits.
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// Evenly from 0 to `below`, without it; zero if `below` is zero.
    pub(crate) fn below(&mut self, below: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(below)) >> 64) as u64
    }

    /// Evenly from 0 to 1, without 1.
    pub(crate) fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Exponential with this mean.
    pub(crate) fn exponential(&mut self, mean: f64) -> f64 {
        -mean * (1.0 - self.unit()).ln()
    }
}

/// Ranks by Zipf's law, by their cumulated probabilities.
#[derive(Clone, Debug)]
pub(crate) struct Zipf(Vec<f64>);

impl Zipf {
    pub(crate) fn new(ranks: u32, exponent: f64) -> Zipf {
        let mut sum = 0.0;
        let mut cumulated: Vec<f64> = (1..=ranks.max(1))
            .map(|rank| {
                sum += f64::from(rank).powf(-exponent);
                sum
            })
            .collect();
        for value in &mut cumulated {
            *value /= sum;
        }
        Zipf(cumulated)
    }

    pub(crate) fn draw(&self, rng: &mut Rng) -> u32 {
        let unit = rng.unit();
        self.0.partition_point(|value| *value <= unit).min(self.0.len() - 1) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reference_sequence_of_splitmix64() {
        let mut rng = Rng::new(1_234_567);
        let first: Vec<u64> = (0..3).map(|_| rng.next()).collect();
        assert_eq!(
            first,
            [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]
        );
    }

    #[test]
    fn draws_follow_their_laws() {
        let mut rng = Rng::new(1);
        let zipf = Zipf::new(4, 1.0);
        let mut counts = [0u32; 4];
        for _ in 0..25_000 {
            counts[zipf.draw(&mut rng) as usize] += 1;
        }
        // Shares 12/25, 6/25, 4/25, 3/25.
        for (count, wanted) in counts.iter().zip([12_000u32, 6_000, 4_000, 3_000]) {
            assert!(count.abs_diff(wanted) < 400, "{counts:?}");
        }
        let mean = (0..10_000).map(|_| rng.exponential(5.0)).sum::<f64>() / 10_000.0;
        assert!((4.8..5.2).contains(&mean), "{mean}");
        assert_eq!(rng.below(0), 0);
        assert!((0..1_000).all(|_| rng.below(3) < 3));
    }
}
