//! Controllers on the request-level plant: the schedulers and device models of a real store.

use super::app::{App, applications, dbt2_and_three, four_oltp};
use super::array::Kind;
use super::figure::{goals, scramble};
use super::judge::{self, Times};
use super::report::Row;
use super::request::{Requests, Stack, capacity};
use super::run::{Feed, Plant, Trace, quiet, run};
use crate::learner::Learner;
use headworks_policy::learn::allocate::{Claim, allocate};
use headworks_policy::learn::{Application, Controller};
use std::ops::Range;

/// A case: applications beside each other, and a step.
#[derive(Clone, Debug)]
pub struct Case {
    /// In tables.
    pub name: String,
    /// Both levels.
    pub stack: Stack,
    /// Who shares the store.
    pub apps: Vec<App>,
    /// From the event on, the first application's transactions cost so many times as much.
    pub step: f64,
    /// The event's second, and the end.
    pub span: Range<usize>,
}

/// Transactions a second of DBT-2 with this many threads and no other application.
pub fn alone(stack: Stack, threads: usize, seed: u64) -> f64 {
    let mut apps = dbt2_and_three(1.0);
    apps[0].threads = threads;
    apps[1..].iter_mut().for_each(|app| app.on = false);
    let mut plant = Requests::new(stack, apps, 1.0, seed);
    let mut rate = 0.0;
    for second in 0..35 {
        let figures = plant.second();
        rate += if second >= 5 { figures[0].rate / 30.0 } else { 0.0 };
    }
    rate
}

/// DBT-2 with a target of this part of what it does alone.
pub fn dbt2(stack: Stack, threads: usize, part: f64, step: f64, span: Range<usize>) -> Case {
    let mut apps = dbt2_and_three(part * alone(stack, threads, 1));
    apps[0].threads = threads;
    let name = format!("{}: DBT-2, {threads} threads, {part} of alone", stack.kind.name());
    Case { name, stack, apps, step, span }
}

/// Four OLTP-A, each with the mean rate that equal fractions give.
pub fn four(stack: Stack, span: Range<usize>) -> Case {
    let mut plant = Requests::new(stack, four_oltp(1.0), capacity(stack.kind), 3);
    let mut rate = 0.0;
    for second in 0..70 {
        let figures = plant.second();
        let all: f64 = figures.iter().map(|figures| figures.rate).sum();
        rate += if second >= 10 { all / 240.0 } else { 0.0 };
    }
    let name = format!("{}: four OLTP-A, {rate:.0} a second each", stack.kind.name());
    Case { name, stack, apps: four_oltp(rate), step: 1.0, span }
}

/// The least share that meets the first application's target, by bisection, and what best effort
/// does beside it: the best fixed shares. `None` if no share does.
pub fn best_fixed(case: &Case, capacity: f64) -> Option<(f64, f64)> {
    let about = applications(&case.apps);
    let (mut low, mut high, mut found) = (0.02, 0.98, None);
    for _ in 0..8 {
        let middle = 0.5 * (low + high);
        let mut plant = Requests::new(case.stack, case.apps.clone(), capacity, 7);
        let claim = |(at, about): (usize, &Application)| {
            Claim::new(about.target.then_some(if at == 0 { middle } else { 0.0 }), 1.0)
        };
        let claims: Vec<Claim> = about.iter().enumerate().map(claim).collect();
        let mut shares = vec![0.0; claims.len()];
        allocate(&claims, 0.02, &mut shares);
        plant.fractions().set_shares(&about, &shares);
        let (mut rate, mut others) = (0.0, 0.0);
        for second in 0..70 {
            let figures = plant.second();
            if second >= 10 {
                rate += figures[0].rate / 60.0;
                others += figures[1..].iter().map(|figures| figures.rate).sum::<f64>() / 60.0;
            }
        }
        if rate >= case.apps[0].target.unwrap_or(0.0) {
            (high, found) = (middle, Some((middle, others)));
        } else {
            low = middle;
        }
    }
    found
}

/// Plays a case: a row for the beginning, and one for what follows the step, if there is one.
pub fn play(case: &Case, learner: &Learner, seeds: Range<u64>) -> Vec<Row> {
    let capacity = capacity(case.stack.kind);
    let Range { start: at, end } = case.span.clone();
    let goals = goals(&case.apps);
    let mut phases = vec![(case.name.clone(), 0, at, best_fixed(case, capacity))];
    if case.step != 1.0 {
        let mut after = case.clone();
        after.apps[0].ios *= case.step;
        let name = format!("{}, cost × {}", case.name, case.step);
        phases.push((name, at, end, best_fixed(&after, capacity)));
    }
    let traces: Vec<_> = seeds
        .map(|seed| {
            let mut plant = Requests::new(case.stack, case.apps.clone(), capacity, seed);
            scramble(plant.fractions(), None, seed);
            let mut controller = learner.build(&applications(&case.apps), false, false, seed);
            let factor = case.step;
            let step =
                move |second: usize, plant: &mut dyn Plant, controller: &mut dyn Controller| {
                    if second == at {
                        plant.apps_mut()[0].ios *= factor;
                    }
                    quiet(second, plant, controller);
                };
            let trace = run(&mut plant, controller.as_mut(), end, &Feed::default(), seed, &step);
            (trace, controller.name())
        })
        .collect();
    let row = |(name, from, to, best): &(String, usize, usize, Option<(f64, f64)>)| {
        let (from, to) = (*from, *to);
        let tail = from.max(to.saturating_sub(600)).max(from + (to - from) / 4);
        let of = |f: &dyn Fn(&Trace) -> f64| {
            traces.iter().map(|(trace, _)| f(trace)).sum::<f64>() / traces.len().max(1) as f64
        };
        let times: Vec<_> =
            traces.iter().map(|(t, _)| judge::delivered(t, &goals, from, to)).collect();
        // A rate is a mean of five seconds here, since nothing knows it without its noise.
        let mean = goals.iter().map(|(at, goal)| of(&|t| judge::mean(t, *at, tail, to) / goal));
        let others = (0..case.apps.len()).filter(|at| case.apps[*at].target.is_none());
        let others: Vec<usize> = others.collect();
        let best = best.filter(|_| !others.is_empty());
        let best_effort: f64 = others.iter().map(|at| of(&|t| judge::mean(t, *at, tail, to))).sum();
        Row {
            case: name.clone(),
            controller: traces.first().map_or("", |(_, name)| name),
            sigma: of(&|t| judge::sigma(t, goals[0].0, tail, to)),
            seeds: traces.len(),
            rate: Times::of(&[]),
            delivered: Times::of(&times),
            held: of(&|t| judge::held(t, &goals, tail, to)),
            mean: mean.collect(),
            best_effort: best
                .filter(|(_, others)| *others > 0.0)
                .map(|(_, others)| best_effort / others),
            worst: traces
                .iter()
                .map(|(t, _)| judge::worst(t, &goals, tail, to))
                .fold(f64::MAX, f64::min),
        }
    };
    phases.iter().map(row).collect()
}

