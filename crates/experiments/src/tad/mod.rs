//! Figures of the Split and Maat dissertation, simulated: thread architectures, their problems, and
//! what remedies do.
//!
//! A figure is a [`figure::Figure`]: one module of this directory, and one line in [`EXPERIMENTS`].
//! Everything else (running the simulations, the record, claims against it, the picture, the page)
//! is common.

mod cassandra_4_22;
mod cassandra_4_23;
mod cassandra_4_24;
mod collect;
mod fig_4_2;
mod fig_4_3;
mod fig_4_4;
mod fig_4_5;
mod fig_4_6;
mod figure;
mod hbase_4_10;
mod hbase_4_11;
mod hbase_4_12;
mod hbase_4_18;
mod hbase_4_7;
mod hbase_4_8;
mod hbase_4_9;
mod hbase_4_9b;
mod measure;
mod mongodb_4_19;
mod mongodb_4_20;
mod mongodb_4_21;
mod riak_4_25;
mod riak_4_26;
mod riak_4_27;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod tests_systems;

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Result;
use headworks_rig::machine::{Load, Machine};

use crate::experiment::{Experiment, Outcome, RunOptions};
use crate::html::escape;
use crate::progress::Progress;
use crate::record::{Header, unix_now_s};
use crate::sweep::{self, Presentation, found, panel, record};
use figure::Figure;
use record::Record;

/// What the registry knows of these figures. Functions cannot be made for a value, so the two that
/// say which figure it is are written out here.
macro_rules! experiments {
    ($($figure:path),* $(,)?) => {
        &[$($figure.experiment(
            |options| run(&$figure, options),
            |directory| report(&$figure, directory),
        )),*]
    };
}

/// All of them, in the order of the dissertation.
pub(crate) const EXPERIMENTS: &[Experiment] = experiments![
    fig_4_2::FIGURE,
    fig_4_3::FIGURE,
    fig_4_4::FIGURE,
    fig_4_5::FIGURE,
    fig_4_6::FIGURE,
    hbase_4_7::FIGURE,
    hbase_4_8::FIGURE,
    hbase_4_9::FIGURE,
    hbase_4_9b::FIGURE,
    hbase_4_10::FIGURE,
    hbase_4_11::WRONG,
    hbase_4_11::HANDLERS,
    hbase_4_12::STEADY,
    hbase_4_12::BURSTS,
    hbase_4_18::FIGURE,
    mongodb_4_19::FIGURE,
    mongodb_4_20::FIGURE,
    mongodb_4_21::FIGURE,
    cassandra_4_22::FIGURE,
    cassandra_4_23::FIGURE,
    cassandra_4_24::FIGURE,
    riak_4_25::FIGURE,
    riak_4_26::FIGURE,
    riak_4_27::FIGURE,
];

/// What several simulations of the same are called.
const RUNS: &str = "seeds";

/// Simulates a figure and reports on it.
fn run(figure: &'static Figure, options: &RunOptions) -> Result<Outcome> {
    let record = simulate(figure, options, &collect::Plan::new(figure, options))?;
    sweep::write(&options.out, &record)?;
    report_on(figure, &options.out, true)
}

fn simulate(figure: &Figure, options: &RunOptions, plan: &collect::Plan) -> Result<Record> {
    let expected_s = if options.quick { figure.expected_s.1 } else { figure.expected_s.0 };
    let mut progress =
        Progress::new(&format!("{}: {}", figure.id, figure.title), Duration::from_secs(expected_s));
    let (began, recorded_at_unix_s, load_before) = (Instant::now(), unix_now_s(), Load::read());
    let arms = collect::collect(figure, plan, &mut progress)?;
    Ok(Record {
        header: Header {
            id: figure.id.to_owned(),
            title: figure.title.to_owned(),
            paper: figure::PAPER.to_owned(),
            figure: figure.figure.to_owned(),
            recorded_at_unix_s,
            quick: options.quick,
            seed: options.seed,
            machine: Machine::describe(),
        },
        counted_s: plan.counted_s as f64,
        warmup_s: figure.time.warmup_s as f64,
        took_s: began.elapsed().as_secs_f64(),
        load_before,
        load_after: Load::read(),
        verdicts: Vec::new(),
        sweep: figure.sweep.key.to_owned(),
        arms,
    })
}

/// Analyses an old record again.
fn report(figure: &'static Figure, directory: &Path) -> Result<Outcome> {
    report_on(figure, directory, false)
}

fn report_on(figure: &'static Figure, directory: &Path, fresh: bool) -> Result<Outcome> {
    let record = sweep::read(directory, figure.id)?;
    let show = Presentation {
        id: figure.id,
        figure: figure.figure,
        about: figure.about,
        sweep_label: figure.sweep.label,
        time_label: "simulated time, s",
        runs: RUNS,
        caption: format!("Simulation of {} s", record.counted_s),
        quick: "fewer seeds and less simulated time than a full one",
        appendix: format!("<h2>The scenario</h2>\n<pre>{}</pre>", escape(figure.scenario.trim())),
        derive: figure.derive,
        claims: figure.claims,
        panels: (figure.panels)(),
        ..Presentation::default()
    };
    sweep::report(&show, record, directory, fresh)
}
