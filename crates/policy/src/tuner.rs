//! P finds itself: measures the database at a few values of P, fits the model of the matching point,
//! climbs to the peak, and stays near it while the workload changes.
//!
//! # Slices
//! Throughput is measured in slices: P is set, the requests inside get time to turn over, then
//! completions are counted until there are enough. Slices at different P are *interleaved*, so that
//! a drift of the workload touches all of them alike, and there are as many as the spread of their
//! results demands: sampling ends when each mean is known well enough, not after a fixed time.
//!
//! # Phases
//! 1. *Sample* P₀, P₁ and P₂ and fit [`crate::matching`]. If the fit is refused, the best of the
//!    three is the start.
//! 2. *Climb*: compare P with its neighbours, go to the best, and make the steps smaller once the
//!    middle is best; then with the top of a curve through all that was measured around it, which is
//!    surer than the luck of one neighbour. The model is only trusted as a start: no P is settled on
//!    that was not measured to be at least as good as its neighbours.
//! 3. *Hold*, with a probe to either side now and then: near ones, and in turn with them wide ones, because on a gentle
//!    slope, where a server that has warmed up may have left P, neighbours look alike. Sums of deviations (CUSUM) watch
//!    throughput, service time and the length of turns in requests, which tells the mix; a shift of one starts a climb
//!    with wide steps from where P stands, never from an extreme, so that nobody suffers from the search.
//!
//! Of several P that are equally good the smallest is taken: it has the shorter tails.
//!
//! Time and counts are arguments, nothing is allocated, and the same seed of a simulated database
//! gives the same decisions.

mod arm;
mod decision;
mod slice;
mod watch;

use crate::Nanos;
use crate::matching::{Misfit, Sample, fit_measured};
use arm::{ARMS, Arms};
pub use decision::{Decision, Why};
use slice::{Shown, Slice};
use watch::Watches;

/// Bounds and patience.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    /// Least P that is tried.
    pub least: u32,
    /// Largest P that is tried; fewer if there are fewer users.
    pub most: u32,
    /// Processors of the database. With fewer requests inside than that some of them idle, whatever the
    /// database does: the first samples are not taken below it.
    pub cores: u32,
    /// Shortest slice.
    pub slice: Nanos,
    /// Longest slice, if completions are rare.
    pub slice_max: Nanos,
    /// Completions that a slice should have.
    pub completions: u64,
    /// Half of the confidence interval of a mean, relative to it, at which sampling ends.
    pub precision: f64,
    /// Time between two probes while P is held.
    pub probe_every: Nanos,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            least: 2,
            most: 1_024,
            cores: 1,
            slice: Nanos::from_millis(300),
            slice_max: Nanos::from_millis(2_000),
            completions: 400,
            precision: 0.02,
            probe_every: Nanos::from_millis(5_000),
        }
    }
}

/// What the tuner sees.
#[derive(Clone, Copy, Debug)]
pub struct Sight {
    /// Time.
    pub now: Nanos,
    /// Turns that were completed, ever.
    pub completed: u64,
    /// Requests that were answered, ever.
    pub requests: u64,
    /// Time that requests have spent inside, ever; those that were answered together count it each.
    pub run: Nanos,
    /// Users that are connected and have issued something lately.
    pub users: u32,
}

/// What the tuner is at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Too little happens to measure anything.
    Waiting,
    /// Measuring P₀, P₁ and P₂.
    Sampling,
    /// Comparing neighbours.
    Climbing,
    /// Staying.
    Holding,
}

const LOG: usize = 32;

/// See the module.
#[derive(Clone, Debug)]
pub struct Tuner {
    limits: Limits,
    phase: Phase,
    /// P in force.
    current: u32,
    /// P that is held or climbed from.
    center: u32,
    /// Ratio between neighbours.
    step: f64,
    /// The climb is at its last comparison: with this top of the curve.
    top: Option<u32>,
    arms: Arms,
    slice: Slice,
    watches: Watches,
    probed: Nanos,
    /// Probes are wide ones.
    wide: bool,
    /// Slices with hardly a request, one after the other.
    silent: u32,
    log: [Option<Decision>; LOG],
    logged: u64,
}

/// Ratio between neighbours at the start of a climb, after a shift, and the finest.
const STEP_FIRST: f64 = 1.5;
const STEP_SHIFT: f64 = 1.6;
const STEP_LAST: f64 = 1.2;

