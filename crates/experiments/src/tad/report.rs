//! The page and the terminal's text of one figure.

use std::path::PathBuf;

use super::analyse::significant;
use super::figure::Figure;
use super::record::Record;
use crate::html::{escape, mark, page, table};
use crate::record::utc;

/// `ID.html`.
pub(super) fn page_file(figure: &Figure, record: &Record, svg: &str) -> String {
    let header = &record.header;
    let mut body = format!("<h1>{}</h1>\n<p>{}</p>\n", escape(&header.title), escape(figure.about));
    body += &format!(
        "<p class=\"faint\">{} · {} · {} · {} cores</p>\n",
        escape(figure.figure),
        utc(header.recorded_at_unix_s),
        escape(&header.machine.cpu_model),
        header.machine.cores
    );
    if header.quick {
        body += "<p class=\"warning\">This was a quick run: fewer seeds and less simulated time than a full one.</p>\n";
    }
    body += &format!("<div class=\"picture\">{svg}</div>\n<h2>Statements and results</h2>\n");
    let rows: Vec<_> = record
        .verdicts
        .iter()
        .map(|verdict| {
            let ours =
                verdict.ours.map_or("–".to_owned(), |v| format!("<b>{}</b>", significant(v)));
            let cells = vec![
                mark(verdict.holds).to_owned(),
                escape(&verdict.statement),
                format!("{ours}<br><span class=\"faint\">{}</span>", escape(&verdict.unit)),
                escape(&verdict.paper),
                format!("<span class=\"faint\">{}</span>", escape(&verdict.note)),
            ];
            (String::new(), cells)
        })
        .collect();
    body += &table(&["", "statement", "ours", "the paper", "note"], &rows, 5);
    body += "<h2>Arms</h2>\n";
    let rows: Vec<_> = record
        .arms
        .iter()
        .map(|arm| {
            let cells = [&arm.arm, &arm.system, &arm.maat].map(|text| escape(text));
            (String::new(), Vec::from(cells))
        })
        .collect();
    body += &table(&["arm", "system", "remedies"], &rows, 3);
    body += &format!(
        "<p class=\"faint\">Points: {}. Each was simulated for {} s after {} s of warm-up with every seed; all of it \
         took {} s.</p>\n<h2>The scenario</h2>\n<pre>{}</pre>\n<p>Raw numbers: <a href=\"{id}.json\">{id}.json</a>. \
         <code>headworks bench report DIR</code> analyses and draws them again.</p>\n",
        escape(&record.sweep),
        record.counted_s,
        record.warmup_s,
        significant(record.took_s),
        escape(figure.scenario.trim()),
        id = figure.id,
    );
    page(&header.title, &body)
}

/// What is printed at the end.
pub(super) fn text(figure: &Figure, record: &Record, files: &[PathBuf], fresh: bool) -> String {
    let mut out = format!(
        "{}: {}\n{} s simulated{}{}\n\n",
        figure.figure,
        record.header.title,
        record.counted_s,
        if record.header.quick { " · quick run" } else { "" },
        if fresh { String::new() } else { " · from the record".to_owned() },
    );
    for verdict in &record.verdicts {
        let mark = match verdict.ours {
            None => '–',
            Some(_) if verdict.holds => '✓',
            Some(_) => '✗',
        };
        let ours = verdict.ours.map_or("–".to_owned(), significant);
        out += &format!(
            "  {mark} {}: {ours} {} ({})\n",
            verdict.statement, verdict.unit, verdict.note
        );
    }
    out.push('\n');
    for file in files {
        out += &format!("  {}\n", file.display());
    }
    out
}
