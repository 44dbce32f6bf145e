//! The search for P. The gate is open when P is so large that no session is queued. The search
//! samples smaller and smaller P from there, climbs to the best, and compares it with the open
//! gate.

use super::arm::{ARMS, Enough, SLICES_MIN};
use super::hold::RETRY_INTERVAL;
use super::slice::SliceResult;
use super::{
    AS_GOOD, Decision, InsufficientData, Observation, PROBE_GAIN, Phase, STEP_FIRST, STEP_LAST,
    STEP_SHIFT, Tuner, Why,
};
use crate::matching::{Sample, fit_measured};

/// The three samples of the model only say where the climb begins: they need not be as precise as a
/// comparison of neighbours.
const SAMPLES_COARSER: f64 = 3.0;

/// Ratio of a sample and the next one below it. If throughput grows in proportion to P, the next P
/// gives more than half of what is known. The loss is so large that a quarter of a second shows it.
const RUNG: f64 = 1.8;

/// Gain over the open gate with which a P is settled on, beyond what chance may give.
const OPEN_GAIN: f64 = 1.02;

/// Gain over the open gate for which the samples of a search are enough, though they were not taken
/// in turns.
const FAR: f64 = 1.4;

/// Slices of a P and of the open gate after which their comparison ends. Counts that scatter by 5 %
/// from slice to slice show a gain of 2.6 % after so many: 1.96 x 5 % x sqrt(2 / 30).
const DUEL_MAX: u32 = 30;

impl Tuner {
    /// Begins a search. From the open gate it takes samples downward. If a P is held, it first
    /// checks whether the open gate is better by now, and climbs from that P if not.
    pub(super) fn begin(&mut self, observation: &Observation, why: Why) -> u32 {
        self.doubted = None;
        self.again = RETRY_INTERVAL;
        if why == Why::Grown {
            // What the held P gives is measured again before anything else.
            self.held_rate = 0.0;
            self.slice.again(observation);
        }
        self.searched_users = self.sessions;
        let shifted = matches!(why, Why::Throughput | Why::ServiceTime);
        self.shifted = shifted.then_some(self.held);
        self.center = self.held;
        self.note(Decision::Began { parallelism: self.held, why });
        if self.is_open(self.held) {
            return self.begin_sampling(observation);
        }
        self.duel(observation, true)
    }

    /// From the open gate downward.
    fn begin_sampling(&mut self, observation: &Observation) -> u32 {
        self.phase = Phase::Sampling;
        self.arms.clear(self.sessions);
        self.rung = Some(self.sessions);
        self.descend(observation, self.sessions)
    }

    /// Samples the next P below `above`. Once the floor is reached, it takes the samples that the
    /// model needs. The model is not valid for fewer sessions than processors.
    fn descend(&mut self, observation: &Observation, above: u32) -> u32 {
        let open = self.limits.most;
        let floor = self.least().max(self.limits.cores);
        let next = floor.max((f64::from(above) / RUNG).round() as u32);
        if next >= above || self.arms.left(above) || self.arms.len() >= ARMS - 1 {
            return self.sample(observation, above);
        }
        self.rung = Some(next);
        self.arms.choose(&[open, next]);
        self.search_on(observation)
    }

    /// Takes the three samples of the model: P₀ is the lowest, P₂ the open gate, with as many
    /// inside as there are sessions.
    fn sample(&mut self, observation: &Observation, least: u32) -> u32 {
        self.rung = None;
        let open = self.limits.most;
        let middle = (f64::from(least) * f64::from(self.sessions)).sqrt();
        let far = |p: u32| (f64::from(p) / middle).ln().abs();
        let others = self.arms.iter().map(|(p, ..)| p).filter(|p| ![least, open].contains(p));
        let Some(middle) = others.min_by(|a, b| far(*a).total_cmp(&far(*b))) else {
            // The first one below the open gate was given up, or is the last one.
            return match self.arms.left(least) || least == self.sessions {
                true => self.stay_open(observation, None),
                false => self.begin_climb(observation, least, STEP_FIRST),
            };
        };
        self.arms.choose(&[least, middle, open]);
        self.search_on(observation)
    }

