//! Experiments over arms and points: each arm runs at each point of a sweep, several times.
//!
//! What differs from experiment to experiment is how a run is made, what must hold ([`Claim`]) and
//! what is drawn ([`panel::Panel`]). The record, the verdicts, the picture and the page are common.

pub(crate) mod analyse;
mod claim;
mod draw;
mod draw_bars;
mod draw_heat;
pub(crate) mod found;
pub(crate) mod panel;
pub(crate) mod record;
mod report;
pub(crate) mod rounds;

use std::path::Path;

use anyhow::Result;

pub(crate) use claim::{Absolute, Bound, Claim, Ours};
pub(crate) use found::Seed;

use crate::experiment::Outcome;
use crate::record::{Verdict, read_json, write_file, write_json};
use panel::Panel;
use record::{Record, Run};

/// What is said and shown of a record.
pub(crate) struct Presentation<'a> {
    /// The experiment's id: files are named after it.
    pub(crate) id: &'static str,
    /// Number of the figure.
    pub(crate) figure: &'a str,
    /// What was run, in a few sentences.
    pub(crate) about: &'a str,
    /// For the horizontal axis of sweeps, and of series.
    pub(crate) sweep_label: &'a str,
    pub(crate) time_label: &'a str,
    /// Names of the points 0, 1, and so on, if they are categories: these have bars.
    pub(crate) categories: &'a [&'a str],
    /// A point's name in tables.
    pub(crate) point_label: fn(f64) -> String,
    /// What several runs of the same are called.
    pub(crate) runs: &'a str,
    /// What a run was, for the line under the title.
    pub(crate) caption: String,
    /// What a quick run has less of.
    pub(crate) quick: &'a str,
    /// Columns of the table of all numbers: heads, and keys of numbers. Without any there is no
    /// table.
    pub(crate) columns: &'a [(&'a str, &'a str)],
    /// HTML at the page's end.
    pub(crate) appendix: String,
    /// Adds numbers that follow from those that are recorded.
    pub(crate) derive: &'a dyn Fn(&mut Run),
    /// What must hold.
    pub(crate) claims: &'a [Claim],
    /// The picture.
    pub(crate) panels: Vec<Panel>,
    /// Draws the picture instead, where panels cannot show what it has to.
    pub(crate) own_picture: Option<fn(&Record) -> Result<String>>,
}

impl Default for Presentation<'_> {
    fn default() -> Self {
        Self {
            id: "",
            figure: "",
            about: "",
            sweep_label: "",
            time_label: "s since the begin",
            categories: &[],
            point_label: |at| at.to_string(),
            runs: "rounds",
            caption: String::new(),
            quick: "short windows and one round; it measures nothing well",
            columns: &[],
            appendix: String::new(),
            derive: &|_| {},
            claims: &[],
            panels: Vec::new(),
            own_picture: None,
        }
    }
}

/// The record of an experiment, in a directory.
pub(crate) fn read(directory: &Path, id: &str) -> Result<Record> {
    read_json(&directory.join(format!("{id}.json")))
}

/// Keeps a record.
pub(crate) fn write(directory: &Path, record: &Record) -> Result<()> {
    write_json(&directory.join(format!("{}.json", record.header.id)), record)
}

/// Analyses and draws a record; `fresh` says that it was made in this very run.
pub(crate) fn report(
    show: &Presentation<'_>,
    record: Record,
    directory: &Path,
    fresh: bool,
) -> Result<Outcome> {
    report_judged(show, record, Vec::new(), directory, fresh)
}

/// The same, with verdicts that follow those of the claims.
pub(crate) fn report_judged(
    show: &Presentation<'_>,
    mut record: Record,
    judged: Vec<Verdict>,
    directory: &Path,
    fresh: bool,
) -> Result<Outcome> {
    let [json, svg, html] =
        ["json", "svg", "html"].map(|kind| directory.join(format!("{}.{kind}", show.id)));
    let derived = analyse::derived(show.derive, &record);
    record.verdicts = analyse::verdicts(show.claims, show.runs, &derived);
    record.verdicts.extend(judged);
    let picture = match show.own_picture {
        Some(draw) => draw(&derived)?,
        None => draw::picture(&derived, show)?,
    };
    write_json(&json, &record)?;
    write_file(&svg, picture.as_bytes())?;
    write_file(&html, report::page_file(show, &record, &picture).as_bytes())?;
    let files = vec![json, svg, html, directory.join("index.html")];
    let text = report::text(show, &record, &files, fresh);
    Ok(Outcome { id: show.id, verdicts: record.verdicts, files, text })
}
