//! Latency targets, held by weights.
//!
//! # Problem
//! Some classes have a target: this percentile of their latencies is at most so long. The others
//! take what is left. A weight decides how long a class waits, but how long depends on everybody's
//! load, which nobody knows in advance.
//!
//! # The loop
//! For each class with a target, each window: compare the measured percentile with the target and
//! multiply the weight with a power of their ratio. Above the target the weight grows at once, close below it a little;
//! clearly below it shrinks, slowly, so that the rest goes back to best-effort classes, but not to where the target was missed
//! before: that share fades from memory in some hundred windows. In between nothing moves.
//!
//! A percentile of 99.9 needs thousands of requests to be seen. Windows with fewer are judged by what they can show:
//! more requests above the target than the percentile allows is a breach, however few requests there were.
//!
//! # What cannot be held
//! Weights with targets never take more than `share_max` of the total: best-effort classes are not
//! starved. A class that stays above its target while the weights are at that bound, or while more
//! weight no longer helps, is reported as infeasible with the gap, and keeps the weight that helped
//! last. It is tried again after a while, and after twice the while each time: loads change.
//!
//! Source: AppleS section 5.3, after N. Li et al., PSLO (EuroSys 2016): measured percentiles fed
//! back into shares.

/// Largest number of classes with targets.
pub const TARGETS: usize = 16;

/// A class's target.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Target {
    /// Percentile, as a fraction: 0.999.
    pub quantile: f64,
    /// Latency that it may have, in milliseconds.
    pub latency_ms: f64,
}

/// What was measured of a class over a window.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SloSight {
    /// Requests answered.
    pub answered: u64,
    /// Of those, requests above the target.
    pub above: u64,
    /// The percentile of the target, in milliseconds.
    pub latency_ms: f64,
}

/// How a class stands.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Standing {
    /// Too few requests to tell.
    Unknown,
    /// Within its target.
    Held,
    /// Above it, and the weight is being raised.
    Raising,
    /// It cannot be held: the percentile is this many times the target.
    Infeasible(f64),
}

/// Gains and bounds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SloLimits {
    /// Part of all weight that classes with targets may have together.
    pub share_max: f64,
    /// Part of the target below which weight is given back.
    pub room: f64,
    /// Part of the target above which a little more is taken: a percentile of few requests scatters by a fifth.
    pub close: f64,
    /// Windows above the target, at the bound or without effect, after which it is infeasible.
    pub patience: u32,
    /// Least share that a class begins with: all changes multiply, and nothing times nothing stays nothing.
    pub share_min: f64,
    /// Windows after which an infeasible target is tried once more; twice as many after each time that did not help.
    pub retry: u32,
}

impl SloLimits {
    /// Those of the gate.
    pub const USUAL: SloLimits = SloLimits {
        share_max: 0.8,
        room: 0.45,
        close: 0.7,
        patience: 10,
        share_min: 0.01,
        retry: 30,
    };
}

