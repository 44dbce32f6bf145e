//! Everything but `fix`.

use serde_json::Value;
use std::process::Output;

use crate::support::{Dir, text};

/// A system without problems, and a scenario for it.
pub const CLEAN: &str = r#"
name = "clean"
[[node]]
name = "n"
[[node.resource]]
name = "cpu"
rate = "1 GHz"
[[process]]
name = "p"
node = "n"
[[stage]]
name = "s"
process = "p"
threads = 1
queue = { explicit = true, pluggable = true }
uses = ["cpu"]
[[request]]
name = "r"
answered-by = ["a"]
[[request.step]]
name = "a"
stage = "s"
uses = ["cpu 1 ms"]
"#;

pub const LOAD: &str = r#"
name = "load"
duration = "2 s"
sample = "100 ms"
policy = "drf"
[[client]]
name = "C1"
[[client.load]]
request = "r"
threads = 4
[[client]]
name = "C2"
[[client.load]]
request = "r"
threads = 4
"#;

fn tad(run: &Dir, args: &[&str]) -> Output {
    run.tad(args.iter().copied()).output().unwrap()
}

/// Exit code, and everything that was said.
pub fn ends(run: &Dir, args: &[&str]) -> (i32, String) {
    let output = tad(run, args);
    (output.status.code().unwrap(), text(&output))
}

pub fn json(run: &Dir, args: &[&str]) -> (i32, Value) {
    let output = tad(run, args);
    let value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}", text(&output)));
    (output.status.code().unwrap(), value)
}

#[test]
fn what_comes_along_is_listed_and_shown() {
    let run = Dir::new();
    let (code, list) = json(&run, &["list", "--json"]);
    assert_eq!(code, 0);
    let names: Vec<&str> =
        list.as_array().unwrap().iter().map(|each| each["name"].as_str().unwrap()).collect();
    assert!(names.contains(&"hbase") && names.contains(&"riak"), "{names:?}");
    for name in ["hbase", "hbase-isolation"] {
        let (code, shown) = ends(&run, &["show", name]);
        assert!(code == 0 && shown.contains("name = \"hbase"), "{shown}");
    }
    let (code, refusal) = ends(&run, &["show", "nosuch"]);
    assert!(code == 2 && refusal.contains("headworks tad list"), "{refusal}");
    // What is shown is a file that can be used.
    let (_, shown) = ends(&run, &["show", "riak"]);
    let mine = run.file("mine.toml", &shown);
    assert_eq!(ends(&run, &["check", mine.to_str().unwrap()]).0, 1);
}

#[test]
fn the_exit_code_of_check_says_whether_there_are_problems() {
    let run = Dir::new();
    let clean = run.file("clean.toml", CLEAN);
    let clean = clean.to_str().unwrap();
    let (code, said) = ends(&run, &["check", clean]);
    assert!(code == 0 && said.contains("and no others"), "{said}");
    let (code, said) = ends(&run, &["check", "hbase"]);
    assert!(code == 1 && said.contains("direct") && said.contains("violates"), "{said}");
    let bad = run.file("bad.toml", &CLEAN.replace("threads = 1", "threads = 0"));
    let (code, said) = ends(&run, &["check", bad.to_str().unwrap()]);
    assert!(code == 2 && said.contains("bad.toml:14") && said.contains("zero threads"), "{said}");
    let (code, said) = ends(&run, &["check", "no/such.toml"]);
    assert!(code == 2 && said.contains("headworks tad list"), "{said}");
    let (code, table) = ends(&run, &["check", "--table", "hbase", "mongodb", "cassandra", "riak"]);
    // Table 4.5 of the dissertation.
    let row = |name: &str| {
        let line = table.lines().find(|line| line.starts_with(name)).unwrap();
        line.split_whitespace().skip(1).take(5).collect::<Vec<_>>().join("")
    };
    assert_eq!(code, 1);
    assert_eq!(
        [row("hbase"), row("mongodb"), row("cassandra"), row("riak")],
        ["xxxxx", ".xxx.", ".xxx.", "xxx.."]
    );
    let (code, report) = json(&run, &["check", clean, "riak", "--json"]);
    assert_eq!((code, report[0]["problems"].as_str()), (1, Some("")));
    assert_eq!(report[1]["problems"], "NUCSE");
}

#[test]
fn problems_are_explained_by_name_and_by_letter() {
    let run = Dir::new();
    let by_name = ends(&run, &["explain", "hidden-contention"]);
    assert_eq!(by_name, ends(&run, &["explain", "C"]));
    assert!(by_name.0 == 0 && by_name.1.contains("Independent scheduling"), "{}", by_name.1);
    let (code, refusal) = ends(&run, &["explain", "boredom"]);
    assert!(code == 2 && refusal.contains("blocking (B)"), "{refusal}");
}

