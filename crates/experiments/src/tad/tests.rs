//! The frame, and every figure in short.

use std::fs;

use super::collect::{Plan, collect};
use super::figure::Figure;
use super::record::Record;
use super::{analyse, fig_4_2, record, report_on};
use crate::progress::Progress;
use crate::record::{read_json, write_json};
use crate::registry::RunOptions;

/// Two seeds and a short time.
fn short(figure: &Figure, counted_s: u64, workers: usize) -> Plan {
    let options = RunOptions { repeat: Some(2), window_s: Some(counted_s), ..RunOptions::new("") };
    Plan { workers, ..Plan::new(figure, &options) }
}

pub(super) fn holds(figure: &'static Figure, counted_s: u64) {
    let options = RunOptions::new("");
    let record = record(figure, &options, &short(figure, counted_s, 2)).unwrap();
    let derived = analyse::derived(figure, &record);
    let verdicts = analyse::verdicts(figure, &derived);
    let failing: Vec<_> = verdicts.iter().filter(|verdict| !verdict.holds).collect();
    assert!(failing.is_empty(), "{}: {failing:#?}", figure.id);
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
    let made = record(figure, &RunOptions::new(&out), &short(figure, 1, 2)).unwrap();
    let json = out.join(format!("{}.json", figure.id));
    write_json(&json, &made).unwrap();
    let first = report_on(figure, &out, true).unwrap();
    let svg = fs::read(out.join(format!("{}.svg", figure.id))).unwrap();
    let kept: Record = read_json(&json).unwrap();
    assert_eq!(kept.verdicts, first.verdicts);
    assert_eq!(kept.arms, made.arms);
    let again = report_on(figure, &out, false).unwrap();
    assert_eq!(again.verdicts, first.verdicts);
    assert_eq!(fs::read(out.join(format!("{}.svg", figure.id))).unwrap(), svg);
    assert!(first.files.iter().filter(|file| !file.ends_with("index.html")).all(|f| f.exists()));
    fs::remove_dir_all(&out).unwrap();
}

#[test]
fn fig_4_2_holds() {
    holds(&fig_4_2::FIGURE, 10);
}
