//! Analysis, contract, picture and pages, on a record whose numbers are known.

use headworks_rig::machine::{Load, Machine};
use serde_json::Value;

use super::analyse::{Result, row, rows};
use super::arms::Config;
use super::record::{Arm, Client, Record, Round, Software, Workload};
use super::verdicts::verdicts;
use super::{draw, report, text};
use crate::record::{Header, Verdict};

/// Every user of an arm commits `transactions` transactions of `latency_us` in a window of 10 s and issues 20 requests
/// for each; the first user only half as many.
fn round(number: usize, users: usize, transactions: usize, latency_us: u32) -> Round {
    let client = |user: usize| {
        let transactions = if user == 0 { transactions / 2 } else { transactions };
        Client {
            requests: 20 * transactions as u64,
            retries: 0,
            latencies_us: vec![latency_us; transactions],
        }
    };
    Round {
        gate: None,
        round: number,
        position_in_round: 1,
        window_s: 10.0,
        server_start_s: 1.0,
        server_stop_s: 1.0,
        library_mapped: false,
        load_before: Load::default(),
        load_at_window_begin: Load::default(),
        load_at_window_end: Load::default(),
        clients: (0..users).map(client).collect(),
    }
}

fn record(arms: &[(Config, usize, u32)]) -> Record {
    Record {
        header: Header {
            id: super::ID.to_owned(),
            title: "A <title> & more".to_owned(),
            paper: "AppleS".to_owned(),
            figure: "Fig. 1".to_owned(),
            recorded_at_unix_s: 1,
            quick: false,
            seed: 7,
            machine: Machine::default(),
        },
        software: Software::default(),
        workload: Workload {
            description: "a workload".to_owned(),
            tables: 4,
            rows_per_table: 250_000,
            warm_up_s: 1.0,
            window_s: 10.0,
            server_options: Vec::new(),
            parallelism: None,
            quota: None,
        },
        verdicts: Vec::new(),
        arms: arms
            .iter()
            .map(|&(config, transactions, latency_us)| Arm {
                config,
                users: config.users(),
                server_options: Vec::new(),
                rounds: (1..=3)
                    .map(|n| round(n, config.users(), n * transactions, latency_us))
                    .collect(),
            })
            .collect(),
    }
}

fn full_record() -> Record {
    record(&[
        (Config::Ungated, 40, 900_000),
        (Config::PoolOfThreads, 38, 1_100_000),
        (Config::Gated, 50, 300_000),
        (Config::Ungated16, 680, 22_000),
        (Config::Gated16, 680, 22_000),
    ])
}

#[test]
fn numbers_follow_from_the_record() {
    let rows = rows(&full_record()).unwrap();
    let gated = row(&rows, Config::Gated).unwrap();
    // Rounds of 50, 100 and 150 transactions a user; the middle one: 255 × 100 + 50 = 25,550 in 10 s.
    assert_eq!(gated.median.throughput_tps, 2555.0);
    assert_eq!(gated.median.requests_per_s, 51_100.0);
    assert_eq!((gated.median.p50_ms, gated.median.max_ms), (300.0, 300.0));
    assert_eq!(gated.median.latency_cv, Some(0.0));
    // The mean is 25,550 / 256 transactions; the first user is below it by that mean less 50.
    let mean = 25_550.0 / 256.0;
    assert!((gated.median.unfairness.unwrap() - (mean - 50.0) / mean).abs() < 1e-12);
    assert_eq!(gated.rounds.len(), 3);
}

#[test]
fn verdicts_say_what_holds() {
    let record = full_record();
    let verdicts: Vec<Verdict> = verdicts(&rows(&record).unwrap(), false);
    let holds: Vec<bool> = verdicts.iter().map(|verdict| verdict.holds).collect();
    // 50/40 = 1.25 and 50/38 = 1.32 are enough; so are 300/900 = 0.33 and 300/1100 = 0.27; half a share is not fair.
    assert_eq!(holds, [true, true, true, true, false, true]);
    assert!((verdicts[0].ours.unwrap() - 1.25).abs() < 1e-9);
}

