//! The frame, and every figure in short.

use std::fs;

use super::collect::{Plan, collect};
use super::figure::Figure;
use super::record::Record;
use super::{
    RUNS, fig_4_2, fig_4_3, fig_4_4, fig_4_5, fig_4_6, hbase_4_7, hbase_4_8, hbase_4_9, hbase_4_9b,
    hbase_4_10, hbase_4_11, hbase_4_12, hbase_4_18, simulate,
};
use crate::experiment::Bench;
use crate::experiment::RunOptions;
use crate::progress::Progress;
use crate::record::{read_json, write_json};
use crate::sweep::analyse;

/// Two seeds and a short time.
fn short(figure: &Figure, counted_s: u64, workers: usize) -> Plan {
    let options = RunOptions { repeat: Some(2), window_s: Some(counted_s), ..RunOptions::new("") };
    Plan { workers, ..Plan::new(figure, &options) }
}

/// What hangs by a few percent, and so by the seeds of a run of a second or two.
const CLOSE: [&str; 2] =
    ["separate logs give C1 the best throughput", "sharing handlers costs throughput"];

/// All statements hold in a short run, but for those that are known not to.
pub(super) fn holds(figure: &'static Figure, counted_s: u64, but: &[&str]) {
    holds_at(figure, counted_s, None, but);
}

/// The same at the points that the statements are about.
pub(super) fn holds_at(
    figure: &'static Figure,
    counted_s: u64,
    only: Option<&'static [f64]>,
    but: &[&str],
) {
    let options = RunOptions::new("");
    let record = simulate(figure, &options, &Plan { only, ..short(figure, counted_s, 2) }).unwrap();
    let derived = analyse::derived(figure.derive, &record);
    let verdicts = analyse::verdicts(figure.claims, RUNS, &derived);
    let failing: Vec<_> = verdicts
        .iter()
        .filter(|verdict| !CLOSE.contains(&verdict.statement.as_str()))
        .filter(|verdict| verdict.holds == but.contains(&verdict.statement.as_str()))
        .collect();
    assert!(failing.is_empty(), "{}: {failing:#?}", figure.id);
    // Every line of the picture has something to draw.
    for line in (figure.panels)().iter().flat_map(|panel| &panel.lines) {
        let arm = derived.arms.iter().find(|arm| arm.arm == line.arm).expect(&line.label);
        let mut runs = arm.points.iter().flat_map(|point| &point.runs);
        let kept = |run: &super::record::Run| {
            run.numbers.contains_key(&line.key) || run.series.contains_key(&line.key)
        };
        assert!(runs.any(kept), "{}: nothing is kept for {}", figure.id, line.key);
    }
}

#[test]
fn results_do_not_depend_on_the_number_of_threads() {
    let figure = &fig_4_2::FIGURE;
    let bytes = |workers| {
        let mut progress = Progress::new("test", std::time::Duration::ZERO);
        let arms = collect(figure, &short(figure, 1, workers), &mut progress).unwrap();
        serde_json::to_vec(&arms).unwrap()
    };
    assert_eq!(bytes(1), bytes(2));
}

#[test]
fn a_record_is_enough_to_report_from() {
    let figure = &fig_4_2::FIGURE;
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
    let ids: std::collections::BTreeSet<_> = super::EXPERIMENTS.iter().map(|e| e.id).collect();
    assert_eq!(ids.len(), super::EXPERIMENTS.len());
    assert!(ids.iter().all(|id| id.starts_with("tad-")));
}

#[test]
fn the_small_systems_do_as_figures_4_2_to_4_6_say() {
    holds(&fig_4_2::FIGURE, 10, &[]);
    holds(&fig_4_3::FIGURE, 5, &[]);
    holds(&fig_4_4::FIGURE, 2, &[]);
    holds(&fig_4_5::FIGURE, 20, &[]);
    holds(&fig_4_6::FIGURE, 20, &[]);
}

#[test]
fn hbase_does_as_figures_4_7_and_4_8_say() {
    holds(&hbase_4_7::FIGURE, 10, &[]);
    holds(&hbase_4_8::FIGURE, 5, &[]);
}

#[test]
fn hbase_does_as_figure_4_9_says() {
    holds_at(&hbase_4_9::FIGURE, 1, Some(&[20.0, 200.0]), &[]);
    holds_at(&hbase_4_9b::FIGURE, 17, Some(&[50.0, 200.0]), &[]);
}

#[test]
fn hbase_does_as_figures_4_10_and_4_11_say_but_for_perfect_use() {
    holds(&hbase_4_10::FIGURE, 20, &["the direct one: CPU and disks are nearly always used"]);
    holds_at(&hbase_4_11::WRONG, 2, Some(&[0.0, 50.0]), &[]);
    holds_at(&hbase_4_11::HANDLERS, 2, Some(&[20.0, 90.0]), &[]);
}

#[test]
fn hbase_does_as_figures_4_12_and_4_18_say_but_for_the_shortest_latency() {
    let ends: Option<&[f64]> = Some(&[80.0, 640.0]);
    holds_at(&hbase_4_12::STEADY, 1, ends, &[]);
    holds_at(&hbase_4_12::BURSTS, 2, ends, &["separate logs give C1 the shortest latency"]);
    holds(&hbase_4_18::FIGURE, 1, &[]);
}
