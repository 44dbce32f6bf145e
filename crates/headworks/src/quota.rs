//! ζ as large as fairness and steadiness allow: the daemon's side of the policy.
//!
//! A window lasts until every busy user could have had enough turns for unfairness to be told from
//! chance, at least 100 ms. Turns come whole: with n turns each, one more or less is 1/n of
//! unfairness, so a bound of 10 % needs some 20 turns.

use headworks_policy::Nanos;
use headworks_policy::metrics::{coefficient_of_variation, latency_variability, unfairness};
use headworks_policy::quota::{QuotaLimits, QuotaSight, next_quota};
use headworks_region::snapshot::{Snapshot, UserView};
use headworks_region::{Mapping, Mode, State};
use std::collections::HashMap;

/// Shortest and longest window.
const WINDOW_MIN: Nanos = Nanos::from_millis(100);
const WINDOW_MAX: Nanos = Nanos::from_millis(10_000);

/// Turns of a mean user that a window should have, for a bound of one.
const TURNS: f64 = 2.0;

/// Part of one more turn for every user by which ζ grows each time. AppleS does not give its u; as a number of requests it
/// would mean nothing: a transaction has one of them or a hundred.
const INCREASE: f64 = 0.125;

/// Least such step, in requests.
const INCREASE_MIN: f64 = 16.0;

/// Largest ζ, as in a configuration.
const MOST: f64 = 1_048_576.0;

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
        let window = Window::new(before, now);
        let limits = QuotaLimits {
            unfairness_max: f64::from(bounds[0]) / 1e3,
            variability_max: f64::from(bounds[1]) / 1e3,
            increase: window.increase(),
            most: MOST,
            ..QuotaLimits::default()
        };
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
    /// Users that wanted something all the time.
    users: usize,
    /// Turns and requests of a mean one of them.
    turns_each: f64,
    requests_each: f64,
    unfairness: Option<f64>,
    variability: Option<f64>,
}

impl Window {
    /// Of users that were neither idle when it began nor when it ended: U_f is about those that are backlogged. Whoever
    /// waited all the time counts with nothing; whoever asks once a second does not count.
    fn new(before: &Snapshot, now: &Snapshot) -> Window {
        let earlier: HashMap<(u32, u32), &UserView> =
            before.users.iter().map(|user| ((user.user, user.generation), user)).collect();
        let wants = |user: &UserView| !matches!(user.state, State::Free | State::Idle);
        let (mut turns, mut all, mut shares, mut variations) = (0, 0, Vec::new(), Vec::new());
        for user in now.users.iter().filter(|user| !user.bypass && wants(user)) {
            let Some(past) = earlier.get(&(user.user, user.generation)) else { continue };
            if !wants(past) {
                continue;
            }
            let requests = user.totals.requests.saturating_sub(past.totals.requests);
            all += requests;
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
        let each = |sum: u64| sum as f64 / shares.len().max(1) as f64;
        Window {
            users: shares.len(),
            turns_each: each(turns),
            requests_each: each(all),
            unfairness: unfairness(shares),
            variability: latency_variability(variations),
        }
    }

    /// Requests by which ζ may grow.
    fn increase(&self) -> f64 {
        let of_a_turn = self.requests_each / self.turns_each.max(1.0);
        (INCREASE * of_a_turn * self.users as f64).max(INCREASE_MIN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::views::{self, snapshot};
    use headworks_region::snapshot::Totals;

    fn user(number: u32, state: State, requests: u64, turns: u64) -> UserView {
        let totals = Totals { requests, turns, ..Totals::default() };
        UserView { state, totals, ..views::user(number, 0) }
    }

    fn window(ends: [(State, State, u64, u64); 4]) -> Window {
        let at = |end: usize| {
            let users = (0..).zip(ends).map(|(number, (begin, finish, requests, turns))| {
                let times = end as u64;
                user(number, if end == 0 { begin } else { finish }, requests * times, turns * times)
            });
            snapshot(users.collect(), Vec::new())
        };
        Window::new(&at(0), &at(1))
    }

    #[test]
    fn who_waits_all_the_time_counts_and_who_asks_now_and_then_does_not() {
        use State::{Idle, Inside, Waiting};
        let fair = window([
            (Waiting, Inside, 100, 4),
            (Inside, Waiting, 100, 4),
            (Waiting, Waiting, 100, 4),
            (Idle, Inside, 1, 1),
        ]);
        assert_eq!((fair.users, fair.unfairness), (3, Some(0.0)));
        assert!((fair.turns_each - 4.0).abs() < 1e-9);
        let starved = window([
            (Waiting, Inside, 150, 6),
            (Inside, Waiting, 150, 6),
            (Waiting, Waiting, 0, 0),
            (Idle, Idle, 70, 70),
        ]);
        assert_eq!((starved.users, starved.unfairness), (3, Some(1.0)));
    }

    #[test]
    fn the_step_is_a_part_of_a_turn_for_everybody() {
        use State::Waiting;
        // Turns of 25 requests: 4 users x 25 x an eighth would be less than the least step.
        let few = window([(Waiting, Waiting, 100, 4); 4]);
        assert_eq!(few.increase(), 16.0);
        let many = Window { users: 256, ..few };
        assert_eq!(many.increase(), 800.0);
        let nobody = window([(State::Idle, State::Idle, 0, 0); 4]);
        assert_eq!(nobody.increase(), 16.0);
    }
}
