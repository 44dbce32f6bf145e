//! Automatic tuning of P. It measures the database at a few values of P, fits the model of the
//! matching point, climbs to the peak, and stays near it while the workload changes.
//!
//! # Slices
//! Throughput is measured in slices: P is set, the running requests get time to turn over, and then
//! completions are counted until there are enough. Slices at different P are *interleaved*, so that
//! a drift of the workload affects all of them alike. Sampling ends when each mean is known well
//! enough, not after a fixed time. A slow load, whose turns take seconds, gets slices of up to 20
//! s.
//!
//! # No load is worse off than without the gate
//! The gate is open at first, and stays open until a P has beaten it: the largest P queues no
//! request. The open gate is sampled like any P, and is taken again whenever it turns out to be as
//! good. A sample ends as soon as it is surely worse than a known P. What samples lose is paid from
//! a [`budget`], so a search never costs more than a few percent.
//!
//! # Phases
//! 1. *Sample* downward from the open gate, P by P, until a smaller P is surely worse. The lowest,
//!    a middle one and the open gate are P₀, P₁ and P₂ of [`crate::matching`]. If the fit is
//!    refused, the best sample is the start.
//! 2. *Climb*: compare P with its neighbours and go to the best. Once the middle is best, make the
//!    steps smaller. Then compare with the top of a curve through all measurements around it, which
//!    is more reliable than one neighbour. The model only gives the start: no P is settled on that
//!    was not measured to be at least as good as its neighbours.
//! 3. *Compare* that P with the open gate, in turns. It is settled on if it is better by more than
//!    both confidence intervals, and by 2 %.
//! 4. *Hold*. A P that is held is probed to either side now and then: nearby, and in turn farther
//!    off and at the open gate. On a gentle slope neighbours look alike, and a server that has
//!    warmed up may have moved away from P. Sums of deviations (CUSUM) watch throughput, service
//!    time and requests for each turn, which tells the mix. A shift of one begins a search. If a P
//!    is held, the search first compares it with the open gate, and then climbs with wide steps
//!    from P. While the gate is open, a lesser shift may be the machine's, and waits until a search
//!    is due.
//!
//! Of several P that are equally good the smallest is taken: it has the shorter tails.
//!
//! # Searches that come to nothing
//! A search ends without a result if sessions leave, if requests stop, or if too few turns end. It
//! also ends if long requests run, which a smaller P would hand processors to. The P that was held
//! before is then in force, never one that was just tried. This happens at once when sessions have
//! left, and as long as requests pause. If no P is held, or if too little happens to judge it, the
//! gate is open.
//!
//! Time and counts are arguments, nothing is allocated, and the same seed of a simulated database
//! gives the same decisions.

mod arm;
mod budget;
mod decision;
mod hold;
mod limits;
mod search;
mod slice;
mod watch;

use crate::Nanos;
use arm::Arms;
use budget::{Budget, Stands};
pub use decision::{Decision, InsufficientData, Why};
pub use limits::Limits;
use slice::{Known, Slice, SliceOutcome, SliceResult};
use watch::Watches;

/// An observation of the database.
#[derive(Clone, Copy, Debug)]
pub struct Observation {
    /// Time.
    pub now: Nanos,
    /// Turns that were completed, ever.
    pub completed: u64,
    /// Requests that were answered, ever.
    pub requests: u64,
    /// Time that requests have spent inside, ever; those that were answered together count it each.
    pub run: Nanos,
    /// Sessions that are connected and have issued something lately, without the long ones.
    pub sessions: u32,
    /// Sessions whose request outlasts those of the others ([`outlasts`](crate::permit::outlasts)).
    /// They hold no permit while others are queued, whatever P is.
    pub long: u32,
}

