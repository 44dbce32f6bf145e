use super::*;
use crate::views::{class, session, snapshot};
use headworks_policy::histogram::bucket_of;
use headworks_region::snapshot::{SessionView, Totals};

/// A class without a target, and two others.
const DEFAULT: usize = 0;
const CHECKOUT: usize = 1;
const SEARCH: usize = 2;

/// As the region has it.
fn weight(view: &ClassView) -> f64 {
    view.weight
}

/// Sessions, each with its class and its requests so far.
fn sessions(of: &[(u32, u64)]) -> Vec<SessionView> {
    let session = |(number, &(class, requests)): (u32, &(u32, u64))| SessionView {
        totals: Totals { requests, ..Totals::default() },
        ..session(number, class)
    };
    (0..).zip(of).map(session).collect()
}

#[test]
fn shares_are_of_those_who_want_something() {
    let classes = || vec![class(0, "default", 1.0), class(1, "sensitive", 3.0)];
    let begin = [[(1, 0)].repeat(2), [(0, 0)].repeat(100)].concat();
    let mut end = begin.clone();
    // Both of the class, and six of a hundred others, one of which only waits.
    end[..7].iter_mut().for_each(|session| session.1 = 10);
    let before = snapshot(sessions(&begin), classes());
    let mut now = snapshot(sessions(&end), classes());
    now.sessions[50].state = State::Queued;
    now.sessions[60].bypass = true;
    now.sessions[60].totals.requests = 99;
    let busy = busy(&before, &now);
    assert_eq!(busy, BTreeMap::from([(0, 6), (1, 2)]));
    assert_eq!(shares(&[1], &now, &busy, 6.0, weight), [0.5]);
}

#[test]
fn a_class_that_nobody_uses_has_a_share_that_can_grow() {
    let now = snapshot(Vec::new(), vec![class(0, "default", 1.0), class(1, "sensitive", 1.0)]);
    assert_eq!(shares(&[1], &now, &BTreeMap::from([(0, 9)]), 9.0, weight), [0.1]);
}

#[test]
fn on_an_idle_database_weights_stay_as_they_are() {
    let mut gate = Gate::new(100);
    gate.class(CHECKOUT, "checkout", 2.0, Some(100));
    gate.windows(5, &[]);
    let said = gate.slo.status()[0].weight;
    assert!((said - 2.0).abs() < 1e-3 && (gate.weight(CHECKOUT) - said).abs() < 1e-3, "{said}");
}

#[test]
fn requests_above_a_latency_are_counted_within_their_bucket() {
    let mut counts = [0; BUCKETS];
    counts[bucket_of(Nanos::from_millis(10))] = 90;
    counts[bucket_of(Nanos::from_millis(100))] = 10;
    assert_eq!(above(&counts, Nanos::from_millis(60)), 10);
    assert_eq!(above(&counts, Nanos::from_millis(1_000)), 0);
    let (low, high) = bounds(bucket_of(Nanos::from_millis(100)));
    assert_eq!(above(&counts, Nanos((low.0 + high.0) / 2)), 5);
}

/// A gate whose sessions' latencies the test sets.
struct Gate {
    region: Mapping,
    slo: Slo,
    at_ms: u64,
    latencies: BTreeMap<usize, [u64; BUCKETS]>,
    requests: BTreeMap<usize, u64>,
}

impl Gate {
    /// With the class `default`, and `checkout` with a target.
    fn new(target_ms: u64) -> Gate {
        let (latencies, requests) = (BTreeMap::new(), BTreeMap::new());
        let gate = Gate {
            region: crate::views::region(),
            slo: Slo::default(),
            at_ms: 0,
            latencies,
            requests,
        };
        gate.class(DEFAULT, "default", 1.0, None);
        gate.class(CHECKOUT, "checkout", 1.0, Some(target_ms));
        gate
    }

    /// As a reload writes it.
    fn class(&self, class: usize, name: &str, weight: f64, target_ms: Option<u64>) {
        let thousandths = (weight * 1e3) as u32;
        let share = ClassShare::new(thousandths, Sharing::PerUser);
        self.region.set_class(class, name, thousandths, share, false);
        self.region.set_target(class, target_ms.map(|ms| (0.99, Nanos::from_millis(ms))));
    }

