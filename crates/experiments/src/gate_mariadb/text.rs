//! The result on a terminal: one table, the verdicts, and where the files are.

use std::path::PathBuf;

use super::analyse::{Row, ratio};
use super::draw::thousands;
use super::record::Record;
use crate::table::{align, verdict_lines};

/// Everything that is printed at the end.
pub(crate) fn summary(record: &Record, rows: &[Row], files: &[PathBuf], fresh: bool) -> String {
    let rounds = rows.iter().map(|row| row.rounds.len()).max().unwrap_or(0);
    let mut out = format!(
        "{}\n{} of {} × {} s, {} cores{}{}\n\n",
        record.header.title,
        if rounds > 1 { "median" } else { "result" },
        rounds,
        record.workload.window_s,
        record.header.machine.cores,
        if record.header.quick { " · quick run, no measurement" } else { "" },
        if fresh { "" } else { " · from the record" },
    );
    out += &table(rows);
    out += "\n× compares with MariaDB as it is and the same users. U_f: unfairness over requests; CV: variation of a \
            user's latency.\n\n";
    out += &verdict_lines(&record.verdicts, record.header.quick);
    out.push('\n');
    for file in files {
        out += &format!("  {}\n", file.display());
    }
    out
}

fn table(rows: &[Row]) -> String {
    let head =
        ["arm", "users", "tx/s", "×", "p50 ms", "p95 ms", "×", "p99 ms", "max ms", "U_f", "CV"];
    let optional = |value: Option<f64>, digits: usize| {
        value.map_or("–".to_owned(), |v| format!("{v:.digits$}"))
    };
    let mut lines = vec![head.map(str::to_owned)];
    for row in rows {
        let n = &row.median;
        let base = row.config.baseline();
        lines.push([
            row.config.label().to_owned(),
            row.users.to_string(),
            thousands(n.throughput_tps),
            optional(ratio(rows, row.config, base, |n| n.throughput_tps), 2),
            thousands(n.p50_ms),
            thousands(n.p95_ms),
            optional(ratio(rows, row.config, base, |n| n.p95_ms), 2),
            thousands(n.p99_ms),
            thousands(n.max_ms),
            optional(n.unfairness, 3),
            optional(n.latency_cv, 2),
        ]);
    }
    align(&lines)
}
