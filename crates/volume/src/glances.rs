//! Looking for the next request for a moment before a thread sleeps.

use std::time::Duration;

/// How long whoever waits for each answer is given to ask again before this thread sleeps: what two
/// threads need that wake each other across processors.
pub const GLANCE: Duration = Duration::from_micros(50);

/// Requests for which looking is not tried, at most, after it was in vain.
const GLANCES_SKIPPED_MAX: u32 = 256;

/// Whether looking is worth it: each time in vain doubles how often it is not done next.
#[derive(Debug, Default)]
pub struct Glances {
    to_skip: u32,
    penalty: u32,
}

impl Glances {
    /// Whether to look this time.
    pub fn worth_it(&mut self) -> bool {
        let now = self.to_skip == 0;
        self.to_skip = self.to_skip.saturating_sub(1);
        now
    }

    /// Nobody came.
    pub fn failed(&mut self) {
        self.penalty = (self.penalty * 2).clamp(1, GLANCES_SKIPPED_MAX);
        self.to_skip = self.penalty;
    }

    /// Somebody came.
    pub fn succeeded(&mut self) {
        self.penalty = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looking_in_vain_is_done_ever_less_often_until_it_helps_again() {
        let mut glances = Glances::default();
        // Skipped after each failure: 1, 2, 4, … and never more than the most.
        for expected in [1, 2, 4, 8, 16, 32, 64, 128, 256, 256] {
            assert!(glances.worth_it());
            glances.failed();
            let mut skipped = 0;
            while !glances.worth_it() {
                skipped += 1;
            }
            assert_eq!(skipped, expected);
            glances.to_skip = 0;
        }
        glances.succeeded();
        assert!(glances.worth_it() && glances.worth_it());
        glances.failed();
        assert!(!glances.worth_it() && glances.worth_it());
    }
}
