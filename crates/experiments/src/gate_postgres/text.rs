//! The result on a terminal: one table, the verdicts, and where the files are.

use std::path::PathBuf;

use super::analyse::{Row, ratio};
use super::record::Record;
use crate::gate_mariadb::thousands;
use crate::table::{align, verdict_lines};

/// Everything that is printed at the end.
pub(super) fn summary(record: &Record, rows: &[Row], files: &[PathBuf], fresh: bool) -> String {
    let rounds = rows.iter().map(|row| row.rounds.len()).max().unwrap_or(0);
    let mut out = format!(
        "{}\n{} of {} × {} s, {} cores, P = {}{}{}\n\n",
        record.header.title,
        if rounds > 1 { "median" } else { "result" },
        rounds,
        record.window_s,
        record.header.machine.cores,
        record.parallelism,
        if record.header.quick { " · quick run, no measurement" } else { "" },
        if fresh { "" } else { " · from the record" },
    );
    let head = ["arm", "users", "tx/s", "×", "p50 ms", "p95 ms", "p99 ms", "max ms", "U_f", "CV"];
    let optional = |value: Option<f64>, digits: usize| {
        value.map_or("–".to_owned(), |v| format!("{v:.digits$}"))
    };
    let mut lines = vec![head.map(str::to_owned)];
    for row in rows {
        let (n, arm) = (&row.median, row.arm);
        let base = arm.config.baseline();
        let versus = ratio(rows, (arm.load, arm.mode), arm.config, base, |n| n.throughput_tps);
        lines.push([
            arm.name(),
            arm.config.users().to_string(),
            thousands(n.throughput_tps),
            optional(versus, 2),
            format!("{:.2}", n.p50_ms),
            format!("{:.1}", n.p95_ms),
            format!("{:.1}", n.p99_ms),
            format!("{:.0}", n.max_ms),
            optional(n.unfairness, 3),
            optional(n.latency_cv, 2),
        ]);
    }
    out += &align(&lines);
    out += "\n× compares with PostgreSQL as it is and the same clients. U_f: unfairness over transactions; CV: variation \
            of a client's latency.\n\n";
    out += &verdict_lines(&record.verdicts, record.header.quick);
    out.push('\n');
    for file in files {
        out += &format!("  {}\n", file.display());
    }
    out
}
