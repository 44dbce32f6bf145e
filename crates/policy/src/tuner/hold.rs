//! Holding what was found, with a probe to either side and of the open gate now and then.

use super::slice::{SliceOutcome, SliceResult};
use super::{
    FALLEN_MAX, Observation, PROBE_GAIN, Phase, STEP_FIRST, STEP_LAST, Tuner, Why, budget,
};
use crate::Nanos;

/// Ratio of P and a wide probe.
const PROBE_WIDE: f64 = 1.6;

/// While the gate is open, a search begins again after such a time although nothing has shifted.
/// The first time, and the longest: it is doubled each time. There are no probes then, so a load
/// that drifts to where fewer inside would be better is found by nothing else. The first search may
/// have been misled, as a cold server swings. A search costs up to 2 % of its time and takes about
/// half a minute: 0.2 % of five minutes.
pub(super) const RETRY_INTERVAL: Nanos = Nanos::from_millis(20_000);
const RETRY_INTERVAL_MAX: Nanos = Nanos::from_millis(300_000);

impl Tuner {
    /// Keeps P without looking for a better one. What it gave is still expected of it when sessions
    /// come back.
    pub(super) fn rest(&mut self, observation: &Observation) -> u32 {
        self.phase = Phase::Holding;
        self.probed = observation.now;
        self.arms.clear(self.sessions);
        self.set(observation, self.held)
    }

    pub(super) fn hold(&mut self, observation: &Observation, shown: &SliceResult) -> u32 {
        if self.current != self.held {
            self.arms.record(self.current, shown.rate);
            return self.set(observation, self.held);
        }
        let fallen = shown.outcome == SliceOutcome::Worse;
        self.fallen = if fallen { self.fallen + 1 } else { 0 };
        let turned = (self.fallen >= FALLEN_MAX).then_some(Why::Throughput);
        let shifted = self.watches.shifted(shown);
        // A lesser shift that the open gate shows may as well be the machine's. A search is then no
        // more likely to find something than at any other time.
        let open = self.is_open(self.held);
        if let Some(why) = turned.or(shifted.filter(|_| !open)) {
            self.fallen = 0;
            return self.begin(observation, why);
        }
        if fallen {
            return self.current;
        }
        if open {
            if observation.now.since(self.searched) < self.again {
                return self.current;
            }
            let again = Nanos(self.again.0 * 2).min(RETRY_INTERVAL_MAX);
            self.begin(observation, shifted.unwrap_or(Why::Time));
            self.again = again;
            return self.current;
        }
        if self.arms.len() > 0 {
            self.arms.record(self.current, shown.rate);
        }
        if let Some((better, gain)) = self.arms.better(self.held, PROBE_GAIN) {
            return self.improve(observation, better, gain);
        }
        if let Some(before) = self.opened.take() {
            let lost_s = (self.budget.lost_s() - before).max(0.0);
            self.closed = observation.now + Nanos((lost_s / budget::HOLDING * 1e9) as u64);
        }
        if observation.now.since(self.probed) < self.limits.probe_every {
            return self.current;
        }
        if self.arms.len() == 0 || self.arms.crowded() {
            self.wide = self.arms.len() > 0 && !self.wide;
            let ratio = if self.wide { PROBE_WIDE } else { STEP_LAST };
            let up = self.bounded((f64::from(self.held) * ratio).ceil() as u32);
            let down = self.bounded((f64::from(self.held) / ratio).floor() as u32);
            // Near probes and wide ones take turns, and the open gate is one of the wide ones.
            let may_open = self.wide && observation.now >= self.closed;
            let open = if may_open { self.limits.most } else { down };
            self.arms.clear(self.sessions);
            self.arms.choose(&[self.held, up, down, open]);
        }
        let may = |parallelism| self.affords(parallelism);
        let Some(next) = self.arms.least_measured(self.held, may) else { return self.current };
        self.probed = observation.now;
        self.opened = self.is_open(next).then(|| self.budget.lost_s());
        self.set(observation, next)
    }

    /// A probe is surely better than what is held.
    fn improve(&mut self, observation: &Observation, better: u32, gain: f64) -> u32 {
        if self.is_open(better) {
            self.stay_open(observation, Some(self.held));
            return self.begin(observation, Why::Probe);
        }
        self.moved(self.held, better, gain);
        (self.held, self.held_rate) = (better, self.arms.mean(better));
        if self.wide {
            return self.begin_climb(observation, better, STEP_FIRST);
        }
        self.watches.moved(self.held_rate);
        self.arms.clear(self.sessions);
        self.set(observation, better)
    }
}
