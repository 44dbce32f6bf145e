//! The workloads that other figures do not have, side by side: as it is, and behind the gate.

use std::collections::BTreeMap;

use headworks_workload::sysbench::Oltp;
use headworks_workload::ycsb::Core;

use super::figure::{Arm, Claim, Figure, Load, ServerKind, Time, Users, Workload};
use super::site::{Engine, Site};
use crate::sweep::found::Seed;
use crate::sweep::panel::Panel;
use crate::sweep::record::{Record, Run};

// The workloads of the sites themselves are those of the figures that share their data.

/// What the names of the two arms of a workload end with.
macro_rules! as_is {
    ($name:literal) => {
        concat!($name, ", as it is")
    };
}
macro_rules! gated {
    ($name:literal) => {
        concat!($name, ", gate")
    };
}
const AS_IS_SUFFIX: &str = as_is!("");
const GATED_SUFFIX: &str = gated!("");

/// Numbers of a run, and what they are called relative to those without the gate.
const RATIOS: [(&str, &str); 3] = [
    ("throughput_per_s", THROUGHPUT),
    ("unfairness", UNFAIRNESS),
    ("latency_p99_ms", "latency_p99_ratio"),
];
pub(super) const THROUGHPUT: &str = "throughput_ratio";
const UNFAIRNESS: &str = "unfairness_ratio";

/// Adds to the runs of arms `X, gate` how much their numbers are of those of `X, as it is` in the
/// same round. Workloads differ by orders of magnitude, so that only these can be drawn beside each
/// other.
pub(super) fn compare(record: &mut Record) {
    let of = |run: &Run| (run.seed, run.numbers.clone());
    let plain: Vec<(String, BTreeMap<u64, _>)> = record
        .arms
        .iter()
        .filter_map(|arm| {
            let workload = arm.arm.strip_suffix(AS_IS_SUFFIX)?.to_owned();
            Some((workload, arm.points.iter().flat_map(|point| &point.runs).map(of).collect()))
        })
        .collect();
    for arm in &mut record.arms {
        let Some(workload) = arm.arm.strip_suffix(GATED_SUFFIX) else { continue };
        let Some((_, plain)) = plain.iter().find(|(name, _)| name == workload) else { continue };
        for run in arm.points.iter_mut().flat_map(|point| &mut point.runs) {
            let Some(than) = plain.get(&run.seed) else { continue };
            for (key, ratio) in RATIOS {
                let values = (run.numbers.get(key), than.get(key));
                let (Some(ours), Some(theirs)) = values else { continue };
                let value = ours / theirs;
                if value.is_finite() {
                    run.numbers.insert(ratio.to_owned(), value);
                }
            }
        }
    }
}

const USERS: usize = 256;
/// The one point of every arm.
const AT: f64 = USERS as f64;

const fn arm(label: &'static str, server: ServerKind, workload: Workload) -> Arm {
    let load = Load::doing(Users::Fixed(USERS), workload);
    Arm { label, server, points: &[AT], load, time: None }
}

/// Lines of a figure's text that are the same for all.
macro_rules! about {
    ($text:literal) => {
        concat!($text, " Each as it is and behind the gate, 256 users without pauses.")
    };
}

