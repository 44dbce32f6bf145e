//! ζ as large as fairness and steadiness allow: the daemon's side of the policy.
//!
//! A window lasts until the users of each class could have had enough turns for unfairness to be told from chance
//! ([`QuotaLimits::ends`]). A class that had too few of them, because its statements take minutes, says nothing of ζ and
//! keeps nobody from judging the others.

use headworks_policy::Nanos;
use headworks_policy::metrics::{coefficient_of_variation, latency_variability, unfairness};
use headworks_policy::quota::{QuotaControl, QuotaLimits, QuotaSight};
use headworks_region::snapshot::{Snapshot, UserView};
use headworks_region::{Mapping, Mode, State};
use std::collections::HashMap;

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
        let window = Window::new(before, now);
        let limits = QuotaLimits {
            unfairness_max: f64::from(bounds[0]) / 1e3,
            variability_max: f64::from(bounds[1]) / 1e3,
            increase: window.step(),
            most: MOST,
            ..QuotaLimits::default()
        };
        if !limits.ends(now.now.since(before.now), window.turns_least()) {
            return;
        }
        let sight = window.sight(&limits);
        let zeta = self.control.look(&limits, sight).round() as u32;
        self.before = Some(now.clone());
        if zeta != settings.zeta {
            region.tune_quota(zeta);
        }
    }
}

/// Time in which a user had a request in hand, since `past` was seen at `from`: those that were answered, less what of
/// them was before, and the one that is not answered yet. Requests that were answered together count it each, so a user
/// with long pipelines counts as backlogged sooner than others.
fn wanted(past: &UserView, user: &UserView, from: Nanos, until: Nanos) -> Nanos {
    let answered = |user: &UserView| user.totals.wait + user.totals.run;
    let open = |user: &UserView, at: Nanos| {
        let is = matches!(
            user.state,
            State::Waiting | State::Inside | State::Overdraft | State::Passing
        );
        if is { at.since(user.arrived) } else { Nanos(0) }
    };
    (answered(user) + open(user, until)).since(answered(past) + open(past, from))
}

/// Users of a class that wanted something most of the time.
#[derive(Default)]
struct OfClass {
    turns: u64,
    requests: u64,
    /// Requests for each weight, and variation of latencies, of each user.
    shares: Vec<f64>,
    variations: Vec<Option<f64>>,
}

impl OfClass {
    /// Turns of a mean user.
    fn turns_each(&self) -> f64 {
        self.turns as f64 / self.shares.len().max(1) as f64
    }
}

struct Window(HashMap<u32, OfClass>);

impl Window {
    /// Of users that wanted something most of the time: U_f is about those that are backlogged. Whoever waited all the
    /// time counts with nothing; whoever pauses for longer than it asks takes less than its share by itself.
    fn new(before: &Snapshot, now: &Snapshot) -> Window {
        let earlier: HashMap<(u32, u32), &UserView> =
            before.users.iter().map(|user| ((user.user, user.generation), user)).collect();
        let span = now.now.since(before.now).0 as f64;
        let mut classes: HashMap<u32, OfClass> = HashMap::new();
        for user in now.users.iter().filter(|user| !user.bypass) {
            let Some(past) = earlier.get(&(user.user, user.generation)) else { continue };
            if (wanted(past, user, before.now, now.now).0 as f64) < BACKLOGGED * span {
                continue;
            }
            let class = classes.entry(user.class).or_default();
            let requests = user.totals.requests.saturating_sub(past.totals.requests);
            class.requests += requests;
            class.turns += user.totals.turns.saturating_sub(past.totals.turns);
            class.shares.push(requests as f64 / now.weight(user).max(1e-6));
            let (sum, squares) =
                (user.latency_ms.0 - past.latency_ms.0, user.latency_ms.1 - past.latency_ms.1);
            class.variations.push(coefficient_of_variation(requests, sum, squares));
        }
        Window(classes)
    }

    fn users(&self) -> usize {
        self.0.values().map(|class| class.shares.len()).sum()
    }

    /// Turns of a mean user of the class that had the fewest.
    fn turns_least(&self) -> f64 {
        self.0.values().map(OfClass::turns_each).reduce(f64::min).unwrap_or(0.0)
    }

    /// Requests by which ζ may grow.
    fn step(&self) -> f64 {
        let sum = |of: fn(&OfClass) -> u64| self.0.values().map(of).sum::<u64>() as f64;
        let requests = sum(|class| class.requests) / sum(|class| class.turns).max(1.0);
        QuotaLimits::step(requests, self.users() as f64)
    }