    /// The longest window. Both sessions of each of these classes had 1,000 requests of that many
    /// milliseconds; other classes were idle.
    fn window(&mut self, latencies_ms: &[(usize, u64)]) {
        for &(class, ms) in latencies_ms {
            let counts = self.latencies.entry(class).or_insert([0; BUCKETS]);
            counts[bucket_of(Nanos::from_millis(ms))] += 2_000;
            *self.requests.entry(class).or_default() += 1_000;
        }
        self.at_ms += WINDOW_MAX.0 / 1_000_000;
        let mut now = self.region.snapshot(Nanos::from_millis(self.at_ms));
        for view in &mut now.classes {
            let class = view.class as usize;
            *view.latency = self.latencies.get(&class).copied().unwrap_or([0; BUCKETS]);
            let asked = self.requests.get(&class).copied().unwrap_or(0);
            let both = [2 * view.class, 2 * view.class + 1].map(|number| SessionView {
                totals: Totals { requests: asked, ..Totals::default() },
                ..session(number, view.class)
            });
            now.sessions.extend(both);
        }
        self.slo.tick(&self.region, &now);
    }

    fn windows(&mut self, windows: u32, latencies_ms: &[(usize, u64)]) {
        (0..windows).for_each(|_| self.window(latencies_ms));
    }

    /// Weight in force.
    fn weight(&self, class: usize) -> f64 {
        self.region.snapshot(Nanos(0)).classes[class].weight
    }

    /// Another daemon takes over, with the same configuration.
    fn next_daemon(&mut self) {
        let configured = std::mem::take(&mut self.slo.configured);
        self.slo = Slo::default();
        self.slo.configure(configured);
    }
}

#[test]
fn after_a_reload_another_class_or_target_program_begins() {
    let late = [(DEFAULT, 10), (CHECKOUT, 500)];
    let mut gate = Gate::new(100);
    gate.windows(4, &late);
    let found = gate.weight(CHECKOUT);
    assert!(found > 1.5, "{found}");
    // The same again: the tuned weight stays.
    gate.class(CHECKOUT, "checkout", 1.0, Some(100));
    gate.window(&late);
    assert!(gate.weight(CHECKOUT) >= found, "{}", gate.weight(CHECKOUT));
    assert!(gate.slo.status()[0].windows >= 4);
    // A new target, another class, another meaning of the weight: one after the other.
    for (name, target_ms, shared) in
        [("checkout", 900, false), ("search", 900, false), ("search", 900, true)]
    {
        gate.class(CHECKOUT, name, 1.0, Some(target_ms));
        let share = ClassShare::new(1_000, Sharing::PerUser);
        gate.region.set_class(CHECKOUT, name, 1_000, share, shared);
        gate.window(&late);
        let status = gate.slo.status()[0].clone();
        assert_eq!((status.class.as_str(), status.target_ms), (name, target_ms as f64));
        assert_eq!((status.windows, status.standing.as_str()), (0, "unknown"), "{name} {shared}");
        assert_eq!((status.weight, gate.weight(CHECKOUT)), (1.0, 1.0), "{name} {shared}");
        gate.windows(3, &late);
        assert_eq!(gate.slo.status()[0].standing, "held", "{name} {shared}");
    }
}

#[test]
fn what_a_class_keeps_is_of_the_weight_in_the_configuration_whatever_the_region_holds() {
    let early = [(DEFAULT, 10), (CHECKOUT, 1)];
    // The earlier daemon has tuned it to 40, or to a hundredth.
    for found in [40.0, 0.01] {
        let mut gate = Gate::new(100);
        gate.class(CHECKOUT, "checkout", found, Some(100));
        gate.slo.configure(BTreeMap::from([("checkout".to_owned(), 2.0)]));
        for daemon in 0..3 {
            gate.windows(250, &early);
            assert_eq!(gate.weight(CHECKOUT), 0.5, "found {found}, daemon {daemon}");
            assert_eq!(gate.slo.status()[0].weight, 0.5);
            gate.next_daemon();
        }
        gate.slo.configure(BTreeMap::from([("checkout".to_owned(), 8.0)]));
        gate.windows(3, &early);
        assert_eq!(gate.weight(CHECKOUT), 2.0, "the file says something else by now");
    }
    // A class that is in no file keeps a part of its original weight.
    let mut gate = Gate::new(100);
    gate.windows(250, &early);
    assert_eq!(gate.weight(CHECKOUT), 0.25);
}

