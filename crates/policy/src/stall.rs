//! The stall detector: admits one more session if nothing completes.
//!
//! # The problem
//! The gate reads from the protocol which sessions own locks, and never queues an owner. Some locks
//! cannot be read: a stored procedure that calls `GET_LOCK`, a metadata lock of an open cursor, a
//! lock of an engine. If all P running sessions wait for a queued one, nothing ever completes.
//!
//! # The rule
//! If sessions are queued and nothing completed for `timeout`, the limit is raised by one. If
//! nothing has completed at the next check, it is raised by one more, then by 2, 4, 8 and so on. So
//! a lock owner at the end of a long queue is reached in a number of checks logarithmic in its
//! length. The first completion takes the whole bonus back; the sessions that it admitted leave
//! when they are done.
//!
//! A few long queries look the same as a stall. One more session is then harmless: without a gate
//! it would have run anyway.

use crate::Nanos;

/// What the detector observes at a check.
#[derive(Clone, Copy, Debug)]
pub struct Observation {
    /// The time of the check.
    pub now: Nanos,
    /// Requests completed since the start, over all sessions.
    pub completed: u64,
    /// Queued sessions.
    pub waiting: u32,
}

/// State of the detector. See the module.
#[derive(Clone, Debug)]
pub struct StallDetector {
    timeout: Nanos,
    bonus_max: u32,
    completed: u64,
    moved_at: Option<Nanos>,
    bonus: u32,
    step: u32,
    stalls: u64,
}

impl StallDetector {
    /// `timeout` is how long nothing may complete before one more session is admitted. `bonus_max`
    /// is the most that is ever added to P.
    pub fn new(timeout: Nanos, bonus_max: u32) -> Self {
        StallDetector {
            timeout,
            bonus_max,
            completed: 0,
            moved_at: None,
            bonus: 0,
            step: 1,
            stalls: 0,
        }
    }

    /// Changes the timeout, from the next check on.
    pub fn set_timeout(&mut self, timeout: Nanos) {
        self.timeout = timeout;
    }

    /// Checks once. Returns how many sessions may run beyond P from now on.
    pub fn observe(&mut self, observation: Observation) -> u32 {
        let moved_at = *self.moved_at.get_or_insert(observation.now);
        if observation.completed != self.completed || observation.waiting == 0 {
            self.completed = observation.completed;
            self.moved_at = Some(observation.now);
            self.bonus = 0;
            self.step = 1;
        } else if observation.now.since(moved_at) >= self.timeout && self.bonus < self.bonus_max {
            if self.bonus == 0 {
                self.stalls += 1;
            } else if self.bonus > 1 {
                self.step = self.step.saturating_mul(2);
            }
            self.bonus = self.bonus.saturating_add(self.step).min(self.bonus_max);
        }
        self.bonus
    }

    /// Stalls so far: how often the first extra session was admitted.
    pub fn stalls(&self) -> u64 {
        self.stalls
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn observation(now_ms: u64, completed: u64, waiting: u32) -> Observation {
        Observation { now: Nanos::from_millis(now_ms), completed, waiting }
    }

    #[test]
    fn progress_means_no_bonus() {
        let mut detector = StallDetector::new(Nanos::from_millis(300), 64);
        for look in 0..100 {
            assert_eq!(detector.observe(observation(look * 100, look, 50)), 0);
        }
        assert_eq!(detector.stalls(), 0);
    }

    #[test]
    fn an_empty_queue_is_no_stall() {
        let mut detector = StallDetector::new(Nanos::from_millis(300), 64);
        for look in 0..100 {
            assert_eq!(detector.observe(observation(look * 100, 7, 0)), 0);
        }
    }

    #[test]
    fn a_stall_admits_one_then_more_and_a_completion_takes_it_back() {
        let mut detector = StallDetector::new(Nanos::from_millis(300), 64);
        let bonus: Vec<u32> =
            (0..9).map(|look| detector.observe(observation(look * 100, 7, 5))).collect();
        // Check 0 learns the count; timeout ends 300 ms later: 1, then +1, +2, +4, +8, +16.
        assert_eq!(bonus, [0, 0, 0, 1, 2, 4, 8, 16, 32]);
        assert_eq!(detector.observe(observation(900, 8, 5)), 0);
        assert_eq!(detector.stalls(), 1);
    }

    #[test]
    fn the_bonus_is_bounded() {
        let mut detector = StallDetector::new(Nanos::from_millis(100), 10);
        for look in 0..100 {
            assert!(detector.observe(observation(look * 100, 7, 5)) <= 10);
        }
    }
}