/// The cases of the experiments, on these devices.
pub fn cases(kind: Kind, span: Range<usize>) -> Vec<Case> {
    let fair = Stack::fair(kind);
    let mut cases = vec![four(fair, span.clone())];
    for part in [0.4, 0.6, 0.7] {
        cases.push(dbt2(fair, 64, part, 1.25, span.clone()));
    }
    for part in [0.4, 0.6] {
        cases.push(dbt2(fair, 8, part, 1.0, span.clone()));
    }
    cases
}

/// What one phase of [`mix`] gave.
#[derive(Clone, Debug)]
pub struct Phase {
    /// What it began with.
    pub name: &'static str,
    /// Part of the 30 s windows within 5 % of each target.
    pub held: [f64; 2],
    /// Mean ÷ target, in the second half.
    pub mean: [f64; 2],
    /// I/Os a second of best effort in the second half.
    pub best_effort: f64,
}

/// Two targets on two hosts beside best effort, in four phases of `phase_s`: at first, one cost
/// × 1.4, one more OLTP-A, one target's end.
pub fn mix(stack: Stack, learner: &Learner, phase_s: usize, seeds: Range<u64>) -> Vec<Phase> {
    let rate = alone(stack, 64, 1);
    let mut apps = vec![
        App::dbt2(0, 0.3 * rate),
        App::oltp_a(0),
        App { on: false, ..App::oltp_a(0) },
        App { threads: 48, think_s: 0.002, ..App::dbt2(1, 0.22 * rate) },
        App::oltp_a(1),
    ];
    apps[3].ios = 32.0;
    let event = move |second: usize, plant: &mut dyn Plant, _: &mut dyn Controller| {
        let apps = plant.apps_mut();
        match second / phase_s {
            1 if second == phase_s => apps[3].ios *= 1.4,
            2 => apps[2].on = true,
            3 => apps[3].on = false,
            _ => {}
        }
    };
    let names = ["two targets", "one cost × 1.4", "one more OLTP-A", "one target ends"];
    let mut phases =
        names.map(|name| Phase { name, held: [0.0; 2], mean: [0.0; 2], best_effort: 0.0 });
    let part = 1.0 / (seeds.end - seeds.start) as f64;
    let capacity = capacity(stack.kind);
    for seed in seeds {
        let mut plant = Requests::new(stack, apps.clone(), capacity, seed);
        let mut controller = learner.build(&applications(&apps), false, false, seed);
        let trace =
            run(&mut plant, controller.as_mut(), 4 * phase_s, &Feed::default(), seed, &event);
        for (at, phase) in phases.iter_mut().enumerate() {
            let (from, to) = (at * phase_s, (at + 1) * phase_s);
            for (target, app) in [0, 3].into_iter().enumerate() {
                let goal = apps[app].target.unwrap_or(1.0);
                phase.held[target] += part * judge::held(&trace, &[(app, goal)], from + 10, to);
                let mean = judge::mean(&trace, app, from + phase_s / 2, to);
                phase.mean[target] += part * mean / goal;
            }
            for app in [1, 2, 4] {
                phase.best_effort += part * judge::mean(&trace, app, from + phase_s / 2, to);
            }
        }
    }
    phases.to_vec()
}

/// The controllers of a table in each case; automata have as long as the paper gave them.
pub fn table(kind: Kind, seeds: Range<u64>) -> Vec<Row> {
    let capacity = capacity(kind);
    let mut rows = Vec::new();
    for case in cases(kind, 900..1_500) {
        let mut learners =
            vec![Learner::LogPi, Learner::Lag, Learner::Depth, Learner::Integral, Learner::Windows];
        let has_others = case.apps.iter().any(|app| app.target.is_none());
        if let Some((share, _)) = best_fixed(&case, capacity).filter(|_| has_others) {
            let mut reserved = vec![0.0; case.apps.len()];
            reserved[0] = share;
            learners.push(Learner::Reserved(reserved));
        }
        rows.extend(learners.iter().flat_map(|learner| play(&case, learner, seeds.clone())));
    }
    for case in cases(kind, 5_000..6_000).iter().take(4) {
        for learner in [Learner::UNCOORDINATED, Learner::TOKEN] {
            rows.extend(play(case, &learner, seeds.clone()));
        }
    }
    rows
}
