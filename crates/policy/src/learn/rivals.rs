//! What other systems do, for comparison: an integral controller at the store, hosts' windows by
//! latency, reservations by hand.
//!
//! # The three
//! * [`Integral`]: the store alone adds `gain · (−dft)` to the fraction of a host, each window. No
//!   host learns: what hosts were given by hand stays. Linear steps are too small for small shares
//!   and too large for large ones.
//! * [`Windows`] (PARDA): each host has a window of requests, w ← (1 − γ) w + γ (L/latency · w +
//!   β). While the mean latency is above the threshold L, windows shrink; β divides what there is.
//!   Hosts need no word from the store, nor of each other. It knows no target.
//! * [`Reservation`] (mClock): each application has a reserved share, set by hand, and the rest
//!   goes by weight. With the right numbers it is the best that fixed shares can do. It follows
//!   nothing.
//!
//! # Worked example
//! A window of 30 at twice the threshold, γ = 0.2, β = 2: 0.8 · 30 + 0.2 · (15 + 2) = 27.4.
//!
//! Sources: Gulati, Ahmad and Waldspurger, *PARDA* (2009), Equation 2; Gulati, Merchant and Varman,
//! *mClock* (2010).

use super::{Application, Controller, Fractions, Observation};
use crate::Nanos;

/// An integral controller on the dft at the store alone.
#[derive(Clone, Copy, Debug)]
pub struct Integral {
    /// What a dft of −1 adds to a fraction in a window. 0.05 follows within half a minute.
    pub gain: f64,
}

impl Controller for Integral {
    fn name(&self) -> &'static str {
        "integral at the store"
    }

    fn window(
        &mut self,
        _now: Nanos,
        applications: &[Application],
        seen: &[Option<Observation>],
        fractions: &mut Fractions,
    ) {
        let hosts = fractions.store.len();
        let has_target =
            |host: usize| applications.iter().any(|own| own.target && own.host == host);
        for host in 0..hosts {
            let own = applications.iter().zip(seen).filter(|(about, _)| about.host == host);
            let dfts = own.filter_map(|(_, seen)| seen.and_then(|seen| seen.dft));
            let (sum, count) = dfts.fold((0.0, 0u32), |(sum, count), dft| (sum + dft, count + 1));
            if count > 0 {
                let moved = fractions.store[host] - self.gain * sum / f64::from(count);
                fractions.store[host] = moved.clamp(0.02, 0.95);
            }
        }
        let targets: f64 = (0..hosts).filter(|h| has_target(*h)).map(|h| fractions.store[h]).sum();
        let others = (0..hosts).filter(|host| !has_target(*host)).count();
        let most = if others > 0 { targets.min(0.98) } else { 1.0 };
        for host in 0..hosts {
            if !has_target(host) {
                fractions.store[host] = (1.0 - most) / others as f64;
            } else if targets > 0.0 {
                fractions.store[host] *= most / targets;
            }
        }
    }
}

/// Hosts' windows by latency.
#[derive(Clone, Debug)]
pub struct Windows {
    /// L, in seconds.
    pub threshold_s: f64,
    /// γ.
    pub gamma: f64,
    /// β of each host.
    pub beta: Vec<f64>,
    windows: Vec<f64>,
}

impl Windows {
    /// Equal windows of `first` requests.
    pub fn new(threshold_s: f64, gamma: f64, beta: Vec<f64>, first: f64) -> Self {
        let windows = vec![first; beta.len()];
        Windows { threshold_s, gamma, beta, windows }
    }

    /// A window after a mean latency of `latency_s`.
    pub fn next(&self, window: f64, beta: f64, latency_s: f64) -> f64 {
        let wanted = self.threshold_s / latency_s.max(1e-6) * window + beta;
        ((1.0 - self.gamma) * window + self.gamma * wanted).clamp(1.0, 256.0)
    }
}

