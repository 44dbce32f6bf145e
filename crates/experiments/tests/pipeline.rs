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
    let record = read("gate-mariadb.json");
    let mut cells = Vec::new();
    for arm in record["arms"].as_array().unwrap() {
        for point in arm["points"].as_array().unwrap() {
            let (numbers, series) = (&point["runs"][0]["numbers"], &point["runs"][0]["series"]);
            let number = |key: &str| numbers[key].as_f64().unwrap();
            assert!(number("throughput_tps") > 0.0, "{numbers}");
            assert!(number("p99_ms") >= number("p50_ms"), "{numbers}");
            let users = point["at"].as_f64().unwrap();
            assert_eq!(series["shares"].as_array().unwrap().len() as f64, users);
            let statements = number("requests_per_s") / number("throughput_tps");
            cells.push((arm["arm"].as_str().unwrap(), users, statements));
        }
    }
    let names: Vec<(&str, f64)> = cells.iter().map(|cell| (cell.0, cell.1)).collect();
    let as_is = "MariaDB as it is";
    assert_eq!(names, [(as_is, 256.0), (as_is, 16.0), ("its own thread pool", 256.0)]);
    // A transaction has 20 statements; repeated attempts add some, and the edges of a short window
    // a few more.
    let statements = cells[1].2;
    assert!((18.0..24.0).contains(&statements), "{statements} statements a transaction");

    // Nothing but the files is left, and from them the same result follows again.
    let mut names: Vec<String> = fs::read_dir(&out)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert_eq!(names, ["gate-mariadb.html", "gate-mariadb.json", "gate-mariadb.svg", "index.html"]);
    report(&out).unwrap();
    assert_eq!(read("gate-mariadb.json"), record);
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
