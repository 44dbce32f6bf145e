//! Scheduling of files: threads and databases that write, flush and read beside each other, on a
//! modelled device.
//!
//! A figure is a [`figure::Figure`]: data in a module of this directory, and one line in
//! [`EXPERIMENTS`]. Each run has a fresh disk ([`disk`]), and on it a process whose threads are the
//! tasks ([`load`]), or a database.

mod blocked;
mod burst;
mod clock;
mod cost;
mod day;
mod disk;
mod figure;
mod fsync;
mod limit;
mod load;
mod mariadb;
mod metadata;
mod postgres;
mod qemu;
mod redis;
mod shares;
mod sqlite;
mod tails;
mod threads;
mod tokens;
mod wiredtiger;

use crate::experiment::Experiment;
pub(crate) use disk::{Disk, Stack};
pub use load::file_load;
pub(crate) use postgres::make as pgbench_data;
pub(crate) use wiredtiger::{counted as wiredtiger_counted, filled as wiredtiger};

/// All of them, in the order of the chapter.
pub(crate) const EXPERIMENTS: &[Experiment] = &[
    burst::FIG_3.experiment(),
    fsync::FIG_6.experiment(),
    fsync::FIG_14.experiment(),
    shares::FIG_13.experiment(),
    tokens::FIG_15.experiment(),
    tokens::FIG_16.experiment(),
    threads::FIG_17.experiment(),
    metadata::FIG_19.experiment(),
    sqlite::FIG_20.experiment(),
    postgres::FIG_SPLIT.experiment(),
    qemu::FIG_22.experiment(),
    postgres::FIG_4.experiment(),
    postgres::FIG_RCP.experiment(),
    postgres::FIG_10.experiment(),
    redis::FIG_9.experiment(),
    wiredtiger::FIG_7.experiment(),
    mariadb::FIG_8.experiment(),
    limit::FIG_11.experiment(),
    cost::FIG_COST.experiment(),
    clock::FIG_CLOCK.experiment(),
    clock::FIG_BUSY.experiment(),
    day::FIG_DAY.experiment(),
];

#[cfg(test)]
mod tests {
    /// What the figures of quick runs were chosen for. `around_s` is measured.
    #[test]
    fn a_quick_run_is_over_within_two_minutes() {
        for experiment in super::EXPERIMENTS {
            let (id, seconds) = (experiment.id, experiment.expected_quick_s);
            assert!((20..=120).contains(&seconds), "{id}: {seconds} s");
        }
    }
}
