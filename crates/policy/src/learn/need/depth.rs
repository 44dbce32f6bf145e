//! The second lever: how many requests best effort may have in the device.
//!
//! # Problem
//! An application with few requests outstanding waits for the device, and not for its share. Under
//! fair queueing no share helps it. What helps is to have fewer requests of others in the device
//! before it.
//!
//! # The primitive Best effort may have D·e^−v requests in the device. While the application is not
//! held by its share, v follows the dft: behind target it grows. While it is held, depth is not
//! what holds it, and v is given back slowly. An application may be behind for other reasons than
//! storage, a processor or its clients. So each halving (v + 0.7) must gain 3 %: what is achieved
//! in its last part, against its first. Until one has gained, v moves slowly. So each part has
//! several windows, and what was achieved before a neighbour came is in neither. Once one has
//! gained, v moves twice as fast. More that comes with more requests under way is no gain: by
//! Little's law, fewer requests of others make the own faster, and not more. So a load that returns
//! is not taken for a gain. While there is no demand for more, v is given back.
//!
//! If a halving did not gain, half of v is given back, and the next try is after a pause of 60 s,
//! then of 120 s, up to an hour. If the halving before it did gain, chance may have hidden the gain
//! of this one: v goes back to where it began, and it is tried once more after 20 s.
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
/// Before a second try of what gained before.
const AGAIN_S: u64 = 20;
const PAUSE_S: u64 = 60;
const PAUSE_MOST_S: u64 = 3_600;

/// Most of a dft that counts until a halving has gained.
const CAREFUL: f64 = 0.35;
/// By how much v moves faster from then on.
const FASTER: f64 = 2.0;
/// First and last part of a halving.
const PART: f64 = 0.2;
/// From so many times as many requests under way on, more load has come.
const LOAD: f64 = 1.15;

/// What was achieved in a part of a halving, and the requests under way.
#[derive(Clone, Copy, Debug, Default)]
struct Mean {
    achieved: f64,
    outstanding: f64,
    windows: f64,
}

impl Mean {
    fn add(&mut self, seen: &Seen) {
        self.achieved += 1.0 + seen.dft;
        self.outstanding += seen.outstanding;
        self.windows += 1.0;
    }

    /// Whether `later` has more than this for the same load.
    fn gains(&self, later: &Mean) -> bool {
        let mean = |sum: f64, of: &Mean| sum / of.windows.max(1.0);
        let achieved = mean(later.achieved, later) > GAIN * mean(self.achieved, self);
        let loaded = mean(later.outstanding, later) > LOAD * mean(self.outstanding, self);
        achieved && !(loaded && self.outstanding > 0.0)
    }
}

/// What is seen of the application in a window.
#[derive(Clone, Copy, Debug, Default)]
pub struct Seen {
    /// Its deviation from target.
    pub dft: f64,
    /// Its share holds it.
    pub held: bool,
    /// It has no demand for more.
    pub sated: bool,
    /// I/Os under way; zero if unknown.
    pub outstanding: f64,
}

/// See the module.
#[derive(Clone, Copy, Debug, Default)]
pub struct Depth {
    /// v.
    now: f64,
    /// v at which the present halving began.
    from: f64,
    first: Mean,
    last: Mean,
    /// Mean of what is achieved, over ten windows.
    recent: f64,
    resume: Nanos,
    pause_s: u64,
    /// The last halving that was judged gained, and so the next failure may be chance.
    gained: bool,
    /// The last try failed, and not by chance.
    failed: bool,
}

impl Depth {
    /// Part of the usual depth that best effort may have.
    pub fn part(&self) -> f64 {
        (-self.now).exp()
    }

    /// Fewer requests of best effort did not help: something else than storage holds the
    /// application.
    pub fn gave_up(&self, now: Nanos) -> bool {
        self.failed && now < self.resume
    }

    /// One window of the application.
    pub fn window(&mut self, now: Nanos, gain: f64, seen: &Seen) {
        let dft = seen.dft;
        self.recent += 0.1 * (1.0 + dft - self.recent);
        if seen.held || seen.sated {
            if self.recent > 0.99 || seen.sated {
                self.now = (self.now - 0.05 * gain).max(0.0);
            }
            self.begin();
            return;
        }
        if now < self.resume {
            return;
        }
        let step = if self.gained { FASTER * dft.min(0.5) } else { dft.clamp(-CAREFUL, 1.0) };
        self.now = (self.now - gain * step).clamp(0.0, MOST);
        if self.now <= self.from {
            self.begin();
        } else if self.now < self.from + PART {
            self.first.add(seen);
        } else if self.now > self.from + HALVING - PART {
            self.last.add(seen);
        }
        if self.now > self.from + HALVING {
            self.judge(now);
        }
    }

