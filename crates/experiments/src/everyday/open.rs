//! Open loop: transactions arrive at a fixed rate, whether or not earlier ones are answered.

use std::path::Path;

use anyhow::Result;

use super::client::Act;
use super::collect::{self, AROUND_S, DATA_S, Plan, Task};
use super::judge::{self, Measure};
use super::{AUTO, Arm, Case, Front, Group, P16, POOLED};
use crate::experiment::{Experiment, Outcome, RunOptions, Steps};
use crate::neighbours::site::Kind;
use crate::sweep::panel::Panel;
use crate::sweep::record::Record;
use crate::sweep::{self, Bound, Presentation};

const ID: &str = "gate-open";

/// Seconds of warm-up, seconds of a run, and rounds; for a full and for a quick run.
const TIMES: [(u64, u64, usize); 2] = [(3, 15, 3), (2, 10, 1)];

/// Rates of arrivals, as parts of the capacity.
const RATES: [f64; 8] = [0.3, 0.5, 0.7, 0.8, 0.9, 1.0, 1.1, 1.5];
const QUICK_RATES: [f64; 3] = [0.5, 0.7, 1.1];

/// Up to this rate every transaction should be done.
const BELOW: f64 = 0.9;

pub(super) const EXPERIMENT: Experiment = Experiment {
    id: ID,
    title: "Transactions that arrive whether or not answers come",
    paper: "",
    figure: "Open loop",
    expected_s: (TIMES[0].0 + TIMES[0].1 + AROUND_S)
        * (ARMS.len() * RATES.len() * TIMES[0].2) as u64
        + 2 * DATA_S * (RATES.len() * TIMES[0].2) as u64,
    expected_quick_s: (TIMES[1].0 + TIMES[1].1 + AROUND_S) * 9 + DATA_S,
    needs: &["mariadb-server-core", "postgresql", "pgbouncer"],
    bench: &Steps { collect, report },
};

const ARMS: [Arm; 8] = [
    Arm::new("MariaDB", Kind::MariaDb, Front::Nothing, true),
    Arm::new("MariaDB, gate P = 16", Kind::MariaDb, P16, true),
    Arm::new("MariaDB, gate", Kind::MariaDb, AUTO, false),
    Arm::new("MariaDB's pool", Kind::MariaDbPool, Front::Nothing, false),
    Arm::new("PostgreSQL", Kind::PostgreSql, Front::Nothing, false),
    Arm::new("PostgreSQL, gate P = 16", Kind::PostgreSql, P16, false),
    Arm::new("PostgreSQL, gate", Kind::PostgreSql, AUTO, false),
    Arm::new("PgBouncer", Kind::PostgreSql, Front::PgBouncer, false),
];

static GROUPS: [Group; 1] = [Group::new("transactions", 256, Act::Hot)];
static FEW: [Group; 1] = [Group::new("transactions", 16, Act::Hot)];
static CASE: Case = Case::new("arrivals", &GROUPS);
static CAPACITY: Case = Case::new("capacity", &FEW);

const MEASURES: [Measure; 3] = [
    Measure {
        key: "done_of_offered",
        title: "",
        statement: "all that is offered is done, up to nine tenths of the capacity",
        unit: "transactions done / offered",
        bound: Bound::AtLeast(0.97),
        value: |view| {
            let (done, _) = view.both("transactions_per_s")?;
            let (offered, _) = view.both("offered_per_s")?;
            (view.at <= BELOW).then_some(done / offered)
        },
    },
    Measure {
        key: "done_of_as_it_is",
        title: "",
        statement: "no less is done than as it is, at any rate",
        unit: "transactions / transactions as it is",
        bound: Bound::AtLeast(0.97),
        value: |view| view.both("transactions_per_s").map(|(ours, theirs)| ours / theirs),
    },
    Measure {
        key: "p99_of_as_it_is",
        title: "",
        statement: "P99 is no longer than as it is, at any rate",
        unit: "P99 / P99 as it is",
        bound: Bound::AtMost(1.1),
        value: |view| view.both("transactions_p99_ms").map(|(ours, theirs)| ours / theirs),
    },
];

fn collect(options: &RunOptions) -> Result<Record> {
    let (warm_up_s, window_s, rounds) = TIMES[usize::from(options.quick)];
    let rates = if options.quick { &QUICK_RATES[..] } else { &RATES[..] };
    let window_s = options.window_s.unwrap_or(window_s).max(1);
    let arms = ARMS.iter().copied().filter(|arm| match &options.only {
        Some(only) => arm.label.contains(only.as_str()),
        None => arm.quick || !options.quick,
    });
    let plan = Plan {
        experiment: &EXPERIMENT,
        arms: arms.collect(),
        tasks: rates.iter().map(|&at| Task { at, case: &CASE, offered: Some(at) }).collect(),
        warm_up_s,
        window_s,
        bucket_s: 1,
        rounds: options.repeat.unwrap_or(rounds).max(1),
        capacity: Some(&CAPACITY),
        sweep: "offered, of the capacity (16 clients in a closed loop, the server as it is)"
            .to_owned(),
    };
    collect::collect(&plan, options)
}

fn report(directory: &Path, fresh: bool) -> Result<Outcome> {
    let mut record = sweep::read(directory, ID)?;
    let mut rates: Vec<f64> =
        record.arms.iter().flat_map(|arm| &arm.points).map(|point| point.at).collect();
    rates.sort_by(f64::total_cmp);
    rates.dedup();
    let points: Vec<(f64, String, &[Group])> = rates
        .iter()
        .map(|at| (*at, format!("{at} of the capacity offered"), &GROUPS[..]))
        .collect();
    let judged = judge::judge(&mut record, &ARMS, &points, &MEASURES);
    let mut panels = Vec::new();
    for (name, maria) in [("MariaDB", true), ("PostgreSQL", false)] {
        let there = |arm: &&Arm| {
            (arm.kind != Kind::PostgreSql) == maria
                && record.arms.iter().any(|found| found.arm == arm.label)
        };
        for (title, unit, key) in [
            ("done", "transactions/s", "transactions_per_s"),
            ("P99", "ms since the arrival", "transactions_p99_ms"),
        ] {
            let panel = Panel::sweep(&format!("{name}: {title}"), unit);
            let panel = ARMS
                .iter()
                .filter(there)
                .fold(panel, |panel, arm| panel.line(arm.label, arm.label, key));
            panels.extend((!panel.lines.is_empty()).then_some(panel));
        }
    }
    let figures = judge::figures(&record, &points);
    let show = Presentation {
        id: ID,
        figure: EXPERIMENT.figure,
        about: "256 connections. Transactions of three statements arrive at a fixed rate, \
                whether or not earlier ones are answered. They wait at the client while every \
                connection is busy. Half of them change one of ten hot rows. Latency counts from \
                the arrival.",
        sweep_label: "offered, of the capacity",
        caption: format!(
            "256 connections, half of the transactions on 10 hot rows, {} s a run; \
             PgBouncer with {POOLED} server connections",
            record.counted_s
        ),
        quick: "few variants and rates, short windows and one round; it measures nothing well",
        appendix: format!("<h2>Figures</h2>\n<pre>{}</pre>", crate::html::escape(&figures)),
        panels,
        ..Presentation::default()
    };
    let mut outcome = sweep::report_judged(&show, record, judged, directory, fresh)?;
    outcome.text = format!("{figures}\n{}", outcome.text);
    Ok(outcome)
}
