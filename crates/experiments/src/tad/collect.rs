//! Runs all simulations of a figure, on as many cores as there are. What comes out does not depend
//! on how many.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use headworks_tad::{file, sim};

use super::figure::{Arm, Figure};
use super::measure::measure;
use crate::experiment::RunOptions;
use crate::interrupt;
use crate::progress::Progress;
use crate::sweep::record::{ArmRecord, Point, Run};

/// Seeds of a full and of a quick run.
const SEEDS: (usize, usize) = (20, 3);

/// Interval at which Ctrl-C is checked for.
const POLL_INTERVAL: Duration = Duration::from_millis(200);

/// How much is simulated.
#[derive(Debug, Clone, Copy)]
pub(super) struct Plan {
    pub(super) counted_s: u64,
    pub(super) first_seed: u64,
    pub(super) seeds: usize,
    pub(super) workers: usize,
    /// Only these points of the sweep; `None` for all.
    pub(super) only: Option<&'static [f64]>,
}

impl Plan {
    pub(super) fn new(figure: &Figure, options: &RunOptions) -> Self {
        let (counted_s, seeds) = if options.quick {
            (figure.time.quick_s, SEEDS.1)
        } else {
            (figure.time.full_s, SEEDS.0)
        };
        Self {
            counted_s: options.window_s.unwrap_or(counted_s).max(1),
            first_seed: options.seed,
            seeds: options.repeat.unwrap_or(seeds).max(1),
            workers: std::thread::available_parallelism().map_or(1, |cores| cores.get()),
            only: None,
        }
    }
}

/// One simulation to do: arm, point, seed.
#[derive(Debug, Clone, Copy)]
struct Task<'a> {
    arm: &'a Arm,
    at: f64,
    seed: u64,
}

/// Runs everything. The order of the results is that of arms, points and seeds.
pub(super) fn collect(
    figure: &Figure,
    plan: &Plan,
    progress: &mut Progress,
) -> Result<Vec<ArmRecord>> {
    let mut tasks = Vec::new();
    let points: Vec<f64> = figure
        .axis
        .points
        .iter()
        .copied()
        .filter(|point| plan.only.is_none_or(|only| only.contains(point)))
        .collect();
    for arm in &figure.arms {
        for &at in &points {
            tasks.extend((0..plan.seeds as u64).map(|more| Task {
                arm,
                at,
                seed: plan.first_seed.wrapping_add(more),
            }));
        }
    }
    let mut runs = run_all(figure, plan, &tasks, progress)?.into_iter();
    let arms = figure.arms.iter().map(|arm| ArmRecord {
        arm: arm.label().to_owned(),
        setup: [("system", figure.system_of(arm)), ("maat", &arm.maat)]
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .into(),
        points: points
            .iter()
            .map(|&at| Point { at, runs: runs.by_ref().take(plan.seeds).collect() })
            .collect(),
    });
    Ok(arms.collect())
}

fn run_all(
    figure: &Figure,
    plan: &Plan,
    tasks: &[Task<'_>],
    progress: &mut Progress,
) -> Result<Vec<Run>> {
    let results: Vec<Mutex<Option<Run>>> = tasks.iter().map(|_| Mutex::new(None)).collect();
    let (next, stop) = (AtomicUsize::new(0), AtomicBool::new(false));
    let (report, reports) = mpsc::channel();
    std::thread::scope(|scope| -> Result<()> {
        for _ in 0..plan.workers.clamp(1, tasks.len().max(1)) {
            let report = report.clone();
            scope.spawn(|| {
                let report = report;
                while !stop.load(Ordering::Relaxed) {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    let Some(task) = tasks.get(number) else { break };
                    let result = simulate(figure, plan, task).map(|run| {
                        // No thread panics while it holds the lock, so it cannot be poisoned.
                        *results[number].lock().unwrap_or_else(|lock| lock.into_inner()) =
                            Some(run);
                        number
                    });
                    if report.send(result).is_err() {
                        break;
                    }
                }
            });
        }
        drop(report);
        let mut done = 0;
        let outcome = loop {
            match reports.recv_timeout(POLL_INTERVAL) {
                Ok(Ok(number)) => {
                    done += 1;
                    progress.reach(done as f64 / tasks.len() as f64, tasks[number].arm.label());
                }
                Ok(Err(error)) => break Err(error),
                Err(mpsc::RecvTimeoutError::Timeout) => {}
                Err(mpsc::RecvTimeoutError::Disconnected) => break Ok(()),
            }
            if let Err(error) = interrupt::check() {
                break Err(error);
            }
        };
        stop.store(true, Ordering::Relaxed);
        outcome
    })?;
    let runs = results.into_iter().map(|slot| {
        slot.into_inner()
            .unwrap_or_else(|lock| lock.into_inner())
            .context("a simulation ended without a result")
    });
    runs.collect()
}

fn simulate(figure: &Figure, plan: &Plan, task: &Task<'_>) -> Result<Run> {
    let what = || format!("{}: {} at {}", figure.id, task.arm.label(), task.at);
    let tad = figure.tad(task.arm, task.at).with_context(what)?;
    let text = figure.scenario_text(task.at, plan.counted_s);
    let mut scenario = file::read_scenario(&figure.id, &text, &tad)
        .map_err(|errors| anyhow!("{errors}"))
        .with_context(what)?;
    if task.arm.shipped {
        scenario.value.policy = None;
    }
    let outcome = sim::run(&tad, &scenario.value, task.seed, &mut |_| {}).with_context(what)?;
    let keep: Vec<&str> = figure.keep.iter().map(String::as_str).collect();
    Ok(measure(&outcome, &keep))
}
