//! Asks, lag, verdicts, and the whole of owners and store.

use super::*;

fn at(seconds: u64) -> Nanos {
    Nanos::from_millis(1_000 * seconds)
}

fn seen(dft: f64, granted: f64) -> Observation {
    Observation {
        dft: Some(dft),
        demand: true,
        age: Nanos(0),
        granted,
        used: granted,
        held: true,
        lent: false,
        latency_s: 0.0,
    }
}

/// One target that needs `need`, and best effort; the share that it has after each window.
struct Rig {
    owners: Owners,
    applications: [Application; 2],
    fractions: Fractions,
    now: u64,
}

impl Rig {
    fn new(settings: Settings) -> Self {
        let applications = [Application::with_target(0), Application::best_effort(1)];
        Rig {
            owners: Owners::new(settings, &applications),
            applications,
            fractions: Fractions::equal(&applications, 2),
            now: 0,
        }
    }

    fn share(&self) -> f64 {
        self.fractions.share(&self.applications, 0)
    }

    fn window(&mut self, need: f64) {
        let share = self.share();
        let other = Observation { dft: None, ..seen(0.0, 1.0 - share) };
        let seen = [Some(seen(share / need - 1.0, share)), Some(other)];
        self.now += 1;
        self.owners.window(at(self.now), &self.applications, &seen, &mut self.fractions);
    }
}

#[test]
fn the_worked_example() {
    let settings = Settings { first: 1, ..Settings::default() };
    let mut owner = Owner::default();
    owner.window(at(1), &settings, &seen(-0.5, 0.25));
    assert!((owner.ask(&settings).unwrap() - 0.5).abs() < 1e-12);
    owner.granted(1.0);
    owner.lag_s = 0.0;
    owner.estimate = Estimate::default();
    (0..100).for_each(|_| owner.estimate.add(0.5, 1.0));
    owner.window(at(2), &settings, &seen(-0.1, 0.5));
    assert!((owner.lag_s - 0.1).abs() < 1e-12);
    let ask = owner.ask(&settings).unwrap();
    assert!((ask / owner.estimate.need() - 1.03).abs() < 1e-12, "{ask}");
}

#[test]
fn an_old_dft_has_less_weight() {
    let settings = Settings::default();
    let mut owner = Owner::default();
    for second in 0..10 {
        let late = Observation { age: at(15), ..seen(-0.5, 0.25) };
        owner.window(at(second), &settings, &late);
    }
    let ask = owner.ask(&settings).unwrap() / owner.estimate.need();
    assert!((ask - (1.0 + 0.02 * owner.lag_s)).abs() < 1e-12, "{ask}");
}

#[test]
fn a_target_is_met_from_the_first_windows_on() {
    let mut rig = Rig::new(Settings::default());
    for _ in 0..4 {
        rig.window(0.6);
    }
    assert!((rig.share() / 0.6 - 1.0).abs() < 0.2, "{}", rig.share());
    for _ in 0..60 {
        rig.window(0.6);
    }
    assert!((rig.share() / 0.6 - 1.0).abs() < 0.02, "{}", rig.share());
    assert_eq!(rig.owners.owner(0).verdict(at(rig.now), 1.0), Verdict::Met);
    // A step.
    for _ in 0..20 {
        rig.window(0.8);
    }
    assert!((rig.share() / 0.8 - 1.0).abs() < 0.25, "{}", rig.share());
    for _ in 0..60 {
        rig.window(0.8);
    }
    assert!((rig.share() / 0.8 - 1.0).abs() < 0.02, "{}", rig.share());
}

#[test]
fn what_cannot_be_met_is_said_within_a_minute() {
    let mut rig = Rig::new(Settings::default());
    for _ in 0..45 {
        rig.window(1.2);
    }
    assert!((rig.share() - 0.95).abs() < 1e-9, "the floor is kept: {}", rig.share());
    let verdict = rig.owners.owner(0).verdict(at(rig.now), 1.0);
    let Verdict::NoRoom { shortfall, need } = verdict else { panic!("{verdict:?}") };
    assert!(
        (shortfall - (1.0 - 0.95 / 1.2)).abs() < 0.03 && (need - 1.2).abs() < 0.05,
        "{verdict:?}"
    );
}

#[test]
fn what_is_not_held_by_storage_is_said_too() {
    let mut owner = Owner::default();
    let settings = Settings::default();
    let mut said = None;
    for second in 0..120 {
        let stuck = Observation { held: false, used: 0.3, ..seen(-0.3, 0.9) };
        owner.window(at(second), &settings, &stuck);
        if matches!(owner.verdict(at(second), 1.0), Verdict::NotStorage { .. }) {
            said = said.or(Some(second));
        }
    }
    assert!(said.is_some_and(|second| second <= 60), "{said:?}");
}

#[test]
fn lent_service_is_no_credit() {
    let settings = Settings::default();
    let mut owner = Owner::default();
    for second in 0..200 {
        let lent = Observation { lent: true, used: 0.9, ..seen(0.5, 0.6) };
        owner.window(at(second), &settings, &lent);
    }
    assert!(owner.lag_s.abs() < 0.1, "{}", owner.lag_s);
    assert!((owner.ask(&settings).unwrap() - 0.6).abs() < 0.02, "0.9 / 1.5");
}

#[test]
fn an_application_that_has_ended_asks_for_nothing() {
    let mut rig = Rig::new(Settings::default());
    for _ in 0..60 {
        rig.window(0.6);
    }
    let other = Observation { dft: None, ..seen(0.0, 0.4) };
    let gone = Observation { dft: None, demand: false, used: 0.0, held: false, ..seen(0.0, 0.6) };
    let Rig { owners, applications, fractions, .. } = &mut rig;
    owners.window(at(61), applications, &[Some(gone), Some(other)], fractions);
    assert_eq!(fractions.share(applications, 0), 0.0);
    assert!((fractions.share(applications, 1) - 1.0).abs() < 1e-9);
}

#[test]
fn a_liar_gets_its_limit_and_no_more() {
    let applications =
        [Application { limit: 0.4, ..Application::with_target(0) }, Application::best_effort(1)];
    let mut owners = Owners::new(Settings::default(), &applications);
    let mut fractions = Fractions::equal(&applications, 2);
    for second in 0..100 {
        let share = fractions.share(&applications, 0);
        let other = Observation { dft: None, ..seen(0.0, 1.0 - share) };
        let lie = seen(-1.0, share);
        owners.window(at(second), &applications, &[Some(lie), Some(other)], &mut fractions);
    }
    assert!((fractions.share(&applications, 0) - 0.4).abs() < 1e-9);
    let verdict = owners.owner(0).verdict(at(100), 0.4);
    assert!(matches!(verdict, Verdict::NoRoom { .. }), "{verdict:?}");
}

#[test]
fn who_is_behind_with_all_that_it_asked_for_does_not_lack_room() {
    let settings = Settings::default();
    let mut owner = Owner::default();
    for second in 0..40 {
        owner.window(at(second), &settings, &seen(-0.1, 0.5));
        owner.granted(1.0);
    }
    let verdict = owner.verdict(at(40), 1.0);
    assert!(matches!(verdict, Verdict::Behind { .. }), "{verdict:?}");
    owner.granted(0.9);
    let verdict = owner.verdict(at(40), 1.0);
    assert!(matches!(verdict, Verdict::NoRoom { .. }), "{verdict:?}");
}
