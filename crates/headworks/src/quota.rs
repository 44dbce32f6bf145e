//! ζ as large as fairness and steadiness allow: the daemon's side of the policy.
//!
//! A window lasts until every busy user could have had enough turns for unfairness to be told from
//! chance, at least 100 ms. Turns come whole: with n turns each, one more or less is 1/n of
//! unfairness, and there is one at each end of a window, larger or smaller than the mean: a bound of 10 % needs some
//! 40 turns. In a simulation with 20 of them a third of all windows are above the bound whatever ζ is.

use headworks_policy::Nanos;
use headworks_policy::metrics::{coefficient_of_variation, latency_variability, unfairness};
use headworks_policy::quota::{QuotaControl, QuotaLimits, QuotaSight};
use headworks_region::snapshot::{Snapshot, Totals, UserView};
use headworks_region::{Mapping, Mode, State};
use std::collections::HashMap;

/// Shortest and longest window.
const WINDOW_MIN: Nanos = Nanos::from_millis(100);
const WINDOW_MAX: Nanos = Nanos::from_millis(20_000);

/// Turns of a mean user of each class that a window should have, for a bound of one; with less than this part of them
/// nothing is known.
const TURNS: f64 = 4.0;
const TURNS_PART: f64 = 0.75;

/// Part of one more turn for every user by which ζ grows each time. AppleS does not give its u; as a number of requests it
/// would mean nothing: a transaction has one of them or a hundred.
const INCREASE: f64 = 0.125;

/// Least such step, in requests.
const INCREASE_MIN: f64 = 16.0;

/// Part of a window for which a user that counts has had a request in hand. Between the statements of a transaction the
/// client thinks, too.
const BACKLOGGED: f64 = 0.5;

/// Largest ζ, as in a configuration.
const MOST: f64 = 1_048_576.0;

/// See the module.
#[derive(Debug, Default)]
pub struct Quota {
    before: Option<Snapshot>,
    control: QuotaControl,
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
            self.control = QuotaControl::new(f64::from(settings.zeta));
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
        if span < WINDOW_MIN || window.turns_least < wanted && span < WINDOW_MAX {
            return;
        }
        let known = window.users >= 2 && window.turns_least >= TURNS_PART * wanted;
        let sight = QuotaSight {
            unfairness: window.unfairness.filter(|_| known),
            variability: window.variability.filter(|_| known),
            least: window.users.max(1) as f64,
        };
        let zeta = self.control.look(&limits, sight).round() as u32;
        self.before = Some(now.clone());
        if zeta != settings.zeta {
            region.tune_quota(zeta);
        }
    }
}

/// Time in which a user had a request in hand: those that were answered, and the one that is not yet.
fn wanted(past: &UserView, user: &UserView, from: Nanos, until: Nanos) -> Nanos {
    let answered = |totals: &Totals| totals.wait + totals.run;
    let answered = answered(&user.totals).since(answered(&past.totals));
    let in_hand = !matches!(user.state, State::Free | State::Idle);
    let open = if in_hand { until.since(user.arrived.max(from)) } else { Nanos(0) };
    answered + open
}

struct Window {
    /// Users that wanted something most of the time.
    users: usize,
    /// Turns of a mean one of the class whose users had the fewest.
    turns_least: f64,
    /// Requests of a turn.
    requests: f64,
    unfairness: Option<f64>,
    variability: Option<f64>,
}

