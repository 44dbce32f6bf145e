//! Controllers that find the shares which applications need: coordinated learning.
//!
//! # Problem
//! An *application* has a *target*: transactions a second, or a latency. It shares a store with
//! others, behind two schedulers: one at its host, among the applications there, and one at the
//! store, among the hosts. The operator knows the target. Which share meets it is not known, and
//! changes with the load.
//!
//! # Terms
//! * **dft**, deviation from target: achieved ÷ target − 1, for latencies target ÷ latency − 1.
//!   Zero is on target, −0.2 is a fifth short. An application without demand has none. One without
//!   a target has none either: it is *best effort*.
//! * **fractions**: what a scheduler gives each of its flows. The *share* of an application is the
//!   product of its fraction at its host and its host's fraction at the store.
//! * **window**: a second. All figures of one [`Observation`] are of the same window, also when
//!   they come late.
//! * **ask**: the share that an application needs, as its owner believes. **grant**: what the store
//!   gives.
//! * **held**: the application waits mostly in schedulers, so that its share decides. **lent**:
//!   most of what it got, it got while no other waited. **sated**: all that was asked of it was
//!   served, so that what its target lacks is not a shortfall.
//!
//! # The primitive
//! A [`Controller`] is told of a window and changes the fractions. Each is a module: `automaton`
//! (the paper's, by trial and error, whose turns a `token` gives), `need` (works the share out,
//! asks the store for it, which decides by `allocate`), `log_pi` (each level for itself), and
//! `rivals` (what other systems do). All see the same and set the same, so they can be compared.
//!
//! What a share is of, a `device` learns.
//!
//! # Invariants
//! Fractions of one level are never negative and their sum is at most one. A controller that hears
//! nothing of an application leaves its fractions as they are. It never divides by what may be
//! zero.
//!
//! Source: the coordinated-learning paper, section 3; sections and equations below are of it.

pub mod allocate;
pub mod automaton;
pub mod device;
pub mod log_pi;
pub mod need;
pub mod rivals;
pub mod token;

use crate::Nanos;

/// Length of a window.
pub const WINDOW: Nanos = Nanos::from_millis(1_000);

/// What an operator says of an application.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Application {
    /// Number of its host.
    pub host: usize,
    /// Whether it has a target; otherwise it is best effort.
    pub target: bool,
    /// What its deviation counts for, or its part of what is left for best effort.
    pub weight: f64,
    /// Largest share that it may be given: a dft may lie. One: no limit.
    pub limit: f64,
}

impl Application {
    /// One with a target, without a limit.
    pub const fn with_target(host: usize) -> Self {
        Application { host, target: true, weight: 1.0, limit: 1.0 }
    }

    /// One of best effort.
    pub const fn best_effort(host: usize) -> Self {
        Application { host, target: false, weight: 1.0, limit: 1.0 }
    }
}

/// What is known of an application in one window.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Observation {
    /// Deviation from target. None without a target, and without demand.
    pub dft: Option<f64>,
    /// Whether it asks for anything.
    pub demand: bool,
    /// How long ago the window was.
    pub age: Nanos,
    /// Share that it was given in that window.
    pub granted: f64,
    /// Service that it got in that window, in units of shares.
    pub used: f64,
    /// It waited mostly in schedulers.
    pub held: bool,
    /// Most of what it got, it got while no other waited.
    pub lent: bool,
    /// All that was asked of it was served: there was no demand for more.
    pub sated: bool,
    /// Mean time that an I/O of it took, in seconds. Zero if unknown.
    pub latency_s: f64,
    /// I/Os that it had under way, on average. Zero if unknown.
    pub outstanding: f64,
}

/// What the schedulers give.
#[derive(Clone, Debug, PartialEq)]
pub struct Fractions {
    /// Of each application at its host.
    pub host: Vec<f64>,
    /// Of each host at the store.
    pub store: Vec<f64>,
    /// Requests that best effort may have in a device, as a part of those that all may have.
    pub depth: f64,
}

impl Fractions {
    /// Equal ones.
    pub fn equal(applications: &[Application], hosts: usize) -> Self {
        let on = |host| applications.iter().filter(|other| other.host == host).count().max(1);
        let host = applications.iter().map(|own| 1.0 / on(own.host) as f64).collect();
        Fractions { host, store: vec![1.0 / hosts.max(1) as f64; hosts], depth: 1.0 }
    }

    /// The share of application `at`.
    pub fn share(&self, applications: &[Application], at: usize) -> f64 {
        self.host[at] * self.store[applications[at].host]
    }

    /// Sets both levels so that their products are these shares.
    pub fn set_shares(&mut self, applications: &[Application], shares: &[f64]) {
        self.store.fill(0.0);
        for (application, share) in applications.iter().zip(shares) {
            self.store[application.host] += share;
        }
        for ((fraction, application), share) in self.host.iter_mut().zip(applications).zip(shares) {
            let all = self.store[application.host];
            *fraction = if all > 0.0 { share / all } else { 0.0 };
        }
    }
}

/// A way to find fractions.
pub trait Controller {
    /// Name in tables.
    fn name(&self) -> &'static str;

    /// A window is over: `seen` has what came of each application, perhaps of an earlier window,
    /// perhaps nothing. Changes `fractions`, or leaves them.
    fn window(
        &mut self,
        now: Nanos,
        applications: &[Application],
        seen: &[Option<Observation>],
        fractions: &mut Fractions,
    );

    /// The part that decides is dead, or alive again: an owner of targets, a token's holder.
    fn set_alive(&mut self, alive: bool) {
        let _ = alive;
    }

    /// Application `at` has `factor` times its earlier target.
    fn retarget(&mut self, at: usize, factor: f64) {
        let _ = (at, factor);
    }
}

/// Mean dft of an application since it was last taken, over the windows that had one.
#[derive(Clone, Copy, Debug, Default)]
struct Mean {
    sum: f64,
    count: u32,
}

impl Mean {
    fn add(&mut self, value: f64) {
        self.sum += value;
        self.count += 1;
    }

    fn take(&mut self) -> Option<f64> {
        let mean = core::mem::take(self);
        (mean.count > 0).then(|| mean.sum / f64::from(mean.count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn products_of_fractions_are_shares() {
        let applications = [
            Application::with_target(0),
            Application::best_effort(0),
            Application::best_effort(1),
            Application::best_effort(1),
        ];
        let mut fractions = Fractions::equal(&applications, 2);
        assert_eq!(fractions.share(&applications, 0), 0.25);
        fractions.set_shares(&applications, &[0.6, 0.2, 0.1, 0.1]);
        assert!((fractions.host[0] - 0.75).abs() < 1e-12);
        assert!((fractions.store[0] - 0.8).abs() < 1e-12);
        assert!((fractions.share(&applications, 3) - 0.1).abs() < 1e-12);
        fractions.set_shares(&applications, &[0.0, 0.0, 0.5, 0.5]);
        assert_eq!(fractions.host[0], 0.0, "nothing is divided by nothing");
    }
}
