//! P finds itself: measures the database at a few values of P, fits the model of the matching point,
//! climbs to the peak, and stays near it while the workload changes.
//!
//! # Slices
//! Throughput is measured in slices: P is set, the requests inside get time to turn over, then
//! completions are counted until there are enough. Slices at different P are *interleaved*, so that
//! a drift of the workload touches all of them alike, and there are as many as the spread of their
//! results demands: sampling ends when each mean is known well enough, not after a fixed time. A slow load, whose turns
//! take seconds, gets slices of up to 20 s.
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
//! # Searches that come to nothing
//! Users leave, requests stop, or so few turns end that they tell nothing. What was held before the search is in force
//! then, never what was just tried: at once when users have left, for as long as it lasts when requests stop for a moment.
//!
//! Time and counts are arguments, nothing is allocated, and the same seed of a simulated database
//! gives the same decisions.

mod arm;
mod decision;
mod hold;
mod limits;
mod search;
mod slice;
mod watch;

use crate::Nanos;
use arm::Arms;
pub use decision::{Decision, Lack, Why};
pub use limits::Limits;
use slice::{Shown, Slice, Worth};
use watch::Watches;

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
    /// Requests have stopped in the middle of a search: what was held before is in force until they go on.
    Silent,
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
    /// P that was held when the search under way began.
    before: u32,
    /// Users at the latest look.
    users: u32,
    /// Ratio between neighbours.
    step: f64,
    /// The climb is at its last comparison: with this top of the curve.
    top: Option<u32>,
    arms: Arms,
    slice: Slice,
    watches: Watches,
    /// When the latest probe began, and how long it took.
    probed: Nanos,
    probe_took: Nanos,
    /// Probes are wide ones.
    wide: bool,
    /// When sampling began, and before when it does not begin again.
    sampling: Nanos,
    spared: Nanos,
    /// Slices with hardly a request, one after the other.
    silent: u32,
    /// What goes on when requests do, and the P at which they stopped.
    paused: (Phase, u32),
    log: [Option<Decision>; LOG],
    logged: u64,
}

/// Ratio between neighbours at the start of a climb, after a shift, and the finest.
const STEP_FIRST: f64 = 1.5;
const STEP_SHIFT: f64 = 1.6;
const STEP_LAST: f64 = 1.2;

/// Users from which on a search is worth its cost although P holds nobody.
const CROWD_MIN: u32 = 64;
const CROWD_PER_CORE: u32 = 4;

/// Part of the best throughput within which a smaller P is preferred.
const AS_GOOD: f64 = 0.99;

/// Gain that a probe must show, beyond what chance may give.
const PROBE_GAIN: f64 = 1.015;

/// Slices of silence after which there is nothing to search for: a disk that flushes may keep everybody waiting for a few.
const SILENT: u32 = 5;

/// After a probe, and after first samples, P stays what it was for at least so many times as long as they took: most of
/// the time it is the one that is held, however slow the load is.
const PAUSE: u64 = 4;

