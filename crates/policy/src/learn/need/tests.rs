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
        sated: false,
        latency_s: 0.0,
        outstanding: 0.0,
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
    assert_eq!(rig.owners.owner(0).verdict(1.0), Verdict::Met);
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
    let verdict = rig.owners.owner(0).verdict(1.0);
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
        if matches!(owner.verdict(1.0), Verdict::NotStorage { .. }) {
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
    let verdict = owners.owner(0).verdict(0.4);
    assert!(matches!(verdict, Verdict::NotStorage { .. }), "{verdict:?}");
}

/// Two targets beside best effort: the first says that it achieves `lie` of its target, whatever it
/// gets, and may have `limit`. What the second has of its target in the last windows.
fn beside_a_liar(lie: impl Fn(f64) -> f64, limit: f64, need: f64) -> (f64, Verdict) {
    let with_target = |limit| Application { limit, ..Application::with_target(0) };
    let applications = [with_target(limit), with_target(0.9), Application::best_effort(1)];
    let mut owners = Owners::new(Settings::default(), &applications);
    let mut fractions = Fractions::equal(&applications, 2);
    let mut honest = 0.0;
    for second in 0..300 {
        let share = [0, 1, 2].map(|at| fractions.share(&applications, at));
        let best_effort = Observation { dft: None, ..seen(0.0, share[2]) };
        let windows = [
            Some(seen(lie(share[0]) - 1.0, share[0])),
            Some(seen(share[1] / need - 1.0, share[1])),
            Some(best_effort),
        ];
        owners.window(at(second), &applications, &windows, &mut fractions);
        honest += if second >= 200 { share[1] / need / 100.0 } else { 0.0 };
    }
    (honest, owners.owner(0).verdict(limit))
}

#[test]
fn who_says_that_it_achieves_nothing_takes_no_target_from_others() {
    for need in [0.2, 0.35, 0.6, 0.85] {
        for lie in [0.0, 0.001, 0.02] {
            let (honest, verdict) = beside_a_liar(|_| lie, 0.9, need);
            assert!(honest > 0.97, "{lie} beside {need}: {honest}");
            let said = matches!(verdict, Verdict::NotStorage { .. } | Verdict::NoRoom { .. });
            assert!(said, "{verdict:?}");
        }
        // It needs twice what there is: its own misfortune.
        let (honest, verdict) = beside_a_liar(|share| share / 2.0, 0.9, need);
        assert!(honest > if need > 0.8 { 0.9 } else { 0.97 }, "beside {need}: {honest}");
        assert!(matches!(verdict, Verdict::NoRoom { .. }), "{verdict:?}");
    }
}

/// Who needs 0.35 and says half of what it has is as one that needs 0.7 and says the truth: no
/// figure tells them apart. Both give up what Equation 3 says, and a limit bounds it.
#[test]
fn who_says_half_takes_what_an_honest_one_of_twice_the_need_would() {
    let half = |share: f64| share / 0.7;
    let (honest, _) = beside_a_liar(half, 0.9, 0.35);
    // 0.1 is missing: s = λn, so 0.35 λ with λ = 0.1 / (0.7² + 0.35²).
    let equation = 1.0 - 0.35 * 0.1 / (0.49 + 0.1225);
    assert!((honest - equation).abs() < 0.01, "{honest} {equation}");
    let (honest, verdict) = beside_a_liar(half, 0.6, 0.35);
    assert!(honest > 0.99, "{honest}");
    assert!(matches!(verdict, Verdict::NoRoom { .. }), "{verdict:?}");
}

/// A target of 0.25 of the store, alone at first and then beside best effort: the ask in the
/// seconds after.
#[test]
fn who_had_lent_room_has_its_target_when_best_effort_comes_back() {
    for away in [3, 25, 300] {
        let settings = Settings::default();
        let mut owner = Owner::default();
        let mut lowest = f64::MAX;
        for second in 0..away {
            let alone = Observation { lent: true, used: 0.95, ..seen(2.8, 0.9) };
            owner.window(at(second), &settings, &alone);
        }
        // Most of this second it was not alone any more, and had three times its target.
        owner.window(at(away), &settings, &Observation { used: 0.8, ..seen(2.2, 0.9) });
        for second in away + 1..away + 30 {
            let share = owner.ask(&settings).unwrap().min(0.9);
            lowest = lowest.min(share / 0.25);
            owner.granted(1.0);
            owner.window(at(second), &settings, &seen(share / 0.25 - 1.0, share));
        }
        assert!(lowest >= 0.8, "alone for {away} s: {lowest} of the target");
    }
}

