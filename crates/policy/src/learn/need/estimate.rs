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
//! three, because slow noise (checkpoints) adds up. Differences, so that a step does not raise its
//! own alarm's threshold; and each is clipped.
//!
//! # Invariants
//! The need is finite and within [0.002, 2]. A window without a sample changes nothing.
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

const BLOCKS: [usize; 3] = [1, 5, 15];

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
            variance: [0.03; BLOCKS.len()],
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

    /// Mean of what was achieved of the target in the last `windows`, of the present need or not.
    pub fn achieved(&self, windows: usize) -> f64 {
        let windows = windows.clamp(1, LOOK_BACK);
        (0..windows).map(|back| self.sample(back).achieved).sum::<f64>() / windows as f64
    }

    /// Standard error of the need, as a part of it.
    pub fn error(&self) -> f64 {
        (self.long_run() / self.count.max(1.0)).sqrt() / self.mean.achieved.max(0.05)
    }

    /// The target is `factor` times what it was: the cost of a transaction stays.
    pub fn retarget(&mut self, factor: f64) {
        self.need = (self.need * factor).clamp(0.0, 2.0);
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
            if self.age < 2 * block {
                continue;
            }
            let sum =
                |from: usize| (from..from + block).map(|back| self.innovation(back)).sum::<f64>();
            let difference = (sum(0) - sum(block)) / block as f64;
            let old = self.variance[which];
            let new = (difference * difference / 2.0 * block as f64).min(9.0 * old);
            let weight = (0.05 / block as f64).max(0.005);
            self.variance[which] += weight * (new - old);
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
        self.need = (self.mean.got / self.mean.achieved.max(0.05)).clamp(0.002, 2.0);
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
            assert!((0.002..=2.0).contains(&estimate.need()));
        }
    }
}
