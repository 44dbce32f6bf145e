//! The second lever: how many requests best effort may have in the device.
//!
//! # Problem
//! An application with few requests outstanding waits for the device, and not for its share. Under
//! fair queueing no share helps it. What helps is to have fewer requests of others in the device
//! before it.
//!
//! # The primitive
//! Best effort may have D·e^−v requests in the device. While the application is not held by its
//! share, v follows the dft: behind target it grows. While it is held, depth is not what holds it,
//! and v is given back slowly. An application may be behind for other reasons than storage, a
//! processor or its clients. So each halving (v + 0.7) must gain 3 %. If it did not, half of v is
//! given back, and the next try is after a pause of 60 s, then of 120 s, up to an hour.
//!
//! # Invariants
//! 0 ≤ v ≤ 3.4: best effort keeps a thirtieth, and the scheduler at least one request.
//!
//! # Worked example
//! An application at 0.8 of its target: v grows by 0.1 · 0.2 = 0.02 a second. After 35 s v = 0.7
//! and best effort has half. If the application is at 0.81 by then, that was not 3 %: v falls to
//! 0.35, and nothing is tried for 60 s.

use crate::Nanos;

const MOST: f64 = 3.4;
const HALVING: f64 = 0.7;
const GAIN: f64 = 1.03;
const PAUSE_S: u64 = 60;
const PAUSE_MOST_S: u64 = 3_600;

/// See the module.
#[derive(Clone, Copy, Debug, Default)]
pub struct Depth {
    /// v.
    now: f64,
    /// v at which the present halving began.
    from: f64,
    /// What was achieved there.
    before: f64,
    /// Mean of what is achieved, over ten windows.
    recent: f64,
    resume: Nanos,
    pause_s: u64,
}

impl Depth {
    /// Part of the usual depth that best effort may have.
    pub fn part(&self) -> f64 {
        (-self.now).exp()
    }

    /// Fewer requests of best effort did not help: something else than storage holds the
    /// application.
    pub fn gave_up(&self, now: Nanos) -> bool {
        now < self.resume
    }

    /// One window of the application.
    pub fn window(&mut self, now: Nanos, gain: f64, dft: f64, held: bool) {
        if self.recent == 0.0 {
            // A mean that begins at nothing would pass for a gain.
            (self.recent, self.before) = (1.0 + dft, 1.0 + dft);
        }
        self.recent += 0.1 * (1.0 + dft - self.recent);
        if held {
            if self.recent > 0.99 {
                self.now = (self.now - 0.05 * gain).max(0.0);
            }
            (self.from, self.before) = (self.now, self.recent);
            return;
        }
        if self.gave_up(now) {
            return;
        }
        self.now = (self.now - gain * dft.clamp(-1.0, 1.0)).clamp(0.0, MOST);
        self.from = self.from.min(self.now);
        if self.now < self.from + 0.2 {
            self.before = self.recent;
        }
        if self.now > self.from + HALVING {
            self.judge(now);
        }
    }

    fn judge(&mut self, now: Nanos) {
        if self.recent > self.before * GAIN {
            self.pause_s = PAUSE_S;
        } else {
            self.now = 0.5 * self.from;
            let pause_s = self.pause_s.max(PAUSE_S);
            self.resume = now + Nanos::from_millis(1_000 * pause_s);
            self.pause_s = (2 * pause_s).min(PAUSE_MOST_S);
        }
        (self.from, self.before) = (self.now, self.recent);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Nanos {
        Nanos::from_millis(1_000 * seconds)
    }

    #[test]
    fn what_does_not_help_is_given_up_for_longer_and_longer() {
        let mut depth = Depth::default();
        let mut tries = Vec::new();
        for second in 0..2_000 {
            let was = depth.gave_up(at(second));
            depth.window(at(second), 0.1, -0.3, false);
            if !was && depth.gave_up(at(second)) {
                tries.push(second);
            }
            assert!((0.03..=1.0).contains(&depth.part()));
        }
        assert!(tries[0] < 40, "{tries:?}");
        assert!(
            tries.windows(3).all(|three| three[2] - three[1] > three[1] - three[0]),
            "{tries:?}"
        );
    }

    #[test]
    fn what_helps_is_kept_and_given_back_when_the_share_holds() {
        let mut depth = Depth::default();
        for second in 0..300 {
            // On target when best effort has a quarter.
            let dft = 0.4 * (0.25 - depth.part()).max(-0.75) / 0.75;
            depth.window(at(second), 0.1, dft, false);
        }
        assert!((0.22..0.4).contains(&depth.part()), "{}", depth.part());
        for second in 300..1_000 {
            depth.window(at(second), 0.1, 0.0, true);
        }
        assert_eq!(depth.part(), 1.0);
    }
}
