//! The search: first samples, then a climb.

use super::arm::ARMS;
use super::slice::Shown;
use super::{
    AS_GOOD, Decision, Lack, PAUSE, PROBE_GAIN, Phase, STEP_FIRST, STEP_LAST, STEP_SHIFT, Sight,
    Tuner, Why,
};
use crate::Nanos;
use crate::matching::{Misfit, Sample, fit_measured};

/// The three first samples only say where the climb begins, and two of them cost throughput while they
/// are taken: they need not be as precise as a comparison of neighbours.
const SAMPLES_COARSER: f64 = 3.0;

impl Tuner {
    fn begin(&mut self, why: Why) {
        if !self.searching() {
            self.before = self.center;
        }
        self.paused = (Phase::Waiting, 0);
        self.note(Decision::Began { parallelism: self.center, why });
    }

    /// P₀ and P₂. The model says nothing of fewer inside than there are processors.
    fn extremes(&self) -> (u32, u32) {
        let most = self.most();
        (self.limits.least.max(self.limits.cores).min(most), most)
    }

    pub(super) fn begin_sampling(&mut self, sight: &Sight, why: Why) -> u32 {
        self.begin(why);
        let (least, most) = self.extremes();
        let middle = (f64::from(least) * f64::from(most)).sqrt().round() as u32;
        if middle <= least + 1 || middle >= most {
            return self.begin_climb(sight, self.center.clamp(least, most), STEP_FIRST);
        }
        if self.phase != Phase::Sampling {
            self.sampling = sight.now;
        }
        self.phase = Phase::Sampling;
        self.arms.clear();
        for parallelism in [least, middle, most] {
            self.arms.add(parallelism);
        }
        self.set(sight, middle)
    }

    /// Sampling is over, whatever came of it, and not soon done again: it costs throughput.
    fn sampled(&mut self, sight: &Sight) {
        let took = sight.now.since(self.sampling).0;
        self.spared = sight.now + Nanos(took.saturating_mul(PAUSE));
    }

    /// Measures the next P of those that are compared, or draws the conclusion.
    pub(super) fn search_on(&mut self, sight: &Sight) -> u32 {
        let sampling = self.phase == Phase::Sampling;
        let coarser = if sampling { SAMPLES_COARSER } else { 1.0 };
        match self.arms.next(self.limits.precision * coarser) {
            Some(next) => self.set(sight, next),
            None if sampling => self.fit(sight),
            None => self.compare(sight),
        }
    }

    fn fit(&mut self, sight: &Sight) -> u32 {
        self.sampled(sight);
        let mut samples = [Sample { parallelism: 0, throughput_per_s: 0.0 }; 3];
        let mut intervals = [0.0; 3];
        let each = samples.iter_mut().zip(&mut intervals);
        for ((sample, interval), (parallelism, mean, spread, _)) in each.zip(self.arms.iter()) {
            *sample = Sample { parallelism, throughput_per_s: mean };
            *interval = spread;
        }
        let (least, most) = self.extremes();
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
        let start = peak.map_or(best, |peak| peak.unwrap_or(most)).clamp(least, most);
        let rising = peak == Some(None);
        self.note(Decision::Fitted { samples, intervals, fit: fitted, rising, start });
        self.begin_climb(sight, start, STEP_FIRST)
    }

    /// One of the first samples tells nothing, and others would cost as much: the search climbs from what was held.
    pub(super) fn unsampled(&mut self, sight: &Sight, shown: &Shown) -> u32 {
        self.sampled(sight);
        let &Shown { turns, seconds, .. } = shown;
        self.note(Decision::Unsampled { parallelism: self.current, turns, seconds });
        self.begin_climb(sight, self.before, STEP_FIRST)
    }

    /// Gives the search up.
    pub(super) fn abandon(&mut self, sight: &Sight, lack: Lack) -> u32 {
        let sampling = Phase::Sampling;
        if self.phase == sampling || self.phase == Phase::Silent && self.paused.0 == sampling {
            self.sampled(sight);
        }
        self.center = self.before;
        self.note(Decision::Abandoned { parallelism: self.center, lack });
        self.wait(sight)
    }

    /// Searches from where P stands: the load is another one.
    pub(super) fn begin_again(&mut self, sight: &Sight, why: Why) -> u32 {
        self.begin(why);
        self.begin_climb(sight, self.center, STEP_SHIFT)
    }

    pub(super) fn begin_climb(&mut self, sight: &Sight, center: u32, step: f64) -> u32 {
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
        let (least, most) = (self.limits.least, self.most());
        let center = self.center.clamp(least, most);
        self.center = center;
        let up = ((f64::from(center) * self.step).round() as u32).max(center + 1);
        let down = ((f64::from(center) / self.step).round() as u32).min(center.saturating_sub(1));
        self.measure(sight, [center, up.clamp(least, most), down.clamp(least, most)])
    }

    /// Compares these, which takes nothing for those that are known.
    fn measure(&mut self, sight: &Sight, chosen: [u32; 3]) -> u32 {
        self.arms.choose(chosen);
        self.search_on(sight)
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
        self.set(sight, self.center)
    }

    /// Goes to a P that is better by this factor.
    pub(super) fn moved(&mut self, from: u32, to: u32, gain: f64) {
        // Of a ratio, the deviations add up by their squares.
        let interval = self.arms.interval(from).hypot(self.arms.interval(to));
        self.note(Decision::Moved { from, to, gain, interval });
        self.center = to;
    }
}
