//! The daemon dies, stops, comes back.

use std::time::Instant;

use crate::crowd::{Crowd, SOON, STRICT, alone, gated};
use crate::support::{RunDir, lives, signal, wait_until};

const NAME: &str = "db";
const CROWD: usize = 20;

#[test]
fn everybody_passes_soon_after_the_daemons_death() {
    let Some(_turn) = alone() else { return };
    let run = RunDir::new();
    let server = gated(&run, NAME, &run.file("toml", STRICT)).start().unwrap();
    let mut crowd = Crowd::gather(&server, &run, NAME, CROWD);
    let daemon = run.daemon(NAME);
    let begun = Instant::now();
    signal(daemon, libc::SIGKILL);
    let took = crowd.all_answered(begun);
    assert!(took <= SOON, "{took:?}");
    // New requests are not held either.
    for client in &mut crowd.held {
        assert_eq!(client.query("SELECT 7").unwrap().value(), Some("7"));
    }
    assert_eq!(run.status(NAME)["gate"], "stale");
    assert_eq!(run.counter(NAME, "stale"), 2 * CROWD as u64);
    let words = run.ok(["status", "--name", NAME]);
    assert!(words.contains("stale") && words.contains("all requests pass"), "{words}");
    assert!(words.contains(&format!("headworks daemon --name {NAME}")), "{words}");

    let said = run.ok(["daemon", "--name", NAME]);
    assert!(said.contains("runs again"), "{said}");
    assert_eq!(run.status(NAME)["gate"], "closed");
    assert_ne!(run.daemon(NAME), daemon);
    crowd.assert_closed_again(&server, &run, NAME);
    // The new daemon takes over all of the old one's duties.
    drop(server);
    run.assert_nothing_left("the server stopped");
}

#[test]
fn a_new_daemon_may_be_started_at_once() {
    let Some(_turn) = alone() else { return };
    let run = RunDir::new();
    let server = gated(&run, NAME, &run.file("toml", STRICT)).start().unwrap();
    let daemon = run.daemon(NAME);
    let refusal = run.refused(["daemon", "--name", NAME]);
    assert!(refusal.contains(&format!("has a daemon already (process {daemon})")), "{refusal}");
    // On a busy machine one that was killed is still there for a moment.
    signal(daemon, libc::SIGSTOP);
    run.ok(["daemon", "--name", NAME]);
    let next = run.daemon(NAME);
    assert_ne!(next, daemon);
    signal(daemon, libc::SIGKILL);
    signal(next, libc::SIGKILL);
    run.ok(["daemon", "--name", NAME]);
    wait_until("those that were killed are gone", || run.daemons().len() == 1);
    assert_eq!(server.sql("SELECT 1").unwrap().value(), Some("1"));
}

#[test]
fn everybody_passes_soon_after_the_daemons_stop() {
    let Some(_turn) = alone() else { return };
    let run = RunDir::new();
    let server = gated(&run, NAME, &run.file("toml", STRICT)).start().unwrap();
    let mut crowd = Crowd::gather(&server, &run, NAME, CROWD);
    let daemon = run.daemon(NAME);
    let begun = Instant::now();
    signal(daemon, libc::SIGSTOP);
    let took = crowd.all_answered(begun);
    assert!(took <= SOON, "{took:?}");
    for client in &mut crowd.held {
        assert_eq!(client.query("SELECT 7").unwrap().value(), Some("7"));
    }
    // The status comes from the region, as the daemon does not answer.
    assert_eq!(run.status(NAME)["gate"], "stale");
    signal(daemon, libc::SIGCONT);
    wait_until("the gate is closed", || run.status(NAME)["gate"] == "closed");
    crowd.assert_closed_again(&server, &run, NAME);
}

