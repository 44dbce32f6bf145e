//! ζ as large as fairness and steadiness allow: the daemon's side of the policy.
//!
//! A window lasts until every busy user could have had enough turns for unfairness to be told from
//! chance, at least 100 ms. Turns come whole: with n turns each, one more or less is 1/n of
//! unfairness, so a bound of 10 % needs some 20 turns.

use headworks_policy::Nanos;
use headworks_policy::metrics::{coefficient_of_variation, latency_variability, unfairness};
use headworks_policy::quota::{QuotaLimits, QuotaSight, next_quota};
use headworks_region::snapshot::{Snapshot, UserView};
use headworks_region::{Mapping, Mode};
use std::collections::HashMap;

/// Shortest and longest window.
const WINDOW_MIN: Nanos = Nanos::from_millis(100);
const WINDOW_MAX: Nanos = Nanos::from_millis(10_000);

/// Turns of a mean user that a window should have, for a bound of one.
const TURNS: f64 = 2.0;

/// See the module.
#[derive(Debug, Default)]
pub struct Quota {
    before: Option<Snapshot>,
    zeta: f64,
}

impl Quota {
    /// Looks, several times a second; `now` is the latest snapshot.
    pub fn tick(&mut self, region: &Mapping, now: &Snapshot) {
        let settings = &now.settings;
        let bounds = [settings.unfairness_max_mille, settings.latency_cv_max_mille];
        if bounds == [0, 0] || settings.mode != Mode::Enforce || settings.off {
            *self = Quota::default();
            return;
        }
        let Some(before) = &self.before else {
            self.zeta = f64::from(settings.zeta);
            self.before = Some(now.clone());
            return;
        };
        let span = now.now.since(before.now);
        let limits = QuotaLimits {
            unfairness_max: f64::from(bounds[0]) / 1e3,
            variability_max: f64::from(bounds[1]) / 1e3,
            ..QuotaLimits::default()
        };
        let window = Window::new(before, now);
        let tightest = bounds.iter().filter(|b| **b > 0).min().map_or(1.0, |b| f64::from(*b) / 1e3);
        let wanted = TURNS / tightest.min(1.0);
        if span < WINDOW_MIN || window.turns_each < wanted && span < WINDOW_MAX {
            return;
        }
        let known = window.users >= 2 && window.turns_each >= wanted / 4.0;
        let sight = QuotaSight {
            unfairness: window.unfairness.filter(|_| known),
            variability: window.variability.filter(|_| known),
            least: window.users.max(1) as f64,
        };
        self.zeta = next_quota(self.zeta, &limits, sight);
        self.before = Some(now.clone());
        let zeta = self.zeta.round() as u32;
        if zeta != settings.zeta {
            region.tune_quota(zeta);
        }
    }
}

struct Window {
    /// Users that were there all the time and were served.
    users: usize,
    /// Turns of a mean one of them.
    turns_each: f64,
    unfairness: Option<f64>,
    variability: Option<f64>,
}

impl Window {
    fn new(before: &Snapshot, now: &Snapshot) -> Window {
        let earlier: HashMap<(u32, u32), &UserView> =
            before.users.iter().map(|user| ((user.user, user.generation), user)).collect();
        let (mut turns, mut shares, mut variations) = (0, Vec::new(), Vec::new());
        for user in now.users.iter().filter(|user| !user.bypass) {
            let Some(past) = earlier.get(&(user.user, user.generation)) else { continue };
            let requests = user.totals.requests.saturating_sub(past.totals.requests);
            if requests == 0 {
                continue;
            }
            turns += user.totals.turns.saturating_sub(past.totals.turns);
            let class = now.classes.iter().find(|class| class.class == user.class);
            let weight = class.map_or(1.0, |class| {
                if class.shared {
                    class.weight / f64::from(class.users.max(1))
                } else {
                    class.weight
                }
            });
            shares.push(requests as f64 / weight.max(1e-6));
            let (sum, squares) =
                (user.latency_ms.0 - past.latency_ms.0, user.latency_ms.1 - past.latency_ms.1);
            variations.push(coefficient_of_variation(requests, sum, squares));
        }
        Window {
            users: shares.len(),
            turns_each: turns as f64 / shares.len().max(1) as f64,
            unfairness: unfairness(shares),
            variability: latency_variability(variations),
        }
    }
}
