//! The frame, and every figure in short.

use std::collections::BTreeSet;
use std::fs;

use super::collect::{Plan, collect};
use super::figure::Figure;
use super::figures::figure;
use super::{RUNS, claim, panel, simulate};
use crate::experiment::{Bench, RunOptions};
use crate::progress::Progress;
use crate::record::{read_json, write_json};
use crate::sweep::analyse;
use crate::sweep::record::{Record, Run};

/// Two seeds and a short time.
fn short(figure: &Figure, counted_s: u64, workers: usize) -> Plan {
    let options = RunOptions { repeat: Some(2), window_s: Some(counted_s), ..RunOptions::new("") };
    Plan { workers, ..Plan::new(figure, &options) }
}

/// What hangs by a few percent, and so by the seeds of a run of a second or two.
const CLOSE: [&str; 2] =
    ["separate logs give C1 the best throughput", "sharing handlers costs throughput"];

/// All statements hold in a short run, but for those that are known not to.
fn holds(id: &str, counted_s: u64, but: &[&str]) {
    holds_at(id, counted_s, None, but);
}

/// The same at the points that the statements are about.
fn holds_at(id: &str, counted_s: u64, only: Option<&'static [f64]>, but: &[&str]) {
    let figure = figure(id);
    let options = RunOptions::new("");
    let record = simulate(figure, &options, &Plan { only, ..short(figure, counted_s, 2) }).unwrap();
    let derived = analyse::derived(&|run| figure.derive(run), &record);
    let verdicts = analyse::verdicts(&claim::claims(figure), RUNS, &derived);
    let failing: Vec<_> = verdicts
        .iter()
        .filter(|verdict| !CLOSE.contains(&verdict.statement.as_str()))
        .filter(|verdict| verdict.holds == but.contains(&verdict.statement.as_str()))
        .collect();
    assert!(failing.is_empty(), "{id}: {failing:#?}");
    // Every line of the picture has something to draw.
    for line in panel::panels(figure).iter().flat_map(|panel| &panel.lines) {
        let arm = derived.arms.iter().find(|arm| arm.arm == line.arm).expect(&line.label);
        let mut runs = arm.points.iter().flat_map(|point| &point.runs);
        let kept =
            |run: &Run| run.numbers.contains_key(&line.key) || run.series.contains_key(&line.key);
        assert!(runs.any(kept), "{id}: nothing is kept for {}", line.key);
    }
}

#[test]
fn results_do_not_depend_on_the_number_of_threads() {
    let figure = figure("tad-no-scheduling");
    let bytes = |workers| {
        let mut progress = Progress::new("test", std::time::Duration::ZERO);
        let arms = collect(figure, &short(figure, 1, workers), &mut progress).unwrap();
        serde_json::to_vec(&arms).unwrap()
    };
    assert_eq!(bytes(1), bytes(2));
}

#[test]
fn a_record_is_enough_to_report_from() {
    let figure = figure("tad-no-scheduling");
    let out = std::env::temp_dir().join(format!("headworks-tad-{}", std::process::id()));
    fs::create_dir_all(&out).unwrap();
    let made = simulate(figure, &RunOptions::new(&out), &short(figure, 1, 2)).unwrap();
    let json = out.join(format!("{}.json", figure.id));
    write_json(&json, &made).unwrap();
    let first = figure.report(&out, true).unwrap();
    let svg = fs::read(out.join(format!("{}.svg", figure.id))).unwrap();
    let kept: Record = read_json(&json).unwrap();
    assert_eq!(kept.verdicts, first.verdicts);
    assert_eq!(kept.arms, made.arms);
    let again = figure.report(&out, false).unwrap();
    assert_eq!(again.verdicts, first.verdicts);
    assert_eq!(fs::read(out.join(format!("{}.svg", figure.id))).unwrap(), svg);
    assert!(first.files.iter().filter(|file| !file.ends_with("index.html")).all(|f| f.exists()));
    fs::remove_dir_all(&out).unwrap();
}

#[test]
fn every_experiment_has_a_name_of_its_own() {
    let experiments = super::experiments();
    let ids: BTreeSet<_> = experiments.iter().map(|e| e.id).collect();
    assert_eq!(ids.len(), experiments.len());
    assert!(ids.iter().all(|id| id.starts_with("tad-")));
}

#[test]
fn the_small_systems_do_as_figures_4_2_to_4_6_say() {
    holds("tad-no-scheduling", 10, &[]);
    holds("tad-unknown-usage", 5, &[]);
    holds("tad-hidden-contention", 2, &[]);
    holds("tad-blocking", 20, &[]);
    holds("tad-ordering", 20, &[]);
}

#[test]
fn hbase_does_as_figures_4_7_and_4_8_say() {
    holds("tad-hbase-no-scheduling", 10, &[]);
    holds("tad-hbase-unknown-usage", 5, &[]);
}

#[test]
fn hbase_does_as_figure_4_9_says() {
    holds_at("tad-hbase-hidden-contention", 1, Some(&[20.0, 200.0]), &[]);
    holds_at("tad-hbase-convergence", 17, Some(&[50.0, 200.0]), &[]);
}

#[test]
fn hbase_does_as_figures_4_10_and_4_11_say_but_for_perfect_use() {
    let perfect = "the direct one: CPU and disks are nearly always used";
    holds("tad-hbase-blocking", 20, &[perfect]);
    holds_at("tad-hbase-predictions", 2, Some(&[0.0, 50.0]), &[]);
    holds_at("tad-hbase-handlers", 2, Some(&[20.0, 90.0]), &[]);
}

#[test]
fn hbase_does_as_figures_4_12_and_4_18_say_but_for_the_shortest_latency() {
    let ends: Option<&[f64]> = Some(&[80.0, 640.0]);
    holds_at("tad-hbase-ordering", 1, ends, &[]);
    let shortest = "separate logs give C1 the shortest latency";
    holds_at("tad-hbase-ordering-latency", 2, ends, &[shortest]);
    holds("tad-hbase-weights", 1, &[]);
}

#[test]
fn mongodb_holds() {
    holds("tad-mongodb-unknown-usage", 5, &[]);
    holds_at("tad-mongodb-hidden-contention", 8, Some(&[0.1, 50.0, 1000.0]), &[]);
    holds("tad-mongodb-blocking", 8, &[]);
}

#[test]
fn cassandra_holds() {
    holds("tad-cassandra-unknown-usage", 5, &[]);
    holds("tad-cassandra-blocking", 8, &[]);
    holds("tad-cassandra-hidden-contention", 5, &[]);
}

#[test]
fn riak_holds() {
    holds("tad-riak-no-scheduling", 5, &[]);
    holds("tad-riak-unknown-usage", 10, &[]);
    holds_at("tad-riak-hidden-contention", 20, Some(&[5.0, 1000.0]), &[]);
}
