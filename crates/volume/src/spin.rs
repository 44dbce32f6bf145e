//! Spinning: a thread polls for the next request for a moment before it sleeps.

use std::time::Duration;

/// Time to spin for the next request before sleeping: about the cost of waking a thread on another
/// processor.
pub const SPIN_TIME: Duration = Duration::from_micros(50);

/// Largest number of requests for which spinning is skipped after it found nothing.
const SPINS_SKIPPED_MAX: u32 = 256;

/// Whether spinning pays: each spin that finds nothing doubles the number of spins skipped next.
#[derive(Debug, Default)]
pub struct SpinHistory {
    to_skip: u32,
    penalty: u32,
}

impl SpinHistory {
    /// Whether to spin this time.
    pub fn worth_it(&mut self) -> bool {
        let now = self.to_skip == 0;
        self.to_skip = self.to_skip.saturating_sub(1);
        now
    }

    /// No request came while spinning.
    pub fn failed(&mut self) {
        self.penalty = (self.penalty * 2).clamp(1, SPINS_SKIPPED_MAX);
        self.to_skip = self.penalty;
    }

    /// A request came while spinning.
    pub fn succeeded(&mut self) {
        self.penalty = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spins_that_find_nothing_become_rarer_until_one_helps() {
        let mut spins = SpinHistory::default();
        // Skipped after each failure: 1, 2, 4, … and never more than the most.
        for expected in [1, 2, 4, 8, 16, 32, 64, 128, 256, 256] {
            assert!(spins.worth_it());
            spins.failed();
            let mut skipped = 0;
            while !spins.worth_it() {
                skipped += 1;
            }
            assert_eq!(skipped, expected);
            spins.to_skip = 0;
        }
        spins.succeeded();
        assert!(spins.worth_it() && spins.worth_it());
        spins.failed();
        assert!(!spins.worth_it() && spins.worth_it());
    }
}
