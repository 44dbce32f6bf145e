//! What controllers must show, on few seeds and in seconds. The whole tables are printed by
//! `cargo run --release -p headworks-store --example learn`.

use headworks_policy::learn::need::{Owners, Settings, Verdict};
use headworks_store::learner::Learner;
use headworks_store::sim::app::{App, applications, dbt2_and_three};
use headworks_store::sim::array::Kind;
use headworks_store::sim::figure::{Experiment, figure};
use headworks_store::sim::fluid::Fluid;
use headworks_store::sim::judge;
use headworks_store::sim::request::Stack;
use headworks_store::sim::run::{Feed, quiet, run};
use headworks_store::sim::scenario::{Scenario, all, play};
use headworks_store::sim::{HELD_OUT, scale, stack};
use std::ops::Range;

fn seeds(count: u64) -> Range<u64> {
    HELD_OUT.start..HELD_OUT.start + count
}

/// The paper's three outcomes: alone a controller converges in minutes, three at once do not hold,
/// with the token they converge in about half an hour.
#[test]
fn automata_have_the_papers_three_outcomes() {
    let run = |learner: &Learner, alone, seconds| {
        let row = figure(Experiment::Four, learner, alone, 0.05, seconds, seeds(10));
        println!("{row}");
        row
    };
    let single = run(&Learner::SINGLE, true, 4_000);
    let single_s = single.rate.median_s.expect("it converges");
    assert!((50..1_000).contains(&single_s), "{single}");
    let uncoordinated = run(&Learner::UNCOORDINATED, false, 4_000);
    assert!(uncoordinated.rate.never >= 8 && uncoordinated.held < 0.25, "{uncoordinated}");
    let token = run(&Learner::TOKEN, false, 8_000);
    let token_s = token.rate.median_s.expect("it converges");
    assert!(token_s > single_s && token_s < 4_000, "{token}");
    assert!(token.held > uncoordinated.held, "{token}");
}

#[test]
fn need_and_lag_meet_targets_at_once_and_hold_them() {
    for experiment in [Experiment::Four, Experiment::Dbt2] {
        for alone in [true, false] {
            let row = figure(experiment, &Learner::Lag, alone, 0.05, 1_500, seeds(10));
            println!("{row}");
            assert!(row.delivered.median_s.is_some_and(|median| median <= 15), "{row}");
            assert!(row.delivered.p90_s.is_some_and(|p90| p90 <= 45), "{row}");
            // With all of the store promised and one lever for two applications, a host's noise is
            // not made up for.
            let least = if alone && experiment == Experiment::Four { 0.8 } else { 0.95 };
            assert!(row.held >= least, "{row}");
        }
    }
}

/// Each case of faults and changes. What is not reached is in the list, with what is.
#[test]
fn need_and_lag_survive_changes_and_faults() {
    // Case, least part of windows held, most seconds of the median.
    let weaker = [
        // No room, so neither is met; both get the least-squares shares.
        ("infeasible: needs 1.2", 0.0, None),
        ("step, dft 5 s late, not paired", 0.5, Some(60)),
        // A lag of 0.3 cannot follow this period.
        ("cost swings by 30 % in 60 s", 0.0, None),
        // Credit counts for little, so some windows are above the target.
        ("cost swings by 30 % in 20 s", 0.75, Some(60)),
        ("cost swings by 30 % in 180 s", 0.65, Some(120)),
    ];
    for scenario in all(900..1_800) {
        let row = play(&scenario, &Learner::Depth, 0.05, seeds(5));
        println!("{row}");
        let usual = (scenario.name, 0.9, Some(60));
        let (_, held, median) =
            weaker.iter().find(|(name, ..)| *name == scenario.name).copied().unwrap_or(usual);
        assert!(row.held >= held, "{row}");
        if let Some(most) = median {
            assert!(row.delivered.median_s.is_some_and(|median| median <= most), "{row}");
        }
    }
}

