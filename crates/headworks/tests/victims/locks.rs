//! Programs that wait for locks, under the scheduler that follows who waits for whom.

use crate::compile::Workshop;
use crate::support::RunDir;
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

#[test]
fn every_lock_is_what_it_is_without_a_scheduler() {
    let Some(workshop) = Workshop::open() else { return };
    let program = workshop.compile("locks.c", &["-pthread"]);
    let plain = Command::new(&program).output().unwrap();
    assert!(plain.status.success(), "{plain:?}");
    let wanted = String::from_utf8(plain.stdout).unwrap();
    assert!(wanted.contains("counter = 80000"), "{wanted}");
    let run = RunDir::new();
    let mut command = run.headworks(["run", "--name", "locks", "--io", "rcp"]);
    command.args(["--profile", "generic", "--"]).arg(&program);
    let found = command.output().unwrap();
    assert!(found.status.success(), "{found:?}");
    assert_eq!(String::from_utf8(found.stdout).unwrap(), wanted);
}

/// A client waits at the head of chains whose last holder is held in an `fsync`.
#[test]
fn whoever_holds_what_a_client_waits_for_goes_on() {
    let Some(workshop) = Workshop::open() else { return };
    let program = workshop.compile("chain.c", &["-pthread"]);
    for (kind, cause, links) in [
        ("mutex", "mutex", 1),
        ("mutex", "mutex", 8),
        ("rwlock", "rwlock", 4),
        ("condition", "condition", 2),
        ("semaphore", "semaphore", 2),
        ("sysv", "semaphore", 1),
    ] {
        let name = format!("{kind}-{links}");
        let dir = std::env::temp_dir().join(format!("headworks-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let run = || {
            state_after_a_line(&RunDir::new(), &name, |command| {
                command.arg(&program).arg(&dir).args([kind, &links.to_string(), "fsync"]);
            })
        };
        one_of_five(run, |state| {
            assert!(state["panics"] == 0, "{state}");
            // Holders that begin to wait later than the client inherit one after the other.
            let inherited = state["inheritance"]["by_cause"][cause].as_u64().unwrap();
            let waited = state["waits"][cause]["count"].as_u64();
            // Without a gate it is unknown whether a thread waits for a condition or for work.
            inherited >= links && (kind == "condition" || waited >= Some(1))
        });
        let _ = std::fs::remove_dir_all(&dir);
    }
}

/// On a busy machine a call may be over before others wait for it: one of five runs has to be as
/// it should be.
fn one_of_five(run: impl Fn() -> Value, right: impl Fn(&Value) -> bool) {
    let mut state = Value::Null;
    let done = (0..5).any(|_| {
        state = run();
        right(&state)
    });
    assert!(done, "{state}");
}

/// Runs a program under `rcp` until it has written a line. Returns what `io top` says then.
fn state_after_a_line(run: &RunDir, name: &str, program: impl FnOnce(&mut Command)) -> Value {
    let mut command = run.headworks(["run", "--name", name, "--io", "rcp"]);
    command.args(["--io-device", "disk", "--profile", "generic", "--"]);
    program(&mut command);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let top = run.headworks(["io", "top", "--json", "--name", name]).output().unwrap();
    drop(child.stdin.take());
    assert!(child.wait().unwrap().success(), "{name}");
    serde_json::from_slice(&top.stdout).unwrap()
}

#[test]
fn what_a_stream_wrote_is_written_back_in_pieces() {
    let Some(workshop) = Workshop::open() else { return };
    let program = workshop.compile("stream.c", &[]);
    for call in ["fsync", "range"] {
        let dir = std::env::temp_dir().join(format!("headworks-{call}-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let run = || {
            state_after_a_line(&RunDir::new(), call, |command| {
                command.arg(&program).arg(&dir).arg(call);
            })
        };
        let pieces = |account: &Value| account["written_back_pieces"].as_u64().unwrap();
        // Up to 64: less those that the kernel's flusher wrote before the call, and what a search
        // of 5 ms does not find on a busy machine.
        one_of_five(run, |state| {
            state["accounts"].as_array().unwrap().iter().map(pieces).sum::<u64>() > 0
        });
        let _ = std::fs::remove_dir_all(&dir);
    }
}

#[test]
fn a_server_without_a_profile_has_a_background_once_it_has_answered_a_client() {
    let Some(workshop) = Workshop::open() else { return };
    let program = workshop.compile("clients.c", &[]);
    let dir = std::env::temp_dir().join(format!("headworks-clients-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let state = state_after_a_line(&RunDir::new(), "clients", |command| {
        command.arg(&program).arg(&dir);
    });
    let flusher = &state["accounts"].as_array().unwrap()[0];
    let calls = |what: &str| flusher[what].as_u64().unwrap();
    assert!(calls("fsyncs") == 2 && calls("critical") > 0 && calls("background") > 0, "{state}");
    let _ = std::fs::remove_dir_all(&dir);
}
