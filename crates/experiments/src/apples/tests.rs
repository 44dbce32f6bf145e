//! The figures as data, and their numbers.

use std::time::Duration;

use headworks_workload::driver::{self, Answer, Client, Request, RunOptions, Stop};

use super::EXPERIMENTS;
use super::measure::{REQUEST_CV, add_search, add_status, measure};

#[test]
fn names_are_unique_and_times_are_promised() {
    let ids: std::collections::BTreeSet<_> = EXPERIMENTS.iter().map(|e| e.id).collect();
    assert_eq!(ids.len(), EXPERIMENTS.len());
    assert!(EXPERIMENTS.iter().all(|e| e.id.starts_with("apples-")));
    assert!(EXPERIMENTS.iter().all(|e| e.expected_quick_s < 400));
    // A simulation needs neither a database nor much time.
    assert!(EXPERIMENTS.iter().all(|e| e.needs.is_empty() || e.expected_s > 300));
}

/// A server that takes two milliseconds.
#[derive(Default)]
struct Fake {
    asked: u64,
}

impl Client for Fake {
    fn next(&mut self) -> Request {
        Request { kind: 0, before: Duration::ZERO, after: Duration::ZERO }
    }

    fn attempt(&mut self) -> Result<(), headworks_workload::db::DbError> {
        std::thread::sleep(Duration::from_millis(2));
        self.asked += 1;
        Ok(())
    }

    fn requests(&self) -> u64 {
        self.asked
    }
}

#[test]
fn a_run_is_measured_as_a_whole_and_by_class() {
    let options = RunOptions {
        users: 5,
        warm_up: Duration::from_millis(100),
        window: Duration::from_secs(1),
        trace: true,
        ..RunOptions::default()
    };
    let report =
        driver::run(&options, &["only"], &|_| Ok(Fake::default()), &Stop::default(), &mut |_| {})
            .unwrap();
    let run = measure(&report, 2, 7);
    let of = |key: &str| run.numbers[key];
    assert_eq!(run.seed, 7);
    let sum = of("ls_per_s") + of("be_per_s");
    assert!((sum - of("throughput_per_s")).abs() < 1e-9);
    assert!(of("ls_per_s") < of("be_per_s"));
    assert!(of("ls_latency_p999_ms") >= 2.0 && of("latency_max_ms") >= of("latency_p99_ms"));
}

#[test]
fn the_model_counts_only_if_it_fits() {
    let mut run = measure(&empty(), 0, 1);
    // A probe is under way; P = 1 is beyond what was measured, and far out the curve rises again.
    let fitted = serde_json::json!({"parallelism": 14, "best": 12, "fitted": {
        "samples": [[2, 100.0], [16, 240.0], [256, 120.0]], "parameters": [1.0, 0.1],
        "curve": [[1, 300.0], [2, 100.0], [8, 250.0], [32, 200.0], [256, 260.0]]}});
    add_search(&mut run, &fitted);
    assert_eq!(run.numbers["gate_model_per_s"], 250.0);
    assert_eq!(run.numbers["gate_model_p"], 8.0);
    assert_eq!(run.numbers["gate_p"], 12.0);
    let mut run = measure(&empty(), 0, 1);
    add_search(
        &mut run,
        &serde_json::json!({"best": 12, "fitted": {"parameters": null,
        "curve": [[2, 100.0]]}}),
    );
    assert!(!run.numbers.contains_key("gate_model_per_s"));
}

#[test]
fn windows_in_which_unfairness_is_judged_have_requests_enough() {
    let options = RunOptions {
        users: 4,
        warm_up: Duration::ZERO,
        window: Duration::from_millis(500),
        trace: true,
        ..RunOptions::default()
    };
    let mut report =
        driver::run(&options, &["only"], &|_| Ok(Fake::default()), &Stop::default(), &mut |_| {})
            .unwrap();
    // All alike, however busy this machine was.
    for user in &mut report.users {
        let answer = |at_ms| Answer { at_ms, latency_us: 2_000, requests: 1 };
        user.trace = (0..500).step_by(5).map(answer).collect();
    }
    let held = |report: &driver::Report| {
        measure(report, 0, 1).numbers.get("unfairness_held_fraction").copied()
    };
    assert_eq!(held(&report), None, "shorter than the shortest window");
    // 40 s with 4 requests a second of 4 users: 40 of each take all of it, in which all were served
    // alike.
    report.options.window = Duration::from_secs(40);
    report.per_s = 4.0;
    assert_eq!(held(&report), Some(1.0));
    // With 400 a second windows have 10 s, and no request was served in three of four.
    report.per_s = 400.0;
    assert_eq!(held(&report), Some(0.25));
}

#[test]
fn what_the_gate_says_of_all_users_is_kept() {
    let mut run = measure(&empty(), 0, 1);
    add_status(&mut run, &serde_json::json!({"latency_cv": 1.25, "classes": [], "targets": []}));
    assert_eq!(run.numbers[REQUEST_CV], 1.25);
    let mut run = measure(&empty(), 0, 1);
    add_status(&mut run, &serde_json::json!({"latency_cv": null}));
    assert!(!run.numbers.contains_key(REQUEST_CV));
}

fn empty() -> driver::Report {
    let options =
        RunOptions { users: 1, window: Duration::from_millis(20), ..RunOptions::default() };
    let options = RunOptions { warm_up: Duration::ZERO, ..options };
    driver::run(&options, &["only"], &|_| Ok(Fake::default()), &Stop::default(), &mut |_| {})
        .unwrap()
}
