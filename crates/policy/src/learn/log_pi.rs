//! Each level learns alone: proportional steps of the logarithm.
//!
//! # Problem
//! No ask, no grant, no turn: a host whose store says nothing knows only the dft of the
//! applications on it. It must find its fractions, and must not fight the store, which finds its
//! own.
//!
//! # The primitive
//! Every [`Settings::interval`] windows, the fraction of each application with a target is
//! multiplied by (1 + dft)^−γ. Levels multiply, so steps of levels multiply, too: two that each
//! take γ = ¼ take a step of ½ together, in the same direction. They cannot cancel each other out.
//!
//! A window without a dft counts as none, and so does one whose service was lent: a surplus that
//! others left says nothing of the share.
//!
//! # Invariants
//! Fractions of targets are within [0.02, 0.95] before they are fitted to a sum of one. Without a
//! dft nothing moves, so an application that has ended does not grow.
//!
//! # Worked example
//! dft −0.36 at fraction 0.5, γ = ¼: 0.5 · 0.64^−¼ = 0.559. The best-effort application beside it
//! has 0.441.
//!
//! Source: an addition; the paper's learners of one level are as blind, and explore.

use super::{Application, Controller, Fractions, Mean, Observation};
use crate::Nanos;

/// Tunables.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// γ of each level. Default ¼. Two levels with more than ½ each overshoot.
    pub gamma: f64,
    /// Windows of a step. Default 5.
    pub interval: u32,
    /// Only the store's fractions are set.
    pub store_alone: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Settings { gamma: 0.25, interval: 5, store_alone: false }
    }
}

/// One step of one level: `achieved` is 1 + dft of each flow with a target and a dft.
pub fn step(gamma: f64, fractions: &mut [f64], achieved: &[Option<f64>], target: &[bool]) {
    let (mut targets, mut others) = (0.0, 0.0);
    for ((fraction, achieved), target) in fractions.iter_mut().zip(achieved).zip(target) {
        if *target {
            if let Some(achieved) = achieved {
                let moved = *fraction * achieved.clamp(0.1, 10.0).powf(-gamma);
                *fraction = moved.clamp(0.02, 0.95);
            }
            targets += *fraction;
        } else {
            others += *fraction;
        }
    }
    let most = if others > 0.0 { targets.min(0.98) } else { 1.0 };
    for (fraction, target) in fractions.iter_mut().zip(target) {
        *fraction *= match target {
            true if targets > 0.0 => most / targets,
            false if others > 0.0 => (1.0 - most) / others,
            _ => 1.0,
        };
    }
}

/// One at each host and one at the store, without a word between them.
#[derive(Clone, Debug)]
pub struct LogPi {
    settings: Settings,
    windows: u32,
    dft: Vec<Mean>,
    achieved: Vec<Option<f64>>,
    // Of the flows of one level, in turn.
    fraction: Vec<f64>,
    flow: Vec<Option<f64>>,
    target: Vec<bool>,
}

impl LogPi {
    /// For this many applications.
    pub fn new(settings: Settings, applications: usize) -> Self {
        LogPi {
            settings,
            windows: 0,
            dft: vec![Mean::default(); applications],
            achieved: vec![None; applications],
            fraction: Vec::with_capacity(applications),
            flow: Vec::with_capacity(applications),
            target: Vec::with_capacity(applications),
        }
    }

    fn step_host(&mut self, host: usize, applications: &[Application], fractions: &mut Fractions) {
        self.fraction.clear();
        self.flow.clear();
        self.target.clear();
        let of_host = |about: &Application| about.host == host;
        for (at, about) in applications.iter().enumerate().filter(|(_, about)| of_host(about)) {
            self.fraction.push(fractions.host[at]);
            self.flow.push(self.achieved[at]);
            self.target.push(about.target);
        }
        step(self.settings.gamma, &mut self.fraction, &self.flow, &self.target);
        let own = fractions.host.iter_mut().zip(applications).filter(|(_, about)| of_host(about));
        for ((fraction, _), new) in own.zip(&self.fraction) {
            *fraction = *new;
        }
    }

