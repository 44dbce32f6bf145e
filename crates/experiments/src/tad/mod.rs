//! Figures of the Split and Maat dissertation, simulated: thread architectures, their problems, and what remedies do.
//!
//! A figure is a [`figure::Figure`]: one module of this directory, and one line in [`EXPERIMENTS`]. Everything else
//! (running the simulations, the record, claims against it, the picture, the page) is common.

mod analyse;
mod cassandra_4_22;
mod cassandra_4_23;
mod cassandra_4_24;
mod collect;
mod draw;
mod draw_bars;
mod fig_4_2;
mod fig_4_3;
mod fig_4_4;
mod fig_4_5;
mod fig_4_6;
mod figure;
mod found;
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
mod panel;
mod record;
mod report;
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

use crate::progress::Progress;
use crate::record::{Header, Outcome, read_json, unix_now_s, write_file, write_json};
use crate::registry::{Experiment, RunOptions};
use figure::Figure;
use record::Record;

/// All of them, in the order of the dissertation.
pub(crate) const EXPERIMENTS: &[Experiment] = &[
    fig_4_2::EXPERIMENT,
    fig_4_3::EXPERIMENT,
    fig_4_4::EXPERIMENT,
    fig_4_5::EXPERIMENT,
    fig_4_6::EXPERIMENT,
    hbase_4_7::EXPERIMENT,
    hbase_4_8::EXPERIMENT,
    hbase_4_9::EXPERIMENT,
    hbase_4_9b::EXPERIMENT,
    hbase_4_10::EXPERIMENT,
    hbase_4_11::PREDICTIONS,
    hbase_4_11::THREADS,
    hbase_4_12::THROUGHPUT,
    hbase_4_12::LATENCY,
    hbase_4_18::EXPERIMENT,
    mongodb_4_19::EXPERIMENT,
    mongodb_4_20::EXPERIMENT,
    mongodb_4_21::EXPERIMENT,
    cassandra_4_22::EXPERIMENT,
    cassandra_4_23::EXPERIMENT,
    cassandra_4_24::EXPERIMENT,
    riak_4_25::EXPERIMENT,
    riak_4_26::EXPERIMENT,
    riak_4_27::EXPERIMENT,
];

/// Simulates a figure and reports on it.
fn run(figure: &'static Figure, options: &RunOptions) -> Result<Outcome> {
    let record = record(figure, options, &collect::Plan::new(figure, options))?;
    write_json(&options.out.join(format!("{}.json", figure.id)), &record)?;
    report_on(figure, &options.out, true)
}

fn record(figure: &Figure, options: &RunOptions, plan: &collect::Plan) -> Result<Record> {
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
    let [json, svg, html] =
        ["json", "svg", "html"].map(|kind| directory.join(format!("{}.{kind}", figure.id)));
    let mut record: Record = read_json(&json)?;
    let derived = analyse::derived(figure, &record);
    record.verdicts = analyse::verdicts(figure, &derived);
    let picture = draw::picture(&derived, figure.figure, figure.sweep.label, &(figure.panels)())?;
    write_json(&json, &record)?;
    write_file(&svg, picture.as_bytes())?;
    write_file(&html, report::page_file(figure, &record, &picture).as_bytes())?;
    let files = vec![json, svg, html, directory.join("index.html")];
    let text = report::text(figure, &record, &files, fresh);
    Ok(Outcome { id: figure.id, verdicts: record.verdicts, files, text })
}