impl Window {
    /// Of users that wanted something most of the time: U_f is about those that are backlogged. Whoever waited all the
    /// time counts with nothing; whoever pauses for longer than it asks takes less than its share by itself.
    fn new(before: &Snapshot, now: &Snapshot) -> Window {
        let earlier: HashMap<(u32, u32), &UserView> =
            before.users.iter().map(|user| ((user.user, user.generation), user)).collect();
        let (mut all, mut shares, mut variations) = (0, Vec::new(), Vec::new());
        // Turns and users, by class.
        let mut turns: HashMap<u32, (u64, u64)> = HashMap::new();
        for user in now.users.iter().filter(|user| !user.bypass) {
            let Some(past) = earlier.get(&(user.user, user.generation)) else { continue };
            let span = now.now.since(before.now).0 as f64;
            if (wanted(past, user, before.now, now.now).0 as f64) < BACKLOGGED * span {
                continue;
            }
            let requests = user.totals.requests.saturating_sub(past.totals.requests);
            all += requests;
            let of_class = turns.entry(user.class).or_default();
            of_class.0 += user.totals.turns.saturating_sub(past.totals.turns);
            of_class.1 += 1;
            shares.push(requests as f64 / now.weight(user).max(1e-6));
            let (sum, squares) =
                (user.latency_ms.0 - past.latency_ms.0, user.latency_ms.1 - past.latency_ms.1);
            variations.push(coefficient_of_variation(requests, sum, squares));
        }
        let each = turns.values().map(|(turns, users)| *turns as f64 / *users as f64);
        Window {
            users: shares.len(),
            turns_least: each.reduce(f64::min).unwrap_or(0.0),
            requests: all as f64 / turns.values().map(|of| of.0).sum::<u64>().max(1) as f64,
            unfairness: unfairness(shares),
            variability: latency_variability(variations),
        }
    }

    /// Requests by which ζ may grow.
    fn increase(&self) -> f64 {
        (INCREASE * self.requests * self.users as f64).max(INCREASE_MIN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::views::{self, snapshot};

    const SPAN: Nanos = Nanos::from_millis(1_000);

    /// What a user did in a window: its state at the end, the part of the time for which answered requests had
    /// waited and run, how long it has had the one in hand, requests and turns.
    type Did = (State, f64, f64, u64, u64);

    fn window(did: &[Did]) -> Window {
        let part = |of: f64| Nanos((SPAN.0 as f64 * of) as u64);
        let users = |end: u64| {
            let user = |(number, &(state, answered, in_hand, requests, turns)): (u32, &Did)| {
                let (wait, run) =
                    (part(answered * 0.75 * end as f64), part(answered * 0.25 * end as f64));
                let (requests, turns) = (requests * end, turns * end);
                let totals = Totals { requests, turns, wait, run, ..Totals::default() };
                let arrived = Nanos(SPAN.0 * 2).since(part(in_hand));
                UserView { state, totals, arrived, ..views::user(number, 0) }
            };
            (0..).zip(did).map(user).collect()
        };
        let before = Snapshot { now: SPAN, ..snapshot(users(0), Vec::new()) };
        let now = Snapshot { now: Nanos(SPAN.0 * 2), ..snapshot(users(1), Vec::new()) };
        Window::new(&before, &now)
    }

    #[test]
    fn who_waits_all_the_time_counts_and_who_asks_now_and_then_does_not() {
        use State::{Idle, Inside, Waiting};
        let fair = window(&[
            (Waiting, 0.7, 0.2, 100, 4),
            (Inside, 0.9, 0.1, 100, 4),
            // It was between two statements when somebody looked.
            (Idle, 0.8, 0.0, 100, 4),
            // By chance it has just asked.
            (Inside, 0.1, 0.01, 1, 1),
        ]);
        assert_eq!((fair.users, fair.unfairness), (3, Some(0.0)));
        assert!((fair.turns_least - 4.0).abs() < 1e-9);
        let starved = window(&[
            (Waiting, 0.7, 0.2, 150, 6),
            (Inside, 0.9, 0.1, 150, 6),
            // Its request came long before the window, and is not answered yet.
            (Waiting, 0.0, 1.9, 0, 0),
            (Idle, 0.2, 0.0, 70, 70),
        ]);
        assert_eq!((starved.users, starved.unfairness), (3, Some(1.0)));
    }

    #[test]
    fn the_step_is_a_part_of_a_turn_for_everybody() {
        use State::{Idle, Waiting};
        // Turns of 25 requests: 4 users x 25 x an eighth would be less than the least step.
        let few = window(&[(Waiting, 0.8, 0.1, 100, 4); 4]);
        assert_eq!(few.increase(), 16.0);
        let many = Window { users: 256, ..few };
        assert_eq!(many.increase(), 800.0);
        let nobody = window(&[(Idle, 0.0, 0.0, 0, 0); 4]);
        assert_eq!(nobody.increase(), 16.0);
    }
}
