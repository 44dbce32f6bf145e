//! Random numbers that are the same on every machine: SplitMix64.
//!
//! A workload must be repeatable from its seed for as long as its records are compared, which a library's "standard"
//! generator does not promise. SplitMix64 (Steele, Lea and Flood 2014) is four lines, passes BigCrush, and every seed
//! is a good seed, so that streams for terminals can be derived by hashing.

/// A stream of random numbers.
#[derive(Debug, Clone)]
pub struct Random {
    state: u64,
}

const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// A number that looks random and belongs to `value` alone: the map is one to one.
pub(crate) fn scramble(value: u64) -> u64 {
    mix(value.wrapping_add(GOLDEN))
}

fn mix(mut value: u64) -> u64 {
    value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

impl Random {
    /// The stream number `stream` of `seed`: streams of one seed are independent of each other.
    pub fn new(seed: u64, stream: u64) -> Self {
        Self { state: mix(seed.wrapping_add(GOLDEN)) ^ mix(stream.wrapping_mul(GOLDEN) ^ GOLDEN) }
    }

    /// 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.state = self.state.wrapping_add(GOLDEN);
        mix(self.state)
    }

    /// Uniform in `[0, 1)`.
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Uniform in `low..=high` (clause 2.1.4's `random (x .. y)`); `low` when the range is empty.
    pub fn within(&mut self, low: i64, high: i64) -> i64 {
        if high <= low {
            return low;
        }
        let span = (high.wrapping_sub(low) as u64).wrapping_add(1);
        if span == 0 {
            return self.bits() as i64;
        }
        // Multiplication instead of a remainder: the bias is below span / 2^64.
        let offset = (u128::from(self.bits()) * u128::from(span)) >> 64;
        low.wrapping_add(offset as i64)
    }

    /// True once in `n` times; never when `n` is 0.
    pub fn one_in(&mut self, n: i64) -> bool {
        n > 0 && self.within(1, n) == 1
    }

    /// Exponentially distributed with this mean, in the mean's unit.
    pub fn exponential(&mut self, mean: f64) -> f64 {
        -mean * (1.0 - self.unit()).ln()
    }

    /// Shuffles in place (Fisher and Yates).
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.within(0, last as i64) as usize);
        }
    }

    /// Appends between `low` and `high` characters of `alphabet`.
    fn characters(&mut self, alphabet: &[u8], low: i64, high: i64) -> String {
        let length = self.within(low, high).max(0);
        let last = alphabet.len() as i64 - 1;
        (0..length).map(|_| char::from(alphabet[self.within(0, last) as usize])).collect()
    }

    /// `random a-string [low .. high]` (clause 4.3.2.2): letters and digits.
    pub fn a_string(&mut self, low: i64, high: i64) -> String {
        self.characters(
            b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789",
            low,
            high,
        )
    }

    /// `random n-string [low .. high]` (clause 4.3.2.2): digits.
    pub fn n_string(&mut self, low: i64, high: i64) -> String {
        self.characters(b"0123456789", low, high)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_repeat_and_differ() {
        let take = |seed, stream| {
            let mut random = Random::new(seed, stream);
            (0..8).map(|_| random.bits()).collect::<Vec<_>>()
        };
        assert_eq!(take(1, 2), take(1, 2));
        assert_ne!(take(1, 2), take(1, 3));
        assert_ne!(take(1, 2), take(2, 2));
    }

    #[test]
    fn ranges_are_inclusive_and_uniform() {
        let mut random = Random::new(7, 0);
        let mut seen = [0u32; 10];
        for _ in 0..100_000 {
            seen[random.within(1, 10) as usize - 1] += 1;
        }
        // Binomial, n = 100,000, p = 0.1: standard deviation √(100,000 × 0.1 × 0.9) = 95; 5 of them.
        assert!(seen.iter().all(|&n| n.abs_diff(10_000) < 475), "{seen:?}");
        assert_eq!(random.within(5, 5), 5);
        assert_eq!(random.within(5, 4), 5);
        random.within(i64::MIN, i64::MAX);
    }

    #[test]
    fn exponential_has_its_mean() {
        let mut random = Random::new(7, 1);
        let mean = (0..100_000).map(|_| random.exponential(12.0)).sum::<f64>() / 100_000.0;
        // The standard error is 12 / √100,000 = 0.038; 5 of them.
        assert!((mean - 12.0).abs() < 0.19, "{mean}");
    }

    #[test]
    fn strings_have_their_lengths() {
        let mut random = Random::new(7, 2);
        for _ in 0..100 {
            assert!((14..=24).contains(&random.a_string(14, 24).len()));
            assert!(random.n_string(16, 16).bytes().all(|byte| byte.is_ascii_digit()));
        }
    }
}
