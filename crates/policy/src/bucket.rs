//! Token bucket: a rate with a bounded burst. It never sleeps: it says how long to wait.
//!
//! Tokens are kept in units of 1/2⁴⁸ so that no fraction is lost, however often it is asked.

use crate::Nanos;

const FRACTION: u32 = 48;

/// A bucket that fills with time and is emptied by use. It may be overdrawn once: a request larger
/// than the bucket passes when there is anything in it, and is paid off afterwards.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Bucket {
    /// Tokens × 2⁴⁸.
    level: i128,
    /// Tokens × 2⁴⁸ for each nanosecond.
    rate: u64,
    /// Tokens that fit.
    burst: u64,
    last: Nanos,
}

crate::layout!(Bucket { level, rate, burst, last });

impl Bucket {
    /// A full bucket: `rate_per_s` tokens a second, at most `burst` at once.
    pub fn new(rate_per_s: f64, burst: u64, now: Nanos) -> Self {
        let mut bucket = Bucket { level: 0, rate: 0, burst: burst.max(1), last: now };
        bucket.set_rate(rate_per_s, now);
        bucket.level = i128::from(bucket.burst) << FRACTION;
        bucket
    }

    /// Another rate from now on.
    pub fn set_rate(&mut self, rate_per_s: f64, now: Nanos) {
        self.fill(now);
        let scaled = rate_per_s.max(0.0) * (1u64 << FRACTION) as f64 / 1e9;
        self.rate = if scaled >= u64::MAX as f64 { u64::MAX } else { scaled as u64 };
    }

    fn fill(&mut self, now: Nanos) {
        let gain = i128::from(now.since(self.last).0).saturating_mul(i128::from(self.rate));
        self.last = self.last.max(now);
        self.level = self.level.saturating_add(gain).min(i128::from(self.burst) << FRACTION);
    }

    /// Time until something may pass; zero if now.
    pub fn wait(&mut self, now: Nanos) -> Nanos {
        self.fill(now);
        if self.level > 0 {
            return Nanos(0);
        }
        if self.rate == 0 {
            return Nanos(u64::MAX);
        }
        let rate = i128::from(self.rate);
        Nanos(u64::try_from((1 - self.level + rate - 1) / rate).unwrap_or(u64::MAX))
    }

    /// Gives tokens back, as far as they fit.
    pub fn give(&mut self, tokens: u64) {
        let level = self.level.saturating_add(i128::from(tokens) << FRACTION);
        self.level = level.min(i128::from(self.burst) << FRACTION);
    }

    /// Takes tokens, into debt if need be.
    pub fn take(&mut self, tokens: u64) {
        self.level = self.level.saturating_sub(i128::from(tokens) << FRACTION);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_that_is_no_whole_number_loses_nothing() {
        // A third of a token a second, asked every millisecond for 3,000 seconds: 1,000 tokens.
        let mut bucket = Bucket::new(1.0 / 3.0, 1, Nanos(0));
        let mut passed = 0;
        for ms in 0..3_000_000 {
            let now = Nanos::from_millis(ms);
            if bucket.wait(now) == Nanos(0) {
                bucket.take(1);
                passed += 1;
            }
        }
        assert!((1_000..=1_002).contains(&passed), "{passed}");
    }

    #[test]
    fn the_wait_is_exactly_long_enough() {
        let mut bucket = Bucket::new(1e9, 10, Nanos(0));
        bucket.take(30);
        let wait = bucket.wait(Nanos(0));
        assert_eq!(wait, Nanos(21), "20 tokens of debt at one a nanosecond, and something in it");
        assert_eq!(bucket.wait(Nanos(20)), Nanos(1));
        assert_eq!(bucket.wait(Nanos(21)), Nanos(0));
    }

    #[test]
    fn nothing_passes_at_rate_zero_and_time_may_stand_still() {
        let mut bucket = Bucket::new(0.0, 5, Nanos(100));
        bucket.take(5);
        assert_eq!(bucket.wait(Nanos(50)), Nanos(u64::MAX));
    }
}
