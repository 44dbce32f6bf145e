//! `index.html`: one row for every experiment with a record in the directory.

use std::path::Path;

use anyhow::Result;

use crate::experiment::Experiment;
use crate::html::{escape, mark, page, table};
use crate::record::{Summary, read_json, utc, write_file};

/// Writes the index of a directory from the records that are there.
pub(crate) fn write(directory: &Path, list: &[Experiment]) -> Result<()> {
    let mut rows = Vec::new();
    for experiment in list {
        let path = directory.join(format!("{}.json", experiment.id));
        if path.exists() {
            rows.push((String::new(), row(&read_json(&path)?)));
        }
    }
    let head = ["experiment", "paper", "verdicts", "recorded", "files"];
    let body = format!(
        "<h1>Experiments</h1>\n<p>What the papers claim, measured again with Headworks.</p>\n{}",
        table(&head, &rows, head.len())
    );
    write_file(&directory.join("index.html"), page("Headworks: experiments", &body).as_bytes())
}

fn row(summary: &Summary) -> Vec<String> {
    let header = &summary.header;
    let holding = summary.verdicts.iter().filter(|verdict| verdict.holds).count();
    let id = escape(&header.id);
    vec![
        format!("<a href=\"{id}.html\"><b>{id}</b></a><br>{}", escape(&header.title)),
        format!(
            "{}<br><span class=\"faint\">{}</span>",
            escape(&header.paper),
            escape(&header.figure)
        ),
        format!(
            "{} {holding} of {} hold",
            mark(holding == summary.verdicts.len()),
            summary.verdicts.len()
        ),
        format!(
            "{}{}",
            utc(header.recorded_at_unix_s),
            if header.quick { "<br>quick run" } else { "" }
        ),
        format!("<a href=\"{id}.json\">json</a> · <a href=\"{id}.svg\">svg</a>"),
    ]
}
