//! Random numbers that are the same on every machine and in every version: SplitMix64 (Steele, Lea
//! and Flood, 2014).
//!
//! A run must follow from its seed for as long as its record is compared, which no library promises
//! for its own generator. SplitMix64 is four lines and passes BigCrush, and every seed is a good
//! one.

/// A stream of random numbers.
#[derive(Clone, Copy, Debug)]
pub struct Random(u64);

const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// A number that looks random and belongs to `value` alone: the map is one to one.
pub const fn scramble(value: u64) -> u64 {
    mix(value.wrapping_add(GOLDEN))
}

const fn mix(mut value: u64) -> u64 {
    value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

/// The upper 53 bits, as a number from 0 up to, not including, 1.
pub const fn unit(bits: u64) -> f64 {
    // 53 bits fit a double exactly.
    (bits >> 11) as f64 / (1u64 << 53) as f64
}

impl Random {
    /// The stream of this seed.
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The stream number `stream` of `seed`: streams of one seed are independent of each other.
    pub const fn stream(seed: u64, stream: u64) -> Self {
        Self(scramble(seed) ^ mix(stream.wrapping_mul(GOLDEN) ^ GOLDEN))
    }

    /// 64 random bits.
    pub const fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(GOLDEN);
        mix(self.0)
    }

    /// Uniform in `[0, 1)`.
    pub const fn unit(&mut self) -> f64 {
        unit(self.bits())
    }

    /// Uniform from 0 to `bound`, without it; 0 if `bound` is 0.
    pub const fn below(&mut self, bound: u64) -> u64 {
        // Multiplication instead of a remainder: the bias is below bound / 2^64.
        ((self.bits() as u128 * bound as u128) >> 64) as u64
    }

    /// Uniform in `low..=high`; `low` when the range is empty.
    pub const fn within(&mut self, low: i64, high: i64) -> i64 {
        if high <= low {
            return low;
        }
        let span = (high.wrapping_sub(low) as u64).wrapping_add(1);
        if span == 0 {
            return self.bits() as i64;
        }
        low.wrapping_add(self.below(span) as i64)
    }

    /// True once in `n` times; never when `n` is 0.
    pub const fn one_in(&mut self, n: i64) -> bool {
        n > 0 && self.within(1, n) == 1
    }

    /// Between these two positive numbers, each factor as often (log-uniform).
    pub fn between(&mut self, least: f64, most: f64) -> f64 {
        least * (most / least).powf(self.unit())
    }

    /// Exponentially distributed with this mean, in the mean's unit.
    pub fn exponential(&mut self, mean: f64) -> f64 {
        -mean * (1.0 - self.unit()).ln()
    }

    /// Puts the items into a random order (Fisher and Yates).
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last as u64 + 1) as usize);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reference_sequence_of_splitmix64() {
        let mut random = Random::new(1_234_567);
        let first = [0; 3].map(|_| random.bits());
        let reference =
            [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423];
        assert_eq!(first, reference);
    }

    #[test]
    fn streams_repeat_and_differ() {
        let take = |seed, stream| {
            let mut random = Random::stream(seed, stream);
            [0; 8].map(|_| random.bits())
        };
        assert_eq!(take(1, 2), take(1, 2));
        assert_ne!(take(1, 2), take(1, 3));
        assert_ne!(take(1, 2), take(2, 2));
    }

    #[test]
    fn ranges_are_inclusive_and_uniform() {
        let mut random = Random::stream(7, 0);
        let mut seen = [0u32; 10];
        for _ in 0..100_000 {
            seen[random.within(1, 10) as usize - 1] += 1;
        }
        // Binomial, n = 100,000, p = 0.1: standard deviation √(100,000 × 0.1 × 0.9) = 95; 5 of
        // them.
        assert!(seen.iter().all(|&n| n.abs_diff(10_000) < 475), "{seen:?}");
        assert_eq!((random.within(5, 5), random.within(5, 4), random.below(0)), (5, 5, 0));
        random.within(i64::MIN, i64::MAX);
        assert!((0..1_000).all(|_| random.below(3) < 3));
    }

    #[test]
    fn exponential_has_its_mean() {
        let mut random = Random::stream(7, 1);
        let mean = (0..100_000).map(|_| random.exponential(12.0)).sum::<f64>() / 100_000.0;
        // The standard error is 12 / √100,000 = 0.038; 5 of them.
        assert!((mean - 12.0).abs() < 0.19, "{mean}");
    }

    #[test]
    fn the_seed_decides_the_order_and_nothing_is_lost() {
        let order = |seed| {
            let mut items = [0, 1, 2, 3, 4];
            Random::new(seed).shuffle(&mut items);
            items
        };
        assert_eq!(order(7), order(7));
        assert!((0..20).any(|seed| order(seed) != order(7)));
        let mut sorted = order(7);
        sorted.sort_unstable();
        assert_eq!(sorted, [0, 1, 2, 3, 4]);
    }
}
