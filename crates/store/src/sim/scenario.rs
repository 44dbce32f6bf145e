//! Changes and faults, on the fluid plant.
//!
//! A case runs quietly until its event, which happens at a fixed second, and is judged from there:
//! how soon what is delivered is on target again, how much of the last 600 s is, how deep the worst
//! 10 s were, and what best effort had of its optimum.

use super::app::{App, applications, dbt2_and_three};
use super::fluid::Fluid;
use super::judge::{self, Goal, Times};
use super::report::Row;
use super::run::{Feed, Plant, run};
use crate::learner::Learner;
use headworks_policy::learn::Controller;
use std::ops::Range;

/// What happens at the event, or each second.
pub type Happens = Box<dyn Fn(usize, &mut dyn Plant, &mut dyn Controller) + Send + Sync>;

/// One case.
pub struct Scenario {
    /// In tables.
    pub name: &'static str,
    /// Who shares the store.
    pub apps: Vec<App>,
    /// How dfts arrive.
    pub feed: Feed,
    /// What happens.
    pub happens: Happens,
    /// What is right from the event on.
    pub goals: Vec<Goal>,
    /// Whether unused shares are lent.
    pub work_conserving: bool,
    /// I/Os a second of best effort under the best fixed shares.
    pub best_effort: f64,
    /// The event's second, and the end.
    pub span: Range<usize>,
}

/// I/Os a second of the plant.
const IOPS: f64 = 800.0;

/// Transactions a second of DBT-2 with the whole store.
const ALONE: f64 = 25.0;

fn base(name: &'static str, needs: f64, after: f64, span: &Range<usize>) -> Scenario {
    Scenario {
        name,
        apps: dbt2_and_three(needs * ALONE),
        feed: Feed::default(),
        happens: Box::new(super::run::quiet),
        goals: vec![(0, needs * ALONE)],
        work_conserving: false,
        best_effort: IOPS * (1.0 - after),
        span: span.clone(),
    }
}

/// A transaction of DBT-2 costs `factor` times as much from the event on.
fn step(name: &'static str, needs: f64, factor: f64, span: &Range<usize>) -> Scenario {
    let at = span.start;
    let happens: Happens = Box::new(move |second, plant, _| {
        if second == at {
            plant.apps_mut()[0].ios *= factor;
        }
    });
    Scenario { happens, ..base(name, needs, needs * factor, span) }
}

fn faulty(name: &'static str, feed: Feed, span: &Range<usize>) -> Scenario {
    Scenario { feed, ..step(name, 0.4, 1.5, span) }
}

fn two(name: &'static str, needs: [f64; 2], get: [f64; 2], span: &Range<usize>) -> Scenario {
    let [first, second] = needs.map(|need| need * ALONE);
    let apps = vec![App::dbt2(0, first), App::oltp_a(0), App::dbt2(1, second), App::oltp_a(1)];
    let goals = vec![(0, get[0] * ALONE), (2, get[1] * ALONE)];
    let best_effort = IOPS * (1.0 - get[0] - get[1]);
    Scenario { apps, goals, best_effort, ..base(name, needs[0], 0.0, span) }
}

fn joins(name: &'static str, with_target: Option<f64>, span: &Range<usize>) -> Scenario {
    let at = span.start;
    let first = with_target.map_or(App::oltp_a(2), |need| App::dbt2(2, need * ALONE));
    let mut apps = dbt2_and_three(0.4 * ALONE);
    apps.extend([App { on: false, ..first }, App { on: false, ..App::oltp_a(2) }]);
    let happens: Happens = Box::new(move |second, plant, _| {
        if second == at {
            plant.apps_mut()[4].on = true;
            plant.apps_mut()[5].on = true;
        }
    });
    let mut scenario = base(name, 0.4, 0.4 + with_target.unwrap_or(0.0), span);
    scenario.goals.extend(with_target.map(|need| (4, need * ALONE)));
    Scenario { apps, happens, ..scenario }
}