    /// Measures the next P of those that are compared, or draws the conclusion.
    pub(super) fn search_on(&mut self, observation: &Observation) -> u32 {
        if self.held_rate <= 0.0 {
            return self.set(observation, self.held);
        }
        let enough = match self.phase {
            // Without the first one below the open gate there is no search.
            Phase::Sampling if self.arms.len() == 2 => Enough::ONCE.twice(),
            Phase::Sampling if self.rung.is_some() => Enough::ONCE,
            Phase::Sampling => Enough::to(self.limits.precision * SAMPLES_COARSER).once(),
            Phase::Comparing => return self.judge(observation),
            // Wide steps only show the direction; smaller ones follow.
            Phase::Climbing if self.step >= STEP_SHIFT => Enough::ONCE.twice(),
            _ => Enough::to(self.limits.precision),
        };
        if !self.arms.known(enough) {
            let next = self.arms.next(enough, |parallelism| self.affords(parallelism));
            return self.set(observation, next.unwrap_or_else(|| self.best_known()));
        }
        match (self.phase, self.rung) {
            (Phase::Sampling, Some(rung)) => self.descend(observation, rung),
            (Phase::Sampling, None) => self.fit(observation),
            _ => self.compare(observation),
        }
    }

    fn fit(&mut self, observation: &Observation) -> u32 {
        let mut samples = [Sample { parallelism: 0, throughput_per_s: 0.0 }; 3];
        let mut intervals = [0.0; 3];
        let each = samples.iter_mut().zip(&mut intervals);
        let sessions = self.sessions.max(1);
        for ((sample, interval), (parallelism, mean, spread)) in each.zip(self.arms.chosen()) {
            *sample = Sample { parallelism: parallelism.min(sessions), throughput_per_s: mean };
            *interval = spread;
        }
        let mut both: Vec3 = std::array::from_fn(|at| (samples[at], intervals[at]));
        both.sort_unstable_by_key(|(sample, _)| sample.parallelism);
        (samples, intervals) = (both.map(|each| each.0), both.map(|each| each.1));
        let (least, most) = (samples[0].parallelism, sessions);
        let fitted = fit_measured(samples, intervals);
        // Where no curve fits, the best of all samples is as good a start as any.
        let best = self.arms.best_of_all().unwrap_or(self.held);
        let peak = fitted.ok().map(|curve| curve.matching_point(curve.base.parallelism, most));
        let start = peak.map_or(best, |peak| peak.unwrap_or(most)).clamp(least, most);
        let rising = peak == Some(None);
        self.note(Decision::Fitted { samples, intervals, fit: fitted, rising, start });
        self.begin_climb(observation, start, STEP_FIRST)
    }

    /// Too few turns end at this P to tell its throughput, and fewer inside would give no more.
    pub(super) fn unsampled(&mut self, observation: &Observation, shown: &SliceResult) -> u32 {
        if self.best_known() == self.current {
            return self.abandon(observation, InsufficientData::Requests);
        }
        let &SliceResult { turns, seconds, .. } = shown;
        self.note(Decision::Unsampled { parallelism: self.current, turns, seconds });
        if self.phase == Phase::Sampling && self.rung == Some(self.current) {
            // It is not worse, only slow: fewer inside turn over sooner.
            return self.descend(observation, self.current);
        }
        self.arms.record_left(self.current, shown.rate);
        self.arms.give_up(self.current);
        self.search_on(observation)
    }

    /// Gives the search up.
    pub(super) fn abandon(
        &mut self,
        observation: &Observation,
        insufficient: InsufficientData,
    ) -> u32 {
        self.center = self.held;
        self.note(Decision::Abandoned { parallelism: self.held, insufficient });
        if self.is_open(self.held) { self.wait(observation) } else { self.rest(observation) }
    }

    pub(super) fn begin_climb(&mut self, observation: &Observation, center: u32, step: f64) -> u32 {
        self.phase = Phase::Climbing;
        self.center = center;
        self.step = step;
        self.top = None;
        self.arms.keep([self.held, self.limits.most]);
        self.neighbours(observation)
    }

    /// Adds the middle and its neighbours to what is measured, and begins with whichever has been
    /// measured least.
    fn neighbours(&mut self, observation: &Observation) -> u32 {
        let center = self.center.clamp(self.least(), self.most());
        let up = ((f64::from(center) * self.step).round() as u32).max(center + 1);
        let down = ((f64::from(center) / self.step).round() as u32).min(center.saturating_sub(1));
        self.center = self.bounded(center);
        self.measure(observation, [self.center, self.bounded(up), self.bounded(down)])
    }

    /// Compares these, which takes nothing for those that are known.
    fn measure(&mut self, observation: &Observation, chosen: [u32; 3]) -> u32 {
        self.arms.choose(&chosen);
        self.search_on(observation)
    }

