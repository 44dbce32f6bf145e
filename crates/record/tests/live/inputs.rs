//! Programs that end, fork or become others meanwhile, and unusual ones: a clear message, and the
//! best diagram.

use crate::conserve::{Wakers, example};
use crate::leaves::{programs, recorder, said, scratch};
use crate::random::can_record;
use crate::server::{self, Clients};
use std::io::BufRead;
use std::process::{Command, Stdio};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

#[test]
fn a_process_that_ends_meanwhile_ends_the_recording() {
    if !can_record() {
        return;
    }
    let server = server::start(8, &["named"]);
    let clients = Clients::start(server.port, 2, Duration::from_millis(1));
    let file = scratch("ends.toml");
    let begun = Instant::now();
    let child = recorder()
        .args([
            "record",
            "--pid",
            &server.pid().to_string(),
            "--for",
            "60s",
            "--budget",
            "50%",
            "-o",
        ])
        .arg(&file)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the recorder");
    // Until it records, and then for some requests.
    let patience = Instant::now() + Duration::from_secs(20);
    while programs() == 0 && Instant::now() < patience {
        std::thread::sleep(Duration::from_millis(20));
    }
    let before = clients.answered.load(Ordering::Relaxed);
    let enough = || clients.answered.load(Ordering::Relaxed) > before + 1_500;
    while !enough() && Instant::now() < patience {
        std::thread::sleep(Duration::from_millis(20));
    }
    drop(server);
    let output = child.wait_with_output().expect("it ends");
    clients.end();
    let said = said(&output);
    assert!(begun.elapsed() < Duration::from_secs(50), "{said}");
    assert!(output.status.success(), "{said}");
    assert!(said.contains("stage-b"), "{said}");
    assert!(said.contains("ended"), "{said}");
}

#[test]
fn a_program_that_forks_and_becomes_others_is_recorded() {
    if !can_record() {
        return;
    }
    let file = scratch("forks.toml");
    let output = recorder()
        .args(["record", "--for", "2s", "--budget", "50%", "-o"])
        .arg(&file)
        .args(["--", "bash", "-c"])
        .arg("for n in $(seq 200); do /bin/true; head -c 20000 /dev/zero | md5sum; done >/dev/null; exec sleep 1")
        .output()
        .expect("the recorder");
    let said = said(&output);
    // On a machine that is busy with others it may not come to anything: that is said.
    let idle = said.contains("give the system its load");
    assert!(output.status.success() || idle, "{said}");
    let known = ["bash", "md5sum", "before it became"].iter().any(|word| said.contains(word));
    assert!(idle || known, "{said}");
}

#[test]
fn a_stripped_program_has_stages_without_functions_names() {
    if !can_record() {
        return;
    }
    let stripped = scratch("stripped-server");
    let strip =
        Command::new("strip").arg("-o").arg(&stripped).arg(example("random_server")).status();
    if !strip.is_ok_and(|status| status.success()) {
        println!("skipped: strip is missing (apt-get install binutils)");
        return;
    }
    let server = server::start_program(&stripped, 3, &["loops"]);
    let clients = Clients::start(server.port, 2, Duration::from_millis(1));
    let file = scratch("stripped.toml");
    let output = recorder()
        .args([
            "record",
            "--pid",
            &server.pid().to_string(),
            "--for",
            "2s",
            "--budget",
            "50%",
            "-o",
        ])
        .arg(&file)
        .output()
        .expect("the recorder");
    clients.end();
    let said = said(&output);
    assert!(output.status.success(), "{said}");
    // A function without a name is its file and place.
    let diagram = std::fs::read_to_string(&file).expect("a diagram");
    assert!(diagram.contains("stripped-server!"), "{diagram}");
    assert!(said.contains("its loop fun"), "{said}");
}

