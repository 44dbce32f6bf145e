//! Figures of the AppleS paper: the gate in front of a MariaDB or a PostgreSQL under TPC-C or
//! sysbench's OLTP, and of key-value stores under YCSB ([`site::Site`]).
//!
//! A figure is a [`figure::Figure`]: data in a module of this directory, and one line in
//! [`EXPERIMENTS`].

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

use crate::experiment::{Bench, Experiment, Outcome, RunOptions};
use crate::sweep::record::Record;
use crate::sweep::{self, Presentation};
use figure::Figure;

/// All of them, in the order of the paper.
pub(crate) const EXPERIMENTS: &[Experiment] = &[
    users::USERS.experiment(),
    map::EXPERIMENT,
    bounds::BOUNDS.experiment(),
    matching::TPCC.experiment(),
    matching::READS.experiment(),
    matching::WRITES.experiment(),
    matching::ON_POSTGRESQL.experiment(),
    matching::WITH_SYSBENCH.experiment(),
    matching::ON_REDIS.experiment(),
    matching::ON_REDIS_READS.experiment(),
    matching::ON_MONGODB.experiment(),
    matching::ON_MONGODB_READS.experiment(),
    users_by_database::TPCC.experiment(),
    users_by_database::IN_MARIADB.experiment(),
    users_by_database::IN_POSTGRESQL.experiment(),
    users_by_database::IN_REDIS.experiment(),
    users_by_database::IN_MONGODB.experiment(),
    workloads::ON_MARIADB.experiment(),
    workloads::ON_REDIS.experiment(),
    workloads::ON_MONGODB.experiment(),
    load_shift::SHIFT.experiment(),
    slo::SLO.experiment(),
    slo::IN_REDIS.experiment(),
    slo::IN_MONGODB.experiment(),
    cgroups::CGROUPS.experiment(),
    schedulers::EXPERIMENT,
    overhead_below_p::EXPERIMENT,
    cores::EXPERIMENT,
];

/// Tables are kept from experiment to experiment; the runner calls this at the end.
pub(crate) fn forget_data() {
    collect::forget_data();
}

impl Bench for Figure {
    fn collect(&'static self, options: &RunOptions) -> Result<Record> {
        collect::collect(self, options)
    }

    fn report(&'static self, directory: &Path, fresh: bool) -> Result<Outcome> {
        let mut record = sweep::read(directory, self.id)?;
        (self.extend)(&mut record);
        sweep::report(&presentation(self, &record), record, directory, fresh)
    }
}

fn presentation(figure: &'static Figure, record: &Record) -> Presentation<'static> {
    Presentation {
        id: figure.id,
        figure: figure.figure,
        about: figure.about,
        sweep_label: figure.sweep.1,
        caption: format!("{}, windows of {} s", figure.setting(), record.counted_s),
        quick: "little data, short windows and one round; it measures nothing well",
        claims: figure.claims,
        panels: (figure.panels)(),
        ..Presentation::default()
    }
}