/// DBT-2 may do `cap` transactions a second until the event.
fn capped(
    name: &'static str,
    cap: f64,
    from: usize,
    lifted: bool,
    span: &Range<usize>,
) -> Scenario {
    let at = span.start;
    let happens: Happens = Box::new(move |second, plant, _| {
        if second == from {
            plant.apps_mut()[0].cap = cap;
        }
        if lifted && second == at {
            plant.apps_mut()[0].cap = f64::INFINITY;
        }
    });
    Scenario { happens, ..base(name, 0.8, 0.8, span) }
}

fn swings(name: &'static str, period_s: f64, span: &Range<usize>) -> Scenario {
    let happens: Happens = Box::new(move |second, plant, _| {
        let phase = second as f64 / period_s * core::f64::consts::TAU;
        plant.apps_mut()[0].ios = 32.0 * (1.0 + 0.3 * phase.sin());
    });
    Scenario { happens, ..base(name, 0.4, 0.4, span) }
}

fn elastic(name: &'static str, needs: f64, elasticity: f64, span: &Range<usize>) -> Scenario {
    let mut scenario = base(name, needs, needs.powf(1.0 / elasticity), span);
    scenario.apps[0].elasticity = elasticity;
    scenario
}

fn others_rest(name: &'static str, span: &Range<usize>) -> Scenario {
    let (from, at) = (span.start.saturating_sub(1_000).max(300), span.start);
    let happens: Happens = Box::new(move |second, plant, _| {
        for app in &mut plant.apps_mut()[1..] {
            app.on = !(from..at).contains(&second);
        }
    });
    Scenario { happens, work_conserving: true, ..base(name, 0.6, 0.6, span) }
}

fn ends(name: &'static str, span: &Range<usize>) -> Scenario {
    let at = span.start;
    let happens: Happens = Box::new(move |second, plant, _| {
        if second == at {
            plant.apps_mut()[2].on = false;
        }
    });
    let mut scenario = two(name, [0.4, 0.35], [0.4, 0.0], span);
    scenario.goals.truncate(1);
    Scenario { happens, ..scenario }
}

fn retargeted(name: &'static str, span: &Range<usize>) -> Scenario {
    let at = span.start;
    let happens: Happens = Box::new(move |second, plant, controller| {
        if second == at {
            plant.apps_mut()[0].target = Some(0.6 * ALONE);
            controller.retarget(0, 1.5);
        }
    });
    let mut scenario = base(name, 0.4, 0.6, span);
    scenario.goals[0].1 = 0.6 * ALONE;
    Scenario { happens, ..scenario }
}

/// All of them, with the event at the beginning of `span` and the end at its end.
pub fn all(span: Range<usize>) -> Vec<Scenario> {
    let (span, at) = (&span, span.start);
    let late = |late, paired| Feed { late, paired, ..Feed::default() };
    let mut list = vec![
        step("cost × 1.5", 0.4, 1.5, span),
        step("cost ÷ 1.6", 0.8, 1.0 / 1.6, span),
        step("cost × 1.1", 0.7, 1.1, span),
        step("device slows to 0.7", 0.4, 1.0 / 0.7, span),
        retargeted("target × 1.5", span),
        capped("warm-up at 8 a second, then all", 8.0, 0, true, span),
        capped("clients fall to 8 a second, come back", 8.0, at - 300, true, span),
        base("needs 0.55, off the automata's grid", 0.55, 0.55, span),
        base("infeasible: needs 1.2", 1.2, 0.95, span),
        two("two targets, 0.40 and 0.35", [0.4, 0.35], [0.4, 0.35], span),
        two("two targets, 0.7 and 0.6", [0.7, 0.6], [0.498, 0.452], span),
        faulty("step, dft 5 s late, paired", late(5, true), span),
        faulty("step, dft 15 s late, paired", late(15, true), span),
        faulty("step, dft 5 s late, not paired", late(5, false), span),
        faulty("step, half of the dfts lost", Feed { loss: 0.5, ..Feed::default() }, span),
        faulty(
            "step, cut off for 40 s",
            Feed { cut_off: at - 10..at + 30, ..Feed::default() },
            span,
        ),
        faulty(
            "step, owner or holder dead for 60 s",
            Feed { dead: at - 10..at + 50, ..Feed::default() },
            span,
        ),
        joins("a host joins, best effort", None, span),
        joins("a host joins with a target of 0.3", Some(0.3), span),
        ends("one of two targets ends", span),
        elastic("elasticity 0.5", 0.7, 0.5, span),
        elastic("elasticity 1.6", 0.4, 1.6, span),
        others_rest("others idle for 1,000 s, return", span),
        Scenario { work_conserving: true, ..step("cost × 1.5, work-conserving", 0.4, 1.5, span) },
        swings("cost swings by 30 % in 20 s", 20.0, span),
        swings("cost swings by 30 % in 60 s", 60.0, span),
        swings("cost swings by 30 % in 180 s", 180.0, span),
        swings("cost swings by 30 % in 600 s", 600.0, span),
    ];
    let mut elsewhere = capped("held elsewhere at 0.7 of target", 14.0, 0, false, span);
    elsewhere.goals[0].1 = 14.0;
    elsewhere.best_effort = IOPS * (1.0 - 0.56);
    list.push(elsewhere);
    // A smaller device: everybody's I/O costs more.
    let slower = list.iter_mut().find(|case| case.name.starts_with("device"));
    if let Some(slower) = slower {
        slower.best_effort = IOPS * 0.7 * (1.0 - 0.4 / 0.7);
        slower.happens = Box::new(move |second, plant, _| {
            if second == at {
                plant.apps_mut().iter_mut().for_each(|app| app.ios /= 0.7);
            }
        });
    }
    list
}

