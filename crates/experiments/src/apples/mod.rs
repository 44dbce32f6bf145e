//! Figures of the AppleS paper: the gate in front of a MariaDB or a PostgreSQL under TPC-C or
//! sysbench's OLTP, and of key-value stores under YCSB ([`site::Site`]).
//!
//! A figure is a [`figure::Figure`]: data in a module of this directory, and one line in
//! [`EXPERIMENTS`].

/// The experiment of a figure.
macro_rules! experiment {
    ($figure:expr) => {
        $figure.site.experiment(
            &$figure,
            |options| super::run(&$figure, options),
            |directory| super::report(&$figure, directory, false),
        )
    };
}

mod bounds;
mod cgroups;
mod collect;
mod cores;
mod figure;
pub(crate) mod gate;
mod load_shift;
mod map;
mod matching;
mod measure;
mod overhead_below_p;
mod schedulers;
mod site;
mod slo;
#[cfg(test)]
mod tests;
mod trials;
mod users;
mod users_by_database;
mod workloads;

use std::path::Path;

use anyhow::Result;

use crate::experiment::{Experiment, Outcome, RunOptions};
use crate::sweep::record::Record;
use crate::sweep::{self, Presentation};
use figure::Figure;

/// All of them, in the order of the paper.
pub(crate) const EXPERIMENTS: &[Experiment] = &[
    users::EXPERIMENT,
    map::EXPERIMENT,
    bounds::EXPERIMENT,
    matching::STANDARD,
    matching::READ_MOSTLY,
    matching::WRITE_HEAVY,
    matching::POSTGRESQL,
    matching::SYSBENCH,
    matching::REDIS,
    matching::REDIS_READS,
    matching::MONGODB,
    matching::MONGODB_READS,
    users_by_database::POSTGRESQL,
    users_by_database::SYSBENCH,
    users_by_database::SYSBENCH_POSTGRESQL,
    users_by_database::REDIS,
    users_by_database::MONGODB,
    workloads::SYSBENCH,
    workloads::REDIS,
    workloads::MONGODB,
    load_shift::EXPERIMENT,
    slo::EXPERIMENT,
    slo::REDIS,
    slo::MONGODB,
    cgroups::EXPERIMENT,
    schedulers::EXPERIMENT,
    overhead_below_p::EXPERIMENT,
    cores::EXPERIMENT,
];

/// Tables are kept from experiment to experiment; the runner calls this at the end.
pub(crate) fn forget_data() {
    collect::forget_data();
}

fn run(figure: &'static Figure, options: &RunOptions) -> Result<Outcome> {
    sweep::write(&options.out, &collect::collect(figure, options)?)?;
    report(figure, &options.out, true)
}

fn report(figure: &'static Figure, directory: &Path, fresh: bool) -> Result<Outcome> {
    let mut record = sweep::read(directory, figure.id)?;
    (figure.extend)(&mut record);
    sweep::report(&presentation(figure, &record), record, directory, fresh)
}

fn presentation(figure: &'static Figure, record: &Record) -> Presentation<'static> {
    Presentation {
        id: figure.id,
        figure: figure.figure,
        about: figure.about,
        sweep_label: figure.sweep.1,
        time_label: "s since the begin",
        runs: "rounds",
        caption: format!("{}, windows of {} s", figure.setting(), record.counted_s),
        quick: "little data, short windows and one round; it measures nothing well",
        claims: figure.claims,
        panels: (figure.panels)(),
        ..Presentation::default()
    }
}
