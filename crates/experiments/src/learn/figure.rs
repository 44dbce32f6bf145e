//! What an experiment of this family consists of, and how its runs are made.
//!
//! A figure is data: the applications of each host, what they are to have, the phases of a run, and
//! the arms. All arms of a round run at the same time, each with its own store, hosts and modelled
//! disks. Before them, a round measures what its targets and the best fixed shares are.

use super::judged;
use super::plan::{MEASURE_S, Plan};
use super::scene::{Member, Way};
use super::stack::{self, Setup};
use crate::experiment::{Bench, Experiment, Outcome, RunOptions};
use crate::progress::Progress;
use crate::sweep::panel::Panel;
use crate::sweep::record::{Record, Run};
use crate::sweep::rounds::{self, Rounds};
use crate::sweep::{self, Claim, Presentation};
use crate::work::Work;
use anyhow::Result;
use std::path::Path;
use std::time::Duration;

/// An arm: who divides, under a name.
#[derive(Debug, Clone, Copy)]
pub(super) struct Arm {
    pub label: &'static str,
    pub way: Way,
    /// Whether a quick run has it.
    pub quick: bool,
}

impl Arm {
    pub(super) const fn new(label: &'static str, way: Way) -> Self {
        Arm { label, way, quick: true }
    }

    pub(super) const fn full_only(self) -> Self {
        Arm { quick: false, ..self }
    }
}

/// A figure of the family.
pub(super) struct Figure {
    pub id: &'static str,
    pub title: &'static str,
    pub figure: &'static str,
    pub about: &'static str,
    pub axis: &'static str,
    pub points: &'static [f64],
    pub quick_points: &'static [f64],
    pub members: fn(f64) -> Vec<Member>,
    /// Names of the phases, and their parts of the time.
    pub phases: &'static [(&'static str, f64)],
    /// Seconds of all phases, and rounds; for a full and for a quick run.
    pub times: [(u64, usize); 2],
    pub arms: &'static [Arm],
    pub claims: &'static [Claim],
    pub panels: fn() -> Vec<Panel>,
    pub columns: &'static [(&'static str, &'static str)],
}

/// Starting and stopping, in seconds.
const AROUND_S: u64 = 6;

impl Figure {
    pub(super) const fn experiment(&'static self) -> Experiment {
        let [full, quick] = self.times;
        let around = MEASURE_S + 2 * AROUND_S;
        Experiment {
            id: self.id,
            title: self.title,
            paper: "Coordinated learning",
            figure: self.figure,
            expected_s: (full.0 + around) * (self.points.len() * full.1) as u64,
            expected_quick_s: (quick.0 + around) * (self.quick_points.len() * quick.1) as u64,
            needs: &["root, or a machine without other work"],
            bench: self,
        }
    }

    /// When each phase ends.
    fn ends_s(&self, all_s: u64) -> Vec<u64> {
        let mut so_far = 0.0;
        let end = |(_, part): &(&str, f64)| {
            so_far += part;
            (so_far * all_s as f64).round() as u64
        };
        self.phases.iter().map(end).collect()
    }
}

impl Bench for Figure {
    fn collect(&'static self, options: &RunOptions) -> Result<Record> {
        collect(self, options)
    }

    fn report(&'static self, directory: &Path, fresh: bool) -> Result<Outcome> {
        let record = sweep::read(directory, self.id)?;
        let show = Presentation {
            id: self.id,
            figure: self.figure,
            about: self.about,
            sweep_label: self.axis,
            caption: format!("Real stores and hosts on modelled disks, {} s", record.counted_s),
            appendix: appendix(self, &record),
            claims: self.claims,
            columns: self.columns,
            panels: (self.panels)(),
            ..Presentation::default()
        };
        sweep::report(&show, record, directory, fresh)
    }
}

/// The times over the rounds, for which a median of numbers is no good: some are *never*.
fn appendix(figure: &Figure, record: &Record) -> String {
    let mut rows = Vec::new();
    for arm in &record.arms {
        for point in &arm.points {
            let times = figure.phases.iter().map(|(name, _)| judged::times(&point.runs, name));
            let cells = [arm.arm.clone(), point.at.to_string()].into_iter().chain(times);
            rows.push((String::new(), cells.collect()));
        }
    }
    let names = figure.phases.iter().map(|(name, _)| *name);
    let heads: Vec<&str> = ["arm", figure.axis].into_iter().chain(names).collect();
    let table = crate::html::table(&heads, &rows, 2);
    format!("<h2>Seconds until targets are met: median / 90 %</h2>\n{table}")
}

fn collect(figure: &'static Figure, options: &RunOptions) -> Result<Record> {
    let program = options.headworks()?;
    let (all_s, rounds) = figure.times[usize::from(options.quick)];
    let all_s = options.window_s.unwrap_or(all_s).max(10);
    let rounds = options.repeat.unwrap_or(rounds).max(1);
    let axis = (figure.id, figure.axis);
    let points = options.points(axis, figure.points, figure.quick_points)?;
    let chosen = |arm: &&Arm| match &options.only {
        Some(only) => arm.label.contains(only.as_str()),
        None => arm.quick || !options.quick,
    };
    let arms: Vec<&Arm> = figure.arms.iter().filter(chosen).collect();
    let each = Duration::from_secs(all_s + AROUND_S);
    let measures = Duration::from_secs(MEASURE_S + AROUND_S);
    let title = format!("{}: {}", figure.id, figure.title);
    let mut progress = Progress::new(&title, (each + measures) * (points.len() * rounds) as u32);
    let experiment = figure.experiment();
    let schedule = Rounds::begin(&experiment, options);
    let work = Work::new(options, 1 << 30)?;
    let mut runs = Vec::new();
    for round in 1..=rounds as u64 {
        for &at in points {
            let members = (figure.members)(at);
            let seed = options.seed + round - 1;
            let plan = Plan { members: &members, ends_s: figure.ends_s(all_s), seed };
            progress.step(&format!("round {round}/{rounds} · {at} · what targets are"), measures);
            let outcomes = stack::together(&plan.basis_setups(), &program, work.path())?;
            let basis = plan.basis(&outcomes);
            let sigma = 100.0 * basis.sigma;
            progress.note(&format!("sigma of 5 s under fixed shares: {sigma:.1} %"));
            progress.step(&format!("round {round}/{rounds} · {at} · all arms"), each);
            let setups: Vec<Setup> = arms.iter().map(|arm| plan.arm(arm.way, &basis)).collect();
            let outcomes = stack::together(&setups, &program, work.path())?;
            for (arm, outcome) in arms.iter().zip(&outcomes) {
                let run = plan.run(figure.phases, &basis, arm.way, outcome);
                runs.push((arm.label, at, Run { seed, ..run }));
            }
        }
    }
    let described = |arm: &&Arm| {
        let setup = [("divides".to_owned(), format!("{:?}", arm.way))].into();
        rounds::Arm { label: arm.label, setup, points: points.to_vec() }
    };
    let arms = arms.iter().map(described).collect();
    Ok(schedule.record((0.0, all_s as f64), figure.axis, arms, &runs))
}