impl Default for SloLimits {
    fn default() -> Self {
        SloLimits::USUAL
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Class {
    /// Part of all weight.
    share: f64,
    /// Least share: what it had without a target.
    floor: f64,
    /// Share with which the target was missed last, less what was forgotten of it.
    missed: f64,
    /// Windows above the target, one after the other, in which more weight was not to be had or did not help.
    stuck: u32,
    /// The percentile when the share was first raised, and the share before.
    tried: Option<(f64, f64)>,
    /// Windows since it is infeasible, and how often it was found to be so.
    given_up: u32,
    times: u32,
}

/// Distance that is kept from a share with which the target was missed, and what remains of that after a window.
const DISTANCE: f64 = 1.2;
const FADES: f64 = 0.998;

/// Times that the wait until the next try doubles.
const DOUBLINGS: u32 = 5;

/// Shares of the classes with targets; the rest belongs to the others.
#[derive(Clone, Debug, Default)]
pub struct SloControl {
    classes: [Class; TARGETS],
}

impl SloControl {
    /// Begins with these shares, by class, as far as the limits allow them.
    pub fn new(shares: &[f64], limits: &SloLimits) -> SloControl {
        let mut control = SloControl::default();
        let most = shares.iter().sum::<f64>().max(limits.share_max) / limits.share_max;
        for (class, share) in control.classes.iter_mut().zip(shares) {
            class.share = (share / most).max(limits.share_min);
            class.floor = class.share / 4.0;
        }
        control
    }

    /// Share of a class.
    pub fn share(&self, class: usize) -> f64 {
        self.classes.get(class).map_or(0.0, |class| class.share)
    }

    fn total(&self) -> f64 {
        self.classes.iter().map(|class| class.share).sum()
    }

    /// Looks at a window of one class and sets its share; returns how it stands.
    pub fn look(
        &mut self,
        class: usize,
        target: Target,
        limits: &SloLimits,
        sight: SloSight,
    ) -> Standing {
        let total = self.total();
        let Some(state) = self.classes.get_mut(class) else { return Standing::Unknown };
        let allowed = (1.0 - target.quantile).max(0.0) * sight.answered as f64;
        let ratio = sight.latency_ms / target.latency_ms;
        // Chance alone puts some above: twice the square root of what is allowed, and one.
        let breach = sight.above as f64 > allowed + 2.0 * allowed.sqrt() + 1.0
            || ratio > 1.0 && allowed >= 1.0;
        if sight.answered == 0 {
            return Standing::Unknown;
        }
        if !breach {
            (state.stuck, state.tried, state.given_up, state.times) = (0, None, 0, 0);
            state.missed *= FADES;
            if ratio < limits.room {
                let least = state.floor.max(DISTANCE * state.missed);
                state.share = (state.share * 0.98).max(least.min(state.share));
            } else if ratio > limits.close {
                let room = (limits.share_max - total).max(0.0);
                state.share = (state.share * 1.03).min(state.share + room);
            }
            return Standing::Held;
        }
        let helped = state.tried.is_none_or(|(before_ms, _)| sight.latency_ms <= 0.95 * before_ms);
        if state.stuck > limits.patience {
            state.given_up = state.given_up.saturating_add(1);
            if state.given_up < limits.retry << state.times.min(DOUBLINGS) {
                // More weight has not helped: what it took for nothing goes back.
                if let (false, Some((_, share))) = (helped, state.tried) {
                    (state.share, state.missed) = (share, 0.0);
                }
                return Standing::Infeasible(ratio);
            }
            // The load may be another one by now.
            (state.stuck, state.tried, state.given_up) = (0, None, 0);
            state.times = state.times.saturating_add(1);
        }
        let room = (limits.share_max - total).max(0.0);
        // A first look may be far off; later ones need not be.
        let most = if state.missed > 0.0 { 2.0 } else { 4.0 };
        let wanted = state.share * ratio.powf(0.5).clamp(1.1, most);
        let next = wanted.min(state.share + room);
        let raised = next > state.share * 1.001;
        state.stuck = if raised && helped { 0 } else { state.stuck + 1 };
        if state.stuck > limits.patience {
            return Standing::Infeasible(ratio);
        }
        if state.tried.is_none() {
            state.tried = Some((sight.latency_ms, state.share));
        }
        state.missed = state.share.max(state.missed);
        state.share = next;
        Standing::Raising
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TARGET: Target = Target { quantile: 0.999, latency_ms: 60.0 };

    /// A class that wants `demand` of the capacity: with a share above it the queue is short, below
    /// it latencies grow without bound (here: 100 times).
    fn system(share: f64, demand: f64, base_ms: f64) -> SloSight {
        let load = (demand / share).min(0.99);
        let latency_ms = base_ms / (1.0 - load);
        let above = if latency_ms > TARGET.latency_ms { 50 } else { 3 };
        SloSight { answered: 10_000, above, latency_ms }
    }

    #[test]
    fn a_feasible_target_is_held_and_no_more_is_taken_than_it_needs() {
        for demand in [0.05, 0.1, 0.2, 0.3] {
            let mut control = SloControl::new(&[0.05], &SloLimits::USUAL);
            let mut late = 0;
            for window in 0..600 {
                let sight = system(control.share(0), demand, 10.0);
                control.look(0, TARGET, &SloLimits::default(), sight);
                late += u32::from(window > 60 && sight.latency_ms > TARGET.latency_ms);
            }
            assert!(late < 27, "demand {demand}: {late} of 540 windows above");
            // 10/(1 − ρ) = 60 at ρ = 5/6: a share of 1.2 times the demand is needed.
            let share = control.share(0);
            assert!((1.15..2.0).contains(&(share / demand)), "{demand}: {share}");
        }
    }

    /// Percentiles that scatter, demands that differ, and twice the demand on the way.
    #[test]
    fn nineteen_of_twenty_windows_are_within_the_target_from_the_first_on() {
        let (seeds, windows) = (2_000u32, 200u32);
        let (mut held, mut worst, mut taken) = (0, 1.0f64, 0.0);
        for seed in 0..seeds {
            let mut state = u64::from(seed);
            let mut random = || {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695);
                (state >> 40) as f64 / f64::from(1 << 24)
            };
            let demand = 0.03 + 0.15 * random();
            let base_ms = 5.0 + 10.0 * random();
            let mut control = SloControl::new(&[0.05], &SloLimits::USUAL);
            let mut own = 0;
            for window in 0..windows {
                let demand = if window >= windows / 2 { 1.5 * demand } else { demand };
                let mut sight = system(control.share(0), demand, base_ms);
                sight.latency_ms *= 0.8 + 0.4 * random();
                sight.above = if sight.latency_ms > TARGET.latency_ms { 50 } else { 3 };
                let standing = control.look(0, TARGET, &SloLimits::USUAL, sight);
                own += u32::from(standing == Standing::Held);
                // 60 ms with a quarter to spare: what a share has to be, at least.
                taken += control.share(0) / (demand / (1.0 - base_ms / 45.0)) / f64::from(windows);
            }
            held += own;
            worst = worst.min(f64::from(own) / f64::from(windows));
        }
        let mean = f64::from(held) / f64::from(seeds * windows);
        let taken = taken / f64::from(seeds);
        println!("{mean:.4} of the windows, the worst {worst:.3}; {taken:.2} x the share needed");
        assert!(mean > 0.95 && worst > 0.85, "{mean} {worst}");
        assert!(taken < 2.0, "{taken}");
    }

    #[test]
    fn an_infeasible_target_is_reported_and_not_chased_to_starvation() {
        let mut control = SloControl::new(&[0.1], &SloLimits::USUAL);
        let mut standing = Standing::Unknown;
        for _ in 0..100 {
            let sight = SloSight { answered: 5_000, above: 4_000, latency_ms: 180.0 };
            standing = control.look(0, TARGET, &SloLimits::default(), sight);
            assert!(control.share(0) <= 0.8);
        }
        assert_eq!(standing, Standing::Infeasible(3.0));
        assert!((control.share(0) - 0.1).abs() < 1e-9, "weight that does not help goes back");
    }

    #[test]
    fn a_target_that_needs_many_small_raises_is_held() {
        // 55 ms whatever the share, and 15 more at a share of 0.05: a quarter of 15 ms is allowed, at 0.15.
        let mut control = SloControl::new(&[0.05], &SloLimits::USUAL);
        let mut standing = Standing::Unknown;
        for _ in 0..60 {
            let latency_ms = 55.0 + 15.0 * 0.05 / control.share(0);
            let above = if latency_ms > TARGET.latency_ms { 50 } else { 3 };
            let sight = SloSight { answered: 10_000, above, latency_ms };
            standing = control.look(0, TARGET, &SloLimits::USUAL, sight);
            assert!(!matches!(standing, Standing::Infeasible(_)), "{latency_ms} ms");
        }
        assert_eq!(standing, Standing::Held);
    }

    #[test]
    fn what_was_infeasible_is_tried_again_ever_more_seldom_until_it_is_held() {
        let mut control = SloControl::new(&[0.1], &SloLimits::USUAL);
        let mut raising = Vec::new();
        for window in 0..2_000 {
            let sight = SloSight { answered: 5_000, above: 4_000, latency_ms: 180.0 };
            if control.look(0, TARGET, &SloLimits::USUAL, sight) == Standing::Raising {
                raising.push(window);
            }
        }
        assert!((50..120).contains(&raising.len()), "a twentieth of the windows: {raising:?}");
        // Now a share of 0.15 is enough.
        let mut standing = Standing::Unknown;
        for _ in 0..1_200 {
            standing =
                control.look(0, TARGET, &SloLimits::USUAL, system(control.share(0), 0.12, 10.0));
        }
        assert_eq!(standing, Standing::Held);
    }

    #[test]
    fn a_class_that_nobody_uses_begins_with_something_and_one_alone_leaves_something() {
        assert_eq!(SloControl::new(&[0.0], &SloLimits::USUAL).share(0), 0.01);
        let alone = SloControl::new(&[0.75, 0.25], &SloLimits::USUAL);
        assert!((alone.share(0) - 0.6).abs() < 1e-9 && (alone.share(1) - 0.2).abs() < 1e-9);
    }

    #[test]
    fn weight_goes_back_but_not_soon_to_where_the_target_was_missed() {
        let mut control = SloControl::new(&[0.2], &SloLimits::USUAL);
        let late = SloSight { answered: 10_000, above: 50, latency_ms: 90.0 };
        assert_eq!(control.look(0, TARGET, &SloLimits::USUAL, late), Standing::Raising);
        let early = SloSight { answered: 10_000, above: 0, latency_ms: 5.0 };
        let mut after = |windows| {
            for _ in 0..windows {
                control.look(0, TARGET, &SloLimits::USUAL, early);
            }
            control.share(0)
        };
        assert!(after(30) > 0.22, "it keeps a distance");
        assert!(after(300) < 0.2, "and forgets");
    }

    #[test]
    fn targets_together_leave_something_for_the_others() {
        let mut control = SloControl::new(&[0.2, 0.2], &SloLimits::USUAL);
        for _ in 0..40 {
            for class in 0..2 {
                let sight = system(control.share(class), 0.9, 10.0);
                control.look(class, TARGET, &SloLimits::default(), sight);
            }
            assert!(control.share(0) + control.share(1) <= 0.8 + 1e-9);
        }
    }

    #[test]
    fn a_few_late_requests_among_few_are_chance() {
        let mut control = SloControl::new(&[0.1], &SloLimits::USUAL);
        let sight = SloSight { answered: 200, above: 1, latency_ms: 90.0 };
        assert_eq!(control.look(0, TARGET, &SloLimits::default(), sight), Standing::Held);
        let none = SloSight { answered: 0, above: 0, latency_ms: 0.0 };
        assert_eq!(control.look(0, TARGET, &SloLimits::default(), none), Standing::Unknown);
        let many = SloSight { answered: 200, above: 20, latency_ms: 90.0 };
        assert_eq!(control.look(0, TARGET, &SloLimits::default(), many), Standing::Raising);
    }
}