/// The three first samples only say where the climb begins, and two of them cost throughput while they
/// are taken: they need not be as precise as a comparison of neighbours.
const SAMPLES_COARSER: f64 = 3.0;

/// Users from which on a search is worth its cost although P holds nobody.
const CROWD_MIN: u32 = 64;
const CROWD_PER_CORE: u32 = 4;

/// Part of the best throughput within which a smaller P is preferred.
const AS_GOOD: f64 = 0.99;

/// Gain that a probe must show, beyond what chance may give.
const PROBE_GAIN: f64 = 1.015;

/// Ratio of P and a wide probe.
const PROBE_WIDE: f64 = 1.6;

/// Slices of silence after which there is nothing to search for: a disk that flushes may keep everybody waiting for a few.
const SILENT: u32 = 5;

/// Part of the throughput that probes may cost.
const PROBE_COST: f64 = 0.005;

impl Tuner {
    /// Begins at `parallelism`, which it keeps until something happens.
    pub fn new(limits: Limits, parallelism: u32) -> Tuner {
        Tuner {
            limits,
            phase: Phase::Waiting,
            current: parallelism,
            center: parallelism,
            step: STEP_FIRST,
            top: None,
            arms: Arms::default(),
            slice: Slice::new(),
            watches: Watches::default(),
            probed: Nanos(0),
            wide: false,
            silent: 0,
            log: [None; LOG],
            logged: 0,
        }
    }

    /// P in force.
    pub fn parallelism(&self) -> u32 {
        self.current
    }

    /// P that the search holds to be best so far.
    pub fn center(&self) -> u32 {
        self.center
    }

    /// What it is at.
    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// The latest decisions, oldest first, and how many there were ever.
    pub fn decisions(&self) -> (impl Iterator<Item = &Decision>, u64) {
        let first = self.logged.saturating_sub(LOG as u64);
        let latest = (first..self.logged).map(|at| &self.log[at as usize % LOG]);
        (latest.flatten(), self.logged)
    }

    fn note(&mut self, decision: Decision) {
        self.log[self.logged as usize % LOG] = Some(decision);
        self.logged += 1;
    }

    /// What was measured at each P of the search under way: P, mean throughput, relative half of
    /// the confidence interval, slices.
    pub fn measured(&self) -> impl Iterator<Item = (u32, f64, f64, u32)> {
        self.arms.iter()
    }

    /// Forgets the slice under way and begins another: for a while something else than P was in force, and nobody
    /// looked.
    pub fn resume(&mut self, now: Nanos) {
        self.slice.begin(now, &self.limits);
    }

    /// Looks, as often as one likes, and returns the P that shall be in force.
    pub fn look(&mut self, sight: Sight) -> u32 {
        let Some(shown) = self.slice.ended(&sight, &self.limits) else { return self.current };
        let Shown { rate, .. } = shown;
        let rare = rate * self.limits.slice_max.0 as f64 / 1e9 < 10.0;
        let few = sight.users <= self.center && sight.users < self.crowd();
        self.silent = if rare { self.silent.saturating_add(1) } else { 0 };
        if rare && self.silent < SILENT && self.phase != Phase::Waiting {
            // What was found holds, and what is being measured was not.
            return self.current;
        }
        if rare || few && self.phase == Phase::Waiting {
            // Nothing to be found out from a handful of requests, and no need while P holds nobody, unless so
            // many are inside that fewer could be better.
            self.phase = Phase::Waiting;
            self.watches = Watches::default();
            return self.set(sight.now, self.center);
        }
        // Most have left: all that are there may be inside, and would only be held for the sake of a search. Whether
        // as many as P holds are too many is still looked at.
        let left = f64::from(sight.users) * STEP_LAST < f64::from(self.center);
        if few && left && self.phase == Phase::Holding {
            return self.rest(&sight);
        }
        if self.watches.mix_shifted(&shown) {
            // What was measured before is of another load.
            return match self.phase {
                Phase::Waiting | Phase::Sampling => self.begin_sampling(&sight, Why::Mix),
                Phase::Climbing | Phase::Holding => self.begin_again(&sight, Why::Mix),
            };
        }
        match self.phase {
            Phase::Waiting => self.begin_sampling(&sight, Why::Users),
            Phase::Sampling => {
                self.arms.record(self.current, rate);
                match self.arms.next(self.limits.precision * SAMPLES_COARSER) {
                    Some(next) => self.set(sight.now, next),
                    None => self.fit(&sight),
                }
            }
            Phase::Climbing => {
                self.arms.record(self.current, rate);
                match self.arms.next(self.limits.precision) {
                    Some(next) => self.set(sight.now, next),
                    None => self.compare(&sight),
                }
            }
            Phase::Holding => self.hold(&sight, &shown),
        }
    }