    /// A host's dft is the mean of its applications', by the logarithm.
    fn step_store(&mut self, applications: &[Application], fractions: &mut Fractions) {
        self.flow.clear();
        self.target.clear();
        for host in 0..fractions.store.len() {
            let of_host = |about: &Application| about.host == host && about.target;
            let (mut sum, mut count) = (0.0, 0u32);
            for (_, achieved) in
                applications.iter().zip(&self.achieved).filter(|(about, _)| of_host(about))
            {
                if let Some(achieved) = achieved {
                    sum += achieved.clamp(0.1, 10.0).ln();
                    count += 1;
                }
            }
            self.flow.push((count > 0).then(|| (sum / f64::from(count)).exp()));
            self.target.push(applications.iter().any(of_host));
        }
        step(self.settings.gamma, &mut fractions.store, &self.flow, &self.target);
    }
}

impl Controller for LogPi {
    fn name(&self) -> &'static str {
        "log-PI, each level for itself"
    }

    fn window(
        &mut self,
        _now: Nanos,
        applications: &[Application],
        seen: &[Option<Observation>],
        fractions: &mut Fractions,
    ) {
        for (mean, seen) in self.dft.iter_mut().zip(seen) {
            if let Some(seen) = seen
                && let Some(dft) = seen.dft
                && !(seen.lent && dft > 0.0)
            {
                mean.add(dft);
            }
        }
        self.windows += 1;
        if self.windows < self.settings.interval {
            return;
        }
        self.windows = 0;
        for (achieved, mean) in self.achieved.iter_mut().zip(&mut self.dft) {
            *achieved = mean.take().map(|dft| 1.0 + dft);
        }
        if !self.settings.store_alone {
            for host in 0..fractions.store.len() {
                self.step_host(host, applications, fractions);
            }
        }
        self.step_store(applications, fractions);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worked_example() {
        let mut fractions = [0.5, 0.5];
        step(0.25, &mut fractions, &[Some(0.64), None], &[true, false]);
        assert!((fractions[0] - 0.559).abs() < 1e-3, "{fractions:?}");
        assert!((fractions.iter().sum::<f64>() - 1.0).abs() < 1e-12);
    }

    #[test]
    fn without_a_dft_nothing_moves() {
        let mut fractions = [0.3, 0.3, 0.4];
        step(0.25, &mut fractions, &[None, None, None], &[true, true, false]);
        assert_eq!(fractions, [0.3, 0.3, 0.4]);
    }

    #[test]
    fn two_blind_levels_meet_the_target_together() {
        let applications = [
            Application::with_target(0),
            Application::best_effort(0),
            Application::best_effort(1),
            Application::best_effort(1),
        ];
        let mut log_pi = LogPi::new(Settings::default(), 4);
        let mut fractions = Fractions::equal(&applications, 2);
        for second in 0..200 {
            let granted = fractions.share(&applications, 0);
            let seen = Observation {
                dft: Some(granted / 0.6 - 1.0),
                demand: true,
                age: Nanos(0),
                granted,
                used: granted,
                held: true,
                lent: false,
                sated: false,
                latency_s: 0.0,
                outstanding: 0.0,
            };
            log_pi.window(
                Nanos(second),
                &applications,
                &[Some(seen), None, None, None],
                &mut fractions,
            );
        }
        let share = fractions.share(&applications, 0);
        assert!((share - 0.6).abs() < 1e-3, "{share}");
    }

    #[test]
    fn what_was_lent_says_nothing() {
        let applications = [Application::with_target(0), Application::best_effort(1)];
        let mut log_pi = LogPi::new(Settings::default(), 2);
        let mut fractions = Fractions::equal(&applications, 2);
        for second in 0..500 {
            let idle = Observation {
                dft: Some(0.5),
                demand: true,
                age: Nanos(0),
                granted: 0.5,
                used: 0.9,
                held: true,
                lent: true,
                sated: false,
                latency_s: 0.0,
                outstanding: 0.0,
            };
            log_pi.window(Nanos(second), &applications, &[Some(idle), None], &mut fractions);
        }
        assert_eq!(fractions.store[0], 0.5, "there would be nothing left when others return");
    }
}