/// Plays a case.
pub fn play(scenario: &Scenario, learner: &Learner, sigma: f64, seeds: Range<u64>) -> Row {
    let Range { start: at, end } = scenario.span;
    let from = end - 600;
    let count = (seeds.end - seeds.start) as usize;
    let mut row = Row {
        case: scenario.name.to_owned(),
        controller: "",
        sigma,
        seeds: count,
        rate: Times::of(&[]),
        delivered: Times::of(&[]),
        held: 0.0,
        mean: vec![0.0; scenario.goals.len()],
        best_effort: None,
        worst: f64::MAX,
    };
    let (mut rates, mut delivered) = (Vec::new(), Vec::new());
    for seed in seeds {
        let mut plant = Fluid::new(scenario.apps.clone(), sigma, seed);
        plant.work_conserving = scenario.work_conserving;
        let hard = !scenario.work_conserving;
        let mut controller = learner.build(&applications(&scenario.apps), hard, false, seed);
        row.controller = controller.name();
        let trace =
            run(&mut plant, controller.as_mut(), end, &scenario.feed, seed, &scenario.happens);
        let goals = &scenario.goals;
        rates.push(judge::converged(&trace, goals, at, end, 0.05));
        delivered.push(judge::delivered(&trace, goals, at, end));
        let part = 1.0 / count as f64;
        row.held += part * judge::held(&trace, goals, from, end);
        for (mean, (app, goal)) in row.mean.iter_mut().zip(goals) {
            *mean += part * judge::mean(&trace, *app, from, end) / goal;
        }
        // Of one with a target, I/Os beyond the target's are no gain.
        let others = scenario.apps.iter().enumerate().filter(|(_, app)| app.target.is_none());
        let best_effort: f64 = others.map(|(app, _)| judge::mean(&trace, app, from, end)).sum();
        let own = part * best_effort / scenario.best_effort.max(1e-9);
        row.best_effort = Some(row.best_effort.unwrap_or(0.0) + own);
        row.worst = row.worst.min(judge::worst(&trace, goals, at, (at + 120).min(end)));
    }
    row.rate = Times::of(&rates);
    row.delivered = Times::of(&delivered);
    row
}

/// All controllers in every case.
pub fn table(sigma: f64, seeds: Range<u64>) -> Vec<Row> {
    let scenarios = all(4_000..8_000);
    let learners = [
        Learner::TOKEN,
        Learner::LogPi,
        Learner::Need,
        Learner::Lag,
        Learner::Depth,
        Learner::Integral,
    ];
    let pairs =
        scenarios.iter().flat_map(|case| learners.iter().map(move |learner| (case, learner)));
    pairs.map(|(case, learner)| play(case, learner, sigma, seeds.clone())).collect()
}
