//! Latency targets, held by weights.
//!
//! # Problem
//! Some classes have a target: this percentile of their latencies is at most so long. The other
//! classes share the rest. A weight decides how long a class waits. How long that is depends on the
//! load of all classes, which is not known in advance.
//!
//! # The loop
//! In each window and for each class with a target, the measured percentile is compared with the
//! target. The weight is multiplied by a power of their ratio. Above the target the weight grows at
//! once; just below it, a little. Clearly below it the weight shrinks slowly, so that the rest goes
//! back to best-effort classes. It does not shrink to where the target was missed before; that
//! share is forgotten over some hundred windows. In between nothing changes.
//!
//! A percentile of 99.9 needs thousands of requests. A window with fewer requests is a breach if
//! more of them exceed the target than the percentile allows.
//!
//! # What cannot be held
//! Weights with targets never take more than `share_max` of the total: best-effort classes are not
//! starved. A class may stay above its target while the weights are at that bound, or while more
//! weight no longer helps. It is then reported as infeasible, with the gap, and its weight goes
//! back to what it was. It keeps the weight if the percentile fell at least by the square root of
//! the factor by which the weight grew. For eight times the weight, 90 ms instead of 100 ms are too
//! little, and 70 ms instead of 400 ms are enough. What the class keeps in that case is taken back
//! for a class whose target can be held.
//!
//! The class is tried again after an interval that doubles each time, and also when its latencies
//! fall without more weight: loads change. After three windows in a row within the target it counts
//! as never missed; a single one may be chance.
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
pub struct SloObservation {
    /// Requests answered.
    pub answered: u64,
    /// Of those, requests above the target.
    pub above: u64,
    /// The percentile of the target, in milliseconds.
    pub latency_ms: f64,
}

/// State of a class's target.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum TargetState {
    /// Too few requests to tell.
    Unknown,
    /// Within its target.
    Held,
    /// Above it, and the weight is being raised.
    Raising,
    /// Above it, and the weight is at its bound. Some more windows show whether it can be held.
    Bounded,
    /// It cannot be held: the percentile of this window is so many times the target.
    Infeasible(f64),
}

/// Gains and bounds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SloLimits {
    /// Part of all weight that classes with targets may have together.
    pub share_max: f64,
    /// Part of the target below which weight is given back.
    pub room: f64,
    /// Part of the target above which a little more is taken: a percentile of few requests scatters
    /// by a fifth.
    pub close: f64,
    /// Windows above the target, at the bound or without effect, after which it is infeasible.
    pub windows_stuck_max: u32,
    /// Least share that a class begins with: all changes multiply, and nothing times nothing stays
    /// nothing.
    pub share_min: f64,
    /// Windows after which an infeasible target is tried once more; twice as many after each time
    /// that did not help.
    pub retry: u32,
}

impl SloLimits {
    /// Those of the gate.
    pub const USUAL: SloLimits = SloLimits {
        share_max: 0.8,
        room: 0.45,
        close: 0.7,
        windows_stuck_max: 10,
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
    /// Least share while it is within its target.
    floor: f64,
    /// Share with which the target was missed last, less what was forgotten of it.
    missed: f64,
    /// Windows above the target, since it was last met, in which more weight was not available or
    /// did not help.
    stuck: u32,
    /// The percentile when the share was first raised, and the share before.
    tried: Option<(f64, f64)>,
    /// Its target is infeasible, and was tried again so often since it was held.
    given_up: Option<GivenUp>,
    times: u32,
    /// Windows within the target, one after the other.
    held: u32,
}

/// What is known of a target since it is infeasible.
#[derive(Clone, Copy, Debug, Default)]
struct GivenUp {
    /// Windows since then.
    windows: u32,
    /// The percentile as it usually is with the share that it has, in milliseconds; zero while that
    /// is not known.
    usual_ms: f64,
    /// Windows that were clearly below it, one after the other.
    lighter: u32,
}

/// Distance that is kept from a share with which the target was missed, and what remains of that
/// after a window.
const DISTANCE: f64 = 1.2;
const FADES: f64 = 0.998;

/// Times that the wait until the next try doubles.
const DOUBLINGS: u32 = 5;

/// Part of the usual percentile below which the load is another one, and windows that have to show
/// it. The percentile of few requests scatters by a fifth.
const LIGHTER: f64 = 0.7;
const LIGHTER_WINDOWS: u32 = 2;

/// Windows within the target, one after the other, after which it is held: a single one may be
/// chance.
const HELD_WINDOWS: u32 = 3;

impl Class {
    /// A window within the target.
    fn within(&mut self, ratio: f64, room: f64, limits: &SloLimits) -> TargetState {
        // A percentile above the target that chance explains proves nothing.
        self.held = self.held.saturating_add(u32::from(ratio <= 1.0));
        if self.held >= HELD_WINDOWS {
            (self.stuck, self.tried, self.given_up, self.times) = (0, None, None, 0);
        } else if self.given_up.is_some() {
            return TargetState::Held;
        }
        self.missed *= FADES;
        if ratio < limits.room {
            let least = self.floor.max(DISTANCE * self.missed);
            self.share = (self.share * 0.98).max(least.min(self.share));
        } else if ratio > limits.close {
            self.share = (self.share * 1.03).min(self.share + room);
        }
        TargetState::Held
    }

