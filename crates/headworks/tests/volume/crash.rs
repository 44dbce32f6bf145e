//! A volume's process that is killed, and the doctor.

use crate::rig::{Rig, can_mount_or_skip, find};
use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

pub fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let began = Instant::now();
    while !condition() {
        assert!(began.elapsed() < Duration::from_secs(60), "not within a minute: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A loop device that is taken away at the end.
struct Theirs<'a>(&'a Path, String);

impl Drop for Theirs<'_> {
    fn drop(&mut self) {
        let _ = Command::new(self.0).args(["--detach", &self.1]).status();
    }
}

#[test]
fn the_doctor_cleans_up_after_a_crash_and_only_what_is_ours() {
    if !can_mount_or_skip() {
        return;
    }
    let Some(losetup) = find("losetup") else {
        return println!("skipped: losetup is missing (apt-get install mount)");
    };
    let rig = Rig::new();
    let image = rig.image("c");
    rig.ok(&["create", "c", "--size", "64M", "--backing", &image]);
    rig.mount("c");
    let mut file = File::create(rig.mnt().join("durable")).unwrap();
    file.write_all(b"flushed before the crash").unwrap();
    file.sync_all().unwrap();
    File::open(rig.mnt()).unwrap().sync_all().unwrap();
    drop(file);
    // Others: a loop device without an owner, and a volume that runs.
    let other = rig.image("other");
    File::create(&other).unwrap().set_len(1 << 20).unwrap();
    let attached = Command::new(&losetup).args(["--find", "--show", &other]).output().unwrap();
    let theirs = String::from_utf8(attached.stdout).unwrap().trim().to_owned();
    assert!(theirs.starts_with("/dev/loop"), "{theirs}");
    let detached = Theirs(&losetup, theirs);
    rig.ok(&["create", "alive", "--size", "8M", "--backing", "memory", "--raw"]);
    rig.ok(&["mount", "alive"]);

    let pid = rig.stat("c")["pid"].as_i64().unwrap();
    // SAFETY: kills the process that this test started.
    assert_eq!(unsafe { libc::kill(i32::try_from(pid).unwrap(), libc::SIGKILL) }, 0);
    wait_until("the crash is seen", || rig.stat("c")["state"] == "crashed");
    assert!(rig.refused(&["rm", "c"]).contains("volume doctor"));
    assert!(rig.refused(&["umount", "c"]).contains("volume doctor"));
    let dry = rig.ok(&["doctor", "--dry-run"]);
    assert!(dry.contains(&rig.mnt().display().to_string()), "{dry}");
    assert_eq!(rig.stat("c")["state"], "crashed", "a dry run leaves it");
    let said = rig.ok(&["doctor"]);
    assert!(said.contains("cleaned up: the file system on"), "{said}");
    assert_eq!(rig.stat("c")["state"], "stopped");

    let list = Command::new(&losetup).arg("--list").output().unwrap();
    let list = String::from_utf8(list.stdout).unwrap();
    assert!(list.contains(&other), "{list}");
    assert!(!list.contains("volumes/c/"), "{list}");
    assert_eq!(rig.stat("alive")["state"], "running");
    drop(detached);

    rig.mount("c");
    let back = fs::read(rig.mnt().join("durable")).unwrap();
    assert_eq!(back, b"flushed before the crash");
    rig.umount("c");
    rig.assert_sound(&image);
    assert!(rig.ok(&["doctor"]).contains("nothing is left"));
}

#[test]
fn the_doctor_leaves_a_volume_that_runs_without_its_files() {
    if !can_mount_or_skip() {
        return;
    }
    let rig = Rig::new();
    rig.ok(&["create", "c", "--size", "64M", "--backing", "memory"]);
    rig.mount("c");
    let pid = rig.stat("c")["pid"].as_i64().unwrap();
    fs::write(rig.mnt().join("kept"), b"kept").unwrap();
    let dir = rig.dir.join("run/volumes/c");
    for name in ["lock", "note.json", "control.sock", "log"] {
        fs::remove_file(dir.join(name)).unwrap();
    }
    let output = rig.run(&["doctor"]);
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(!output.status.success(), "{said}");
    assert!(said.contains("no command reaches it"), "{said}");
    assert!(said.contains("nothing is left of crashed volumes"), "{said}");
    assert_eq!(fs::read(rig.mnt().join("kept")).unwrap(), b"kept");
    // As it says: unmounted and ended in order, it leaves nothing.
    let unmounted = Command::new("umount").arg(rig.mnt()).status().unwrap();
    assert!(unmounted.success());
    // SAFETY: ends the process that this test started.
    assert_eq!(unsafe { libc::kill(i32::try_from(pid).unwrap(), libc::SIGTERM) }, 0);
    wait_until("it ends", || !Path::new(&format!("/proc/{pid}")).exists());
    assert!(rig.ok(&["doctor"]).contains("nothing is left"));
}
