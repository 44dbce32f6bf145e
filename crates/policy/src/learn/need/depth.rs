//! The second lever: how many requests best effort may have in the device.
//!
//! # Problem
//! An application with few requests outstanding waits for the device, and not for its share. Under
//! fair queueing no share helps it. What helps is to have fewer requests of others in the device
//! before it. The same holds where processors are short and the requests of best effort are what
//! takes them. But an application may also be behind for reasons that no lever reaches, such as
//! other programs, locks or its clients. Then best effort must not lose for nothing.
//!
//! # The primitive
//! Best effort may have D·e^−v requests in the device. Whether that helps is *tried*, since no
//! figure of a device tells it:
//!
//! * **Try.** An application that its share does not hold is behind in [`BASE`] windows. Then best
//!   effort has next to nothing (v = [`MOST`]) for [`TRY`] windows. It helps if that gains a
//!   quarter of what is missing, and 5 % of the target. The whole lever at once is told from noise
//!   in seconds; one halving after the other takes a minute.
//! * **Follow.** If it helps, v follows what is achieved: it falls while the target is met, and
//!   faster where there is something to spare, and grows while it is not.
//! * **Check.** If v was at its most for [`DOUBT`] windows, best effort has all for [`TRY`] ones.
//!   If the application does as well then, chance was taken for a gain, or hid one: it is tried
//!   once more after 20 s. If it does worse, the next check is after twice as long.
//! * **Pause.** What did not help is tried again after 60 s, then 120 s, up to an hour. Once the
//!   target was met for a while, a new shortfall is a new case.
//!
//! More that comes with more requests under way is no gain: by Little's law, fewer requests of
//! others make the own faster, and not more. So a load that returns is not taken for a gain. Where
//! processors are short that does not hold, since a request then does not wait for others.
//!
//! # Invariants
//! 0 ≤ v ≤ 3.4: best effort keeps a thirtieth, and the scheduler at least one request. What does
//! not help costs best effort one try in each pause.
//!
//! # Worked example
//! An application alone has 1.25 of its target. A neighbour comes and leaves it 0.5. After three
//! windows v = 3.4. Two windows later what was under way is gone, and the next four show 1.2 of the
//! target: more than 0.5 + 0.25 · 0.5. From there v falls by 0.01 + 0.6 · 0.15 a second, until
//! what is achieved is the target.

use crate::Nanos;

const MOST: f64 = 3.4;

/// Windows by which it is judged that an application is behind, and what it has without the lever.
const BASE: usize = 3;

/// Windows of a try that count, and those before them in which old requests are still under way.
const TRY: u32 = 4;
const SETTLES: u32 = 2;

/// Part of what is missing, and of the target, that must be gained.
const GAIN: f64 = 0.25;
const GAIN_LEAST: f64 = 0.05;

/// Windows at the most after which it is checked whether that helps: the first time, and later.
const DOUBT: u32 = 30;
const DOUBT_MOST: u32 = 480;

/// Less than this is behind.
const BEHIND: f64 = 0.95;

/// From so many times as many requests under way on, more load has come.
const LOAD: f64 = 1.15;

/// By how much v grows, in units of the gain and of what is missing.
const GROWS: f64 = 10.0;

/// By how much v falls each second, from so little below the target on, and for what is above it
/// and a little to spare.
const FALLS: f64 = 0.01;
const NEAR: f64 = 0.005;
const SPARE: f64 = 0.05;
const FALLS_ABOVE: f64 = 0.6;

/// Before a second try of what helped before.
const AGAIN_S: u64 = 20;
const PAUSE_S: u64 = 60;
const PAUSE_MOST_S: u64 = 3_600;

/// Windows on target after which a shortfall is a new case.
const WELL: u32 = 30;

/// Means over some windows.
#[derive(Clone, Copy, Debug, Default)]
struct Mean {
    achieved: f64,
    outstanding: f64,
    windows: u32,
}

