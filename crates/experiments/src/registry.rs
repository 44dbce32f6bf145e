//! The list of experiments, and the three things one can do with it: show it, run from it, report
//! again.

use std::path::Path;
use std::sync::LazyLock;

use anyhow::{Result, bail, ensure};

use crate::experiment::{Experiment, Outcome, RunOptions};
use crate::{
    apples, demo, everyday, gate_mariadb, gate_postgres, gate_redis, hbase, index, interrupt,
    learn, lruc, neighbours, recorder, split, tad,
};

static EXPERIMENTS: LazyLock<Vec<Experiment>> = LazyLock::new(|| {
    let gates = [
        demo::EXPERIMENT,
        gate_mariadb::EXPERIMENT,
        gate_postgres::EXPERIMENT,
        gate_redis::EXPERIMENT,
        neighbours::EXPERIMENT,
    ];
    [
        &gates[..],
        everyday::EXPERIMENTS,
        apples::EXPERIMENTS,
        &tad::experiments(),
        lruc::EXPERIMENTS,
        split::EXPERIMENTS,
        learn::EXPERIMENTS,
        hbase::EXPERIMENTS,
        recorder::EXPERIMENTS,
    ]
    .concat()
});

/// Every experiment there is.
pub fn list() -> &'static [Experiment] {
    &EXPERIMENTS
}

/// Looks an experiment up.
pub fn find(id: &str) -> Option<&'static Experiment> {
    list().iter().find(|experiment| experiment.id == id)
}

/// Runs experiments one after the other, with progress on standard error, and writes their records,
/// pictures and pages into `options.out`.
///
/// SIGINT and SIGTERM end the run with an error after everything that was started is gone.
pub fn run(ids: &[impl AsRef<str>], options: &RunOptions) -> Result<Vec<Outcome>> {
    let mut experiments = Vec::new();
    for id in ids {
        let id = id.as_ref();
        match find(id) {
            Some(experiment) => experiments.push(experiment),
            None => {
                bail!("no experiment `{id}`; `headworks bench list` names them all: {}", names())
            }
        }
    }
    ensure!(!experiments.is_empty(), "name at least one experiment: {}", names());
    std::fs::create_dir_all(&options.out).map_err(|error| {
        anyhow::anyhow!("cannot create the output directory {}: {error}", options.out.display())
    })?;
    let _watch = interrupt::Watch::new();
    let _tables = Tables;
    let mut outcomes = Vec::new();
    for experiment in experiments {
        outcomes.push(experiment.run(options)?);
        index::write(&options.out, list())?;
    }
    Ok(outcomes)
}

/// Removes what experiments keep for each other.
struct Tables;

impl Drop for Tables {
    fn drop(&mut self) {
        apples::forget_data();
        lruc::forget_data();
    }
}

/// Analyses and draws again every record in a directory.
pub fn report(directory: &Path) -> Result<Vec<Outcome>> {
    let mut outcomes = Vec::new();
    for experiment in list() {
        if directory.join(format!("{}.json", experiment.id)).exists() {
            outcomes.push(experiment.bench.report(directory, false)?);
        }
    }
    ensure!(
        !outcomes.is_empty(),
        "{} holds no record of an experiment ({})",
        directory.display(),
        names()
    );
    index::write(directory, list())?;
    Ok(outcomes)
}

fn names() -> String {
    list().iter().map(|experiment| experiment.id).collect::<Vec<_>>().join(", ")
}
