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
use headworks_rig::machine::Load;

use crate::experiment::{Bench, Experiment, Outcome, RunOptions};
use crate::html::escape;
use crate::progress::Progress;
use crate::record::unix_now_s;
use crate::sweep::{self, Presentation, found, panel, record};
use figure::Figure;
pub(crate) use figure::system;
pub(crate) use measure::measure;
use record::Record;

/// All of them, in the order of the dissertation.
pub(crate) const EXPERIMENTS: &[Experiment] = &[
    fig_4_2::FIGURE.experiment(),
    fig_4_3::FIGURE.experiment(),
    fig_4_4::FIGURE.experiment(),
    fig_4_5::FIGURE.experiment(),
    fig_4_6::FIGURE.experiment(),
    hbase_4_7::FIGURE.experiment(),
    hbase_4_8::FIGURE.experiment(),
    hbase_4_9::FIGURE.experiment(),
    hbase_4_9b::FIGURE.experiment(),
    hbase_4_10::FIGURE.experiment(),
    hbase_4_11::WRONG.experiment(),
    hbase_4_11::HANDLERS.experiment(),
    hbase_4_12::STEADY.experiment(),
    hbase_4_12::BURSTS.experiment(),
    hbase_4_18::FIGURE.experiment(),
    mongodb_4_19::FIGURE.experiment(),
    mongodb_4_20::FIGURE.experiment(),
    mongodb_4_21::FIGURE.experiment(),
    cassandra_4_22::FIGURE.experiment(),
    cassandra_4_23::FIGURE.experiment(),
    cassandra_4_24::FIGURE.experiment(),
    riak_4_25::FIGURE.experiment(),
    riak_4_26::FIGURE.experiment(),
    riak_4_27::FIGURE.experiment(),
];

/// What several simulations of the same are called.
const RUNS: &str = "seeds";

impl Bench for Figure {
    fn collect(&'static self, options: &RunOptions) -> Result<Record> {
        simulate(self, options, &collect::Plan::new(self, options))
    }

    fn report(&'static self, directory: &Path, fresh: bool) -> Result<Outcome> {
        let record = sweep::read(directory, self.id)?;
        let show = Presentation {
            id: self.id,
            figure: self.figure,
            about: self.about,
            sweep_label: self.sweep.label,
            time_label: "simulated time, s",
            runs: RUNS,
            caption: format!("Simulation of {} s", record.counted_s),
            quick: "fewer seeds and less simulated time than a full one",
            appendix: format!("<h2>The scenario</h2>\n<pre>{}</pre>", escape(self.scenario.trim())),
            derive: self.derive,
            claims: self.claims,
            panels: (self.panels)(),
            ..Presentation::default()
        };
        sweep::report(&show, record, directory, fresh)
    }
}

fn simulate(figure: &'static Figure, options: &RunOptions, plan: &collect::Plan) -> Result<Record> {
    let expected_s = if options.quick { figure.expected_s.1 } else { figure.expected_s.0 };
    let mut progress =
        Progress::new(&format!("{}: {}", figure.id, figure.title), Duration::from_secs(expected_s));
    let (began, recorded_at_unix_s, load_before) = (Instant::now(), unix_now_s(), Load::read());
    let arms = collect::collect(figure, plan, &mut progress)?;
    Ok(Record {
        header: figure.experiment().header(options, recorded_at_unix_s),
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