impl Mean {
    fn add(&mut self, seen: &Seen) {
        self.windows += 1;
        let weight = 1.0 / f64::from(self.windows);
        self.achieved += weight * (1.0 + seen.dft - self.achieved);
        self.outstanding += weight * (seen.outstanding - self.outstanding);
    }

    /// Whether `with` the lever more is achieved than here, without it.
    fn gains(&self, with: &Mean) -> bool {
        let missing = (1.0 - self.achieved).max(0.0);
        with.achieved >= self.achieved + (GAIN * missing).max(GAIN_LEAST)
    }

    /// Whether more requests were under way in `later`: more load has come.
    fn is_less_loaded_than(&self, later: &Mean) -> bool {
        self.outstanding > 0.0 && later.outstanding > LOAD * self.outstanding
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
    /// Processors are short where the store runs.
    pub starved: bool,
    /// How long ago the window was, in seconds.
    pub age_s: f64,
}

#[derive(Clone, Copy, Debug, Default)]
enum State {
    /// Best effort has all.
    #[default]
    Free,
    /// It has next to nothing: is that better than what was before?
    Try { before: Mean, during: Mean, left: u32 },
    /// The lever helps.
    Follow { recent: f64, limited: Mean },
    /// Best effort has all again: is that worse than what was before?
    Check { limited: Mean, during: Mean, left: u32 },
}

/// See the module.
#[derive(Clone, Copy, Debug, Default)]
pub struct Depth {
    /// v.
    now: f64,
    state: State,
    /// The last windows without the lever in which its share did not hold the application.
    base: [Seen; BASE],
    count: usize,
    resume: Nanos,
    pause_s: u64,
    /// The last try failed.
    failed: bool,
    /// Windows after which it is checked; zero before the first check.
    doubt: u32,
    /// A check has failed since one did not.
    doubted: bool,
    /// Windows on target without the lever.
    well: u32,
}

impl Depth {
    /// Part of the usual depth that best effort may have.
    pub fn part(&self) -> f64 {
        (-self.now).exp()
    }

    /// Fewer requests of best effort did not help: something else than storage holds the
    /// application.
    pub fn gave_up(&self) -> bool {
        self.failed
    }

    /// One window of the application.
    pub fn window(&mut self, now: Nanos, gain: f64, seen: &Seen) {
        if seen.sated {
            // There is no demand for more.
            self.now = (self.now - FALLS).max(0.0);
            self.rest();
            return;
        }
        match &mut self.state {
            State::Free => self.free(now, seen),
            State::Follow { .. } => self.follow(gain, seen),
            State::Try { during, left, .. } | State::Check { during, left, .. } => {
                *left -= 1;
                if *left < TRY {
                    during.add(seen);
                }
                if *left == 0 {
                    self.judge(now, seen);
                }
            }
        }
    }

    fn free(&mut self, now: Nanos, seen: &Seen) {
        self.now = (self.now - FALLS).max(0.0);
        self.well = if seen.dft >= BEHIND - 1.0 { self.well + 1 } else { 0 };
        if self.well >= WELL {
            (self.resume, self.pause_s, self.failed) = (Nanos(0), 0, false);
        }
        // Windows before a neighbour came do not count.
        if seen.held || seen.dft >= 0.0 {
            self.count = 0;
            return;
        }
        self.base[self.count % BASE] = *seen;
        self.count += 1;
        let mut before = Mean::default();
        self.base.iter().for_each(|seen| before.add(seen));
        if self.count >= BASE && before.achieved < BEHIND && now >= self.resume {
            self.now = MOST;
            self.state = State::Try { before, during: Mean::default(), left: windows(seen) };
        }
    }

