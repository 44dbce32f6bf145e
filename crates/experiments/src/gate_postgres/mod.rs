//! The gate in front of an unmodified PostgreSQL: pgbench's two workloads over its three protocols.
//!
//! For each workload and protocol, five arms run in turn on the same data. Three have 256 clients:
//! on PostgreSQL as it is, behind PgBouncer, and behind the gate. PgBouncer runs in transaction
//! mode, with as many server connections as the gate has permits. Two arms have 16 clients, with
//! and without the gate. PgBouncer before 1.21 cannot serve prepared statements in that mode, so it
//! has no arm there.

mod collect;
mod pgbench;
pub(crate) mod pooler;

use std::path::Path;

use anyhow::Result;

use crate::experiment::{Experiment, Outcome, RunOptions, Steps};
use crate::served::{CPU_WAITED, MAX, P50, P95, P99, TPS, UNFAIRNESS, VARIATION};
use crate::sweep::found::Seed;
use crate::sweep::panel::Panel;
use crate::sweep::record::Record;
use crate::sweep::{self, Claim, Presentation};

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
    bench: &Steps { collect, report },
};

/// The arms.
const AS_IS: &str = "PostgreSQL as it is";
const PGBOUNCER: &str = "behind PgBouncer";
const GATED: &str = "behind the gate";
const AS_IS_16: &str = "as it is, 16 clients";
const GATED_16: &str = "behind the gate, 16 clients";

/// The points: pgbench's workload and how it sends its statements, as pgbench calls both.
const POINTS: [(&str, &str); 6] = [
    ("tpcb-like", "simple"),
    ("tpcb-like", "extended"),
    ("tpcb-like", "prepared"),
    ("select-only", "simple"),
    ("select-only", "extended"),
    ("select-only", "prepared"),
];

/// Throughput relative to PostgreSQL as it is with as many clients, in the same round.
const RATIO: &str = "throughput_ratio";

fn over(seed: &Seed<'_>, at: f64, key: &str, arm: &str, under: &str) -> f64 {
    seed.get(arm, at, key) / seed.get(under, at, key)
}

/// What must hold at a point.
macro_rules! claims {
    ($at:literal, $name:literal) => {
        [
            Claim::new(concat!(
                $name,
                ": 256 clients: at least 1.05 × the throughput of PostgreSQL as it is"
            ))
            .ours("ratio of tx/s", |seed| over(seed, $at, TPS, GATED, AS_IS))
            .at_least(1.05),
            Claim::new(concat!(
                $name,
                ": 256 clients: at least 1.10 × the throughput behind PgBouncer"
            ))
            .ours("ratio of tx/s", |seed| over(seed, $at, TPS, GATED, PGBOUNCER))
            .at_least(1.10),
            Claim::new(concat!(
                $name,
                ": 256 clients: p99 latency at most 0.2 × that of PostgreSQL as it is"
            ))
            .ours("ratio of ms", |seed| over(seed, $at, P99, GATED, AS_IS))
            .at_most(0.2),
            Claim::new(concat!($name, ": 256 clients: unfairness U_f at most 0.02"))
                .ours("U_f over transactions", |seed| seed.get(GATED, $at, UNFAIRNESS))
                .at_most(0.02),
            Claim::new(concat!(
                $name,
                ": 16 clients: at least 0.99 × the throughput without the gate"
            ))
            .ours("ratio of tx/s", |seed| over(seed, $at, TPS, GATED_16, AS_IS_16))
            .at_least(0.99),
        ]
    };
}

/// What must hold, point by point. PgBouncer has no arm with prepared statements.
fn claims() -> Vec<Claim> {
    let all = [
        claims!(0.0, "tpcb-like, simple"),
        claims!(1.0, "tpcb-like, extended"),
        claims!(2.0, "tpcb-like, prepared"),
        claims!(3.0, "select-only, simple"),
        claims!(4.0, "select-only, extended"),
        claims!(5.0, "select-only, prepared"),
    ];
    let possible = |claim: &Claim| {
        !(claim.statement.contains("prepared") && claim.statement.contains("PgBouncer"))
    };
    let all = all.into_iter().flatten().filter(possible);
    all.map(|claim| claim.paper("not measured on PostgreSQL")).collect()
}

/// The name of a point, for people.
fn point_label(at: f64) -> String {
    POINTS.get(at as usize).map_or_else(String::new, |(load, mode)| format!("{load}, {mode}"))
}

fn collect(options: &RunOptions) -> Result<Record> {
    let mut record = collect::collect(options)?;
    add_ratios(&mut record);
    Ok(record)
}

/// Adds [`RATIO`] to the runs whose round has one of PostgreSQL as it is.
fn add_ratios(record: &mut Record) {
    let whole = record.clone();
    for arm in &mut record.arms {
        let under = if [AS_IS_16, GATED_16].contains(&&*arm.arm) { AS_IS_16 } else { AS_IS };
        for point in &mut arm.points {
            for (index, run) in point.runs.iter_mut().enumerate() {
                let seed = Seed::of(&whole, index);
                let ratio = over(&seed, point.at, TPS, &arm.arm, under);
                if ratio.is_finite() {
                    run.numbers.insert(RATIO.to_owned(), ratio);
                }
            }
        }
    }
}