impl Tuner {
    /// Begins at `parallelism`, which it keeps until something happens.
    pub fn new(limits: Limits, parallelism: u32) -> Tuner {
        Tuner {
            limits,
            phase: Phase::Waiting,
            current: parallelism,
            center: parallelism,
            before: parallelism,
            users: 0,
            step: STEP_FIRST,
            top: None,
            arms: Arms::default(),
            slice: Slice::new(),
            watches: Watches::default(),
            probed: Nanos(0),
            probe_took: Nanos(0),
            wide: false,
            sampling: Nanos(0),
            spared: Nanos(0),
            silent: 0,
            paused: (Phase::Waiting, 0),
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

    /// P that is in force again if the search ends here: while one is under way, what was held before it.
    pub fn held(&self) -> u32 {
        if self.searching() { self.before } else { self.center }
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

    /// Forgets the slice under way and begins another: for a while this P was in force instead, and nobody looked.
    pub fn resume(&mut self, now: Nanos, instead: u32) {
        let (were, inside) = (self.inside(instead), self.inside(self.current));
        self.slice.begin(now, None, u64::from(were), inside);
        // A probe that was interrupted has not taken that long.
        self.probed = if self.current == self.center { self.probed } else { now };
    }

    /// Looks, as often as one likes, and returns the P that shall be in force.
    pub fn look(&mut self, sight: Sight) -> u32 {
        self.users = sight.users;
        if self.searching() && self.deserted(self.before) {
            return self.abandon(&sight, Lack::Users);
        }
        let inside = self.inside(self.current);
        let expected = self.expected(inside);
        let Some(shown) = self.slice.ended(&sight, inside, expected, &self.limits) else {
            return self.current;
        };
        match shown.worth {
            Worth::Silent => return self.hush(&sight, &shown),
            Worth::Few => return self.starve(&sight, &shown),
            Worth::Telling if self.phase == Phase::Silent => return self.go_on(&sight),
            Worth::Telling => (self.silent, self.paused) = (0, (Phase::Waiting, 0)),
        }
        let few = self.users <= self.center && self.users < self.crowd();
        let rare = shown.turns < self.limits.completions_min;
        if self.phase == Phase::Waiting && (few || rare || sight.now < self.spared) {
            // No need while P holds nobody, unless so many are inside that fewer could be better; and nothing to be
            // found out if even what is held gives hardly enough turns for a slice.
            self.watches = Watches::default();
            return self.current;
        }
        // Whether as many as P holds are too many is still looked at.
        if self.phase == Phase::Holding && self.deserted(self.center) {
            return self.rest(&sight);
        }
        if self.watches.mix_shifted(&shown) {
            // What was measured before is of another load.
            return match self.phase {
                Phase::Waiting | Phase::Sampling => self.begin_sampling(&sight, Why::Mix),
                _ => self.begin_again(&sight, Why::Mix),
            };
        }
        match self.phase {
            Phase::Waiting => self.begin_sampling(&sight, Why::Users),
            Phase::Sampling if rare => self.unsampled(&sight, &shown),
            Phase::Sampling | Phase::Climbing | Phase::Silent => {
                self.arms.record(self.current, shown.rate);
                self.search_on(&sight)
            }
            Phase::Holding => self.hold(&sight, &shown),
        }
    }

    /// Turns a second that so many inside should give at least, by what was measured in this search.
    fn expected(&self, inside: u32) -> f64 {
        let each =
            |(parallelism, mean, _, _)| slice::least_rate(mean, self.inside(parallelism), inside);
        self.arms.iter().map(each).fold(0.0, f64::max)
    }

    /// Hardly a request, of many. What was found holds, and what is being measured was not.
    fn hush(&mut self, sight: &Sight, shown: &Shown) -> u32 {
        self.silent += 1;
        let lasting = self.silent >= SILENT;
        match self.phase {
            Phase::Waiting => self.wait(sight),
            Phase::Holding if lasting => self.wait(sight),
            Phase::Holding => self.end_probe(sight),
            _ if lasting => self.abandon(sight, Lack::Requests),
            // It is this P that silences them.
            Phase::Sampling if self.paused.1 == self.current => self.unsampled(sight, shown),
            phase => {
                if phase != Phase::Silent {
                    self.paused = (phase, self.current);
                }
                self.phase = Phase::Silent;
                self.set(sight, self.before)
            }
        }
    }

    /// Requests go on, and the search does.
    fn go_on(&mut self, sight: &Sight) -> u32 {
        self.phase = self.paused.0;
        self.search_on(sight)
    }

    /// A handful of turns in the longest slice.
    fn starve(&mut self, sight: &Sight, shown: &Shown) -> u32 {
        match self.phase {
            Phase::Sampling => self.unsampled(sight, shown),
            Phase::Climbing | Phase::Silent => self.abandon(sight, Lack::Requests),
            Phase::Holding if self.current != self.center => self.end_probe(sight),
            Phase::Waiting | Phase::Holding => self.wait(sight),
        }
    }

    /// Puts another P in force and begins a slice.
    fn set(&mut self, sight: &Sight, parallelism: u32) -> u32 {
        if parallelism != self.current {
            let surplus = self.slice.surplus(sight.completed);
            let were = u64::from(self.inside(self.current)) + surplus;
            let inside = self.inside(parallelism);
            self.slice.begin(sight.now, Some(sight.completed), were, inside);
            self.current = parallelism;
        }
        self.current
    }

    /// Nothing is searched for until there is something to be found out.
    fn wait(&mut self, sight: &Sight) -> u32 {
        self.phase = Phase::Waiting;
        self.silent = 0;
        self.watches = Watches::default();
        self.arms.clear();
        self.slice.forget();
        self.set(sight, self.center)
    }

    fn searching(&self) -> bool {
        matches!(self.phase, Phase::Sampling | Phase::Climbing | Phase::Silent)
    }

    /// Users that this P lets in.
    fn inside(&self, parallelism: u32) -> u32 {
        parallelism.min(self.users)
    }

    /// Most have left: all that are there may be inside at this P, and would only be held for the sake of a search.
    fn deserted(&self, parallelism: u32) -> bool {
        self.users < self.crowd() && f64::from(self.users) * STEP_LAST < f64::from(parallelism)
    }

    fn most(&self) -> u32 {
        self.limits.most.min(self.users).max(self.limits.least)
    }

    /// More users than these at once may be too many for the database although P would let them in.
    fn crowd(&self) -> u32 {
        CROWD_MIN.max(self.limits.cores.saturating_mul(CROWD_PER_CORE))
    }
}
