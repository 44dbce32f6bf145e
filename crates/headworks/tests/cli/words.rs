//! What the command says about itself, to people and to machines.

use serde_json::Value;

use crate::support::{RunDir, text};

#[test]
fn every_subcommand_explains_itself() {
    let run = RunDir::new();
    let overview = run.ok(["--help"]);
    for command in [
        "run", "status", "top", "set", "off", "on", "reload", "explain", "enable", "disable",
        "attend", "profile", "doctor", "daemon", "man",
    ] {
        assert!(overview.contains(&format!("\n  {command} ")), "{command}: {overview}");
        let help = run.ok([command, "--help"]);
        assert!(help.contains("Usage:") && help.contains(command), "{help}");
        assert!(!help.contains("ready-fd"), "{help}");
    }
    assert!(run.ok(["--version"]).contains(env!("CARGO_PKG_VERSION")));
    let refusal = run.refused(["stat"]);
    assert!(refusal.contains("stat") && refusal.contains("status"), "{refusal}");
}

#[test]
fn manual_pages_are_written() {
    let run = RunDir::new();
    let dir = run.path().join("man");
    let listed = run.ok(["man", dir.to_str().unwrap()]);
    let pages: Vec<_> = listed.lines().collect();
    assert!(pages.len() > 10, "{listed}");
    for page in pages {
        let content = std::fs::read_to_string(page).unwrap();
        assert!(content.contains(".TH") && content.len() > 200, "{page}");
        // Of a group of commands, each has its own.
        assert!(content.contains("xample") || content.contains(".SH SUBCOMMANDS"), "{page}");
    }
    std::fs::remove_dir_all(dir).unwrap();
    let refusal = run.refused(["man", "/proc/no/such"]);
    assert!(refusal.contains("/proc/no/such"), "{refusal}");
}

#[test]
fn what_is_for_machines_is_json() {
    let run = RunDir::new();
    // Something may be missing on this machine; that changes the exit code only.
    let output = run.headworks(["doctor", "--json"]).output().unwrap();
    let findings: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}", text(&output)));
    assert!(findings.as_array().is_some_and(|findings| !findings.is_empty()), "{findings}");
}

#[test]
fn commands_without_an_instance_say_how_to_start_one() {
    let run = RunDir::new();
    for command in
        [&["status"][..], &["off"], &["on"], &["reload"], &["daemon"], &["set", "-p", "2"]]
    {
        let refusal = run.refused(command.iter().copied());
        assert!(refusal.contains("headworks run -- mariadbd"), "{command:?}: {refusal}");
        let refusal = run.refused([command, &["--name", "absent"]].concat());
        assert!(refusal.contains("no instance `absent`"), "{command:?}: {refusal}");
    }
    let refusal = run.refused(["set", "--parallelism", "0"]);
    assert!(refusal.contains('0') && refusal.contains("from 1 to 1024, or auto"), "{refusal}");
}
