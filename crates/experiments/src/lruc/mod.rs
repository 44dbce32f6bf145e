//! Figures and tables of the LRU-C paper: the engine's TPC-C and LinkBench on a modelled device.
//!
//! A figure is a [`figure::Figure`]: data in a module of this directory, and one line in
//! [`EXPERIMENTS`].
//!
//! The paper's machine is scaled down, and its ratios are kept. Of its eight buffer pool instances
//! there is one, with as many frames (about 80,000) as each had. The device's times are eight times
//! as long. As in the paper, 64 threads drive it. So the flusher's second and its 1,024 pages mean
//! the same as there.

mod buffers;
mod collect;
mod data;
mod device;
mod devices;
mod doublewrite;
mod drive;
mod figure;
mod queues;
mod sweeps;
#[cfg(test)]
mod tests;
mod tree_latch;
mod versions;

use std::path::Path;

use anyhow::Result;

use crate::experiment::{Bench, Experiment, Outcome, RunOptions};
use crate::sweep::record::Record;
use crate::sweep::{self, Presentation};
use figure::Figure;

/// All of them, in the order of the paper.
pub(crate) const EXPERIMENTS: &[Experiment] = &[
    versions::FIG_6.experiment(),
    versions::TABLE_3.experiment(),
    buffers::FIG_7.experiment(),
    sweeps::TABLE_4.experiment(),
    versions::TABLE_5.experiment(),
    versions::TABLE_6.experiment(),
    buffers::TABLE_7.experiment(),
    sweeps::FIG_8.experiment(),
    sweeps::FIG_9.experiment(),
    sweeps::FIG_10.experiment(),
    devices::FIG_11.experiment(),
    sweeps::QUEUE.experiment(),
    doublewrite::FIGURE.experiment(),
    tree_latch::FIGURE.experiment(),
];

/// Databases and sweeps are kept from experiment to experiment; the runner calls this at the end.
pub(crate) fn forget_data() {
    collect::forget();
}

impl Bench for Figure {
    fn collect(&'static self, options: &RunOptions) -> Result<Record> {
        collect::collect(self, options)
    }

    fn report(&'static self, directory: &Path, fresh: bool) -> Result<Outcome> {
        let record = sweep::read(directory, self.id)?;
        let show = Presentation {
            id: self.id,
            figure: self.figure,
            about: self.about,
            sweep_label: self.sweep.axis.1,
            categories: self.sweep.categories,
            caption: format!("Modelled device, windows of {} s", record.counted_s),
            quick: "a small database, short windows and one round; it measures nothing well",
            claims: self.claims,
            panels: (self.panels)(),
            ..Presentation::default()
        };
        sweep::report(&show, record, directory, fresh)
    }
}