#[test]
fn a_daemon_that_was_replaced_while_it_stood_still_retires() {
    let Some(_turn) = alone() else { return };
    let run = RunDir::new();
    let server = gated(&run, NAME, &run.file("toml", STRICT)).start().unwrap();
    let mut crowd = Crowd::gather(&server, &run, NAME, 1);
    let old = run.daemon(NAME);
    let begun = Instant::now();
    signal(old, libc::SIGSTOP);
    crowd.all_answered(begun);
    run.ok(["daemon", "--name", NAME]);
    let new = run.daemon(NAME);
    assert_ne!(old, new);
    signal(old, libc::SIGCONT);
    wait_until("the old daemon is gone", || !lives(old));
    assert_eq!(run.daemon(NAME), new);
    crowd.assert_closed_again(&server, &run, NAME);
    drop(server);
    run.assert_nothing_left("the server stopped");
}

/// Numbers of capabilities: to lock memory, to raise a priority, to change limits.
const NEEDED: [u32; 3] = [14, 23, 24];

/// Whether this process may give a daemon all that it asks for; prints why a test is skipped if
/// not.
fn may_prefer() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let set = status.lines().find_map(|line| line.strip_prefix("CapEff:")).unwrap();
    let set = u64::from_str_radix(set.trim(), 16).unwrap();
    let may = NEEDED.iter().all(|bit| set >> bit & 1 == 1);
    if !may {
        println!("skipped: needs the rights to raise priorities and limits");
    }
    may
}

#[test]
fn the_heartbeat_is_not_what_starves() {
    let Some(_turn) = alone() else { return };
    if !may_prefer() {
        return;
    }
    let run = RunDir::new();
    let server = gated(&run, NAME, &run.file("toml", STRICT)).start().unwrap();
    let daemon = run.daemon(NAME);
    let read = |file: &str| std::fs::read_to_string(format!("/proc/{daemon}/{file}")).unwrap();
    assert_eq!(read("oom_score_adj").trim(), "-900");
    let locked = read("status");
    let locked = locked.lines().find_map(|line| line.strip_prefix("VmLck:")).unwrap();
    assert_ne!(locked.split_whitespace().next(), Some("0"), "its memory is locked");
    // The heartbeat alone: what the daemon does besides takes nothing from the server.
    let threads = std::fs::read_dir(format!("/proc/{daemon}/task")).unwrap().flatten();
    let mut nice: Vec<(String, i64)> = threads
        .map(|thread| {
            let stat = std::fs::read_to_string(thread.path().join("stat")).unwrap();
            let (name, fields) = stat.split_once(") ").unwrap();
            let nice = fields.split_whitespace().nth(16).unwrap().parse().unwrap();
            (name.split_once('(').unwrap().1.to_owned(), nice)
        })
        .collect();
    nice.sort();
    assert!(nice.contains(&("hw-beat".to_owned(), -10)), "{nice:?}");
    assert!(nice.iter().all(|(name, nice)| name == "hw-beat" || *nice == 0), "{nice:?}");
    // The server is as it was.
    assert_eq!(
        std::fs::read_to_string(format!("/proc/{}/oom_score_adj", server.pid())).unwrap().trim(),
        "0"
    );
}

#[test]
fn a_directory_that_somebody_removed_is_said_to_be_gone() {
    let run = RunDir::new();
    let mut server = run
        .headworks(["run", "--name", NAME, "--", "sleep", "600"])
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    wait_until("its daemon serves", || run.daemons().len() == 1);
    let daemon = run.daemon(NAME);
    // Until its parent has changed its name, both look like daemons.
    wait_until("its parent only cleans up", || run.daemons() == [daemon]);
    std::fs::remove_dir_all(run.instance(NAME)).unwrap();
    for args in [&["status"][..], &["off", "--name", NAME]] {
        let said = run.refused(args.iter().copied());
        for word in [&format!("daemon is process {daemon}"), "was removed", "enable-linger"] {
            assert!(said.contains(word), "{args:?}: {word}: {said}");
        }
    }
    let others = RunDir::new();
    assert!(
        others.refused(["status"]).contains("nothing runs by headworks"),
        "of another run directory"
    );
    let said = std::io::BufReader::new(server.stderr.take().unwrap());
    let mut said = std::io::BufRead::lines(said).map_while(Result::ok);
    assert!(said.any(|line| line.contains("was removed: the gate goes on")), "it never said so");
    assert!(lives(daemon), "it goes on");
    server.kill().unwrap();
    server.wait().unwrap();
    wait_until("the daemon ends with the server", || !lives(daemon));
}