    /// A halving begins where v is.
    fn begin(&mut self) {
        (self.from, self.first, self.last) = (self.now, Mean::default(), Mean::default());
    }

    fn judge(&mut self, now: Nanos) {
        if self.first.gains(&self.last) {
            (self.pause_s, self.gained, self.failed) = (PAUSE_S, true, false);
        } else if core::mem::take(&mut self.gained) {
            self.now = self.from;
            self.resume = now + Nanos::from_millis(1_000 * AGAIN_S);
        } else {
            self.failed = true;
            self.now = 0.5 * self.from;
            let pause_s = self.pause_s.max(PAUSE_S);
            self.resume = now + Nanos::from_millis(1_000 * pause_s);
            self.pause_s = (2 * pause_s).min(PAUSE_MOST_S);
        }
        self.begin();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Nanos {
        Nanos::from_millis(1_000 * seconds)
    }

    fn seen(dft: f64, held: bool) -> Seen {
        Seen { dft, held, ..Seen::default() }
    }

    #[test]
    fn a_load_that_returns_is_no_gain() {
        let mut depth = Depth::default();
        let mut least: f64 = 1.0;
        for second in 0..600 {
            // Clients that do not wait for each other: half of the target, then all of it. What is
            // under way goes with the load, and with the time of a request.
            let load = if second / 20 % 2 == 0 { 0.5 } else { 1.0 };
            let outstanding = 20.0 * load * (0.5 + 0.5 * depth.part());
            depth.window(at(second), 0.1, &Seen { outstanding, ..seen(load - 1.0, false) });
            least = if second > 60 { least.min(depth.part()) } else { least };
        }
        assert!(least > 0.45, "{least}");
    }

    #[test]
    fn without_demand_for_more_all_is_given_back() {
        let mut depth = Depth { now: 1.0, ..Depth::default() };
        for second in 0..250 {
            depth.window(at(second), 0.1, &Seen { sated: true, ..seen(-0.5, false) });
        }
        assert_eq!(depth.part(), 1.0);
    }

    #[test]
    fn what_does_not_help_is_given_up_for_longer_and_longer() {
        let mut depth = Depth::default();
        let mut tries = Vec::new();
        for second in 0..2_000 {
            let was = depth.gave_up(at(second));
            depth.window(at(second), 0.1, &seen(-0.3, false));
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
    fn what_was_achieved_before_a_neighbour_came_is_no_measure() {
        let mut depth = Depth::default();
        for second in 0..30 {
            depth.window(at(second), 0.1, &seen(0.95, false));
        }
        // A neighbour comes: a seventh is left, and each halving gains a third.
        for second in 30..150 {
            let achieved = 0.13 * depth.part().powf(-0.4);
            depth.window(at(second), 0.1, &seen(achieved - 1.0, false));
            assert!(!depth.gave_up(at(second)) || depth.part() < 0.1, "{second} {depth:?}");
        }
        assert!(depth.part() < 0.1, "{depth:?}");
    }

    #[test]
    fn one_bad_moment_does_not_end_what_helps() {
        let mut depth = Depth::default();
        let mut least: f64 = 1.0;
        for second in 0..400 {
            // Each halving gains much. Around the 60th second other programs take the processors.
            let slow = if (50..75).contains(&second) { 0.4 } else { 1.0 };
            let achieved = slow * (0.2 + 0.5 * (1.0 - depth.part()));
            depth.window(at(second), 0.1, &seen(achieved - 1.0, false));
            assert!(!depth.gave_up(at(second)) || second > 150, "{second}");
            least = least.min(depth.part());
        }
        assert!(least < 0.15, "{least}");
    }

    #[test]
    fn what_helps_is_kept_and_given_back_when_the_share_holds() {
        let mut depth = Depth::default();
        for second in 0..300 {
            // On target when best effort has a quarter.
            let dft = 0.4 * (0.25 - depth.part()).max(-0.75) / 0.75;
            depth.window(at(second), 0.1, &seen(dft, false));
        }
        assert!((0.22..0.4).contains(&depth.part()), "{}", depth.part());
        for second in 300..1_000 {
            depth.window(at(second), 0.1, &seen(0.0, true));
        }
        assert_eq!(depth.part(), 1.0);
    }
}
