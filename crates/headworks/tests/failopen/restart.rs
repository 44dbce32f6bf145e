//! Servers that end, in order or not, and come back under the same name.

use std::path::PathBuf;

use crate::crowd::{Crowd, STRICT, alone, gated};
use crate::support::{PATIENCE, RunDir, lives, signal, wait_until};

const NAME: &str = "db";

/// A place for data that outlives servers, gone when dropped.
struct Home(PathBuf);

impl Home {
    fn new() -> Home {
        let path = std::env::temp_dir().join(format!("headworks-failopen-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir(&path).expect("a directory for data");
        Home(path)
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn a_killed_server_leaves_nothing_and_recovers_under_the_same_name() {
    let Some(_turn) = alone() else { return };
    let run = RunDir::new();
    let home = Home::new();
    let builder = gated(&run, NAME, &run.file("toml", STRICT)).data_directory(home.0.join("data"));
    let mut server = builder.start().unwrap();
    server.sql("CREATE TABLE rig.t (a INT) ENGINE=InnoDB").unwrap();
    server.sql("INSERT INTO rig.t VALUES (42)").unwrap();
    let crowd = Crowd::gather(&server, &run, NAME, 20);
    server.kill().unwrap();
    run.assert_nothing_left("the server was killed");
    drop((crowd, server));

    let mut server = builder.start().unwrap();
    assert_eq!(server.sql("SELECT a FROM rig.t").unwrap().value(), Some("42"));
    assert_eq!(run.figure(NAME, "server_pid"), u64::from(server.pid()));
    drop(Crowd::gather(&server, &run, NAME, 5));
    assert!(server.stop(PATIENCE).unwrap().status.success());
    run.assert_nothing_left("the server stopped");
    drop(server);

    let server = builder.start().unwrap();
    let crowd = Crowd::gather(&server, &run, NAME, 5);
    drop((crowd, server));
    run.assert_nothing_left("the server stopped again");
}

#[test]
fn a_daemon_that_wakes_late_leaves_the_next_instance_alone() {
    let Some(_turn) = alone() else { return };
    let run = RunDir::new();
    let builder = gated(&run, NAME, &run.file("toml", STRICT));
    let mut server = builder.start().unwrap();
    let old = run.daemon(NAME);
    signal(old, libc::SIGSTOP);
    server.kill().unwrap();
    drop(server);
    // Its remains do not stand in the way of the next one.
    let server = builder.start().unwrap();
    let new = run.daemon(NAME);
    signal(old, libc::SIGCONT);
    wait_until("the old daemon is gone", || !lives(old));
    assert_eq!(run.daemon(NAME), new);
    assert_eq!(run.status(NAME)["gate"], "closed");
    drop(Crowd::gather(&server, &run, NAME, 2));
}

#[test]
fn what_is_left_of_a_gate_without_server_and_daemon_is_named() {
    let Some(_turn) = alone() else { return };
    let run = RunDir::new();
    let mut server = gated(&run, NAME, &run.file("toml", STRICT)).start().unwrap();
    let daemon = run.daemon(NAME);
    signal(daemon, libc::SIGKILL);
    server.kill().unwrap();
    wait_until("its daemon is gone", || !lives(daemon));
    let refusal = run.refused(["status", "--name", NAME]);
    assert!(refusal.contains("is gone and so is its daemon"), "{refusal}");
    assert!(
        refusal.contains("rm -r") && refusal.contains(run.path().to_str().unwrap()),
        "{refusal}"
    );
    let refusal = run.refused(["daemon", "--name", NAME]);
    assert!(refusal.contains("does not run any more"), "{refusal}");
}
