//! The share that a target needs, from what was got and what was achieved.
//!
//! # Problem
//! Achieved work is noisy: five seconds of a database's transactions scatter by 5 to 20 %. A mean
//! over a long time is exact but late after a change; a short one is early and wrong.
//!
//! # The primitive
//! `need = Σ got / Σ achieved` over the last n windows, n up to [`MEMORY`]: the ratio of means,
//! since a mean of ratios is biased by noise. With every window, the *innovations* `achieved −
//! got/need` are looked at. If the need is right, their sum over the last m windows is zero but for
//! noise, whose variance is L·m, with L the long-run variance of one. All m from 2 to [`LOOK_BACK`]
//! are tried:
//!
//! `z = |Σ innovations| / √(L·m·(1 + m/n)) / (1 + 1/m)`
//!
//! The factor 1 + m/n is for the estimate, which is uncertain itself. If the largest z exceeds
//! [`THRESHOLD`], all but those m windows is forgotten.
//!
//! L comes from differences of neighbouring blocks of 1, 5 and 15 windows, the largest of the
//! three, because slow noise (checkpoints) adds up. A block counts once its size was seen, so L
//! begins small and grows. A window counts once [`SETTLED`] more have come without a change: those
//! around a change are never taken for noise. A load that swings would else hide its own swings.
//!
//! # Invariants
//! The need is finite and within [0.002, 10]: what achieves a tenth with the whole store achieves
//! nothing. A window without a sample changes nothing.
//!
//! # Worked example
//! Share 0.4 achieves 1.0 of the target, over and over: need 0.4. The cost of a transaction grows
//! by a half: share 0.4 achieves 0.667, an innovation of −0.333. With L = 0.01 (σ 10 % of a window)
//! and n = 200, m = 2 gives z = 0.667/√(0.0202)/1.5 = 3.1, m = 3 z = 1/√(0.03045)/1.33 = 4.3 and m
//! = 4 z = 1.333/√0.0408/1.25 = 5.3: after four windows the need is 0.4/0.667 = 0.6.

/// Windows that the means reach back.
pub const MEMORY: f64 = 200.0;

/// Windows in which a change is looked for.
pub const LOOK_BACK: usize = 120;

/// z of a change. 4.5 gave no false alarm in 60 simulated hours.
pub const THRESHOLD: f64 = 4.5;

/// Least and greatest need.
pub const NEEDS: (f64, f64) = (0.002, 10.0);

/// Achieved work counts as at least this: with the floor of best effort, that is still a need
/// which no limit allows.
const LEAST_ACHIEVED: f64 = 0.001;

const BLOCKS: [usize; 3] = [1, 5, 15];

/// Windows after which it is known whether a window was of the present need. 5 is enough for
/// little noise; with 10 a doubled cost is also found at a noise of 10 %.
const SETTLED: usize = 10;

/// Variance of one window before any was seen: a deviation of 17 %. It counts as three samples.
const FIRST_VARIANCE: f64 = 0.03;
const FIRST_SAMPLES: f64 = 3.0;

/// Windows between two changes of a load; between fewer, both are doubted.
const CHANGES_APART: usize = 6;

/// What doubts may make of the variance of one window: a deviation of 50 %.
const VARIANCE_MOST: f64 = 0.25;

/// From so many times its size on, what a block adds is clipped.
const CLIP_FROM: f64 = 5.0;

/// A long-run variance below this is not believed: the estimate itself is not better.
const LEAST_VARIANCE: f64 = 0.0025;

/// What an application got and achieved in a window.
#[derive(Clone, Copy, Debug, Default)]
struct Sample {
    got: f64,
    achieved: f64,
}

/// See the module.
#[derive(Clone, Debug)]
pub struct Estimate {
    /// Windows in the means.
    count: f64,
    mean: Sample,
    need: f64,
    /// Long-run variance, from blocks of each size.
    variance: [f64; BLOCKS.len()],
    /// Samples in each of them.
    samples: [f64; BLOCKS.len()],
    /// The latest samples; `at` is the place of the next one.
    recent: [Sample; LOOK_BACK],
    at: usize,
    /// How many of them belong to the present need.
    age: usize,
    /// Changes that were seen.
    pub changes: u32,
}

impl Default for Estimate {
    fn default() -> Self {
        Estimate {
            count: 0.0,
            mean: Sample::default(),
            need: 0.0,
            variance: [FIRST_VARIANCE, 0.0, 0.0],
            samples: [FIRST_SAMPLES, 0.0, 0.0],
            recent: [Sample::default(); LOOK_BACK],
            at: 0,
            age: 0,
            changes: 0,
        }
    }
}

impl Estimate {
    /// The share that the target needs; zero before the first sample.
    pub fn need(&self) -> f64 {
        self.need
    }

    /// Samples of the present need, at most [`LOOK_BACK`].
    pub fn age(&self) -> usize {
        self.age
    }

    /// Standard error of the need, as a part of it.
    pub fn error(&self) -> f64 {
        (self.long_run() / self.count.max(1.0)).sqrt() / self.mean.achieved.max(0.05)
    }