/// A figure of workloads: arms, claims and panels follow from their names.
macro_rules! figure {
    (
        id: $id:literal,
        site: $site:expr,
        title: $title:literal,
        figure: $figure:literal,
        about: $about:expr,
        gate: $gate:literal,
        paper: ($throughput:literal, $fairness:literal),
        workloads: { $($name:literal: $workload:expr;)+ }
    ) => {
        Figure {
            id: $id,
            site: $site,
            title: $title,
            figure: $figure,
            about: $about,
            sweep: ("users", "users"),
            arms: &[$(
                arm(as_is!($name), ServerKind::Plain(&[]), $workload),
                arm(gated!($name), ServerKind::Gate($gate), $workload),
            )+],
            time: Time { warm_up_s: 4, window_s: 10, rounds: 3 },
            extend: compare,
            claims: &[$(
                Claim::new(concat!($name, ": throughput against the server as it is"))
                    .paper($throughput)
                    .ours("ratio of throughput", |seed| seed.get(gated!($name), AT, THROUGHPUT))
                    .at_least(0.97),
                Claim::new(concat!($name, ": service is fairer than from the server as it is"))
                    .paper($fairness)
                    .ours("ratio of U_f over requests", |seed| fairer(seed, gated!($name)))
                    .at_least(4.6)
                    .note("the bound is the least that the paper has anywhere"),
            )+],
            panels: || vec![
                Panel::bars("Throughput behind the gate, of that as it is", "ratio")
                    $(.bar($name, "behind the gate", gated!($name), AT, THROUGHPUT))+
                    .up_to(1.2),
                Panel::bars("Unfairness U_f over requests", "")
                    $(
                        .bar($name, "as it is", as_is!($name), AT, "unfairness")
                        .bar($name, "behind the gate", gated!($name), AT, "unfairness")
                    )+,
                Panel::bars("P99 behind the gate, of that as it is", "ratio")
                    $(.bar($name, "behind the gate", gated!($name), AT, "latency_p99_ratio"))+
                    .up_to(1.2),
                Panel::bars("Variation of a user's latency", "")
                    $(
                        .bar($name, "as it is", as_is!($name), AT, "latency_cv")
                        .bar($name, "behind the gate", gated!($name), AT, "latency_cv")
                    )+,
            ],
        }
    };
}

/// How many times fairer service is.
fn fairer(seed: &Seed<'_>, gated: &str) -> f64 {
    1.0 / seed.get(gated, AT, UNFAIRNESS)
}

pub(super) const ON_MARIADB: Figure = figure! {
    id: "apples-workloads-sysbench",
    site: Site::Sysbench(Engine::MariaDb, Oltp::ReadWrite),
    title: "Other workloads with and without the gate: sysbench on MariaDB",
    figure: "Figure 9, with other workloads",
    about: about!(
        "sysbench's OLTP workloads but oltp_read_write on ten tables of 200,000 rows, all in memory, three of four statements \
         on a hundredth of the rows; P = 8 x cores."
    ),
    gate: "[gate]\nparallelism = 16\n",
    paper: ("not shown", "not shown"),
    workloads: {
        "point_select": Workload::Sysbench(Oltp::PointSelect);
        "read_only": Workload::Sysbench(Oltp::ReadOnly);
        "write_only": Workload::Sysbench(Oltp::WriteOnly);
        "update_index": Workload::Sysbench(Oltp::UpdateIndex);
        "update_non_index": Workload::Sysbench(Oltp::UpdateNonIndex);
    }
};

pub(super) const ON_REDIS: Figure = figure! {
    id: "apples-workloads-ycsb-redis",
    site: Site::Redis(Core::A),
    title: "Other workloads with and without the gate: YCSB B to F on Redis",
    figure: "Figure 16, with other workloads on another database",
    about: about!(
        "B: 95 % reads, 5 % updates. C: reads. D: 95 % reads of what is young, 5 % inserts. E: 95 % scans of up to 100 records, \
         5 % inserts. F: half reads, half reads with a write. 100,000 records of 1 KB, all in memory; P = 64, which is what one \
         return of the event loop serves."
    ),
    gate: "[gate]\nparallelism = 64\n",
    paper: (
        "only A: at most 2.5 % less (Figure 16, MongoDB)",
        "only A: 4.6 x to 39.6 x (Figure 16, MongoDB)"
    ),
    workloads: {
        "YCSB B": Workload::Ycsb(Core::B);
        "YCSB C": Workload::Ycsb(Core::C);
        "YCSB D": Workload::Ycsb(Core::D);
        "YCSB E": Workload::Ycsb(Core::E);
        "YCSB F": Workload::Ycsb(Core::F);
    }
};