    /// What it shows of classes that had turns enough.
    fn sight(&self, limits: &QuotaLimits) -> QuotaSight {
        let judged = || self.0.values().filter(|class| limits.judges(class.turns_each()));
        let shares: Vec<f64> = judged().flat_map(|class| class.shares.iter().copied()).collect();
        let known = shares.len() >= 2;
        let variations = judged().flat_map(|class| class.variations.iter().copied());
        QuotaSight {
            unfairness: unfairness(shares).filter(|_| known),
            variability: latency_variability(variations).filter(|_| known),
            least: self.users().max(1) as f64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::views::{self, snapshot};
    use headworks_region::State::{Idle, Inside, Lent, Waiting};
    use headworks_region::snapshot::Totals;

    const SPAN: Nanos = Nanos::from_millis(1_000);

    /// What a user did in a window: its state at the end, the part of the time for which answered requests had
    /// waited and run, how long it has had the one in hand, requests and turns.
    type Did = (State, f64, f64, u64, u64);

    fn window(did: &[(u32, Did)]) -> Window {
        let part = |of: f64| Nanos((SPAN.0 as f64 * of) as u64);
        let users = |end: u64| {
            let user = |(number, &(class, did)): (u32, &(u32, Did))| {
                let (state, answered, in_hand, requests, turns) = did;
                let answered = answered * end as f64;
                let (wait, run) = (part(answered * 0.75), part(answered * 0.25));
                let (requests, turns) = (requests * end, turns * end);
                let totals = Totals { requests, turns, wait, run, ..Totals::default() };
                // At the begin of the window everybody is idle.
                let state = if end == 0 { Idle } else { state };
                let arrived = Nanos(SPAN.0 * 2).since(part(in_hand));
                UserView { state, totals, arrived, ..views::user(number, class) }
            };
            (0..).zip(did).map(user).collect()
        };
        let before = Snapshot { now: SPAN, ..snapshot(users(0), Vec::new()) };
        let now = Snapshot { now: Nanos(SPAN.0 * 2), ..snapshot(users(1), Vec::new()) };
        Window::new(&before, &now)
    }

    fn of_one_class(did: [Did; 4]) -> Window {
        window(&did.map(|did| (0, did)))
    }

    fn unfairness_of(window: &Window) -> Option<f64> {
        window.sight(&QuotaLimits { unfairness_max: 1.0, ..QuotaLimits::default() }).unfairness
    }

    #[test]
    fn who_waits_all_the_time_counts_and_who_asks_now_and_then_does_not() {
        let fair = of_one_class([
            (Waiting, 0.7, 0.2, 100, 4),
            (Inside, 0.9, 0.1, 100, 4),
            // It was between two statements when somebody looked.
            (Idle, 0.8, 0.0, 100, 4),
            // By chance it has just asked.
            (Inside, 0.1, 0.01, 1, 1),
        ]);
        assert_eq!((fair.users(), unfairness_of(&fair)), (3, Some(0.0)));
        assert!((fair.turns_least() - 4.0).abs() < 1e-9);
        let starved = of_one_class([
            (Waiting, 0.7, 0.2, 150, 6),
            (Inside, 0.9, 0.1, 150, 6),
            // Its request is not answered yet.
            (Waiting, 0.0, 1.0, 0, 0),
            // Its client idles inside a transaction, and has done so for long.
            (Lent, 0.1, 1.0, 70, 70),
        ]);
        assert_eq!((starved.users(), unfairness_of(&starved)), (3, Some(1.0)));
    }

    #[test]
    fn a_request_that_was_in_hand_before_counts_from_the_begin_of_the_window() {
        let ms = Nanos::from_millis;
        let at = |state, arrived, answered| UserView {
            state,
            arrived: ms(arrived),
            totals: Totals { run: ms(answered), ..Totals::default() },
            ..views::user(1, 0)
        };
        // It came at 400 and was answered at 1,300; the window begins at 1,000.
        let (past, user) = (at(Waiting, 400, 50), at(Idle, 400, 950));
        assert_eq!(wanted(&past, &user, ms(1_000), ms(2_000)), ms(300));
        // It is not answered yet.
        let user = at(Waiting, 400, 50);
        assert_eq!(wanted(&past, &user, ms(1_000), ms(2_000)), ms(1_000));
    }

    #[test]
    fn a_class_whose_statements_take_minutes_keeps_nobody_from_judging_the_others() {
        let busy = (Waiting, 0.8, 0.1, 100, 4);
        let window =
            window(&[(0, busy), (0, (Waiting, 0.8, 0.1, 300, 12)), (1, (Inside, 0.0, 1.0, 0, 0))]);
        assert_eq!((window.users(), window.turns_least()), (3, 0.0));
        assert_eq!(unfairness_of(&window), Some(0.5), "100 and 300 requests");
    }

    #[test]
    fn the_step_is_a_part_of_a_turn_for_everybody() {
        // Turns of 25 requests: 40 users x 25 x an eighth.
        let many = window(&[(0, (Waiting, 0.8, 0.1, 100, 4)); 40]);
        assert_eq!(many.step(), 125.0);
        let nobody = of_one_class([(Idle, 0.0, 0.0, 0, 0); 4]);
        assert_eq!((nobody.step(), unfairness_of(&nobody)), (16.0, None));
    }
}