/// One panel for each of pgbench's workloads: their numbers are far apart.
fn panels(title: &str, unit: &str, key: &str) -> Vec<Panel> {
    let arms = [AS_IS, PGBOUNCER, GATED, AS_IS_16, GATED_16];
    let panel = |load: &str| {
        let points = POINTS.iter().enumerate().filter(|(_, point)| point.0 == load);
        let bars = points.flat_map(|(at, point)| arms.map(|arm| (at as f64, point.1, arm)));
        let panel = Panel::bars(&format!("{load}: {title}"), unit);
        bars.filter(|(_, mode, arm)| (*mode, *arm) != ("prepared", PGBOUNCER))
            .fold(panel, |panel, (at, mode, arm)| panel.bar(mode, arm, arm, at, key))
    };
    ["tpcb-like", "select-only"].map(panel).into()
}

/// Analyses and draws from what was recorded; `fresh` says that the record was made in this very
/// run.
fn report(directory: &Path, fresh: bool) -> Result<Outcome> {
    let record = sweep::read(directory, ID)?;
    let ratios = panels("throughput", "× PostgreSQL as it is", RATIO);
    let show = Presentation {
        id: ID,
        figure: EXPERIMENT.figure,
        about: "pgbench's two workloads over its three protocols: 256 clients on PostgreSQL as it is, behind PgBouncer \
                in transaction mode with as many server connections as the gate has permits, and behind the gate; and \
                16 clients with and without the gate. U_f is the unfairness over transactions, CV the variation of a \
                client's latency.",
        sweep_label: "workload, protocol",
        point_label,
        caption: format!("windows of {} s", record.counted_s),
        columns: &[
            ("tx/s", TPS),
            ("×", RATIO),
            ("p50 ms", P50),
            ("p95 ms", P95),
            ("p99 ms", P99),
            ("max ms", MAX),
            ("U_f", UNFAIRNESS),
            ("CV", VARIATION),
            ("waited for a processor, %", CPU_WAITED),
        ],
        claims: &claims(),
        panels: ratios.into_iter().chain(panels("p99 latency", "ms", P99)).collect(),
        ..Presentation::default()
    };
    sweep::report(&show, record, directory, fresh)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sweep::analyse::verdicts;
    use crate::sweep::record::{ArmRecord, Point, Run};

    /// A record in which every promise holds, just, unless a run of the gate is spoilt.
    fn record(spoil: fn(&str, f64) -> f64) -> Record {
        let arms = [
            (AS_IS, 1_000.0, 500.0, 0.4),
            (PGBOUNCER, 950.0, 140.0, 0.01),
            (GATED, 1_060.0, 99.0, 0.019),
            (AS_IS_16, 2_000.0, 8.0, 0.1),
            (GATED_16, 1_990.0, 8.0, 0.1),
        ];
        let arm = |(arm, tps, p99, unfairness): (&str, f64, f64, f64)| {
            let gated = [GATED, GATED_16].contains(&arm);
            let numbers = [(TPS, tps), (P99, p99), (UNFAIRNESS, unfairness)].map(|(key, value)| {
                (key.to_owned(), if gated { spoil(key, value) } else { value })
            });
            let run = Run { numbers: numbers.into(), ..Run::default() };
            let point = |at: usize| Point { at: at as f64, runs: vec![run.clone()] };
            let points = (0..POINTS.len()).map(point).collect();
            ArmRecord { arm: arm.to_owned(), setup: [].into(), points }
        };
        let mut record = Record::of(arms.map(arm).into());
        add_ratios(&mut record);
        record
    }

    #[test]
    fn every_promise_can_hold_and_can_fail() {
        let all = verdicts(&claims(), "rounds", &record(|_, value| value));
        assert_eq!(all.len(), 6 * 5 - 2);
        for verdict in &all {
            assert!(verdict.holds, "{verdict:?}");
        }
        let spoilers: [fn(&str, f64) -> f64; 3] = [
            |key, value| if key == TPS { 0.9 * value } else { value },
            |key, value| if key == P99 { 2.0 * value } else { value },
            |key, value| if key == UNFAIRNESS { 0.03 } else { value },
        ];
        for spoil in spoilers {
            let all = verdicts(&claims(), "rounds", &record(spoil));
            let failed = all.iter().filter(|verdict| !verdict.holds).count();
            assert!(failed >= 6, "{failed}");
        }
        let nothing = verdicts(&claims(), "rounds", &Record::of(Vec::new()));
        assert!(nothing.iter().all(|verdict| !verdict.holds && verdict.ours.is_none()));
    }

    #[test]
    fn throughput_is_compared_with_as_many_clients() {
        let record = record(|_, value| value);
        let ratio = |arm: &str| Seed::of(&record, 0).get(arm, 0.0, RATIO);
        assert_eq!([ratio(AS_IS), ratio(GATED), ratio(GATED_16)], [1.0, 1.06, 0.995]);
    }
}