    /// The target cannot be held. What more weight has brought too little for goes back.
    fn give_up(&mut self, latency_ms: f64) {
        if let Some((before_ms, share)) = self.tried {
            let gain = before_ms / latency_ms.max(1e-9);
            if gain * gain < self.share / share.max(1e-9) {
                (self.share, self.missed, self.tried) = (share, 0.0, None);
            }
        }
        self.given_up = Some(GivenUp::default());
    }

    /// Another window above an infeasible target: whether it is tried once more, as it is due or
    /// the load is another one. `more` is the share that it could have beyond its own.
    fn tries_again(&mut self, latency_ms: f64, more: f64, limits: &SloLimits) -> bool {
        self.held = 0;
        let Some(given_up) = &mut self.given_up else { return true };
        given_up.windows = given_up.windows.saturating_add(1);
        if latency_ms < LIGHTER * given_up.usual_ms {
            given_up.lighter = given_up.lighter.saturating_add(1);
        } else {
            given_up.lighter = 0;
            // Requests of the first window may have been admitted by the weight before.
            given_up.usual_ms = match (given_up.windows, given_up.usual_ms) {
                (1, _) => 0.0,
                (2, _) => latency_ms,
                (_, usual_ms) => usual_ms + (latency_ms - usual_ms) / 8.0,
            };
        }
        let due = given_up.windows >= limits.retry << self.times.min(DOUBLINGS);
        if !due && given_up.lighter < LIGHTER_WINDOWS || more <= 0.001 * self.share {
            return false;
        }
        self.times = self.times.saturating_add(u32::from(due));
        (self.stuck, self.given_up) = (0, None);
        true
    }

    /// What an infeasible target has for nothing that others could not use better.
    fn spare(&self) -> f64 {
        match (self.given_up, self.tried) {
            (Some(_), Some((_, before))) => (self.share - before).max(0.0),
            _ => 0.0,
        }
    }
}

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

    /// Sets the least part of all weight that a class may come to while it is within its target. It
    /// is a quarter of `own`, by class, which is the part that it would have without a target.
    pub fn keep(&mut self, own: &[f64]) {
        for (class, own) in self.classes.iter_mut().zip(own) {
            class.floor = own / 4.0;
        }
    }

    fn total(&self) -> f64 {
        self.classes.iter().map(|class| class.share).sum()
    }

    /// Takes so much from infeasible targets other than `but`, each by its part of what they have
    /// to spare.
    fn take_spare(&mut self, but: usize, wanted: f64) {
        let spare: f64 = self.others(but).map(Class::spare).sum();
        if wanted <= 0.0 || spare <= 0.0 {
            return;
        }
        let part = (wanted / spare).min(1.0);
        for (_, class) in self.classes.iter_mut().enumerate().filter(|(at, _)| *at != but) {
            class.share -= part * class.spare();
        }
    }

    fn others(&self, but: usize) -> impl Iterator<Item = &Class> {
        let others = self.classes.iter().enumerate().filter(move |(at, _)| *at != but);
        others.map(|(_, class)| class)
    }

    /// Looks at a window of one class and sets its share; returns how it stands.
    pub fn observe(
        &mut self,
        class: usize,
        target: Target,
        limits: &SloLimits,
        observation: SloObservation,
    ) -> TargetState {
        let total = self.total();
        let room = (limits.share_max - total).max(0.0);
        let more = room + self.others(class).map(Class::spare).sum::<f64>();
        let Some(state) = self.classes.get_mut(class) else { return TargetState::Unknown };
        let allowed = (1.0 - target.quantile).max(0.0) * observation.answered as f64;
        let ratio = observation.latency_ms / target.latency_ms;
        // Chance alone puts some above: twice the square root of what is allowed, and one.
        let breach = observation.above as f64 > allowed + 2.0 * allowed.sqrt() + 1.0
            || ratio > 1.0 && allowed >= 1.0;
        // One or two requests, most of them late, are too few to tell either way.
        if observation.answered == 0 || !breach && 2 * observation.above > observation.answered {
            return TargetState::Unknown;
        }
        if !breach {
            return state.within(ratio, room, limits);
        }
        if !state.tries_again(observation.latency_ms, more, limits) {
            return TargetState::Infeasible(ratio);
        }
        let helped =
            state.tried.is_none_or(|(before_ms, _)| observation.latency_ms <= 0.95 * before_ms);
        // A first look may be far off; later ones need not be.
        let most = if state.missed > 0.0 { 2.0 } else { 4.0 };
        let wanted = state.share * ratio.powf(0.5).clamp(1.1, most);
        let next = wanted.min(state.share + more);
        let raised = next > state.share * 1.001;
        state.stuck = if raised && helped { 0 } else { state.stuck + 1 };
        if state.stuck > limits.windows_stuck_max {
            state.give_up(observation.latency_ms);
            return TargetState::Infeasible(ratio);
        }
        state.tried.get_or_insert((observation.latency_ms, state.share));
        state.missed = state.share.max(state.missed);
        let grown = next - state.share;
        state.share = next;
        self.take_spare(class, grown - room);
        if raised { TargetState::Raising } else { TargetState::Bounded }
    }
}

#[cfg(test)]
mod tests;