#[test]
fn an_arm_that_did_not_run_proves_nothing() {
    let record = record(&[(Config::Ungated, 40, 900_000)]);
    let rows = rows(&record).unwrap();
    let verdicts = verdicts(&rows, true);
    assert!(verdicts.iter().all(|verdict| !verdict.holds && verdict.ours.is_none()));
    assert!(verdicts[0].note.contains("did not run"));
    let svg = draw::picture(&record, &rows).unwrap();
    well_formed(&svg);
    assert!(report::page_file(&record, &rows, &svg).contains("did not run"));
}

#[test]
fn nobody_served_is_no_division_by_zero() {
    let record = record(&[(Config::Ungated, 0, 0), (Config::Gated, 0, 0)]);
    let rows = rows(&record).unwrap();
    assert_eq!(rows[0].median.unfairness, None);
    well_formed(&draw::picture(&record, &rows).unwrap());
}

#[test]
fn result_json_keeps_its_contract() {
    let rows = rows(&full_record()).unwrap();
    let value: Value = serde_json::to_value(Result { rows }).unwrap();
    let rows = value["rows"].as_array().unwrap();
    let names: Vec<&str> = rows.iter().map(|row| row["config"].as_str().unwrap()).collect();
    assert_eq!(names, ["ungated", "pool-of-threads", "gated", "ungated-16", "gated-16"]);
    for row in rows {
        for key in [
            "users",
            "throughput_tps",
            "p50_ms",
            "p95_ms",
            "p99_ms",
            "max_ms",
            "unfairness",
            "latency_cv",
        ] {
            assert!(row[key].is_number(), "{key} of {row}");
        }
        assert_eq!(row["rounds"].as_array().unwrap().len(), 3);
    }
}

#[test]
fn the_record_survives_a_round_trip_and_has_the_common_keys() {
    let mut record = full_record();
    record.verdicts = verdicts(&rows(&record).unwrap(), false);
    let value = serde_json::to_value(&record).unwrap();
    for key in ["id", "machine", "arms", "verdicts", "seed", "quick"] {
        assert!(!value[key].is_null(), "{key}");
    }
    for key in ["statement", "paper", "ours", "unit", "holds", "note"] {
        assert!(!value["verdicts"][0][key].is_null(), "{key}");
    }
    let again: Record = serde_json::from_value(value).unwrap();
    assert_eq!(again.arms[2].rounds[1].clients, record.arms[2].rounds[1].clients);
    assert_eq!(again.verdicts, record.verdicts);
}

#[test]
fn picture_and_page_are_well_formed() {
    let mut record = full_record();
    let rows = rows(&record).unwrap();
    record.verdicts = verdicts(&rows, false);
    let svg = draw::picture(&record, &rows).unwrap();
    well_formed(&svg);
    assert!(svg.contains("behind the gate") && svg.contains("2,555"));
    let page = report::page_file(&record, &rows, &svg);
    assert!(page.contains("A &lt;title&gt; &amp; more") && !page.contains("<title> &"));
    assert_eq!(page.matches("aria-label=\"holds\"").count(), 5);
    assert!(
        !page.contains("src=") && !page.contains("http-equiv"),
        "the page needs nothing but itself"
    );
    let printed = text::summary(&record, &rows, &["out/result.json".into()], true);
    assert!(
        printed.contains("✗ 256 users: unfairness") && printed.contains("out/result.json"),
        "{printed}"
    );
}

/// Every tag is closed in order, and no attribute is broken by a quote.
fn well_formed(svg: &str) {
    let mut open: Vec<&str> = Vec::new();
    let mut rest = svg;
    while let Some(begin) = rest.find('<') {
        let end = begin + rest[begin..].find('>').expect("a tag that does not end");
        let tag = &rest[begin + 1..end];
        rest = &rest[end + 1..];
        assert_eq!(tag.matches('"').count() % 2, 0, "{tag}");
        let name = tag.trim_start_matches('/').split([' ', '/', '\n']).next().unwrap();
        if tag.starts_with('/') {
            assert_eq!(open.pop(), Some(name));
        } else if !tag.ends_with('/') && !tag.starts_with(['?', '!']) {
            open.push(name);
        }
    }
    assert!(open.is_empty(), "left open: {open:?}");
}