    /// Puts another P in force and begins a slice.
    fn set(&mut self, now: Nanos, parallelism: u32) -> u32 {
        if parallelism != self.current {
            self.current = parallelism;
            self.resume(now);
        }
        self.current
    }

    fn most(&self, users: u32) -> u32 {
        self.limits.most.min(users).max(self.limits.least)
    }

    /// More users than these at once may be too many for the database although P would let them in.
    fn crowd(&self) -> u32 {
        CROWD_MIN.max(self.limits.cores.saturating_mul(CROWD_PER_CORE))
    }

    fn begin_sampling(&mut self, sight: &Sight, why: Why) -> u32 {
        self.note(Decision::Began { parallelism: self.center, why });
        let most = self.most(sight.users);
        let least = self.limits.least.max(self.limits.cores).min(most);
        let middle = (f64::from(least) * f64::from(most)).sqrt().round() as u32;
        if middle <= least + 1 || middle >= most {
            return self.begin_climb(sight, self.center.clamp(least, most), STEP_FIRST);
        }
        self.phase = Phase::Sampling;
        self.arms.clear();
        for parallelism in [least, middle, most] {
            self.arms.add(parallelism);
        }
        self.set(sight.now, middle)
    }

    fn fit(&mut self, sight: &Sight) -> u32 {
        let mut samples = [Sample { parallelism: 0, throughput_per_s: 0.0 }; 3];
        let mut intervals = [0.0; 3];
        let each = samples.iter_mut().zip(&mut intervals);
        for ((sample, interval), (parallelism, mean, spread, _)) in each.zip(self.arms.iter()) {
            *sample = Sample { parallelism, throughput_per_s: mean };
            *interval = spread;
        }
        let most = self.most(sight.users);
        let fitted = fit_measured(samples, intervals);
        let best = match fitted {
            // All are as good, as far as can be told: the smallest is taken.
            Err(Misfit::Flat) => samples.first(),
            // Which one was best is chance.
            Err(Misfit::Noise { .. }) => samples.get(1),
            _ => samples.iter().max_by(|a, b| a.throughput_per_s.total_cmp(&b.throughput_per_s)),
        };
        let best = best.map_or(self.center, |best| best.parallelism);
        let peak = fitted.ok().map(|curve| curve.matching_point(curve.base.parallelism, most));
        // The model says nothing of fewer inside than there are processors.
        let least = self.limits.least.max(self.limits.cores).min(most);
        let start = peak.map_or(best, |peak| peak.unwrap_or(most)).clamp(least, most);
        let rising = peak == Some(None);
        self.note(Decision::Fitted { samples, intervals, fit: fitted, rising, start });
        self.begin_climb(sight, start, STEP_FIRST)
    }

    /// Searches from where P stands: the load is another one.
    fn begin_again(&mut self, sight: &Sight, why: Why) -> u32 {
        self.note(Decision::Began { parallelism: self.center, why });
        self.begin_climb(sight, self.center, STEP_SHIFT)
    }

    fn begin_climb(&mut self, sight: &Sight, center: u32, step: f64) -> u32 {
        self.phase = Phase::Climbing;
        self.center = center;
        self.step = step;
        self.top = None;
        self.arms.clear();
        self.neighbours(sight)
    }

    /// Adds the middle and its neighbours to what is measured, and begins with whichever has been
    /// measured least.
    fn neighbours(&mut self, sight: &Sight) -> u32 {
        let (least, most) = (self.limits.least, self.most(sight.users));
        let center = self.center.clamp(least, most);
        self.center = center;
        let up = ((f64::from(center) * self.step).round() as u32).max(center + 1);
        let down = ((f64::from(center) / self.step).round() as u32).min(center.saturating_sub(1));
        self.measure(sight, [center, up.clamp(least, most), down.clamp(least, most)])
    }