    fn follow(&mut self, gain: f64, seen: &Seen) {
        let State::Follow { recent, limited } = &mut self.state else { return };
        *recent += 0.3 * (1.0 + seen.dft - *recent);
        let above = *recent - 1.0;
        if above >= -NEAR {
            self.now -= FALLS + (FALLS_ABOVE * (above - SPARE)).clamp(0.0, 0.15);
        } else if !seen.held {
            // An older gain is followed more slowly.
            self.now -= GROWS * gain * above / seen.age_s.max(1.0);
        }
        self.now = self.now.clamp(0.0, MOST);
        if self.now == 0.0 {
            self.rest();
        } else if self.now < MOST || seen.held {
            *limited = Mean::default();
        } else {
            limited.add(seen);
            if limited.windows >= self.doubt.max(DOUBT) {
                let limited = *limited;
                self.now = 0.0;
                self.state = State::Check { limited, during: Mean::default(), left: windows(seen) };
            }
        }
    }

    fn judge(&mut self, now: Nanos, seen: &Seen) {
        let (helps, limited, again) = match self.state {
            State::Try { before, during, .. } => {
                let load = before.is_less_loaded_than(&during) && !seen.starved;
                (before.gains(&during) && !load, during, false)
            }
            State::Check { limited, during, .. } => {
                let helps = during.gains(&limited);
                self.doubt = if helps { (2 * self.doubt.max(DOUBT)).min(DOUBT_MOST) } else { 0 };
                let again = !helps && !self.doubted;
                self.doubted = !helps;
                (helps, limited, again)
            }
            State::Free | State::Follow { .. } => return,
        };
        if helps {
            self.now = MOST;
            (self.failed, self.pause_s) = (false, 0);
            self.state = State::Follow { recent: limited.achieved, limited: Mean::default() };
            return;
        }
        self.now = 0.0;
        self.failed = !again;
        if again {
            self.resume = now + Nanos::from_millis(1_000 * AGAIN_S);
        } else {
            self.pause_s = (2 * self.pause_s).clamp(PAUSE_S, PAUSE_MOST_S);
            self.resume = now + Nanos::from_millis(1_000 * self.pause_s);
        }
        self.rest();
    }

    /// Nothing is tried, and v falls.
    fn rest(&mut self) {
        (self.state, self.count, self.well) = (State::Free, 0, 0);
    }
}

/// Windows of a try: the first ones were not of it.
fn windows(seen: &Seen) -> u32 {
    // A dft is at most as old as a lease.
    TRY + SETTLES + (seen.age_s.clamp(0.0, 60.0)) as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    fn at(seconds: u64) -> Nanos {
        Nanos::from_millis(1_000 * seconds)
    }

    fn seen(dft: f64, held: bool) -> Seen {
        Seen { dft, held, ..Seen::default() }
    }

    /// A database beside a neighbour on a real disk and two processors: what it has of its target
    /// by what best effort may have, with the noise of a second.
    fn database(depth: &Depth, random: &mut Random) -> Seen {
        // 1.25 alone, 0.5 beside all.
        let achieved = 1.25 - 0.75 * depth.part().powf(0.7);
        let noise = 0.2 * (random.unit() + random.unit() + random.unit() - 1.5) / 0.5;
        let achieved = achieved * (1.0 + noise);
        Seen { outstanding: 1.4 * achieved, starved: true, ..seen(achieved - 1.0, false) }
    }

    #[test]
    fn a_target_is_met_seconds_after_a_neighbour_comes() {
        for seed in 0..200 {
            let mut random = Random::new(seed);
            let mut depth = Depth::default();
            let mut achieved = Vec::new();
            for second in 0..120 {
                let seen = database(&depth, &mut random);
                achieved.push(1.0 + seen.dft);
                depth.window(at(second), 0.1, &seen);
            }
            let mean = |range: &[f64]| range.iter().sum::<f64>() / range.len() as f64;
            assert!(mean(&achieved[8..30]) > 0.95, "{seed}: {achieved:.2?}");
            assert!(mean(&achieved[30..]) > 0.95, "{seed}: {achieved:.2?}");
        }
    }

    #[test]
    fn a_load_that_returns_is_no_gain() {
        let mut depth = Depth::default();
        let mut parts = 0.0;
        for second in 0..600 {
            // Clients that do not wait for each other: half of the target, then all of it. What is
            // under way goes with the load, and with the time of a request.
            let load = if second / 20 % 2 == 0 { 0.5 } else { 1.0 };
            let outstanding = 20.0 * load * (0.5 + 0.5 * depth.part());
            depth.window(at(second), 0.1, &Seen { outstanding, ..seen(load - 1.0, false) });
            parts += depth.part() / 600.0;
        }
        assert!(parts > 0.75, "{parts}");
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
            assert!(!depth.gave_up(), "{second} {depth:?}");
        }
        assert!(depth.part() < 0.1, "{depth:?}");
    }