#[test]
fn weights_follow_the_shares_while_nobody_else_wants_anything() {
    let mut gate = Gate::new(100);
    gate.class(SEARCH, "search", 1.0, Some(100));
    gate.windows(40, &[(CHECKOUT, 500), (SEARCH, 1)]);
    let [checkout, search] = [CHECKOUT, SEARCH].map(|class| gate.weight(class));
    assert!(checkout > 1.3 * search, "{checkout} {search}");
    let said: Vec<f64> = gate.slo.status().iter().map(|status| status.weight).collect();
    assert!((said[0] - checkout).abs() < 1e-3 && (said[1] - search).abs() < 1e-3, "{said:?}");
    // Other sessions come and go: while they are away, weights stay the same.
    let all = [(DEFAULT, 10), (CHECKOUT, 90), (SEARCH, 90)];
    gate.windows(40, &all);
    let with_others = gate.weight(CHECKOUT);
    gate.windows(3, &all[1..]);
    let alone = gate.weight(CHECKOUT);
    assert!((0.8..1.25).contains(&(alone / with_others)), "{with_others} {alone}");
}

#[test]
fn an_infeasible_target_is_said_with_its_gap_and_what_to_do_and_others_are_not_starved() {
    let mut gate = Gate::new(100);
    gate.windows(40, &[(DEFAULT, 10), (CHECKOUT, 500)]);
    let status = gate.slo.status()[0].clone();
    assert_eq!(status.standing, "infeasible");
    assert!(status.gap.is_some_and(|gap| (4.5..5.5).contains(&gap)), "{status:?}");
    let weight = gate.weight(CHECKOUT);
    assert!((weight - 1.0).abs() < 0.01, "it goes back: {weight}");
    gate.window(&[(DEFAULT, 10), (CHECKOUT, 800)]);
    let status = gate.slo.status()[0].clone();
    assert!(status.gap.is_some_and(|gap| (7.2..8.8).contains(&gap)), "the latest: {status:?}");
    // The load drops.
    gate.windows(4, &[(DEFAULT, 10), (CHECKOUT, 60)]);
    let status = gate.slo.status()[0].clone();
    assert_eq!((status.standing.as_str(), status.gap), ("held", None));
    gate.window(&[(DEFAULT, 10)]);
    let status = gate.slo.status()[0].clone();
    assert_eq!((status.standing.as_str(), status.latency_ms), ("unknown", None));
}

#[test]
fn a_change_of_standing_is_said_once_and_what_to_do_with_it() {
    let mut gate = Gate::new(100);
    gate.window(&[]);
    let target = Target { quantile: 0.999, latency_ms: 60.0 };
    let observation = SloObservation { answered: 5_000, above: 4_000, latency_ms: 180.0 };
    let mut judge =
        |observation, standing| gate.slo.classes[0].judge(target, observation, standing);
    let said = judge(observation, TargetState::Infeasible(3.0)).unwrap();
    for part in
        ["`checkout`", "p99.9 180.0 ms of 60.0 ms", "3.00 times the target", "headworks reload"]
    {
        assert!(said.contains(part), "{said}");
    }
    assert_eq!(judge(observation, TargetState::Infeasible(3.0)), None);
    assert!(judge(observation, TargetState::Bounded).unwrap().contains("bounded"));
    let none = SloObservation { answered: 0, above: 0, latency_ms: 0.0 };
    assert!(judge(none, TargetState::Unknown).unwrap().contains("nothing was answered"));
}
