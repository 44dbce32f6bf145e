//! Holding what was found, with a probe to either side now and then.

use super::slice::Shown;
use super::watch::Watches;
use super::{PAUSE, PROBE_GAIN, Phase, STEP_FIRST, STEP_LAST, Sight, Tuner};
use crate::Nanos;

/// Ratio of P and a wide probe.
const PROBE_WIDE: f64 = 1.6;

/// Part of the throughput that probes may cost.
const PROBE_COST: f64 = 0.005;

impl Tuner {
    /// Keeps P without looking for a better one.
    pub(super) fn rest(&mut self, sight: &Sight) -> u32 {
        self.phase = Phase::Holding;
        self.probed = sight.now;
        self.arms.clear();
        self.watches = Watches::default();
        self.set(sight, self.center)
    }

    /// What is held is in force again, if another P was.
    pub(super) fn end_probe(&mut self, sight: &Sight) -> u32 {
        if self.current != self.center {
            self.probe_took = sight.now.since(self.probed);
        }
        self.set(sight, self.center)
    }

    pub(super) fn hold(&mut self, sight: &Sight, shown: &Shown) -> u32 {
        let &Shown { rate, seconds, .. } = shown;
        let probing = self.current != self.center;
        if !probing && let Some(why) = self.watches.shifted(shown) {
            return self.begin_again(sight, why);
        }
        if probing || self.arms.len() > 0 {
            self.arms.record(self.current, rate);
        }
        if probing {
            return self.end_probe(sight);
        }
        if let Some((better, gain)) = self.arms.better(self.center, PROBE_GAIN) {
            self.before = self.center;
            self.moved(self.center, better, gain);
            if self.wide {
                return self.begin_climb(sight, better, STEP_FIRST);
            }
            self.watches.moved(self.arms.mean(better));
            self.arms.clear();
            return self.set(sight, better);
        }
        let rested = sight.now.since(self.probed);
        // From the begin of one probe to the begin of the next.
        let pause = Nanos(self.probe_took.0.saturating_mul(1 + PAUSE));
        if rested < self.limits.probe_every.max(pause) {
            return self.current;
        }
        let (least, most) = (self.limits.least, self.most());
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
        self.set(sight, next)
    }
}
