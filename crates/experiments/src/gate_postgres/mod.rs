//! The gate in front of an unmodified PostgreSQL: pgbench's two workloads over its three protocols.
//!
//! Five arms for each workload and protocol, run in turn on the same data: 256 clients on PostgreSQL as it is, behind
//! PgBouncer in transaction mode with as many server connections as the gate has places, and behind the gate; and 16
//! clients with and without the gate. PgBouncer before 1.21 cannot serve prepared statements in that mode, so it has
//! no arm there.

mod analyse;
mod arms;
mod collect;
mod draw;
mod pgbench;
pub(crate) mod pooler;
mod record;
mod text;
mod verdicts;

use std::path::Path;

use anyhow::Result;

use crate::experiment::{Experiment, Outcome, RunOptions};
use crate::record::{read_json, write_file, write_json};
use record::Record;

const ID: &str = "gate-postgres";

/// What the registry knows of this experiment.
pub(crate) const EXPERIMENT: Experiment = Experiment {
    id: ID,
    title: "The gate in front of PostgreSQL: pgbench with 256 clients, beside PgBouncer",
    paper: "AppleS",
    figure: "section 3.1",
    expected_s: 1_890,
    expected_quick_s: 210,
    needs: &["postgresql", "pgbouncer", "2 GB of disk"],
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
    let rows = analyse::rows(&record);
    record.verdicts = verdicts::verdicts(&rows, record.header.quick);
    let picture = directory.join(format!("{ID}.svg"));
    write_json(&record_path, &record)?;
    write_file(&picture, draw::picture(&record, &rows)?.as_bytes())?;
    let files = vec![record_path, picture, directory.join("index.html")];
    let text = text::summary(&record, &rows, &files, fresh);
    Ok(Outcome { id: ID, verdicts: record.verdicts, files, text })
}
