//! Calls on files that fail, and processes that end while their calls are held. The program sees
//! what it sees without a scheduler, and no call stays held.

use crate::compile::Workshop;
use crate::support::{RunDir, is_root, program, shim};
use headworks_policy::split::SplitKind;
use headworks_region::io::{AccountSlot, IoMapping};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::Ordering::Relaxed;

const RULES: &str = "[io]\nio_hold_ms_max = 300\n\
    [[io.thread]]\nname = \"slow\"\npriority = 7\nbytes_per_s = 1000\n";

/// A directory, gone with all that is mounted there.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Scratch {
        let path = format!("headworks-faults-{name}-{}", std::process::id());
        let path = std::env::temp_dir().join(path);
        std::fs::create_dir_all(&path).unwrap();
        Scratch(path)
    }

    fn sub(&self, name: &str) -> PathBuf {
        let path = self.0.join(name);
        std::fs::create_dir_all(&path).unwrap();
        path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let mounted = self.0.join("mnt");
        if mounted.exists() {
            let _ = Command::new("umount").arg(&mounted).status();
        }
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn stdout(name: &str, output: Output) -> String {
    assert!(output.status.success(), "{name}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// The program alone and under each scheduler, in directories that `place` makes: the same.
fn the_same_everywhere(
    victim: &Path,
    place: impl Fn(&str) -> PathBuf,
    prepare: impl Fn(&mut Command),
) {
    let mut alone = Command::new(victim);
    prepare(&mut alone);
    let wanted = stdout("alone", alone.arg(place("plain")).output().unwrap());
    assert!(wanted.lines().count() >= 4, "{wanted}");
    let run = RunDir::new();
    let config = run.file("io.toml", RULES);
    for kind in SplitKind::ALL {
        let mut command = run.headworks(["run", "--name", kind.name(), "--io", kind.name()]);
        prepare(&mut command);
        let top = format!("LD_PRELOAD= {} io top --json --name {kind} >&2", program().display());
        command.args(["--io-device", "disk", "--profile", "generic", "--config"]);
        command.arg(&config).arg("--").arg(victim).arg(place(kind.name())).env("AT_END", top);
        let output = command.output().unwrap();
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(stdout(kind.name(), output), wanted, "under {kind}");
        let state: serde_json::Value =
            serde_json::from_str(&told[told.find('{').unwrap_or(0)..]).expect(&told);
        for count in ["waiting", "lock_busy", "tasks_full", "panics"] {
            assert_eq!(state[count], 0, "{kind}: {told}");
        }
    }
}

#[test]
fn errors_and_short_counts_reach_the_program_as_they_are() {
    let Some(workshop) = Workshop::open() else { return };
    let victim = workshop.compile("faults.c", &[]);
    let below = workshop.compile("failing.c", &["-shared", "-fPIC"]);
    let scratch = Scratch::new("errors");
    the_same_everywhere(
        &victim,
        |name| scratch.sub(name),
        |command| {
            command.env("FAIL", "1").env("LD_PRELOAD", &below);
        },
    );
}

#[test]
fn a_full_disk_is_a_full_disk() {
    if !is_root() {
        println!("skipped: mounts a file system (run as root)");
        return;
    }
    let Some(workshop) = Workshop::open() else { return };
    let victim = workshop.compile("faults.c", &[]);
    let scratch = Scratch::new("full");
    let image = scratch.0.join("image");
    std::fs::File::create(&image).unwrap().set_len(16 << 20).unwrap();
    let made = Command::new("mkfs.ext4").args(["-q", "-F"]).arg(&image).status();
    let mut mount = Command::new("mount");
    mount.args(["-o", "loop"]).arg(&image).arg(scratch.sub("mnt"));
    let mounted = mount.status();
    if !made.is_ok_and(|done| done.success()) || !mounted.is_ok_and(|done| done.success()) {
        println!("skipped: no ext4 on a loop device (apt-get install e2fsprogs; loop devices)");
        return;
    }
    let place = scratch.0.join("mnt");
    the_same_everywhere(
        &victim,
        |_| place.clone(),
        |command| {
            command.env("FULL", "1");
        },
    );
}

#[test]
fn forks_execs_and_kills_in_the_middle_of_a_hold_leave_nothing_held() {
    let Some(workshop) = Workshop::open() else { return };
    let victim = workshop.compile("faults.c", &[]);
    let scratch = Scratch::new("children");
    the_same_everywhere(&victim, |name| scratch.sub(name), |_| {});
}

#[test]
fn a_child_has_an_account_of_its_own_also_without_a_gate() {
    let Some(workshop) = Workshop::open() else { return };
    let victim = workshop.compile("faults.c", &[]);
    let scratch = Scratch::new("accounts");
    let path = scratch.0.join("region");
    let name = std::ffi::CString::new(path.to_str().unwrap()).unwrap();
    let region = IoMapping::create(&name, None).unwrap();
    region.start(SplitKind::Afq, true);
    let mut command = Command::new(&victim);
    command.arg(scratch.sub("data")).env("LD_PRELOAD", shim()).env("HEADWORKS_IO", &path);
    stdout("alone", command.output().unwrap());
    let tid = |slot: &AccountSlot| slot.tid.load(Relaxed);
    // The program, its threads, seven children, theirs, and those that three of them became.
    let threads = region.accounts.iter().filter(|slot| tid(slot) != 0).count();
    assert!(threads >= 11, "{threads}");
}