/// A load at half of its target that does not wait for others.
fn at_night(second: u64, latency_s: f64) -> Observation {
    let (latency_s, outstanding) = (latency_s, 1_000.0 * latency_s);
    let chance = 0.02 * f64::from(u8::from(second.is_multiple_of(2)));
    Observation { held: false, used: 0.12, latency_s, outstanding, ..seen(-0.5 + chance, 0.25) }
}

#[test]
fn a_load_below_its_target_is_not_behind() {
    let settings = Settings::default();
    for said in [false, true] {
        let mut owner = Owner::default();
        if !said {
            for second in 0..60 {
                let day = Observation { latency_s: 0.012, outstanding: 24.0, ..seen(0.0, 0.25) };
                owner.window(at(second), &settings, &day);
            }
        }
        let mut least: f64 = 1.0;
        for second in 60..600 {
            let night = Observation { sated: said, ..at_night(second, 0.012) };
            owner.window(at(second), &settings, &night);
            least = least.min(owner.depth());
            if second > 100 {
                let verdict = owner.verdict(0.9);
                assert!(matches!(verdict, Verdict::Sated { .. }), "{second}: {verdict:?}");
            }
        }
        assert!(least > 0.9, "{least}");
        let ask = owner.ask(&settings).unwrap();
        assert!((0.2..0.3).contains(&ask), "no arrears: {ask}");
    }
    // Few requests, now and then: storage is not what it waits for.
    let mut owner = Owner::default();
    for second in 0..60 {
        owner.window(at(second), &settings, &at_night(second, 0.000_3));
    }
    let verdict = owner.verdict(0.9);
    assert!(matches!(verdict, Verdict::Sated { .. }), "{verdict:?}");
}

#[test]
fn who_waits_longer_than_when_its_target_was_met_is_behind() {
    let settings = Settings::default();
    let mut owner = Owner::default();
    for second in 0..60 {
        let fine = Observation { held: false, latency_s: 0.01, outstanding: 8.0, ..seen(0.0, 0.3) };
        owner.window(at(second), &settings, &fine);
    }
    let mut least: f64 = 1.0;
    for second in 60..80 {
        let late = Observation {
            latency_s: 0.02,
            used: 0.15,
            held: false,
            outstanding: 8.0,
            ..seen(-0.5, 0.3)
        };
        owner.window(at(second), &settings, &late);
        least = least.min(owner.depth());
        let verdict = owner.verdict(0.9);
        let early = second != 65 || matches!(verdict, Verdict::Behind { .. });
        assert!(early, "{verdict:?}");
    }
    assert!(least < 0.1, "fewer requests of others are tried: {least}");
}

#[test]
fn a_target_that_is_met_is_said_to_be_early() {
    let mut rig = Rig::new(Settings::default());
    for _ in 0..12 {
        rig.window(0.5);
    }
    let verdict = rig.owners.owner(0).verdict(1.0);
    assert!(!matches!(verdict, Verdict::Unknown), "{verdict:?}");
}

#[test]
fn who_is_behind_with_all_that_it_asked_for_does_not_lack_room() {
    let settings = Settings::default();
    let mut owner = Owner::default();
    for second in 0..40 {
        owner.window(at(second), &settings, &seen(-0.1, 0.5));
        owner.granted(1.0);
    }
    let verdict = owner.verdict(1.0);
    assert!(matches!(verdict, Verdict::Behind { .. }), "{verdict:?}");
    owner.granted(0.9);
    let verdict = owner.verdict(1.0);
    assert!(matches!(verdict, Verdict::NoRoom { .. }), "{verdict:?}");
}
