//! Runs arms in rounds: every arm once at each of its points, in an order that the seed decides.

use std::collections::BTreeMap;
use std::time::Instant;

use anyhow::Result;
use headworks_rig::machine::Load;

use super::record::{ArmRecord, Point, Record, Run};
use crate::experiment::{Experiment, RunOptions};
use crate::interrupt::{self, Interrupted};
use crate::record::unix_now_s;
use headworks_policy::random::Random;

/// An arm that is to run.
#[derive(Debug, Clone)]
pub(crate) struct Arm {
    pub(crate) label: &'static str,
    /// What it is, beyond its name.
    pub(crate) setup: BTreeMap<String, String>,
    pub(crate) points: Vec<f64>,
}

impl Arm {
    /// One whose server is described by this.
    pub(crate) fn new(label: &'static str, server: String, points: &[f64]) -> Self {
        Self { label, setup: [("server".to_owned(), server)].into(), points: points.to_vec() }
    }
}

/// One run that is due.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Task<'a> {
    pub(crate) arm: &'static str,
    pub(crate) at: f64,
    /// Counted from 1.
    pub(crate) round: u64,
    /// Round, arm and point, for people.
    pub(crate) title: &'a str,
}

/// All rounds of an experiment.
#[derive(Debug)]
pub(crate) struct Rounds<'a> {
    experiment: &'a Experiment,
    options: &'a RunOptions,
    began: Instant,
    recorded_at_unix_s: u64,
    load_before: Load,
}

impl<'a> Rounds<'a> {
    /// Notes the time, and how busy the machine is.
    pub(crate) fn begin(experiment: &'a Experiment, options: &'a RunOptions) -> Self {
        let load_before = Load::at_rest();
        let (began, recorded_at_unix_s) = (Instant::now(), unix_now_s());
        Self { experiment, options, began, recorded_at_unix_s, load_before }
    }

    /// Runs each arm at each point by `one`, `rounds` times. Runs count `counted_s` after
    /// `warmup_s`; `sweep` says what the points are.
    pub(crate) fn collect(
        self,
        rounds: usize,
        (warmup_s, counted_s): (f64, f64),
        sweep: &str,
        arms: Vec<Arm>,
        mut one: impl FnMut(Task<'_>) -> Result<Run>,
    ) -> Result<Record> {
        let points = |arm: &Arm| arm.points.clone().into_iter();
        let mut order: Vec<(&'static str, f64)> =
            arms.iter().flat_map(|arm| points(arm).map(|at| (arm.label, at))).collect();
        let several = arms.iter().any(|arm| arm.points.len() > 1);
        let mut random = Random::new(self.options.seed);
        let mut runs: Vec<(&str, f64, Run)> = Vec::new();
        for round in 1..=rounds as u64 {
            random.shuffle(&mut order);
            for &(arm, at) in &order {
                interrupt::check()?;
                let mut title = format!("round {round}/{rounds} · {arm}");
                if several {
                    title += &format!(" · {at}");
                }
                let run = one(Task { arm, at, round, title: &title }).map_err(|error| {
                    // After Ctrl-C the user need not be told which run it was.
                    if error.is::<Interrupted>() { error } else { error.context(title.clone()) }
                })?;
                runs.push((arm, at, Run { seed: round, ..run }));
            }
        }
        Ok(self.record((warmup_s, counted_s), sweep, arms, &runs))
    }

    /// The record of these runs: each has an arm, a point and a result.
    pub(crate) fn record(
        self,
        (warmup_s, counted_s): (f64, f64),
        sweep: &str,
        arms: Vec<Arm>,
        runs: &[(&str, f64, Run)],
    ) -> Record {
        let of = |label: &str, at: f64| -> Vec<Run> {
            let found = runs.iter().filter(|run| run.0 == label && run.1 == at);
            found.map(|run| run.2.clone()).collect()
        };
        let arms = arms.into_iter().map(|arm| ArmRecord {
            arm: arm.label.to_owned(),
            setup: arm.setup,
            points: arm.points.iter().map(|&at| Point { at, runs: of(arm.label, at) }).collect(),
        });
        Record {
            header: self.experiment.header(self.options, self.recorded_at_unix_s),
            counted_s,
            warmup_s,
            took_s: self.began.elapsed().as_secs_f64(),
            load_before: self.load_before,
            load_after: Load::at_rest(),
            verdicts: Vec::new(),
            sweep: sweep.to_owned(),
            arms: arms.collect(),
        }
    }
}
