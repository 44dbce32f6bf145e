//! The whole way from a real server to the pages, with runs too short to measure anything.

use std::fs;

use headworks_experiments::{RunOptions, report, run};
use headworks_rig::{find_program, mariadb_or_skip};
use serde_json::Value;

#[test]
fn a_short_run_leaves_a_result_a_picture_and_pages() {
    if !mariadb_or_skip() {
        return;
    }
    if find_program("sysbench").is_none() {
        println!("skipped: sysbench is not installed (apt-get install sysbench)");
        return;
    }
    let out = std::env::temp_dir().join(format!("headworks-pipeline-{}", std::process::id()));
    let options =
        RunOptions { quick: true, without_gate: true, window_s: Some(1), ..RunOptions::new(&out) };
    let outcomes = run(&["gate-mariadb"], &options).unwrap();
    assert!(outcomes[0].text.contains("MariaDB as it is"));
    assert!(outcomes[0].files.iter().all(|file| file.exists()));

    let read = |name: &str| -> Value {
        serde_json::from_slice(&fs::read(out.join(name)).unwrap()).unwrap()
    };
    let result = read("result.json");
    let rows = result["rows"].as_array().unwrap();
    let configs: Vec<&str> = rows.iter().map(|row| row["config"].as_str().unwrap()).collect();
    assert_eq!(configs, ["ungated", "pool-of-threads", "ungated-16"]);
    for row in rows {
        assert!(row["throughput_tps"].as_f64().unwrap() > 0.0, "{row}");
        assert!(row["p99_ms"].as_f64() >= row["p50_ms"].as_f64(), "{row}");
    }
    // A transaction has 20 statements; repeated attempts add some, and the edges of a short window a few more.
    let few = &rows[2];
    let statements =
        few["requests_per_s"].as_f64().unwrap() / few["throughput_tps"].as_f64().unwrap();
    assert!((18.0..24.0).contains(&statements), "{statements} statements a transaction");

    let record = read("gate-mariadb.json");
    for arm in record["arms"].as_array().unwrap() {
        let round = &arm["rounds"][0];
        assert_eq!(
            round["clients"].as_array().unwrap().len() as u64,
            arm["users"].as_u64().unwrap()
        );
        assert_eq!(round["library_mapped"], false);
    }

    // Nothing but the files is left, and from them the same result follows again.
    let mut names: Vec<String> = fs::read_dir(&out)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert_eq!(
        names,
        ["gate-mariadb.json", "gate-mariadb.svg", "index.html", "report.html", "result.json"]
    );
    report(&out).unwrap();
    assert_eq!(read("result.json"), result);
    fs::remove_dir_all(&out).unwrap();
}

#[test]
fn wrong_requests_are_refused_with_advice() {
    let options = RunOptions::new(std::env::temp_dir().join("headworks-never-made"));
    let error = run(&["no-such-thing"], &options).unwrap_err().to_string();
    assert!(error.contains("`no-such-thing`") && error.contains("gate-mariadb"), "{error}");
    assert!(run(&[] as &[&str], &options).is_err());
    assert!(!options.out.exists());
    assert!(report(&options.out).unwrap_err().to_string().contains("holds no record"));
}
