//! What the recorder leaves behind, and what it does with what is wrong.

use crate::random::can_record;
use crate::server::{self, Clients};
use headworks_record::trace::Trace;
use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

pub fn recorder() -> Command {
    Command::new(env!("CARGO_BIN_EXE_headworks-record"))
}

pub fn scratch(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("headworks-record-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    folder.join(name)
}

pub fn said(output: &Output) -> String {
    let text = [&output.stdout[..], &output.stderr[..]].concat();
    String::from_utf8_lossy(&text).into_owned()
}

/// Programs of the kernel that are the recorder's.
pub fn programs() -> usize {
    let names = ["switched", "waking", "sent", "received", "created", "ended"];
    aya::programs::loaded_programs()
        .flatten()
        .filter(|program| program.name_as_str().is_some_and(|name| names.contains(&name)))
        .count()
}

/// Programs of the kernel, by their numbers.
fn loaded() -> BTreeSet<u32> {
    aya::programs::loaded_programs().flatten().map(|program| program.id()).collect()
}

/// Those that a process holds: tests beside this one record, too.
fn held(pid: u32) -> BTreeSet<u32> {
    let files = std::fs::read_dir(format!("/proc/{pid}/fdinfo")).into_iter().flatten().flatten();
    let texts = files.filter_map(|file| std::fs::read_to_string(file.path()).ok());
    let number = |text: String| {
        let line = text.lines().find_map(|line| line.strip_prefix("prog_id:"))?.trim().to_owned();
        line.parse().ok()
    };
    texts.filter_map(number).collect()
}

#[test]
fn a_killed_recorder_leaves_nothing_in_the_kernel() {
    if !can_record() {
        return;
    }
    let server = server::start(3, &["named"]);
    let clients = Clients::start(server.port, 2, Duration::from_millis(1));
    let output = scratch("killed.toml");
    let mut child = recorder()
        .args(["record", "--pid", &server.pid().to_string(), "--for", "60s", "-o"])
        .arg(&output)
        .stderr(Stdio::null())
        .spawn()
        .expect("the recorder");
    let until = Instant::now() + Duration::from_secs(30);
    while held(child.id()).len() < 4 && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(20));
    }
    let own = held(child.id());
    assert!(own.len() >= 4, "it never loaded its programs: {own:?}");
    child.kill().expect("it runs");
    child.wait().expect("it ends");
    let left = || loaded().intersection(&own).count();
    let until = Instant::now() + Duration::from_secs(2);
    while left() > 0 && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(left(), 0, "programs stay");
    assert!(!output.exists());
    clients.end();
}

/// Threads of a process that another one has hold of, and those that stand still.
fn traced(pid: u32) -> (usize, usize) {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let texts: Vec<String> =
        tasks.filter_map(|task| std::fs::read_to_string(task.path().join("status")).ok()).collect();
    let held = texts.iter().filter(|text| !text.contains("TracerPid:\t0\n"));
    let still = texts.iter().filter(|text| text.contains("State:\tt"));
    (held.count(), still.count())
}

#[test]
fn a_recorder_that_is_killed_while_it_stops_threads_leaves_none_stopped() {
    if !can_record() {
        return;
    }
    let server = server::start(11, &["named"]);
    let clients = Clients::start(server.port, 4, Duration::from_millis(1));
    let mut child = recorder()
        .args(["record", "--inject", "--pid", &server.pid().to_string(), "--for", "2s"])
        .args(["--budget", "50%", "-o"])
        .arg(scratch("inject.toml"))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("the recorder");
    let until = Instant::now() + Duration::from_secs(40);
    while traced(server.pid()).0 == 0 && Instant::now() < until {
        if matches!(child.try_wait(), Ok(Some(_))) {
            break;
        }
    }
    let held = traced(server.pid()).0;
    child.kill().expect("it can be killed");
    child.wait().expect("it ends");
    let until = Instant::now() + Duration::from_secs(2);
    while traced(server.pid()) != (0, 0) && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(traced(server.pid()), (0, 0));
    clients.end();
    if held == 0 {
        println!("skipped: it ended before it had hold of a thread");
    }
}

#[test]
fn what_is_recorded_is_kept_private_and_can_be_analysed_again() {
    let server = server::start(3, &["named"]);
    let clients = Clients::start(server.port, 2, Duration::from_millis(1));
    let (raw, first, second) = (scratch("a.ndjson"), scratch("a.toml"), scratch("b.toml"));
    let output = recorder()
        .args(["record", "--pid", &server.pid().to_string(), "--for", "1s", "--name", "x"])
        .args(["--budget", "50%", "--raw"])
        .arg(&raw)
        .arg("-o")
        .arg(&first)
        .output()
        .expect("the recorder");
    clients.end();
    assert!(output.status.success(), "{}", said(&output));
    let mode = std::fs::metadata(&raw).expect("a file").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let output = recorder()
        .arg("analyse")
        .arg(&raw)
        .args(["--name", "x", "-o"])
        .arg(&second)
        .output()
        .expect("the recorder");
    assert!(output.status.success(), "{}", said(&output));
    let read = |path: &PathBuf| std::fs::read_to_string(path).expect("a diagram");
    assert_eq!(read(&first), read(&second));
}

#[test]
fn proc_alone_sees_stages_and_says_what_it_misses() {
    let server = server::start(3, &["loops"]);
    let clients = Clients::start(server.port, 2, Duration::from_millis(1));
    let (raw, file) = (scratch("p.ndjson"), scratch("p.toml"));
    let output = recorder()
        .args(["record", "--proc", "--pid", &server.pid().to_string(), "--for", "2s", "--raw"])
        .arg(&raw)
        .arg("-o")
        .arg(&file)
        .output()
        .expect("the recorder");
    clients.end();
    let said = said(&output);
    assert!(output.status.success(), "{said}");
    assert!(said.contains("arrows, wakers and sockets"), "{said}");
    let trace = Trace::read(std::io::BufReader::new(std::fs::File::open(&raw).expect("a file")))
        .expect("a recording");
    assert_eq!(trace.head.mode, "proc");
    assert!(said.contains("random_server") && said.contains("certain"), "{said}");
}

#[test]
fn what_is_wrong_is_said_with_the_command_that_mends_it() {
    let file = scratch("wrong.toml");
    for (words, part) in [
        (&["record"][..], "--pid"),
        (&["record", "--pid", "4194304"], "ps -e"),
        (&["record", "--pid", "1", "--for", "1 week"], "no unit of time"),
        (&["record", "--for", "1s", "--", "/no/such/program"], "/no/such/program"),
        (&["analyse", "/no/such/file"], "--raw"),
        (&["analyse", "/etc/hostname"], "line 1"),
    ] {
        let output = recorder().args(words).arg("-o").arg(&file).output();
        let output = match words.contains(&"--") {
            // After `--` all words are the command's.
            true => recorder()
                .args(["record", "--for", "1s", "-o"])
                .arg(&file)
                .args(["--", "/no/such/program"])
                .output(),
            false => output,
        };
        let output = output.expect("the recorder");
        assert!(!output.status.success(), "{words:?}");
        let said = said(&output);
        assert!(said.contains(part), "{words:?}: {said}");
        assert!(!file.exists(), "{words:?} wrote a diagram");
    }
}
