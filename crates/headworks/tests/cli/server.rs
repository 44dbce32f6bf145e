//! Databases that end, and what is seen of it from outside.

use std::process::{Command, Stdio};

use headworks_rig::{Programs, mariadb_or_skip};

use crate::support::{RunDir, text};

#[test]
fn a_database_that_ends_at_once_keeps_its_exit_code_and_words() {
    let run = RunDir::new();
    let output = run
        .headworks(["run", "--name", "brief", "--", "sh", "-c", "echo out; echo err >&2; exit 42"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(42));
    assert_eq!(output.stdout, b"out\n");
    // Only what the command itself says before comes in between.
    let said = text(&output);
    let foreign = said.lines().filter(|line| !line.starts_with("headworks: "));
    assert_eq!(foreign.collect::<Vec<_>>(), ["out", "err"]);
    run.assert_nothing_left("it ended");
}

#[test]
fn a_database_without_its_data_ends_as_it_does_alone() {
    if !mariadb_or_skip() {
        return;
    }
    let run = RunDir::new();
    let mariadbd = Programs::find().unwrap().mariadbd;
    let options = ["--no-defaults", "--skip-networking", "--datadir=/no/such/data"];
    let alone = Command::new(&mariadbd).args(options).output().unwrap();
    let mut command = run.headworks(["run", "--name", "nodata", "--"]);
    let gated = command.arg(&mariadbd).args(options).output().unwrap();
    assert_eq!(gated.status, alone.status, "{}", text(&gated));
    assert!(text(&gated).contains("/no/such/data"), "{}", text(&gated));
    run.assert_nothing_left("it ended");
}

#[test]
fn the_database_is_the_process_that_was_started() {
    let run = RunDir::new();
    let mut child = run
        .headworks(["run", "--name", "same", "--", "sleep", "60"])
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let name = format!("/proc/{}/comm", child.id());
    crate::support::wait_until("it is the database", || {
        std::fs::read_to_string(&name).is_ok_and(|name| name.trim() == "sleep")
    });
    crate::support::signal(child.id(), libc::SIGTERM);
    use std::os::unix::process::ExitStatusExt;
    assert_eq!(child.wait().unwrap().signal(), Some(libc::SIGTERM));
    run.assert_nothing_left("it was stopped");
}