#[test]
fn a_simulation_tells_who_got_what() {
    let run = Dir::new();
    let (clean, load) = (run.file("clean.toml", CLEAN), run.file("load.toml", LOAD));
    let (clean, load) = (clean.to_str().unwrap(), load.to_str().unwrap());
    let (code, said) = ends(&run, &["simulate", clean, "--scenario", load, "--seeds", "2"]);
    assert_eq!(code, 0, "{said}");
    for word in ["C1", "C2", "P99", "cpu", "C1 50 %", "WAITING", "█"] {
        assert!(said.contains(word), "{word}: {said}");
    }
    let out = run.path().join("out");
    let args = ["simulate", clean, "-s", load, "--json", "-o", out.to_str().unwrap()];
    let (code, record) = json(&run, &args);
    assert_eq!(code, 0);
    // 1 ms of one CPU each: 1,000 a second, and DRF halves them.
    let got = record["runs"][0]["clients"][0]["throughput_per_s"].as_f64().unwrap();
    assert!((got - 500.0).abs() < 5.0, "{got}");
    let kept: Value =
        serde_json::from_str(&std::fs::read_to_string(out.join("result.json")).unwrap()).unwrap();
    assert_eq!(kept, record);
    for picture in ["throughput.svg", "utilization.svg", "queues.svg", "threads.svg"] {
        let svg = std::fs::read_to_string(out.join(picture)).unwrap();
        assert!(svg.starts_with("<svg") && svg.contains("C1") | svg.contains("cpu"), "{picture}");
    }
    std::fs::remove_dir_all(out).unwrap();
}

#[test]
fn letters_choose_remedies_and_wrong_ones_are_told_the_possible_ones() {
    let run = Dir::new();
    let with = |letters| {
        let args = ["simulate", "hbase", "-s", "hbase-isolation", "--json", "--maat", letters];
        json(&run, &args).1["runs"][0]["clients"][0]["throughput_per_s"].as_f64().unwrap()
    };
    // C1 keeps its half although C2 grows.
    assert!(with("d|?|?|?|?") > 1.2 * with("?|?|?|?|?"));
    let refused = |letters| {
        let (code, said) =
            ends(&run, &["simulate", "hbase", "-s", "hbase-isolation", "--maat", letters]);
        assert_eq!(code, 2, "{said}");
        said
    };
    assert!(refused("d|i|di|i3|i").contains("\"i2\""));
    assert!(refused("d|i").contains("write one for each problem"));
    assert!(refused("?|?|d|?|?").contains("scheduling point"));
    let (code, said) = ends(&run, &["simulate", "riak", "-s", "hbase-isolation"]);
    assert!(code == 2 && said.contains("written for the system hbase"), "{said}");
}

#[test]
fn gaps_are_found_and_are_files_that_can_be_simulated() {
    let run = Dir::new();
    let out = run.path().join("gaps");
    let args = [
        "search-gaps",
        "--mended",
        "--seed",
        "179",
        "--seeds",
        "1",
        "--loss",
        "1%",
        "--json",
        "-o",
        out.to_str().unwrap(),
    ];
    let (code, found) = json(&run, &args);
    assert_eq!(code, 0);
    let gaps = found["gaps"].as_array().unwrap();
    assert!(!gaps.is_empty(), "{found}");
    let seed = gaps[0]["seed"].as_u64().unwrap();
    let file = |end: &str| out.join(format!("gap-{seed}{end}")).to_str().unwrap().to_owned();
    assert_eq!(ends(&run, &["check", &file(".toml")]).0, 0);
    let (code, said) = ends(&run, &["simulate", &file(".toml"), "-s", &file("-scenario.toml")]);
    assert!(code == 0 && said.contains("C1"), "{said}");
    std::fs::remove_dir_all(out).unwrap();
    let (code, said) = ends(&run, &["search-gaps", "--loss", "much"]);
    assert!(code == 2 && said.contains("15%"), "{said}");
}

#[test]
fn a_system_is_drawn() {
    let run = Dir::new();
    let svg = run.path().join("riak.svg");
    let args = ["render", "riak", "-o", svg.to_str().unwrap(), "--highlight", "nosuch"];
    let (code, said) = ends(&run, &args);
    assert!(code == 2 && said.contains("get-local"), "{said}");
    if std::process::Command::new("dot").arg("-V").output().is_err() {
        eprintln!("skipped: Graphviz is not installed");
        return;
    }
    let args = ["render", "riak", "-o", svg.to_str().unwrap(), "--highlight", "get-local"];
    let (code, said) = ends(&run, &args);
    assert_eq!(code, 0, "{said}");
    let drawn = std::fs::read_to_string(&svg).unwrap();
    assert!(drawn.starts_with("<svg") && drawn.contains("Cmd Handle"));
    std::fs::remove_file(svg).unwrap();
    let (code, said) = ends(&run, &["render", "riak", "-o", "/proc/no/such.svg", "--no-check"]);
    assert!(code == 1 && said.contains("/proc/no/such.svg"), "{said}");
}
