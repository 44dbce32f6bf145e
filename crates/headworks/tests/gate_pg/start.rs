//! What `headworks run` says before a PostgreSQL starts.

use std::process::{Command, Output};

use headworks_rig::gated::RunDirectory;
use headworks_rig::postgres_or_skip;

use crate::common::Setup;

fn run(directory: &RunDirectory, command: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_headworks"))
        .args(["run", "--"])
        .args(command)
        .env("HEADWORKS_RUN_DIR", directory)
        .output()
        .unwrap()
}

fn refused(command: &[&str], words: &[&str]) {
    let output = run(&RunDirectory::new().unwrap(), command);
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success(), "{text}");
    for word in words {
        assert!(text.contains(word), "`{word}` is not in: {text}");
    }
}

#[test]
fn what_cannot_be_put_behind_the_gate_is_refused_in_words() {
    if !postgres_or_skip() {
        return;
    }
    refused(&["pg_ctl", "start"], &["starts the server and ends", "headworks run -- postgres"]);
    // SAFETY: geteuid has no preconditions.
    if unsafe { libc::geteuid() } == 0 {
        refused(&["postgres", "-D", "/nowhere"], &["where its data is", "-C data_directory"]);
    }
}

#[test]
fn a_port_and_a_socket_that_are_taken_are_named() {
    let Some(gate) = Setup::places(1).start() else { return };
    let data = gate.scratch().join("data");
    std::fs::create_dir(&data).unwrap();
    std::fs::write(data.join("postgresql.conf"), "").unwrap();
    // SAFETY: geteuid has no preconditions.
    if unsafe { libc::geteuid() } == 0 {
        std::os::unix::fs::chown(&data, Some(65_534), Some(65_534)).unwrap();
    }
    let (data, port) = (data.display().to_string(), gate.server.port().to_string());
    refused(
        &["postgres", "-D", &data, "-h", "127.0.0.1", "-p", &port, "-k", "/tmp"],
        &["port", "is in use", "-p"],
    );
    let sockets = gate.server.directory().display().to_string();
    refused(
        &["postgres", "-D", &data, "-h", "", "-p", &port, "-k", &sockets],
        &["a server listens on", ".s.PGSQL."],
    );
}

#[test]
fn a_server_runs_as_the_owner_of_its_data() {
    let Some(gate) = Setup::places(1).start() else { return };
    let status = std::fs::read_to_string(format!("/proc/{}/status", gate.server.pid())).unwrap();
    let uid = status.lines().find_map(|line| line.strip_prefix("Uid:")).unwrap();
    // SAFETY: geteuid has no preconditions.
    let expected = match unsafe { libc::geteuid() } {
        0 => 65_534,
        own => own,
    };
    assert!(uid.split_whitespace().all(|id| id.parse() == Ok(expected)), "{uid}");
    assert_eq!(gate.user("visitor").run("SELECT 7").as_deref(), Some("7"));
}