/// An upgrade replaces a program's file while it runs.
#[test]
fn a_program_whose_file_is_gone_has_stages_by_their_functions() {
    if !can_record() {
        return;
    }
    let program = scratch("gone-server");
    std::fs::copy(example("random_server"), &program).expect("a copy");
    let server = server::start_program(&program, 3, &["loops"]);
    std::fs::remove_file(&program).expect("it is there");
    let clients = Clients::start(server.port, 2, Duration::from_millis(1));
    let file = scratch("gone.toml");
    let pid = server.pid().to_string();
    let output = recorder()
        .args(["record", "--pid", &pid, "--for", "2s", "--budget", "50%", "-o"])
        .arg(&file)
        .output()
        .expect("the recorder");
    clients.end();
    let said = said(&output);
    assert!(output.status.success() && said.contains("its loop fun"), "{said}");
    let diagram = std::fs::read_to_string(&file).expect("a diagram");
    assert!(!diagram.contains("unknown-threads") && !diagram.contains("gone-server!"), "{diagram}");
}

#[test]
fn a_process_of_a_nested_namespace_is_recorded_from_the_machine_and_not_from_inside() {
    if !can_record() {
        return;
    }
    let inside = Command::new("unshare")
        .args(["--pid", "--fork", "--mount-proc"])
        .arg(env!("CARGO_BIN_EXE_headworks-record"))
        .args(["record", "--for", "1s", "-o"])
        .arg(scratch("inside.toml"))
        .args(["--", "sh", "-c", "while :; do :; done"])
        .output();
    let Ok(inside) = inside else {
        println!("skipped: unshare is missing");
        return;
    };
    let said_inside = said(&inside);
    if said_inside.contains("unshare") {
        println!("skipped: no PID namespace can be made here: {said_inside}");
        return;
    }
    assert!(said_inside.contains("record from the machine"), "{said_inside}");
    let mut child = Command::new("unshare")
        .args(["--pid", "--fork", "--kill-child", "--mount-proc"])
        .arg(example("wakers"))
        .arg("1")
        .stdout(Stdio::null())
        .spawn()
        .expect("unshare");
    std::thread::sleep(Duration::from_millis(500));
    let output = recorder()
        .args(["record", "--follow", "--pid", &child.id().to_string(), "--for", "1s", "-o"])
        .arg(scratch("outside.toml"))
        .output()
        .expect("the recorder");
    let _ = child.kill();
    let _ = child.wait();
    let said = said(&output);
    assert!(output.status.success(), "{said}");
    assert!(said.contains("turns"), "{said}");
}

/// Largest resident memory of a child that has ended, in bytes.
fn largest_child() -> u64 {
    // SAFETY: a valid place; the call only writes there.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_CHILDREN, &raw mut usage);
        usage
    };
    usage.ru_maxrss as u64 * 1024
}

#[test]
fn ten_thousand_threads_and_a_mapping_of_dev_zero_take_little() {
    if !can_record() {
        return;
    }
    let wakers = Wakers::start(&["2", "10000"]);
    let begun = Instant::now();
    let output = recorder()
        .args([
            "record",
            "--pid",
            &wakers.pid().to_string(),
            "--for",
            "3s",
            "--budget",
            "50%",
            "-o",
        ])
        .arg(scratch("many.toml"))
        .output()
        .expect("the recorder");
    let (took, bytes) = (begun.elapsed(), largest_child());
    let said = said(&output);
    println!("10,000 threads: {took:.1?}, {} MiB", bytes >> 20);
    assert!(output.status.success(), "{said}");
    assert!(said.contains("turns"), "{said}");
    assert!(took < Duration::from_secs(60), "{took:?}");
    assert!(bytes < 1 << 30, "{bytes}");
}

#[test]
fn children_that_are_not_recorded_are_named() {
    let script = "sleep 1000 & echo $!; wait";
    let parent = Command::new("sh").args(["-c", script]).stdout(Stdio::piped()).spawn();
    let mut parent = Killed(parent.expect("a shell"));
    let mut line = String::new();
    let out = parent.0.stdout.take().expect("a pipe");
    std::io::BufReader::new(out).read_line(&mut line).expect("it begins");
    let pid = parent.0.id().to_string();
    let output = recorder()
        .args(["record", "--proc", "--pid", &pid, "--for", "300ms", "-o"])
        .arg(scratch("children.toml"))
        .output();
    // SAFETY: a signal to a child of a process that this test has begun, and that waits for it.
    unsafe { libc::kill(line.trim().parse().expect("a number"), libc::SIGKILL) };
    let said = said(&output.expect("the recorder"));
    assert!(said.contains("1 process that the recorded ones started (sleep)"), "{said}");
}

/// A program that ends with the test.
struct Killed(std::process::Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
