//! Coordinated learning on the real stack: stores and hosts are processes, the disks are modelled
//! in real time.
//!
//! A figure is a [`figure::Figure`]: data in a module of this directory, and one line in
//! [`EXPERIMENTS`]. A round is planned ([`plan`]), its stores and hosts run ([`stack`], [`host`],
//! [`load`], [`process`], [`net`]), and what they did is judged ([`judged`]) as the simulation is.

mod changes;
mod dbt2;
mod figure;
mod host;
mod judged;
mod load;
mod mariadb;
mod net;
mod one;
mod plan;
mod process;
mod scene;
mod stack;
mod three;

use crate::experiment::Experiment;
pub use host::host as learn_host;

/// All of them, in the order of the paper.
pub(crate) const EXPERIMENTS: &[Experiment] = &[
    dbt2::FIG_2.experiment(),
    one::FIGURE.experiment(),
    three::FIGURE.experiment(),
    dbt2::FIG_8.experiment(),
    mariadb::EXPERIMENT,
    changes::LATENCY.experiment(),
    changes::GUESTS.experiment(),
];

#[cfg(test)]
mod tests {
    #[test]
    fn a_quick_run_is_over_within_two_minutes() {
        for experiment in super::EXPERIMENTS {
            let (id, seconds) = (experiment.id, experiment.expected_quick_s);
            assert!((20..=120).contains(&seconds), "{id}: {seconds} s");
        }
    }
}
