//! Figures of the AppleS paper: the gate in front of a MariaDB under TPC-C.
//!
//! A figure is a [`figure::Figure`]: data in a module of this directory, and one line in [`EXPERIMENTS`].

mod bounds;
mod cgroups;
mod collect;
mod cores;
mod figure;
mod map;
mod matching;
mod measure;
mod schedulers;
mod shift;
mod slo;
#[cfg(test)]
mod tests;
mod users;

use std::path::Path;

use anyhow::Result;

use crate::record::Outcome;
use crate::registry::{Experiment, RunOptions};
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
    shift::EXPERIMENT,
    slo::EXPERIMENT,
    cgroups::EXPERIMENT,
    schedulers::EXPERIMENT,
    cores::EXPERIMENT,
];

/// Tables are kept from experiment to experiment; whoever runs them ends with this.
pub(crate) fn forget_data() {
    collect::forget_data();
}

fn run(figure: &'static Figure, options: &RunOptions) -> Result<Outcome> {
    sweep::write(&options.out, &collect::collect(figure, options)?)?;
    report_on(figure, &options.out, true)
}

fn report(figure: &'static Figure, directory: &Path) -> Result<Outcome> {
    report_on(figure, directory, false)
}

fn report_on(figure: &'static Figure, directory: &Path, fresh: bool) -> Result<Outcome> {
    let record = sweep::read(directory, figure.id)?;
    let show = Presentation {
        id: figure.id,
        figure: figure.figure,
        about: figure.about,
        sweep_label: figure.sweep.1,
        time_label: "s since the begin",
        runs: "rounds",
        caption: format!("TPC-C on MariaDB, windows of {} s", record.counted_s),
        quick: "little data, short windows and one round; it measures nothing well",
        appendix: String::new(),
        derive: |_| {},
        claims: figure.claims,
        panels: (figure.panels)(),
    };
    sweep::report(&show, record, directory, fresh)
}
