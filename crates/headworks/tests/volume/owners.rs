//! A volume under a scheduler of files: its queue knows whose the writes are, and its errors reach
//! those who made the calls.

use crate::rig::{Rig, can_mount_or_skip, find};
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

const DEADLINE: Duration = Duration::from_secs(60);

/// `headworks run --io SCHEDULER`, in the run directory of the volumes.
fn governed(rig: &Rig, scheduler: &str, config: &str) -> Command {
    let path = rig.dir.join("io.toml");
    fs::write(&path, config).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_headworks"));
    command
        .args(["run", "--io", scheduler, "--io-device", "disk", "--name", "owners", "--config"])
        .args([&path, Path::new("--")])
        .env("HEADWORKS_RUN_DIR", rig.dir.join("run"));
    command
}

/// Writes a file's first blocks again, and makes them durable.
fn overwrite(mut command: Command, file: &Path) -> Output {
    let to = format!("of={}", file.display());
    command.args(["dd", "if=/dev/zero", &to, "bs=4k", "count=16", "conv=notrunc,fsync"]);
    command.output().unwrap()
}

fn says(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// A program that is killed with its children at the end, however that comes.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // SAFETY: its process group, which it leads.
        unsafe { libc::kill(-(self.0.id() as libc::pid_t), libc::SIGKILL) };
        let _ = self.0.wait();
    }
}

/// Overwrites a file again and again.
fn overwrites(rig: &Rig, scheduler: &str, config: &str, file: &Path) -> Running {
    let mut shell = governed(rig, scheduler, config);
    let copy = format!(
        "while :; do dd if=/dev/zero of={} bs=4k count=16 conv=notrunc,fsync; sleep 0.1; done",
        file.display()
    );
    shell.args(["sh", "-c", &copy]).stdout(Stdio::null()).stderr(Stdio::null());
    Running(shell.process_group(0).spawn().unwrap())
}

#[test]
fn the_queue_of_a_volume_knows_whose_the_writes_are_and_who_waits_for_them() {
    if !can_mount_or_skip() {
        return;
    }
    let rig = Rig::new();
    rig.ok(&["create", "v", "--size", "256M", "--backing", "memory", "--scheduler", "rcp"]);
    let mounted = rig.ok(&["mount", "v", &rig.mnt().display().to_string(), "--io", "owners"]);
    assert!(mounted.contains("`owners` does not run with --io yet"), "{mounted}");
    let causes = || rig.stat("v")["figures"]["causes"].clone();
    let count = |name: &str| causes()[name].as_u64().unwrap();
    assert_eq!(causes()["instance"], "owners");
    assert!(rig.ok(&["stat", "v"]).contains("nothing is learned now"));
    let file = rig.mnt().join("file");
    fs::write(&file, vec![1; 1 << 20]).unwrap();
    fs::File::open(&file).unwrap().sync_all().unwrap();
    let until = |done: &dyn Fn() -> bool| {
        let begun = Instant::now();
        while !done() {
            assert!(begun.elapsed() < DEADLINE, "{}", causes());
            std::thread::sleep(Duration::from_millis(50));
        }
    };

    // A rule says that clients wait for the program. The volume looks for it each second.
    let rule = |foreground| format!("[[io.thread]]\nname = \"*\"\nforeground = {foreground}\n");
    let program = overwrites(&rig, "rcp", &rule(true), &file);
    until(&|| count("known") > 0 && count("critical") > 0);
    assert!(causes()["trouble"].is_null());
    drop(program);
    until(&|| !causes()["trouble"].is_null());

    // The same by a program for which no client waits, in a new region.
    let (known, critical) = (count("known"), count("critical"));
    let program = overwrites(&rig, "rcp", &rule(false), &file);
    until(&|| count("known") > known + 10);
    assert_eq!(count("critical"), critical);
    drop(program);
    assert_eq!(fs::read(&file).unwrap()[16 * 4096], 1);
}

#[test]
fn the_queue_of_a_volume_charges_whoever_wrote() {
    if !can_mount_or_skip() {
        return;
    }
    let rig = Rig::new();
    rig.ok(&["create", "v", "--size", "256M", "--backing", "memory", "--scheduler", "afq"]);
    rig.ok(&["mount", "v", &rig.mnt().display().to_string(), "--io", "owners"]);
    let file = rig.mnt().join("file");
    fs::write(&file, vec![1; 1 << 20]).unwrap();
    fs::File::open(&file).unwrap().sync_all().unwrap();
    let program = overwrites(&rig, "afq", "", &file);
    let causes = || rig.stat("v")["figures"]["causes"].clone();
    let begun = Instant::now();
    while causes()["known"] == 0 {
        assert!(begun.elapsed() < DEADLINE, "{}", causes());
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(causes()["critical"], 0, "that is rcp's");
    drop(program);
    assert_eq!(fs::read(&file).unwrap()[16 * 4096], 1);
}

#[test]
fn a_queue_that_has_no_use_for_owners_says_so() {
    if !can_mount_or_skip() {
        return;
    }
    let rig = Rig::new();
    rig.ok(&["create", "v", "--size", "64M", "--backing", "memory", "--scheduler", "deadline"]);
    let said = rig.refused(&["mount", "v", &rig.mnt().display().to_string(), "--io", "owners"]);
    assert!(said.contains("--scheduler rcp or afq"), "{said}");
}

#[test]
fn an_error_of_the_device_reaches_whoever_calls_fsync() {
    if !can_mount_or_skip() {
        return;
    }
    let Some(filefrag) = find("filefrag") else {
        println!("skipped: filefrag is missing (apt-get install e2fsprogs)");
        return;
    };
    let rig = Rig::new();
    let image = rig.image("v");
    let create = ["create", "v", "--size", "256M", "--backing", &image];
    rig.ok(&create);
    rig.mount("v");
    let file = rig.mnt().join("file");
    fs::write(&file, vec![1; 64 << 10]).unwrap();
    fs::File::open(&file).unwrap().sync_all().unwrap();
    // "   0:        0..      15:      34816..     34831:     16:  last,eof"
    let said = Command::new(filefrag).args(["-b512", "-v"]).arg(&file).output().unwrap();
    let said = String::from_utf8(said.stdout).unwrap();
    let extent = said.lines().find(|line| line.trim_start().starts_with("0:")).expect(&said);
    let sector = extent.split(':').nth(2).and_then(|range| range.trim().split("..").next());
    let sector = sector.unwrap().parse::<u64>().unwrap();
    rig.ok(&["umount", "v"]);
    rig.ok(&["rm", "v"]);

    let layer = format!("error:op=write,sector={sector}-{},kind=eio", sector + 7);
    rig.ok(&[&create[..], &["--layer", &layer]].concat());
    rig.mount("v");
    let plain = overwrite(Command::new("env"), &file);
    assert!(says(&plain).contains("Input/output error"), "{}", says(&plain));
    for scheduler in ["noop", "afq", "split-deadline", "split-token", "scs-token", "rcp"] {
        let output = overwrite(governed(&rig, scheduler, ""), &file);
        let said = says(&output);
        assert_eq!(output.status.code(), plain.status.code(), "{scheduler}: {said}");
        assert!(said.contains("Input/output error"), "{scheduler}: {said}");
    }
    assert_eq!(fs::read(&file).unwrap().len(), 64 << 10);
    rig.umount("v");
}