    #[test]
    fn one_bad_moment_does_not_end_what_helps() {
        for begins in 20..120 {
            let mut depth = Depth::default();
            let mut parts = 0.0;
            for second in 0..400 {
                // Half of the target is gained. For a while other programs take the processors.
                let slow = if (begins..begins + 25).contains(&second) { 0.4 } else { 1.0 };
                let achieved = slow * (0.2 + 0.5 * (1.0 - depth.part()));
                depth.window(at(second), 0.1, &seen(achieved - 1.0, false));
                assert!(!depth.gave_up(), "{begins} {second}");
                parts += depth.part() / 400.0;
            }
            assert!(parts < 0.3, "{begins}: {parts}");
        }
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
        for seed in 0..50 {
            let mut random = Random::new(seed);
            let mut depth = Depth::default();
            let (mut tries, mut parts) = (Vec::new(), 0.0);
            for second in 0..2_000 {
                let was = depth.part();
                let noise = 0.1 * (random.unit() - 0.5);
                depth.window(at(second), 0.1, &seen(-0.3 + noise, false));
                if was == 1.0 && depth.part() < 1.0 {
                    tries.push(second);
                }
                assert!((0.03..=1.0).contains(&depth.part()));
                assert!(depth.gave_up() || second < 30);
                parts += depth.part() / 2_000.0;
            }
            assert!(tries[0] < 10, "{tries:?}");
            let longer = |three: &[u64]| three[2] - three[1] > three[1] - three[0];
            assert!(tries.windows(3).all(longer), "{tries:?}");
            assert!(parts > 0.95, "best effort has {parts}");
        }
    }

    /// Noise like a real database's, which no lever changes.
    #[test]
    fn chance_is_not_taken_for_a_gain_for_long() {
        let mut parts = 0.0;
        for seed in 0..100 {
            let mut random = Random::new(seed);
            let mut depth = Depth::default();
            for second in 0..600 {
                let noise = 0.2 * (random.unit() + random.unit() + random.unit() - 1.5) / 0.5;
                depth.window(at(second), 0.1, &seen(0.8 * (1.0 + noise) - 1.0, false));
                parts += depth.part() / 60_000.0;
            }
        }
        assert!(parts > 0.75, "{parts}");
    }

    #[test]
    fn after_the_target_was_met_a_shortfall_is_a_new_case() {
        let mut depth = Depth::default();
        for second in 0..400 {
            depth.window(at(second), 0.1, &seen(-0.3, false));
        }
        assert!(depth.gave_up() && depth.part() == 1.0);
        for second in 400..440 {
            depth.window(at(second), 0.1, &seen(0.2, false));
        }
        assert!(!depth.gave_up());
        let mut least: f64 = 1.0;
        for second in 440..450 {
            depth.window(at(second), 0.1, &seen(-0.3, false));
            least = least.min(depth.part());
        }
        assert!(least < 0.1, "it is tried: {least}");
    }

    #[test]
    fn what_helps_is_kept_and_given_back_when_the_share_holds() {
        let mut depth = Depth::default();
        for second in 0..300 {
            // On target when best effort has a quarter.
            let dft = 0.4 * (0.25 - depth.part()) / 0.75;
            depth.window(at(second), 0.1, &seen(dft, false));
        }
        assert!((0.2..0.4).contains(&depth.part()), "{}", depth.part());
        for second in 300..1_000 {
            depth.window(at(second), 0.1, &seen(0.0, true));
        }
        assert_eq!(depth.part(), 1.0);
    }
}
