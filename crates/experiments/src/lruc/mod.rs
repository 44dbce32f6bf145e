//! Figures and tables of the LRU-C paper: the engine's TPC-C and LinkBench on a modelled device.
//!
//! A figure is a [`figure::Figure`]: data in a module of this directory, and one line in
//! [`EXPERIMENTS`].
//!
//! The paper's machine is scaled, not its ratios: one of its eight buffer pool instances, with as
//! many frames (about 80,000) as one of them had, in front of a device whose times are eight times
//! as long, driven by the paper's 64 threads. The flusher's second and its 1,024 pages then mean
//! what they meant there.

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

use crate::experiment::{Experiment, Outcome, RunOptions};
use crate::sweep::{self, Presentation};
use figure::Figure;

/// All of them, in the order of the paper.
pub(crate) const EXPERIMENTS: &[Experiment] = &[
    versions::VERSIONS,
    versions::STALLS,
    buffers::BUFFER,
    sweeps::SCAN_DEPTH,
    versions::LIMIT,
    versions::LATENCY,
    buffers::MISSES,
    sweeps::MIX,
    sweeps::THREADS,
    sweeps::CHANNELS,
    devices::DEVICES,
    sweeps::QUEUES,
    doublewrite::DOUBLEWRITE,
    tree_latch::TREE_LATCH,
];

/// Databases and sweeps are kept from experiment to experiment; the runner calls this at the end.
pub(crate) fn forget_data() {
    collect::forget();
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
        sweep_label: figure.sweep.axis.1,
        time_label: "s since the begin",
        runs: "rounds",
        caption: format!("Modelled device, windows of {} s", record.counted_s),
        quick: "a small database, short windows and one round; it measures nothing well",
        claims: figure.claims,
        panels: (figure.panels)(),
        ..Presentation::default()
    };
    sweep::report(&show, record, directory, fresh)
}
