//! The fluid plant: rates follow from shares at once.
//!
//! # The model
//! A device of [`Fluid::iops`]; an application's transactions a second are `iops · got^η / ios`, at
//! most its cap. With hard shares, `got` is the share, or the demand if that is less.
//! Work-conserving, what one leaves goes to others by weight: among hosts first, then among the
//! applications of each (*filling*). A second's throughput fluctuates: white noise, and a slow part
//! of 20 s like checkpoints, so that a mean of 5 s has the relative deviation σ.

use super::app::{App, applications};
use super::run::{Plant, Second};
use crate::learner::hosts;
use headworks_policy::learn::{Application, Fractions};
use headworks_policy::random::Random;

/// Seconds of the slow part of the noise.
const SLOW_S: f64 = 20.0;

/// See the module.
#[derive(Clone, Debug)]
pub struct Fluid {
    apps: Vec<App>,
    applications: Vec<Application>,
    fractions: Fractions,
    /// I/Os a second of the whole device.
    pub iops: f64,
    /// Whether one may use what others leave.
    pub work_conserving: bool,
    /// σ of 5 s.
    pub sigma: f64,
    slow: Vec<f64>,
    random: Random,
}

impl Fluid {
    /// With equal fractions.
    pub fn new(apps: Vec<App>, sigma: f64, seed: u64) -> Self {
        let applications = applications(&apps);
        let fractions = Fractions::equal(&applications, hosts(&applications));
        Fluid {
            slow: vec![0.0; apps.len()],
            apps,
            applications,
            fractions,
            iops: 800.0,
            work_conserving: false,
            sigma,
            random: Random::stream(seed, 1),
        }
    }

    /// What an application could use of the device if it were alone.
    fn demand(&self, app: &App) -> f64 {
        if !app.on {
            return 0.0;
        }
        let own = if app.think_s > 0.0 { app.threads as f64 / app.think_s } else { f64::INFINITY };
        (own / self.iops).min(app.cap * app.ios / self.iops).min(1.0)
    }

    fn got(&self, demand: &[f64]) -> Vec<f64> {
        if !self.work_conserving {
            let share = |at| self.fractions.share(&self.applications, at);
            return demand
                .iter()
                .enumerate()
                .map(|(at, most)| share(at).max(1e-3).min(*most))
                .collect();
        }
        let of_host = |host: usize| move |at: &usize| self.apps[*at].host == host;
        let all = 0..self.apps.len();
        let hosts = self.fractions.store.len();
        let host_demand: Vec<f64> = (0..hosts)
            .map(|host| {
                all.clone().filter(of_host(host)).map(|at| demand[at]).sum::<f64>().min(1.0)
            })
            .collect();
        let host_got = fill(&self.fractions.store, &host_demand, 1.0);
        let mut got = vec![0.0; self.apps.len()];
        for (host, room) in host_got.iter().enumerate() {
            let members: Vec<usize> = all.clone().filter(of_host(host)).collect();
            let weights: Vec<f64> = members.iter().map(|at| self.fractions.host[*at]).collect();
            let demands: Vec<f64> = members.iter().map(|at| demand[*at]).collect();
            for (at, part) in members.iter().zip(fill(&weights, &demands, *room)) {
                got[*at] = part;
            }
        }
        got
    }

    fn noise(&mut self, at: usize) -> f64 {
        // The mean of five white seconds has their deviation over √5.
        let (white, slow) = (self.sigma * 0.85 * 5f64.sqrt(), self.sigma * 0.5);
        let kept = (-1.0 / SLOW_S).exp();
        self.slow[at] =
            kept * self.slow[at] + (1.0 - kept * kept).sqrt() * slow * normal(&mut self.random);
        1.0 + white * normal(&mut self.random) + self.slow[at]
    }
}

/// A normal deviate (Box and Muller).
pub fn normal(random: &mut Random) -> f64 {
    let radius = (-2.0 * random.unit().max(f64::MIN_POSITIVE).ln()).sqrt();
    radius * (core::f64::consts::TAU * random.unit()).cos()
}

/// Divides `room` by weight among those that want more, until none does.
fn fill(weights: &[f64], demands: &[f64], room: f64) -> Vec<f64> {
    let mut got = vec![0.0; weights.len()];
    let mut room = room;
    let mut open: Vec<usize> = (0..weights.len()).filter(|at| demands[*at] > 1e-12).collect();
    while room > 1e-12 && !open.is_empty() {
        let weight = |at: &usize| weights[*at].max(1e-9);
        let all: f64 = open.iter().map(weight).sum();
        let next = open.iter().map(|at| (demands[*at] - got[*at]) / weight(at));
        let level = next.fold(room / all, f64::min);
        for at in &open {
            got[*at] += level * weight(at);
        }
        room -= level * all;
        open.retain(|at| demands[*at] - got[*at] > 1e-9);
    }
    got
}

impl Plant for Fluid {
    fn apps(&self) -> &[App] {
        &self.apps
    }

    fn apps_mut(&mut self) -> &mut [App] {
        &mut self.apps
    }

    fn fractions(&mut self) -> &mut Fractions {
        &mut self.fractions
    }

    fn second(&mut self) -> Vec<Second> {
        let demand: Vec<f64> = self.apps.iter().map(|app| self.demand(app)).collect();
        let got = self.got(&demand);
        let count = self.apps.len();
        let one = |at: usize| {
            let app = self.apps[at];
            if !app.on {
                return Second::default();
            }
            let even = (self.iops * got[at].powf(app.elasticity) / app.ios).min(app.cap);
            let share = self.fractions.share(&self.applications, at);
            // The device's accounts are steadier than transactions.
            let white = 0.3 * self.sigma * 0.85 * 5f64.sqrt();
            let used = got[at] * (1.0 + white * normal(&mut self.random)).max(0.0);
            Second {
                rate: even * self.noise(at).max(0.0),
                even,
                used,
                held: got[at] < demand[at] - 1e-9,
                lent: self.work_conserving && got[at] > 1.02 * share,
                demand: true,
                latency_s: 0.0,
                outstanding: 0.0,
            }
        };
        (0..count).map(one).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::app::dbt2_and_three;
    use super::*;

    #[test]
    fn what_one_leaves_goes_to_others_by_weight() {
        // 0.2 of the first's 0.5 is left, and goes 1 to 2.
        let got = fill(&[0.5, 0.1, 0.2], &[0.3, 1.0, 1.0], 0.8);
        for (got, expected) in got.iter().zip([0.3, 0.5 / 3.0, 1.0 / 3.0]) {
            assert!((got - expected).abs() < 1e-9, "{got} and {expected}");
        }
    }

    #[test]
    fn five_seconds_have_the_deviation_that_was_asked_for() {
        let mut plant = Fluid::new(dbt2_and_three(20.0), 0.1, 3);
        let means: Vec<f64> =
            (0..4_000).map(|_| (0..5).map(|_| plant.second()[0].rate).sum::<f64>() / 5.0).collect();
        let mean = means.iter().sum::<f64>() / means.len() as f64;
        let variance =
            means.iter().map(|m| (m / mean - 1.0).powi(2)).sum::<f64>() / means.len() as f64;
        assert!((variance.sqrt() - 0.1).abs() < 0.01, "{}", variance.sqrt());
        // A quarter of 25 transactions a second.
        assert!((mean - 6.25).abs() < 0.1, "{mean}");
    }
}