pub(super) const ON_MONGODB: Figure = figure! {
    id: "apples-workloads-ycsb-mongodb",
    site: Site::MongoDb(Core::A),
    title: "Other workloads with and without the gate: YCSB on MongoDB's protocol",
    figure: "Figure 16, with other workloads",
    about: about!(
        "B: 95 % reads, 5 % updates. C: reads. D: 95 % reads of what is young, 5 % inserts. F: half reads, half reads with a \
         write. 50,000 records of 1 KB, all in memory, in mongo-java-server, which is not MongoDB but speaks its protocol; E is \
         left out, because a scan looks through all its records there. P = 8 x cores."
    ),
    gate: "[gate]\nparallelism = 16\n",
    paper: ("only A: at most 2.5 % less (Figure 16)", "only A: 4.6 x to 39.6 x (Figure 16)"),
    workloads: {
        "YCSB B": Workload::Ycsb(Core::B);
        "YCSB C": Workload::Ycsb(Core::C);
        "YCSB D": Workload::Ycsb(Core::D);
        "YCSB F": Workload::Ycsb(Core::F);
    }
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sweep::record::{ArmRecord, Point};

    fn arm(label: &str, runs: &[(u64, f64, f64)]) -> ArmRecord {
        let run = |&(seed, per_s, unfairness): &(u64, f64, f64)| {
            let numbers = [("throughput_per_s", per_s), ("unfairness", unfairness)];
            let numbers = numbers.map(|(key, value)| (key.to_owned(), value)).into();
            Run { seed, numbers, bucket_s: 1.0, ..Run::default() }
        };
        let points = vec![Point { at: AT, runs: runs.iter().map(run).collect() }];
        ArmRecord { arm: label.to_owned(), setup: [].into(), points }
    }

    #[test]
    fn a_workload_is_compared_with_itself_in_the_same_round() {
        let arms = vec![
            arm("a, as it is", &[(1, 100.0, 0.5), (2, 50.0, 0.0)]),
            arm("b, gate", &[(1, 30.0, 0.1), (2, 40.0, 0.1)]),
            // Rounds in another order.
            arm("a, gate", &[(2, 25.0, 0.1), (1, 110.0, 0.1)]),
            arm("b, as it is", &[(1, 60.0, 0.2)]),
        ];
        let load = headworks_rig::machine::Load::read();
        let text = serde_json::json!({
            "id": "x", "title": "x", "paper": "x", "figure": "x", "recorded_at_unix_s": 0, "quick": true,
            "seed": 1, "machine": headworks_rig::machine::Machine::describe(), "counted_s": 1.0,
            "warmup_s": 1.0, "took_s": 1.0, "load_before": load, "load_after": load, "verdicts": [],
            "sweep": "x", "arms": arms,
        });
        let mut record: Record = serde_json::from_value(text).unwrap();
        compare(&mut record);
        // A report that is made again finds the same.
        compare(&mut record);
        let found = |arm: usize, run: usize, key: &str| {
            record.arms[arm].points[0].runs[run].numbers.get(key).copied()
        };
        assert_eq!([found(2, 0, THROUGHPUT), found(2, 1, THROUGHPUT)], [Some(0.5), Some(1.1)]);
        // Without any unfairness there is no ratio.
        assert_eq!([found(2, 0, UNFAIRNESS), found(2, 1, UNFAIRNESS)], [None, Some(0.2)]);
        assert_eq!([found(1, 0, THROUGHPUT), found(1, 1, THROUGHPUT)], [Some(0.5), None]);
        assert_eq!(found(0, 0, THROUGHPUT), None);
    }

    #[test]
    fn every_workload_is_there_once_with_and_once_without_the_gate() {
        for (figure, workloads) in [(&ON_MARIADB, 5), (&ON_REDIS, 5), (&ON_MONGODB, 4)] {
            let counts = (figure.arms.len(), figure.claims.len());
            assert_eq!(counts, (2 * workloads, 2 * workloads), "{}", figure.id);
            let named =
                |suffix| figure.arms.iter().filter_map(move |a| a.label.strip_suffix(suffix));
            assert!(named(AS_IS_SUFFIX).eq(named(GATED_SUFFIX)), "{}", figure.id);
            let drawn = (figure.panels)();
            let lines = drawn.iter().flat_map(|panel| &panel.lines);
            let known = |label: &str| figure.arms.iter().any(|arm| arm.label == label);
            assert!(lines.into_iter().all(|line| known(line.arm) && line.at == AT));
        }
    }
}