    /// The target is `factor` times what it was: the cost of a transaction stays.
    pub fn retarget(&mut self, factor: f64) {
        self.need = (self.need * factor).clamp(0.0, NEEDS.1);
        self.mean.achieved /= factor;
        for sample in &mut self.recent {
            sample.achieved /= factor;
        }
    }

    /// In one window the application lived on the share `got`, and `achieved` this of its target.
    pub fn add(&mut self, got: f64, achieved: f64) {
        self.recent[self.at] = Sample { got, achieved };
        self.at = (self.at + 1) % LOOK_BACK;
        self.age = (self.age + 1).min(LOOK_BACK);
        if self.need > 0.0 {
            self.learn_variance();
            if let Some(windows) = self.find_change() {
                self.forget_all_but(windows);
                return;
            }
        }
        self.count = (self.count + 1.0).min(MEMORY);
        self.mean.got += (got - self.mean.got) / self.count;
        self.mean.achieved += (achieved - self.mean.achieved) / self.count;
        self.set_need();
    }

    /// The sample `back` windows ago.
    fn sample(&self, back: usize) -> Sample {
        self.recent[(self.at + LOOK_BACK - 1 - back) % LOOK_BACK]
    }

    fn innovation(&self, back: usize) -> f64 {
        let sample = self.sample(back);
        sample.achieved - sample.got / self.need
    }

    fn learn_variance(&mut self) {
        for (which, block) in BLOCKS.into_iter().enumerate() {
            if self.age < SETTLED + 2 * block {
                continue;
            }
            let sum =
                |from: usize| (from..from + block).map(|back| self.innovation(back)).sum::<f64>();
            let difference = (sum(SETTLED) - sum(SETTLED + block)) / block as f64;
            let old = self.variance[which];
            let clipped = self.samples[which] > CLIP_FROM * block as f64;
            let most = if clipped { 9.0 * old } else { f64::MAX };
            let new = (difference * difference / 2.0 * block as f64).min(most);
            self.samples[which] += 1.0;
            let slow = (0.05 / block as f64).max(0.005);
            self.variance[which] += slow.max(1.0 / self.samples[which]) * (new - old);
        }
    }

    fn long_run(&self) -> f64 {
        self.variance.into_iter().fold(LEAST_VARIANCE, f64::max)
    }

    /// How many of the last windows are of another need, if any are.
    fn find_change(&self) -> Option<usize> {
        let long_run = self.long_run();
        let (mut sum, mut best) = (0.0, (THRESHOLD, 0));
        for back in 0..self.age {
            sum += self.innovation(back);
            let windows = (back + 1) as f64;
            let variance = long_run * windows * (1.0 + windows / self.count.max(windows));
            let z = f64::abs(sum) / variance.sqrt() / (1.0 + 1.0 / windows);
            if back > 0 && z > best.0 {
                best = (z, back + 1);
            }
        }
        // What is most of the memory is the need itself.
        (best.1 > 0 && (best.1 as f64) < 0.7 * self.count.max(3.0)).then_some(best.1)
    }

    fn forget_all_but(&mut self, windows: usize) {
        // Changes that follow each other at once are none: dfts come late, or noise has grown.
        if self.changes > 0 && self.age - windows < CHANGES_APART {
            self.variance[0] = (2.0 * self.variance[0]).min(VARIANCE_MOST);
        }
        let mut sum = Sample::default();
        for back in 0..windows {
            let sample = self.sample(back);
            sum.got += sample.got;
            sum.achieved += sample.achieved;
        }
        self.count = windows as f64;
        self.mean = Sample { got: sum.got / self.count, achieved: sum.achieved / self.count };
        self.age = windows;
        self.changes += 1;
        self.set_need();
    }