impl Controller for Windows {
    fn name(&self) -> &'static str {
        "windows by latency"
    }

    fn window(
        &mut self,
        _now: Nanos,
        applications: &[Application],
        seen: &[Option<Observation>],
        fractions: &mut Fractions,
    ) {
        for host in 0..self.windows.len() {
            let own = applications.iter().zip(seen).filter(|(about, _)| about.host == host);
            let latencies = own.filter_map(|(_, seen)| seen.map(|seen| seen.latency_s));
            let worst = latencies.fold(0.0, f64::max);
            if worst > 0.0 {
                self.windows[host] = self.next(self.windows[host], self.beta[host], worst);
            }
        }
        let all: f64 = self.windows.iter().sum();
        for (fraction, window) in fractions.store.iter_mut().zip(&self.windows) {
            *fraction = window / all.max(f64::MIN_POSITIVE);
        }
    }
}

/// Shares that were set by hand.
#[derive(Clone, Debug)]
pub struct Reservation {
    /// Of each application; what is left of one goes to best effort by weight.
    pub reserved: Vec<f64>,
}

impl Controller for Reservation {
    fn name(&self) -> &'static str {
        "reserved by hand"
    }

    fn window(
        &mut self,
        _now: Nanos,
        applications: &[Application],
        _seen: &[Option<Observation>],
        fractions: &mut Fractions,
    ) {
        let reserved: f64 = self.reserved.iter().sum();
        let best_effort = |about: &&Application| !about.target;
        let weights: f64 = applications.iter().filter(best_effort).map(|about| about.weight).sum();
        let left = (1.0 - reserved).max(0.0) / weights.max(f64::MIN_POSITIVE);
        let own = |(about, reserved): (&Application, &f64)| {
            reserved + if about.target { 0.0 } else { left * about.weight }
        };
        let shares: Vec<f64> = applications.iter().zip(&self.reserved).map(own).collect();
        fractions.set_shares(applications, &shares);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(dft: Option<f64>, latency_s: f64) -> Option<Observation> {
        Some(Observation {
            dft,
            demand: true,
            age: Nanos(0),
            granted: 0.5,
            used: 0.5,
            held: true,
            lent: false,
            sated: false,
            latency_s,
            outstanding: 0.0,
        })
    }

    const APPLICATIONS: [Application; 2] =
        [Application::with_target(0), Application::best_effort(1)];

    #[test]
    fn the_worked_example() {
        let windows = Windows::new(0.01, 0.2, vec![2.0], 30.0);
        assert!((windows.next(30.0, 2.0, 0.02) - 27.4).abs() < 1e-12);
    }

    #[test]
    fn an_integral_moves_the_store_alone() {
        let mut fractions = Fractions::equal(&APPLICATIONS, 2);
        let seen = [seen(Some(-0.2), 0.0), seen(None, 0.0)];
        Integral { gain: 0.05 }.window(Nanos(0), &APPLICATIONS, &seen, &mut fractions);
        assert!((fractions.store[0] - 0.51).abs() < 1e-12, "{fractions:?}");
        assert!((fractions.store[1] - 0.49).abs() < 1e-12);
    }

    #[test]
    fn windows_divide_by_beta_and_know_no_target() {
        let mut fractions = Fractions::equal(&APPLICATIONS, 2);
        let mut windows = Windows::new(0.01, 0.2, vec![3.0, 1.0], 30.0);
        for second in 0..500 {
            // The latency is that of all requests together: 1 ms for each of them.
            let latency = windows.windows.iter().sum::<f64>() / 1_000.0;
            let seen = [seen(Some(-0.9), latency), seen(None, latency)];
            windows.window(Nanos(second), &APPLICATIONS, &seen, &mut fractions);
        }
        assert!((fractions.store[0] - 0.75).abs() < 0.01, "{fractions:?}");
    }

    #[test]
    fn a_reservation_is_what_was_set() {
        let mut fractions = Fractions::equal(&APPLICATIONS, 2);
        let mut hand = Reservation { reserved: vec![0.6, 0.1] };
        hand.window(Nanos(0), &APPLICATIONS, &[None, None], &mut fractions);
        assert!((fractions.share(&APPLICATIONS, 0) - 0.6).abs() < 1e-12);
        assert!((fractions.share(&APPLICATIONS, 1) - 0.4).abs() < 1e-12);
    }
}
