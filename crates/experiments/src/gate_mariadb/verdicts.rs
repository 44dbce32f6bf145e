//! What the gate promises, held against what was measured. Pure.

use super::analyse::{Numbers, Row, ratio, row};
use super::arms::Config::{Gated, Gated16, PoolOfThreads, Ungated, Ungated16};
use crate::bound::Bound;
use crate::record::Verdict;

/// What the paper says about throughput.
const PAPER_THROUGHPUT: &str = "1.10 to 1.28 × from 64 to 512 users (MySQL 8.0.15, TPC-C, Fig. 9)";

/// All verdicts, in the order of the promise.
pub(crate) fn verdicts(rows: &[Row], quick: bool) -> Vec<Verdict> {
    let tps: fn(&Numbers) -> f64 = |n| n.throughput_tps;
    let p95: fn(&Numbers) -> f64 = |n| n.p95_ms;
    let paper_fairness = "at most 0.15 wanted; 0.17 at 512 users (Fig. 9)";
    let verdict =
        |statement: &str, paper: &str, ours: Option<f64>, unit: &str, bound: Bound| Verdict {
            statement: statement.to_owned(),
            paper: paper.to_owned(),
            ours,
            unit: unit.to_owned(),
            holds: ours.is_some_and(|value| bound.holds(value)),
            note: note(ours, quick).to_owned(),
        };
    vec![
        verdict(
            "256 users: at least 1.10 × the throughput of MariaDB as it is",
            PAPER_THROUGHPUT,
            ratio(rows, Gated, Ungated, tps),
            "ratio of tx/s",
            Bound::AtLeast(1.10),
        ),
        verdict(
            "256 users: at least 1.10 × the throughput of MariaDB's own thread pool",
            "not compared",
            ratio(rows, Gated, PoolOfThreads, tps),
            "ratio of tx/s",
            Bound::AtLeast(1.10),
        ),
        verdict(
            "256 users: p95 latency at most 0.4 × that of MariaDB as it is",
            "not reported for MySQL",
            ratio(rows, Gated, Ungated, p95),
            "ratio of ms",
            Bound::AtMost(0.4),
        ),
        verdict(
            "256 users: p95 latency at most 0.4 × that of MariaDB's own thread pool",
            "not compared",
            ratio(rows, Gated, PoolOfThreads, p95),
            "ratio of ms",
            Bound::AtMost(0.4),
        ),
        verdict(
            "256 users: unfairness U_f at most 0.05",
            paper_fairness,
            row(rows, Gated).and_then(|row| row.median.unfairness),
            "U_f over requests",
            Bound::AtMost(0.05),
        ),
        verdict(
            "16 users: at least 0.99 × the throughput without the gate",
            "not reported; interception costs about 100 ns a call",
            ratio(rows, Gated16, Ungated16, tps),
            "ratio of tx/s",
            Bound::AtLeast(0.99),
        ),
    ]
}

fn note(ours: Option<f64>, quick: bool) -> &'static str {
    match (ours, quick) {
        (None, _) => "not measured: an arm that it needs did not run",
        (Some(_), true) => "a quick run, which is no measurement",
        (Some(_), false) => "median over rounds",
    }
}
