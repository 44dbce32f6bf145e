//! Letting out all queued sessions, when the gate opens for all at once.
//!
//! After a pause of the machine, without a daemon, or by an operator's word, every session that
//! waits may go on. Thousands at one moment would hit a server that had P of them inside. So they
//! leave over a short ramp: P at once, and P more with each step. They leave faster if the ramp
//! would take too long.
//!
//! An event loop needs no ramp: each of its threads takes one request at a time.

use crate::Nanos;

/// Leaving in turn costs no session more than this.
pub const RAMP: Nanos = Nanos::from_millis(200);

/// Time after which as many more leave as may be inside.
pub const STEP: Nanos = Nanos::from_millis(5);

/// How far a ramp has come. One word, so that it can be changed by one atomic step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ramp {
    /// When it began, in milliseconds; wraps around.
    began_ms: u32,
    /// Sessions that waited then; zero before the first ramp.
    waiting: u16,
    /// Sessions that were given a time to leave.
    leaving: u16,
}

impl Ramp {
    /// From the word that [`Ramp::word`] has made.
    pub fn from_word(word: u64) -> Ramp {
        let part = |shift: u32| (word >> shift) as u16;
        Ramp { began_ms: word as u32, waiting: part(32), leaving: part(48) }
    }

    /// All of it in one word.
    pub fn word(self) -> u64 {
        u64::from(self.began_ms) | u64::from(self.waiting) << 32 | u64::from(self.leaving) << 48
    }

    /// Another session leaves. Says what the ramp is then, and how long the session still waits.
    /// `waiting` wait at this moment; `at_once` is P. A ramp that is over starts again.
    pub fn next(self, now: Nanos, waiting: u32, at_once: u32) -> (Ramp, Nanos) {
        let now_ms = (now.0 / 1_000_000) as u32;
        let elapsed = Nanos::from_millis(now_ms.wrapping_sub(self.began_ms).into());
        if self.waiting == 0 || elapsed > RAMP {
            let waiting = waiting.clamp(1, u16::MAX.into()) as u16;
            return (Ramp { began_ms: now_ms, waiting, leaving: 1 }, Nanos(0));
        }
        let number = u64::from(self.leaving);
        let in_steps = STEP.0 * (number / u64::from(at_once.max(1)));
        let evenly = RAMP.0 * number / u64::from(self.waiting);
        let due = Nanos(in_steps.min(evenly).min(RAMP.0));
        (Ramp { leaving: self.leaving.saturating_add(1), ..self }, due.since(elapsed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// When each of so many leaves, if all look at the same moment.
    fn leave(waiting: u32, at_once: u32) -> Vec<u64> {
        let mut ramp = Ramp::default();
        (0..waiting)
            .map(|_| {
                let (next, pause) = ramp.next(Nanos::from_millis(90_000), waiting, at_once);
                ramp = Ramp::from_word(next.word());
                assert_eq!(ramp, next);
                pause.0 / 1_000_000
            })
            .collect()
    }

    #[test]
    fn as_many_as_may_be_inside_leave_with_each_step() {
        assert_eq!(leave(8, 3), [0, 0, 0, 5, 5, 5, 10, 10]);
        assert_eq!(leave(3, 16), [0, 0, 0]);
    }

    #[test]
    fn many_leave_evenly_and_nobody_later_than_the_end() {
        let times = leave(16_384, 16);
        assert!(times.is_sorted() && *times.last().unwrap() < 200);
        for from in (0..200).step_by(10) {
            let then = times.iter().filter(|time| (from..from + 10).contains(*time)).count();
            assert!(then <= 16_384 / 20 + 100, "{then} at {from} ms");
        }
    }

    #[test]
    fn whoever_looks_late_has_waited_already() {
        let at = |ms: u64| Nanos::from_millis(90_000 + ms);
        let (mut ramp, _) = Ramp::default().next(at(0), 100, 1);
        for _ in 0..20 {
            ramp = ramp.next(at(0), 100, 1).0;
        }
        // Its time is 42 ms after the begin: evenly, as steps would take longer than the ramp.
        assert_eq!(ramp.next(at(30), 100, 1).1, Nanos::from_millis(12));
        assert_eq!(ramp.next(at(60), 100, 1).1, Nanos(0));
        // More than waited at the begin.
        for _ in 0..200 {
            ramp = ramp.next(at(0), 100, 1).0;
        }
        assert_eq!(ramp.next(at(150), 100, 1).1, Nanos::from_millis(50));
    }

    #[test]
    fn a_ramp_that_is_over_begins_anew() {
        let (ramp, _) = Ramp::default().next(Nanos::from_millis(1), 100, 1);
        let (again, pause) = ramp.next(Nanos::from_millis(202), 7, 1);
        assert_eq!((pause, again.waiting, again.leaving), (Nanos(0), 7, 1));
        // The clock of a ramp wraps around after 49 days.
        let late = Nanos::from_millis(u64::from(u32::MAX) - 10);
        let (ramp, _) = Ramp::default().next(late, 100, 1);
        let (same, pause) = ramp.next(late + Nanos::from_millis(1), 100, 1);
        assert_eq!((same.leaving, pause), (2, Nanos::from_millis(1)));
        assert_eq!(same.next(late + Nanos::from_millis(100), 100, 1).0.leaving, 3);
    }
}