    fn set_need(&mut self) {
        let need = self.mean.got / self.mean.achieved.max(LEAST_ACHIEVED);
        self.need = need.clamp(NEEDS.0, NEEDS.1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    /// Roughly normal with this deviation.
    fn noise(random: &mut Random, sigma: f64) -> f64 {
        sigma * ((0..12).map(|_| random.unit()).sum::<f64>() - 6.0)
    }

    #[test]
    fn the_worked_example() {
        let mut estimate = Estimate::default();
        for _ in 0..200 {
            estimate.add(0.4, 1.0);
        }
        assert!((estimate.need() - 0.4).abs() < 1e-12);
        estimate.variance = [0.01; 3];
        let seen = (1..50).find(|_| {
            estimate.add(0.4, 0.4 / 0.6);
            estimate.changes > 0
        });
        assert!(seen.is_some_and(|windows| windows <= 5), "{seen:?}");
        assert!((estimate.need() - 0.6).abs() < 0.03, "{}", estimate.need());
    }

    #[test]
    fn noise_does_not_bias_the_need() {
        for seed in 0..10 {
            let mut random = Random::new(seed);
            let mut estimate = Estimate::default();
            for _ in 0..400 {
                let got = 0.3 + 0.2 * random.unit();
                estimate.add(got, (got / 0.5 * (1.0 + noise(&mut random, 0.2))).max(0.0));
            }
            assert!((estimate.need() / 0.5 - 1.0).abs() < 0.06, "{}", estimate.need());
        }
    }

    #[test]
    fn false_alarms_are_rare() {
        for sigma in [0.1, 0.2, 0.4] {
            let mut random = Random::stream(11, (sigma * 10.0) as u64);
            let mut estimate = Estimate::default();
            for _ in 0..4 * 3_600 {
                estimate.add(0.5, (1.0 + noise(&mut random, sigma)).max(0.0));
            }
            assert!(estimate.changes <= 1, "{} in 4 h at {sigma}", estimate.changes);
        }
    }

    #[test]
    fn a_step_is_seen_whatever_the_noise_was() {
        for (sigma, most) in [(0.1, 12), (0.2, 40)] {
            let mut random = Random::new(5);
            let mut estimate = Estimate::default();
            for _ in 0..1_000 {
                estimate.add(0.4, 1.0 + noise(&mut random, sigma));
            }
            let before = estimate.changes;
            let seen = (1..200).find(|_| {
                estimate.add(0.4, 0.4 / 0.6 + noise(&mut random, sigma));
                estimate.changes > before
            });
            assert!(seen.is_some_and(|windows| windows <= most), "{seen:?} at {sigma}");
        }
    }

    /// The cost of a transaction doubles and halves, over and over: the part of the steps that are
    /// found within eight windows, and how many there were.
    fn swings(quiet: usize, period: usize, sigma: f64, seed: u64) -> (usize, usize) {
        let mut random = Random::new(seed);
        let mut estimate = Estimate::default();
        let mut live = |estimate: &mut Estimate, need: f64| {
            let achieved = 0.4 / need * (1.0 + noise(&mut random, sigma));
            estimate.add(0.4, achieved.max(0.0));
        };
        (0..quiet).for_each(|_| live(&mut estimate, 0.35));
        let (mut found, steps) = (0, 12);
        for step in 0..steps {
            let need = if step % 2 == 0 { 0.7 } else { 0.35 };
            let (before, mut seen) = (estimate.changes, None);
            for window in 1..=period {
                live(&mut estimate, need);
                let fits = (estimate.need() / need - 1.0).abs() < 0.2;
                if estimate.changes > before && fits {
                    seen = seen.or(Some(window));
                }
            }
            found += usize::from(seen.is_some_and(|windows| windows <= 8));
        }
        (found, steps)
    }

    #[test]
    fn a_load_that_swings_does_not_hide_its_swings() {
        for sigma in [0.02, 0.05, 0.1] {
            for quiet in [20, 60, 200, 1_000] {
                for period in [15, 20, 40, 60, 120] {
                    let runs = (0..5).map(|seed| swings(quiet, period, sigma, seed));
                    let (found, steps) = runs.fold((0, 0), |a, b| (a.0 + b.0, a.1 + b.1));
                    let part = found as f64 / steps as f64;
                    let about = format!("σ {sigma}, after {quiet} s, each {period} s: {part}");
                    assert!(part >= 0.9, "{about}");
                }
            }
        }
    }

    /// Checkpoints: a slow part of 20 windows beside the white one.
    #[test]
    fn slow_noise_gives_few_false_alarms_early_and_late() {
        for sigma in [0.01, 0.05, 0.1, 0.2] {
            let (mut early, mut all) = (0, 0);
            for seed in 0..8 {
                let mut random = Random::stream(seed, 7);
                let mut estimate = Estimate::default();
                let (kept, mut slow) = ((-1.0_f64 / 20.0).exp(), 0.0);
                for window in 0..3_600 {
                    let step = noise(&mut random, sigma * 0.5);
                    slow = kept * slow + (1.0 - kept * kept).sqrt() * step;
                    let white = noise(&mut random, sigma * 0.85 * 5f64.sqrt());
                    estimate.add(0.4, (1.0 + white + slow).max(0.0));
                    early += if window == 120 { estimate.changes } else { 0 };
                }
                all += estimate.changes;
            }
            assert!(early == 0 && all <= 1, "σ {sigma}: {early} early, {all} in 8 h");
        }
    }

    #[test]
    fn another_target_needs_another_share_at_once() {
        let mut estimate = Estimate::default();
        for _ in 0..100 {
            estimate.add(0.4, 1.0);
        }
        estimate.retarget(1.5);
        assert!((estimate.need() - 0.6).abs() < 1e-9);
        for _ in 0..100 {
            estimate.add(0.6, 1.0);
        }
        assert!((estimate.need() - 0.6).abs() < 1e-3 && estimate.changes == 0, "{estimate:?}");
    }

    #[test]
    fn nonsense_stays_within_bounds() {
        let mut estimate = Estimate::default();
        for step in 0..1_000 {
            estimate.add(f64::from(step % 3), if step % 2 == 0 { 0.0 } else { 1e9 });
            assert!((NEEDS.0..=NEEDS.1).contains(&estimate.need()));
        }
    }
}
