//! What cannot be recorded or written: it is said what happened, why, and what mends it.

use crate::conserve::Wakers;
use crate::leaves::{recorder, said, scratch};
use crate::random::can_record;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

/// A user without rights.
const OTHER: u32 = 65_534;

pub fn record(words: &[&str], file: &Path) -> Output {
    recorder().arg("record").args(words).arg("-o").arg(file).output().expect("the recorder")
}

#[test]
fn what_is_no_process_is_named_with_what_can_be_recorded() {
    let file = scratch("no-process.toml");
    let name = |pid: u32| std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    if name(2).trim() == "kthreadd" {
        let output = record(&["--pid", "2", "--for", "1s"], &file);
        assert!(said(&output).contains("thread of the kernel"), "{}", said(&output));
    } else {
        println!("skipped: threads of the kernel are not seen here");
    }
    let wakers = Wakers::start(&["2"]);
    let thread = wakers.tids.iter().find(|tid| **tid != wakers.pid()).expect("a thread");
    let output = record(&["--pid", &thread.to_string(), "--for", "1s"], &file);
    assert!(said(&output).contains(&format!("--pid {}", wakers.pid())), "{}", said(&output));
    let mut ended = Command::new("true").spawn().expect("true");
    std::thread::sleep(Duration::from_millis(300));
    let output = record(&["--pid", &ended.id().to_string(), "--for", "1s"], &file);
    assert!(said(&output).contains("there is no process"), "{}", said(&output));
    ended.wait().expect("it ended");
    assert!(!file.exists());
}

/// Its first process stays until the recorder asks for its end.
#[test]
fn a_command_that_ends_early_ends_the_recording() {
    let file = scratch("early.toml");
    let begun = Instant::now();
    let output = recorder()
        .args(["record", "--for", "60s", "--budget", "50%", "-o"])
        .arg(&file)
        .args(["--", "sh", "-c", "n=0; while [ $n -lt 300000 ]; do n=$((n+1)); done"])
        .output()
        .expect("the recorder");
    assert!(begun.elapsed() < Duration::from_secs(50), "{}", said(&output));
}

#[test]
fn where_nothing_can_be_written_is_said_before_minutes_are_lost() {
    let folder = scratch("a-folder");
    std::fs::create_dir_all(&folder).expect("a folder");
    let own = std::process::id().to_string();
    let words = ["--pid", &own, "--for", "60s"];
    let begun = Instant::now();
    let output = record(&words, &folder);
    assert!(said(&output).contains("is a folder"), "{}", said(&output));
    let output = record(&words, &scratch("no-folder/x.toml"));
    assert!(said(&output).contains("mkdir -p"), "{}", said(&output));
    std::fs::set_permissions(&folder, PermissionsExt::from_mode(0o755)).expect("it is ours");
    // SAFETY: it has no preconditions.
    if unsafe { libc::geteuid() } == 0 {
        let mut as_other = recorder();
        as_other.uid(OTHER).arg("record").args(words).arg("-o").arg(folder.join("x.toml"));
        match as_other.output() {
            Ok(output) => assert!(said(&output).contains("ls -ld"), "{}", said(&output)),
            Err(error) => println!("skipped: another user cannot start this program: {error}"),
        }
    }
    assert!(begun.elapsed() < Duration::from_secs(30));
}

/// The recording is lost, and the diagram is not. A device keeps its rights.
#[test]
fn a_full_disk_leaves_the_diagram() {
    let (file, wakers) = (scratch("full.toml"), Wakers::start(&["4"]));
    let mode = || std::fs::metadata("/dev/full").map(|data| data.permissions().mode()).ok();
    let before = mode();
    let words = ["--pid", &wakers.pid().to_string(), "--for", "1s", "--raw", "/dev/full"];
    let output = record(&words, &file);
    assert!(!output.status.success());
    assert!(said(&output).contains("the disk is full"), "{}", said(&output));
    assert!(std::fs::read_to_string(&file).expect("a diagram").contains("[[stage]]"));
    assert_eq!(mode(), before);
    // A diagram that finds no room is not left in parts.
    let output = record(&words[..4], Path::new("/dev/full"));
    assert!(said(&output).contains("df -h"), "{}", said(&output));
}

#[test]
fn a_process_of_another_user_is_recorded_as_far_as_it_is_seen() {
    // SAFETY: it has no preconditions.
    if unsafe { libc::geteuid() } != 0 {
        println!("skipped: it takes root to become another user");
        return;
    }
    let wakers = Wakers::start(&["4"]);
    let folder = scratch("of-other");
    std::fs::create_dir_all(&folder).expect("a folder");
    std::fs::set_permissions(&folder, PermissionsExt::from_mode(0o777)).expect("it is ours");
    let mut recording = recorder();
    recording.args(["record", "--pid", &wakers.pid().to_string(), "--for", "1s", "-o"]);
    let output = match recording.arg(folder.join("x.toml")).uid(OTHER).gid(OTHER).output() {
        Ok(output) => output,
        Err(error) => {
            println!("skipped: another user cannot start this program: {error}");
            return;
        }
    };
    let said = said(&output);
    assert!(said.contains("sudo headworks tad record"), "{said}");
}

/// It is not even asked: it would take that for a wish to print all its threads.
#[test]
fn a_virtual_machine_that_refuses_is_recorded_without_its_names() {
    if !can_record() {
        return;
    }
    const PROGRAM: &str = "public class Busy { public static void main(String[] words) throws Exception {
        Thread worker = new Thread(() -> { try { while (true) Thread.sleep(1); } catch (Exception e) {} }, \"a-worker\");
        worker.setDaemon(true); worker.start(); System.out.println(\"ready\"); Thread.sleep(120_000); } }";
    let source = scratch("Busy.java");
    std::fs::write(&source, PROGRAM).expect("a file");
    let started = Command::new("java")
        .args(["-Xmx64m", "-XX:+DisableAttachMechanism"])
        .arg(&source)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn();
    let Ok(mut java) = started else {
        println!("skipped: java is missing (apt-get install openjdk-17-jdk-headless)");
        return;
    };
    let mut lines = BufReader::new(java.stdout.take().expect("a pipe")).lines();
    let ready = lines.next().and_then(Result::ok);
    let begun = Instant::now();
    let pid = java.id().to_string();
    let words = ["--pid", &pid, "--for", "2s", "--budget", "50%"];
    let output = record(&words, &scratch("refuses.toml"));
    let took = begun.elapsed();
    let _ = java.kill();
    let _ = java.wait();
    let said = said(&output);
    assert_eq!(ready.as_deref(), Some("ready"));
    assert!(output.status.success() && said.contains("a-worker"), "{said}");
    assert!(said.contains("DisableAttachMechanism"), "{said}");
    // The kernel may need a minute to attach programs beside other tests.
    assert!(took < Duration::from_secs(110), "{took:?}");
    assert_eq!(lines.count(), 0, "it printed its threads");
}