    /// Compares these, which takes nothing for those that are known.
    fn measure(&mut self, sight: &Sight, chosen: [u32; 3]) -> u32 {
        self.arms.choose(chosen);
        match self.arms.next(self.limits.precision) {
            Some(next) => self.set(sight.now, next),
            None => self.compare(sight),
        }
    }

    /// Goes to the best of the middle and its neighbours; once that is the middle, to the top of the curve
    /// unless the middle is surely better.
    fn compare(&mut self, sight: &Sight) -> u32 {
        let from = self.center;
        let best = match self.top {
            Some(top) => self.arms.better(top, PROBE_GAIN).map_or(top, |(best, _)| best),
            None => self.arms.best(AS_GOOD).unwrap_or(from),
        };
        let (before, after) = (self.arms.mean(from), self.arms.mean(best));
        if best != from {
            self.moved(from, best, after / before.max(1e-9));
        }
        if self.top.is_none() && self.arms.len() < ARMS - 2 {
            if best != from {
                return self.neighbours(sight);
            }
            if self.step > STEP_LAST {
                self.step = STEP_LAST.max(self.step.sqrt());
                return self.neighbours(sight);
            }
            let top = self.arms.peak(best).unwrap_or(best);
            self.top = Some(top);
            return self.measure(sight, [best, top, top]);
        }
        let interval = self.arms.interval(self.center);
        self.note(Decision::Settled {
            parallelism: self.center,
            throughput_per_s: after,
            interval,
        });
        self.phase = Phase::Holding;
        self.probed = sight.now;
        // If the load has changed while it was searched for, this is not what P gives.
        self.watches.moved(after);
        self.arms.clear();
        self.set(sight.now, self.center)
    }

    /// Keeps P without looking for a better one.
    fn rest(&mut self, sight: &Sight) -> u32 {
        self.phase = Phase::Holding;
        self.probed = sight.now;
        self.arms.clear();
        self.watches = Watches::default();
        self.set(sight.now, self.center)
    }

    /// Goes to a P that is better by this factor.
    fn moved(&mut self, from: u32, to: u32, gain: f64) {
        // Of a ratio, the deviations add up by their squares.
        let interval = self.arms.interval(from).hypot(self.arms.interval(to));
        self.note(Decision::Moved { from, to, gain, interval });
        self.center = to;
    }

    fn hold(&mut self, sight: &Sight, shown: &Shown) -> u32 {
        let &Shown { rate, seconds, .. } = shown;
        let probing = self.current != self.center;
        if !probing && let Some(why) = self.watches.shifted(shown) {
            return self.begin_again(sight, why);
        }
        if probing || self.arms.len() > 0 {
            self.arms.record(self.current, rate);
        }
        if probing {
            return self.set(sight.now, self.center);
        }
        if let Some((better, gain)) = self.arms.better(self.center, PROBE_GAIN) {
            self.moved(self.center, better, gain);
            if self.wide {
                return self.begin_climb(sight, better, STEP_FIRST);
            }
            self.watches.moved(self.arms.mean(better));
            self.arms.clear();
            return self.set(sight.now, better);
        }
        let rested = sight.now.since(self.probed);
        if rested < self.limits.probe_every {
            return self.current;
        }
        let (least, most) = (self.limits.least, self.most(sight.users));
        if self.arms.len() == 0 || self.arms.crowded() {
            self.wide = self.arms.len() > 0 && !self.wide;
            let ratio = if self.wide { PROBE_WIDE } else { STEP_LAST };
            let up = ((f64::from(self.center) * ratio).ceil() as u32).clamp(least, most);
            let down = ((f64::from(self.center) / ratio).floor() as u32).clamp(least, most);
            self.arms.clear();
            self.arms.choose([self.center, up, down]);
        }
        let Some(next) = self.arms.least_measured(self.center) else { return self.current };
        // A slice where P is known to be worse is taken more seldom.
        let lost_s = self.arms.loss(self.center, next) * seconds;
        if (rested.0 as f64) < lost_s / PROBE_COST * 1e9 {
            return self.current;
        }
        self.probed = sight.now;
        self.set(sight.now, next)
    }
}