/// What the tuner does at the moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Too little happens to measure anything; the gate is open.
    Waiting,
    /// Measuring downward from the open gate, for P₀, P₁ and P₂.
    Sampling,
    /// Comparing neighbours.
    Climbing,
    /// Comparing a P with the open gate.
    Comparing,
    /// Requests have stopped during a search. The P that was held before is in force until they go
    /// on.
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
    /// P that is in force again if the search under way ends here.
    held: u32,
    /// Turns a second that it gives.
    held_rate: f64,
    /// P that is climbed from; the one that is held otherwise.
    center: u32,
    /// Sessions at the latest look, and when the latest search began.
    sessions: u32,
    searched_users: u32,
    /// Long sessions at the latest look.
    long: u32,
    /// Ratio between neighbours.
    step: f64,
    /// The climb is at its last comparison: with this top of the curve.
    top: Option<u32>,
    /// The lowest P of the samples that go downward.
    rung: Option<u32>,
    /// The comparison with the open gate is the one at the begin of a search.
    first: bool,
    arms: Arms,
    slice: Slice,
    /// Time that the latest slice took, with what is inside turning over.
    slice_s: f64,
    /// Time after which the latest one that was left early was.
    seen_s: f64,
    budget: Budget,
    watches: Watches,
    /// A sample that was left early, and its throughput; not believed before others are known to be
    /// better still.
    doubted: Option<(u32, f64)>,
    /// When the latest probe began, and when the latest search ended.
    probed: Nanos,
    searched: Nanos,
    /// Time after which a search begins again while the gate is open.
    again: Nanos,
    /// P that was held when a shift began the search under way.
    shifted: Option<u32>,
    /// What was lost when the open gate was last probed, and until when it is not probed again.
    opened: Option<f64>,
    closed: Nanos,
    /// Probes are wide ones.
    wide: bool,
    /// Slices with hardly a request, and slices in which what is held gave much less than it does
    /// usually, one after the other.
    silent: u32,
    fallen: u32,
    /// What goes on when requests do.
    paused: Phase,
    log: [Option<Decision>; LOG],
    logged: u64,
}

/// Ratio between neighbours at the start of a climb, after a shift, and the finest.
const STEP_FIRST: f64 = 1.5;
const STEP_SHIFT: f64 = 1.6;
const STEP_LAST: f64 = 1.2;

/// Part of the best throughput within which a smaller P is preferred.
const AS_GOOD: f64 = 0.99;

/// Gain that a probe must show, beyond what chance may give.
const PROBE_GAIN: f64 = 1.015;

/// Slices of silence after which there is nothing to search for: a disk that flushes may keep all
/// sessions waiting for a few slices.
const SILENT: u32 = 5;

/// Time until a P that is clearly worse is seen to be, in seconds, before one was.
const SEEN_S: f64 = 0.25;

/// Weight of a slice in what the held P is known to give.
const FOLLOW: f64 = 0.3;

/// Part of what a P usually gives with less of which the load has turned. Of the held one the slice
/// is over at once.
const FALLEN: f64 = 0.7;

/// Slices in which the held P gives much less than it does usually after which the load has turned.
/// One may be a stall of the disk.
const FALLEN_MAX: u32 = 2;

/// Part of what the held P usually gives that it surely gives at the moment.
const SURELY: f64 = 0.9;