    /// Goes to the best of the middle and its neighbours. Once that is the middle, it goes to the
    /// top of the curve, unless the middle is surely better.
    fn compare(&mut self, observation: &Observation) -> u32 {
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
                return self.neighbours(observation);
            }
            if self.step > STEP_LAST {
                self.step = STEP_LAST.max(self.step.sqrt());
                return self.neighbours(observation);
            }
            let top = self.arms.peak(best).map_or(best, |top| self.bounded(top));
            self.top = Some(top);
            return self.measure(observation, [best, top, top]);
        }
        if self.is_open(self.center) {
            return self.stay_open(observation, None);
        }
        if self.arms.far(self.center, self.limits.most, FAR) {
            // The samples of this search tell enough. With the open gate all sessions come in, and
            // it may take long until they have left.
            return self.settle(observation);
        }
        self.duel(observation, false)
    }

    /// Compares what the climb found, or first of all what is held, with the open gate.
    fn duel(&mut self, observation: &Observation, first: bool) -> u32 {
        self.phase = Phase::Comparing;
        self.first = first;
        self.arms.clear(self.sessions);
        self.arms.choose(&[self.limits.most, self.center]);
        if first && self.held_rate > 0.0 {
            // What the held P gives is known.
            self.arms.record(self.held, self.held_rate);
        }
        self.search_on(observation)
    }

    /// Decides between the two, or measures on.
    fn judge(&mut self, observation: &Observation) -> u32 {
        let (here, open) = (self.center, self.limits.most);
        let count = self.arms.count(here).min(self.arms.count(open));
        let given_up = |parallelism| self.arms.given_up(parallelism);
        let gain = self.arms.mean(here) / self.arms.mean(open).max(1e-9);
        let half = gain * self.arms.interval(here).hypot(self.arms.interval(open));
        let told = count >= SLICES_MIN;
        // At the begin of a search it is enough to know which is more likely: the other one is
        // looked for again.
        let enough = if self.first { 1 } else { DUEL_MAX };
        let sunk = given_up(open) || self.first && self.arms.left(open);
        let wins = sunk || told && gain >= OPEN_GAIN && gain - half > 1.0;
        let loses = given_up(here) || told && gain + half < OPEN_GAIN || count >= enough;
        if wins || self.first && !given_up(here) && count >= enough && gain >= 1.0 {
            return if self.first {
                self.begin_climb(observation, here, STEP_SHIFT)
            } else {
                self.settle(observation)
            };
        }
        if loses && self.first {
            // What was held is worse than no gate at all. The search goes on from the open gate.
            self.stay_open(observation, Some(here));
            return self.begin_sampling(observation);
        }
        if loses {
            return self.stay_open(observation, Some(here));
        }
        let next = self.arms.fewest(|parallelism| self.affords(parallelism));
        self.set(observation, next.unwrap_or_else(|| self.best_known()))
    }

    /// Holds the middle, which is better than the open gate.
    fn settle(&mut self, observation: &Observation) -> u32 {
        let (here, open) = (self.center, self.limits.most);
        self.note(Decision::Settled {
            parallelism: here,
            throughput_per_s: self.arms.mean(here),
            interval: self.arms.interval(here),
            open_per_s: self.arms.mean(open),
            open_interval: self.arms.interval(open),
        });
        self.take(observation, here, self.arms.mean(here))
    }

    /// Holds the open gate, as no P was surely better; `than` was the best of them.
    pub(super) fn stay_open(&mut self, observation: &Observation, than: Option<u32>) -> u32 {
        let open = self.limits.most;
        let best = than.map(|parallelism| Sample {
            parallelism,
            throughput_per_s: self.arms.mean(parallelism),
        });
        let throughput_per_s = match self.arms.count(open) {
            0 => self.held_rate,
            _ => self.arms.mean(open),
        };
        self.note(Decision::Open {
            throughput_per_s,
            interval: self.arms.interval(open),
            best,
            best_interval: than.map_or(f64::INFINITY, |than| self.arms.interval(than)),
        });
        self.take(observation, open, throughput_per_s)
    }

    /// Holds this P, which gives so much.
    fn take(&mut self, observation: &Observation, parallelism: u32, rate: f64) -> u32 {
        self.phase = Phase::Holding;
        (self.held, self.center, self.held_rate) = (parallelism, parallelism, rate);
        (self.probed, self.searched) = (observation.now, observation.now);
        if self.shifted.take() == Some(parallelism) {
            self.watches.excuse();
        }
        // If the load has changed while it was searched for, this is not what P gives.
        self.watches.moved(rate);
        self.arms.clear(self.sessions);
        self.set(observation, parallelism)
    }

    /// Goes to a P that is better by this factor.
    pub(super) fn moved(&mut self, from: u32, to: u32, gain: f64) {
        // Of a ratio, the deviations add up by their squares.
        let interval = self.arms.interval(from).hypot(self.arms.interval(to));
        self.note(Decision::Moved { from, to, gain, interval });
        self.center = to;
    }
}

/// Three samples with how well they are known.
type Vec3 = [(Sample, f64); 3];