/// Loads that swing, on a hundred seeds that no other test has: parts of the windows of 30 s that
/// are within 5 % of the target, and that are not short of it.
#[test]
fn swings_are_held_on_fresh_seeds() {
    let least = [
        ("cost swings by 30 % in 20 s", 0.75, 0.9),
        ("cost swings by 30 % in 180 s", 0.65, 0.8),
        ("cost swings by 30 % in 600 s", 0.9, 0.9),
    ];
    for scenario in all(900..1_800) {
        let case = least.iter().find(|(name, ..)| *name == scenario.name);
        let Some((name, within, not_short)) = case else { continue };
        let (_, target) = scenario.goals[0];
        let (mut held, mut fine) = (Vec::new(), 0.0);
        for seed in 70_000..70_100 {
            let mut plant = Fluid::new(scenario.apps.clone(), 0.05, seed);
            let mut controller =
                Learner::Depth.build(&applications(&scenario.apps), true, false, seed);
            let Scenario { feed, happens, .. } = &scenario;
            let trace = run(&mut plant, controller.as_mut(), 1_800, feed, seed, happens);
            held.push(judge::held(&trace, &scenario.goals, 1_200, 1_800));
            let rates: Vec<f64> = trace[1_200..].iter().map(|second| second[0].rate).collect();
            let windows = rates.windows(judge::DELIVERED_S);
            let count = windows.len() as f64;
            let mean = |window: &[f64]| window.iter().sum::<f64>() / window.len() as f64;
            let enough = windows.filter(|window| mean(window) >= 0.95 * target).count();
            fine += enough as f64 / count / 100.0;
        }
        held.sort_by(f64::total_cmp);
        let mean = held.iter().sum::<f64>() / held.len() as f64;
        println!(
            "{name}: within 5 %: mean {mean:.2}, worst tenth {:.2}; not short {fine:.2}",
            held[10]
        );
        assert!(mean >= *within && fine >= *not_short, "{name}: {mean} {fine}");
    }
}

/// With the schedulers and device models of a real store.
#[test]
fn requests_meet_targets_on_disks() {
    let fair = Stack::fair(Kind::Disks);
    for case in [stack::four(fair, 200..300), stack::dbt2(fair, 64, 0.6, 1.25, 300..500)] {
        for row in stack::play(&case, &Learner::Depth, seeds(2)) {
            println!("{row}");
            assert!(row.delivered.median_s.is_some_and(|median| median <= 30), "{row}");
            assert!(row.held >= 0.8, "{row}");
        }
    }
}

/// Eight threads wait for the device and not for their share: only the depth helps.
#[test]
fn a_target_held_by_latency_needs_the_depth() {
    let case = stack::dbt2(Stack::fair(Kind::Disks), 8, 0.6, 1.0, 500..501);
    let share_only = stack::play(&case, &Learner::Lag, seeds(2)).remove(0);
    let with_depth = stack::play(&case, &Learner::Depth, seeds(2)).remove(0);
    println!("{share_only}\n{with_depth}");
    assert!(share_only.mean[0] < 0.9, "{share_only}");
    assert!(with_depth.mean[0] > 0.97 && with_depth.held >= 0.8, "{with_depth}");
    assert!(with_depth.delivered.median_s.is_some_and(|median| median <= 120), "{with_depth}");
}

/// Two targets, a step, a join and an end, with the schedulers of a real store.
#[test]
fn two_targets_are_held_while_others_come_and_go() {
    for phase in stack::mix(Stack::fair(Kind::Disks), &Learner::Depth, 240, seeds(2)) {
        println!("{phase:?}");
        assert!(phase.held[0] >= 0.8, "{phase:?}");
        assert!(phase.held[1] >= 0.8 || phase.name == "one target ends", "{phase:?}");
        assert!(phase.best_effort > 100.0, "{phase:?}");
    }
}

/// What cannot be met is said within a minute, with the shortfall, through the noise; what can be
/// met is not complained of.
#[test]
fn a_target_that_cannot_be_met_is_said_within_a_minute() {
    for sigma in [0.05, 0.1] {
        for seed in seeds(20) {
            let said = |needs: f64, seconds: usize| {
                let apps = dbt2_and_three(25.0 * needs);
                let about: Vec<_> = apps.iter().map(App::application).collect();
                let mut owners = Owners::new(Settings::default(), &about);
                let mut plant = Fluid::new(apps, sigma, seed);
                let feed = Feed::default();
                run(&mut plant, &mut owners, seconds, &feed, seed, &quiet);
                owners.owner(0).verdict(1.0)
            };
            let verdict = said(1.2, 60);
            let Verdict::NoRoom { shortfall, need } = verdict else { panic!("{verdict:?}") };
            assert!(
                (shortfall - 0.21).abs() < 0.12 && (need / 1.2 - 1.0).abs() < 0.15,
                "{verdict:?}"
            );
            for seconds in [60, 120, 300] {
                let verdict = said(0.6, seconds);
                let no = matches!(verdict, Verdict::NoRoom { .. } | Verdict::NotStorage { .. });
                assert!(!no, "{verdict:?} after {seconds} s");
            }
        }
    }
}

#[test]
fn many_hosts_and_stores_follow_changes() {
    let usual = scale::Settings::default();
    let settings = scale::Settings { hosts: 100, stores: 10, seconds: 1_800, ..usual };
    let outcome = scale::scale(settings, HELD_OUT.start);
    println!("{outcome:?}");
    assert!(outcome.changes > 20 && outcome.followed_p99_s <= 30, "{outcome:?}");
    assert!(outcome.held >= 0.98, "{outcome:?}");
}