impl Tuner {
    /// Begins with `parallelism`: the open gate ([`Limits::most`]), or what another tuner has
    /// found.
    pub fn new(limits: Limits, parallelism: u32) -> Tuner {
        let held = parallelism.min(limits.most);
        Tuner {
            limits,
            phase: Phase::Waiting,
            current: held,
            held,
            held_rate: 0.0,
            center: held,
            sessions: 0,
            searched_users: 0,
            long: 0,
            step: STEP_FIRST,
            top: None,
            rung: None,
            first: false,
            arms: Arms::default(),
            slice: Slice::new(),
            slice_s: 0.0,
            seen_s: SEEN_S,
            budget: Budget::new(),
            watches: Watches::default(),
            doubted: None,
            probed: Nanos(0),
            searched: Nanos(0),
            again: hold::RETRY_INTERVAL,
            shifted: None,
            opened: None,
            closed: Nanos(0),
            wide: false,
            silent: 0,
            fallen: 0,
            paused: Phase::Waiting,
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

    /// P that is in force again if the search ends here: while one is under way, what was held
    /// before it.
    pub fn held(&self) -> u32 {
        self.held
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

    /// Forgets the slice under way and begins another: for a while this P was in force instead, and
    /// nothing was observed.
    pub fn resume(&mut self, now: Nanos, instead: u32) {
        let (were, inside) = (self.inside(instead), self.inside(self.current));
        self.slice.begin(now, None, u64::from(were), inside);
        self.budget.skip();
    }

    /// Looks, as often as one likes, and returns the P that shall be in force.
    pub fn observe(&mut self, observation: Observation) -> u32 {
        (self.sessions, self.long) = (observation.sessions, observation.long);
        let refill = if self.searching() { budget::SEARCHING } else { budget::HOLDING };
        let stands = match (self.current == self.held, self.slice.settling()) {
            (true, false) => Stands::Held,
            (true, true) => Stands::Back(self.held_rate),
            (false, _) => Stands::Tried(self.held_rate),
        };
        self.budget.observe(&observation, refill, stands);
        if let Some(parallelism) = self.decided_by_sessions(&observation) {
            return parallelism;
        }
        let inside = self.inside(self.current);
        let known = Known {
            expected: self.expected(inside),
            better: self.better(),
            // What was left for it has to end first, at whatever pace.
            patient: self.doubted.is_some(),
        };
        let Some(shown) = self.slice.ended(&observation, inside, known, &self.limits) else {
            return self.current;
        };
        match shown.outcome {
            SliceOutcome::Silent => return self.on_idle(&observation, &shown),
            SliceOutcome::Few => return self.starve(&observation, &shown),
            SliceOutcome::Worse if self.searching() || self.current != self.held => {
                return self.leave(&observation, &shown);
            }
            // Hardly anything is silence, if it lasts.
            SliceOutcome::Worse if shown.turns < slice::TELLING => return self.current,
            _ if self.phase == Phase::Silent => return self.go_on(&observation),
            _ => self.silent = 0,
        }
        if self.phase == Phase::Waiting && self.few() {
            // Nothing to be gained, unless so many are inside that fewer could be better.
            self.watches = Watches::default();
            return self.current;
        }
        let usual =
            if self.current == self.held { self.held_rate } else { self.arms.mean(self.current) };
        self.learn(&observation, &shown);
        if let Some((parallelism, rate)) = self.doubted.take() {
            if self.searching() && shown.rate < usual * FALLEN {
                // It was not that P: everything has slowed down, and what was measured is of
                // another load.
                return self.begin(&observation, Why::Throughput);
            }
            self.arms.record_left(parallelism, rate);
        }
        // Whether as many as P holds are too many is still looked at.
        if self.phase == Phase::Holding && (self.deserted() || self.outnumbered()) {
            return self.rest(&observation);
        }
        if self.watches.mix_shifted(&shown) {
            // What was measured before is of another load.
            return self.begin(&observation, Why::Mix);
        }
        match self.phase {
            Phase::Waiting => self.begin(&observation, Why::Sessions),
            Phase::Sampling | Phase::Climbing | Phase::Comparing | Phase::Silent => {
                self.arms.record(self.current, shown.rate);
                self.search_on(&observation)
            }
            Phase::Holding => self.hold(&observation, &shown),
        }
    }

    /// The P to go to, if the sessions that are there decide it.
    fn decided_by_sessions(&mut self, observation: &Observation) -> Option<u32> {
        if self.searching() && self.deserted() {
            return Some(self.abandon(observation, InsufficientData::Sessions));
        }
        if self.searching() && (self.outnumbered() || self.current < self.needed()) {
            return Some(self.abandon(observation, InsufficientData::Long));
        }
        if self.current < self.needed() {
            return Some(self.rest(observation));
        }
        self.grown().then(|| self.begin(observation, Why::Grown))
    }

    /// Keeps in mind what a slice says of what is held, and how long it took.
    fn learn(&mut self, observation: &Observation, shown: &SliceResult) {
        let usual = self.held_rate;
        if self.current != self.held {
            self.slice_s = self.slice.since_set(observation.now).0 as f64 / 1e9;
        } else if (FALLEN * usual..usual / FALLEN).contains(&shown.rate) {
            self.held_rate += FOLLOW * (shown.rate - usual);
        } else {
            self.held_rate = shown.rate;
        }
    }

    /// Turns a second that so many inside should give at least, by what was measured in this
    /// search.
    fn expected(&self, inside: u32) -> f64 {
        let each =
            |(parallelism, mean, _, _)| slice::least_rate(mean, self.inside(parallelism), inside);
        self.arms.iter().map(each).fold(0.0, f64::max)
    }

    /// Turns a second that another P gives at least. With less the slice is over at once.
    fn better(&self) -> f64 {
        let best = self.arms.surest(self.current).map_or(0.0, |(_, least)| least);
        match (self.phase, self.current == self.held) {
            (Phase::Waiting | Phase::Silent, _) => 0.0,
            // What follows a sample that was left has to tell whether it was the P.
            _ if self.doubted.is_some() => 0.0,
            (Phase::Holding, true) => FALLEN * self.watches.usual(),
            (_, true) => best,
            (_, false) => best.max(SURELY * self.held_rate),
        }
    }

    /// The P in force is surely worse than another one. What is known to be good is in force for a
    /// slice, which tells whether it was the P.
    fn leave(&mut self, observation: &Observation, shown: &SliceResult) -> u32 {
        self.doubted = Some((self.current, shown.rate));
        self.seen_s = self.slice.since_set(observation.now).0 as f64 / 1e9;
        let back = if self.phase == Phase::Holding { self.held } else { self.best_known() };
        self.set(observation, back)
    }

    /// The best P other than the one in force, as far as is known: the held one, or one that is
    /// surely better.
    fn best_known(&self) -> u32 {
        if self.phase == Phase::Comparing && self.current != self.center {
            return self.center;
        }
        let surest = self.arms.surest(self.current).filter(|(_, least)| *least > self.held_rate);
        surest.map_or(self.held, |(parallelism, _)| parallelism)
    }

    /// Whether the loss that is expected of a sample of this P is in the budget.
    fn affords(&self, parallelism: u32) -> bool {
        if parallelism == self.held || self.held_rate <= 0.0 {
            return true;
        }
        let (rate, lasts_s) = match self.arms.count(parallelism) {
            // At the begin of a search nothing is certain but the open gate: what is held may do
            // harm.
            0 if self.phase == Phase::Comparing && self.first => return true,
            0 => (self.arms.guess(parallelism, (self.held, self.held_rate)), self.seen_s),
            _ if self.arms.left(parallelism) => (self.arms.mean(parallelism), self.seen_s),
            _ => (self.arms.mean(parallelism), self.slice_s),
        };
        let part = 1.0 - rate / self.held_rate;
        self.budget.affords(part.max(0.0) * lasts_s)
    }

    /// Hardly a request ends, of many. The held P stays, and the current measurement is dropped.
    fn on_idle(&mut self, observation: &Observation, shown: &SliceResult) -> u32 {
        if self.searching() && self.doubted.is_none() && self.best_known() != self.current {
            // Perhaps it is this P that silences them.
            return self.leave(observation, shown);
        }
        self.silent += 1;
        self.doubted = None;
        let lasting = self.silent >= SILENT;
        match self.phase {
            Phase::Waiting => self.wait(observation),
            Phase::Holding if lasting => self.wait(observation),
            Phase::Holding => self.set(observation, self.held),
            _ if lasting => self.abandon(observation, InsufficientData::Requests),
            phase => {
                if phase != Phase::Silent {
                    self.paused = phase;
                }
                self.phase = Phase::Silent;
                self.set(observation, self.held)
            }
        }
    }

    /// Requests go on, and the search does.
    fn go_on(&mut self, observation: &Observation) -> u32 {
        self.phase = self.paused;
        self.search_on(observation)
    }

    /// A handful of turns in the longest slice.
    fn starve(&mut self, observation: &Observation, shown: &SliceResult) -> u32 {
        match self.phase {
            // Also what is known to be good gives hardly anything.
            Phase::Silent => self.abandon(observation, InsufficientData::Requests),
            _ if self.searching() && self.doubted.is_some() => {
                self.abandon(observation, InsufficientData::Requests)
            }
            Phase::Sampling | Phase::Climbing | Phase::Comparing => {
                self.unsampled(observation, shown)
            }
            Phase::Holding if self.current != self.held => self.set(observation, self.held),
            // What a probe has let in still leaves.
            Phase::Holding if self.slice.surplus(observation.completed) > 0 => self.current,
            Phase::Waiting | Phase::Holding => self.wait(observation),
        }
    }

    /// Puts another P in force and begins a slice.
    fn set(&mut self, observation: &Observation, parallelism: u32) -> u32 {
        if parallelism != self.current {
            let surplus = self.slice.surplus(observation.completed);
            let were = u64::from(self.inside(self.current)) + surplus;
            let inside = self.inside(parallelism);
            self.slice.begin(observation.now, Some(observation.completed), were, inside);
            self.current = parallelism;
        }
        self.current
    }

    /// Nothing is held until there is something to be found out.
    fn wait(&mut self, observation: &Observation) -> u32 {
        self.phase = Phase::Waiting;
        self.silent = 0;
        (self.held, self.center, self.held_rate) = (self.limits.most, self.limits.most, 0.0);
        self.watches = Watches::default();
        self.arms.clear(self.sessions);
        self.slice.forget();
        self.set(observation, self.held)
    }

    fn searching(&self) -> bool {
        matches!(self.phase, Phase::Sampling | Phase::Climbing | Phase::Comparing | Phase::Silent)
    }
}
