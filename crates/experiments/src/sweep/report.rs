//! The page and the terminal's text of one experiment.

use std::path::PathBuf;

use super::Presentation;
use super::analyse::{ratio, significant};
use super::record::Record;
use crate::html::{escape, mark, page, table};
use crate::record::utc;
use crate::table::{align, thousands};

/// Each statement with its verdicts: trend, ratio, absolute.
fn statements(record: &Record) -> String {
    let rows: Vec<_> = record
        .verdicts
        .iter()
        .map(|verdict| {
            let ours =
                verdict.ours.map_or("–".to_owned(), |v| format!("<b>{}</b>", significant(v)));
            let cells = vec![
                verdict.ours.map_or("–", |_| mark(verdict.holds)).to_owned(),
                escape(&verdict.statement),
                format!("{ours}<br><span class=\"faint\">{}</span>", escape(&verdict.unit)),
                escape(&verdict.paper),
                escape(&ratio(verdict.ratio)),
                escape(if verdict.absolute.is_empty() { "–" } else { &verdict.absolute }),
                format!("<span class=\"faint\">{}</span>", escape(&verdict.note)),
            ];
            (String::new(), cells)
        })
        .collect();
    table(&["trend", "statement", "ours", "the paper", "ratio", "absolute", "note"], &rows, 7)
}

/// `ID.html`.
pub(super) fn page_file(show: &Presentation<'_>, record: &Record, svg: &str) -> String {
    let header = &record.header;
    let mut body = format!("<h1>{}</h1>\n<p>{}</p>\n", escape(&header.title), escape(show.about));
    body += &format!(
        "<p class=\"faint\">{} · {} · {} · {} cores</p>\n",
        escape(show.figure),
        utc(header.recorded_at_unix_s),
        escape(&header.machine.cpu_model),
        header.machine.cores
    );
    if header.quick {
        body += &format!("<p class=\"warning\">This was a quick run: {}.</p>\n", show.quick);
    }
    body += &format!("<div class=\"picture\">{svg}</div>\n<h2>Statements and results</h2>\n");
    body += &statements(record);
    if !show.columns.is_empty() {
        let mut lines = numbers(show, record).into_iter();
        let head = lines.next().unwrap_or_default();
        let head: Vec<&str> = head.iter().map(String::as_str).collect();
        let cells = |line: Vec<String>| line.iter().map(|cell| escape(cell)).collect();
        let rows: Vec<_> = lines.map(|line| (String::new(), cells(line))).collect();
        body += &format!("<h2>All numbers</h2>\n{}", table(&head, &rows, 1));
    }
    body += "<h2>Arms</h2>\n";
    let keys: Vec<&str> = record
        .arms
        .first()
        .map_or(Vec::new(), |arm| arm.setup.keys().map(String::as_str).collect());
    let rows: Vec<_> = record
        .arms
        .iter()
        .map(|arm| {
            let setup = keys.iter().map(|key| arm.setup.get(*key).map_or("", String::as_str));
            let cells = std::iter::once(arm.arm.as_str()).chain(setup).map(escape).collect();
            (String::new(), cells)
        })
        .collect();
    let heads: Vec<&str> = std::iter::once("arm").chain(keys.iter().copied()).collect();
    body += &table(&heads, &rows, heads.len());
    body += &format!(
        "<p class=\"faint\">Points: {}. Each run counts {} s after {} s of warm-up; all of it took {} s.{}</p>\n{}\n\
         <p>Raw numbers: <a href=\"{id}.json\">{id}.json</a>. <code>headworks bench report DIR</code> analyses and \
         draws them again.</p>\n",
        escape(&record.sweep),
        record.counted_s,
        record.warmup_s,
        significant(record.took_s),
        pace(record).map_or(String::new(), |pace| format!(" {pace}.")),
        show.appendix,
        id = show.id,
    );
    page(&header.title, &body)
}

/// Ratio of the slowest to the fastest run of the same work beyond which the machine was not the
/// same for all runs.
const STEADY: f64 = 1.15;

/// How fast the machine was at the end of each run, if that was measured.
fn pace(record: &Record) -> Option<String> {
    let runs = record.arms.iter().flat_map(|arm| &arm.points).flat_map(|point| &point.runs);
    let ms: Vec<f64> = runs.filter_map(|run| run.load?.work_ms).collect();
    let [fastest, middle, slowest] = super::found::spread(&ms)?;
    let steady = if slowest <= STEADY * fastest {
        ""
    } else {
        ": the machine was not the same for all runs, and what is not compared within a round may be off by as much"
    };
    let [fastest, middle, slowest] = [fastest, middle, slowest].map(significant);
    Some(format!(
        "The machine's own pace, a fixed piece of work after each run: {middle} ms ({fastest} to {slowest}){steady}"
    ))
}

/// The median over the runs of each number that has a column, for each arm and point. The head
/// comes first.
fn numbers(show: &Presentation<'_>, record: &Record) -> Vec<Vec<String>> {
    let heads = ["arm", show.sweep_label].into_iter().chain(show.columns.iter().map(|it| it.0));
    let mut lines: Vec<Vec<String>> = vec![heads.map(str::to_owned).collect()];
    for arm in &record.arms {
        for point in &arm.points {
            let value = |key: &str| {
                let values: Vec<f64> =
                    point.runs.iter().filter_map(|run| run.numbers.get(key).copied()).collect();
                super::found::spread(&values)
                    .map_or("–".to_owned(), |[_, middle, _]| number(middle))
            };
            let category = show.categories.get(point.at as usize);
            let label = category.map_or_else(|| (show.point_label)(point.at), |it| (*it).into());
            let name = [arm.arm.clone(), label];
            let values = show.columns.iter().map(|(_, key)| value(key));
            lines.push(name.into_iter().chain(values).collect());
        }
    }
    lines
}

fn number(value: f64) -> String {
    if value.abs() >= 1000.0 { thousands(value) } else { significant(value) }
}

/// What is printed at the end.
pub(super) fn text(
    show: &Presentation<'_>,
    record: &Record,
    files: &[PathBuf],
    fresh: bool,
) -> String {
    let mut out = format!(
        "{}: {}\n{}{}{}\n\n",
        show.figure,
        record.header.title,
        show.caption,
        if record.header.quick { " · quick run" } else { "" },
        if fresh { String::new() } else { " · from the record".to_owned() },
    );
    if !show.columns.is_empty() {
        out += &align(&numbers(show, record));
        out.push('\n');
    }
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
        if verdict.ratio.is_some() {
            out += &format!("      of the paper's number: {}\n", ratio(verdict.ratio));
        }
        if !verdict.absolute.is_empty() {
            out += &format!("      {}\n", verdict.absolute);
        }
    }
    out.push('\n');
    if let Some(pace) = pace(record) {
        out += &format!("  {pace}\n");
    }
    for file in files {
        out += &format!("  {}\n", file.display());
    }
    out
}
