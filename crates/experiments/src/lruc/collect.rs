//! Runs the arms of a sweep in turn, and keeps their runs for other figures of the same sweep.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result};
use headworks_rig::machine::Load;

use super::data;
use super::drive::{self, Setup, Stopped, Time};
use super::figure::{AROUND_S, Arm, Figure, LOAD_S, QUICK, Sweep, TIME, usual};
use crate::experiment::RunOptions;
use crate::interrupt;
use crate::progress::Progress;
use crate::sweep::record::{Record, Run};
use crate::sweep::rounds::{self, Rounds};
use headworks_policy::random::Random;

/// Attempts at a run. It is repeated if the process was stopped during it.
const TRIES: usize = 4;

/// How a sweep is run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Plan {
    pub(super) quick: bool,
    pub(super) seed: u64,
    pub(super) rounds: usize,
    pub(super) time: Time,
}

impl Plan {
    pub(super) fn new(sweep: &Sweep, options: &RunOptions) -> Self {
        let (time, rounds) = if options.quick { (QUICK, 1) } else { (TIME, sweep.rounds) };
        // Windows are far below 2^52 s.
        let window_s = options.window_s.map_or(time.window_s, |seconds| seconds.max(1) as f64);
        Self {
            quick: options.quick,
            seed: options.seed,
            rounds: options.repeat.unwrap_or(rounds).max(1),
            time: Time { window_s, ..time },
        }
    }
}

/// What a sweep gave, and how it was run.
struct Kept {
    sweep: &'static str,
    plan: Plan,
    record: Record,
}

static KEPT: Mutex<Vec<Kept>> = Mutex::new(Vec::new());

/// Frees the databases and records.
pub(super) fn forget() {
    data::forget();
    KEPT.lock().unwrap_or_else(PoisonError::into_inner).clear();
}

/// Runs a figure's sweep, or takes the record if another figure has run it.
pub(super) fn collect(figure: &'static Figure, options: &RunOptions) -> Result<Record> {
    let plan = Plan::new(figure.sweep, options);
    let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
    let found = kept.iter().find(|kept| kept.sweep == figure.sweep.name && kept.plan == plan);
    let mut record = match found {
        Some(kept) => kept.record.clone(),
        None => {
            let record = run_sweep(figure, options, &plan)?;
            kept.push(Kept { sweep: figure.sweep.name, plan, record: record.clone() });
            record
        }
    };
    figure.id.clone_into(&mut record.header.id);
    figure.title.clone_into(&mut record.header.title);
    figure.figure.clone_into(&mut record.header.figure);
    Ok(record)
}

/// One run to do.
#[derive(Clone, Copy)]
struct Task {
    arm: &'static Arm,
    at: f64,
    setup: Setup,
}

fn tasks(sweep: &'static Sweep, plan: &Plan) -> Vec<Task> {
    let points = sweep.points(plan.quick);
    let of = |arm: &'static Arm| {
        points.iter().map(move |&at| {
            let mut setup = Setup { frequency: arm.frequency, ..usual(arm.strategy, plan.quick) };
            (sweep.at)(at, &mut setup);
            Task { arm, at, setup }
        })
    };
    sweep.arms.iter().flat_map(of).collect()
}

fn run_sweep(figure: &'static Figure, options: &RunOptions, plan: &Plan) -> Result<Record> {
    let sweep = figure.sweep;
    let tasks = tasks(sweep, plan);
    let load_s = if plan.quick { LOAD_S.1 } else { LOAD_S.0 };
    let run_s = plan.time.total_s() + AROUND_S;
    let loads = sweep.workloads().len() as f64;
    let expected_s = loads * load_s + run_s * (tasks.len() * plan.rounds) as f64;
    let title = format!("{}: {}", figure.id, figure.title);
    let mut progress = Progress::new(&title, Duration::from_secs_f64(expected_s));
    let experiment = figure.experiment();
    let rounds = Rounds::begin(&experiment, options);
    let mut random = Random::new(plan.seed);
    let mut runs: Vec<(&str, f64, Run)> = Vec::new();
    for round in 1..=plan.rounds {
        for workload in sweep.workloads() {
            let database = workload.database(plan.quick);
            let mut mine: Vec<Task> =
                tasks.iter().filter(|task| task.arm.workload == workload).copied().collect();
            random.shuffle(&mut mine);
            let expected = if round == 1 { load_s } else { 0.0 };
            progress.step(&database.describe(), Duration::from_secs_f64(expected));
            let data = data::get(database, &mut || {
                progress.tick();
                interrupt::check()
            })?;
            for task in mine {
                let label = task.arm.label;
                let name = format!("round {round}/{} · {label} · {}", plan.rounds, task.at);
                progress.step(&name, Duration::from_secs_f64(run_s));
                let mut tick = || {
                    progress.tick();
                    interrupt::check()
                };
                let seed = plan.seed.wrapping_add(round as u64);
                let mut tries = TRIES;
                let numbers = loop {
                    let numbers = drive::run(&task.setup, &data, plan.time, seed, &mut tick);
                    tries -= 1;
                    match numbers {
                        Err(error) if tries > 0 && error.is::<Stopped>() => {}
                        other => break other,
                    }
                };
                let numbers =
                    numbers.with_context(|| format!("{label} at {} in round {round}", task.at))?;
                let run = Run {
                    seed: round as u64,
                    numbers,
                    bucket_s: plan.time.window_s,
                    load: Some(Load::at_rest()),
                    ..Run::default()
                };
                runs.push((label, task.at, run));
            }
        }
    }
    let arm = |arm: &Arm| {
        let setup = Setup { frequency: arm.frequency, ..usual(arm.strategy, plan.quick) };
        let mut setup = setup.describe();
        setup.insert("database".to_owned(), arm.workload.database(plan.quick).describe());
        rounds::Arm { label: arm.label, setup, points: sweep.points(plan.quick).to_vec() }
    };
    let seconds = (plan.time.fill_s + plan.time.settle_s, plan.time.window_s);
    Ok(rounds.record(seconds, sweep.axis.0, sweep.arms.iter().map(arm).collect(), &runs))
}
