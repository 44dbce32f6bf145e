//! The gate in front of an unmodified MariaDB: throughput, equal service and short tails with 256 users.
//!
//! Five arms, run in turn on the same data: 256 users on MariaDB as it is, on MariaDB's own pool of threads, and
//! behind the gate; and 16 users with and without the gate, where there is nothing to win and little to lose.

mod analyse;
mod arms;
mod collect;
mod draw;
mod draw_fairness;
mod plan;
mod record;
mod report;
mod text;
mod verdicts;
mod workload;

use std::path::Path;

use anyhow::Result;

use crate::experiment::{Experiment, Outcome, RunOptions};
use crate::record::{read_json, write_file, write_json};
use record::Record;

pub(crate) use draw::thousands;

const ID: &str = "gate-mariadb";

/// What the registry knows of this experiment.
pub(crate) const EXPERIMENT: Experiment = Experiment {
    id: ID,
    title: "The gate in front of MariaDB: throughput, equal service and tails with 256 users",
    paper: "AppleS",
    figure: "Figs. 1, 9 and 11; section 3.1",
    expected_s: 490,
    expected_quick_s: 62,
    needs: &["mariadb-server-core", "sysbench", "2 GB of disk"],
    run,
    report: |directory| report_on(directory, false),
};

fn run(options: &RunOptions) -> Result<Outcome> {
    let record = collect::collect(options)?;
    write_json(&options.out.join(format!("{ID}.json")), &record)?;
    report_on(&options.out, true)
}

/// Analyses and draws from what was recorded; `fresh` says that the record was made in this very run.
fn report_on(directory: &Path, fresh: bool) -> Result<Outcome> {
    let record_path = directory.join(format!("{ID}.json"));
    let mut record: Record = read_json(&record_path)?;
    let rows = analyse::rows(&record)?;
    record.verdicts = verdicts::verdicts(&rows, record.header.quick);
    let svg = draw::picture(&record, &rows)?;
    let page = report::page_file(&record, &rows, &svg);

    let files = ["result.json", "gate-mariadb.svg", "report.html"].map(|name| directory.join(name));
    write_json(&record_path, &record)?;
    write_json(&files[0], &analyse::Result { rows: rows.clone() })?;
    write_file(&files[1], svg.as_bytes())?;
    write_file(&files[2], page.as_bytes())?;
    let mut files = Vec::from(files);
    files.insert(0, record_path);
    files.push(directory.join("index.html"));
    let text = text::summary(&record, &rows, &files, fresh);
    Ok(Outcome { id: ID, verdicts: record.verdicts, files, text })
}

#[cfg(test)]
mod tests;
