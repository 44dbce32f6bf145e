//! What is refused, in words, and leaves nothing behind.

use crate::rig::{Rig, can_mount_or_skip, find};
use std::fs;
use std::process::Command;

fn create<'a>(name: &'a str, size: &'a str, backing: &'a str) -> Vec<&'a str> {
    vec!["create", name, "--size", size, "--backing", backing]
}

#[test]
fn what_cannot_be_a_volume_is_refused_and_leaves_nothing() {
    let rig = Rig::new();
    let image = rig.image("v");
    let odd = rig.refused(&create("v", "1000", &image));
    assert!(odd.contains("no multiple of the block") && odd.contains("1024"), "{odd}");
    let large = [&create("v", "512", &image)[..], &["--block", "4096"]].concat();
    assert!(rig.refused(&large).contains("no multiple"));
    let block = [&create("v", "1M", &image)[..], &["--block", "777"]].concat();
    assert!(rig.refused(&block).contains("choose 512"));
    let scheduler = [&create("v", "1M", &image)[..], &["--scheduler", "fastest"]].concat();
    assert!(rig.refused(&scheduler).contains("no block scheduler `fastest`"));
    let device = [&create("v", "1M", &image)[..], &["--device", "warp"]].concat();
    assert!(rig.refused(&device).contains("no device `warp`"));
    let layer = [&create("v", "1M", &image)[..], &["--layer", "dealy:read=1ms"]].concat();
    assert!(rig.refused(&layer).contains("known are delay"));
    let cached = [&create("v", "1M", "memory")[..], &["--page-cache"]].concat();
    assert!(rig.refused(&cached).contains("--page-cache is for a file or a device"));
    assert!(rig.refused(&create("../v", "1M", &image)).contains("no name for a volume"));
    let nowhere = rig.refused(&create("v", "1M", "/nonexistent/dir/v.img"));
    assert!(nowhere.contains("cannot make the backing file"), "{nowhere}");
    assert!(!fs::exists(&image).unwrap(), "no backing is made for what is refused");
    assert!(rig.ok(&["list"]).contains("no volumes"));
}

#[test]
fn a_backing_that_is_too_small_busy_or_taken_is_refused() {
    let rig = Rig::new();
    let image = rig.image("v");
    let file = fs::File::create(&image).unwrap();
    file.set_len(1 << 20).unwrap();
    let small = rig.refused(&create("v", "2M", &image));
    assert!(small.contains("truncate -s 2097152"), "{small}");
    file.lock().unwrap();
    let busy = rig.refused(&create("v", "1M", &image));
    assert!(busy.contains("in use"), "{busy}");
    file.unlock().unwrap();
    rig.ok(&create("v", "1M", &image));
    let taken = rig.refused(&create("w", "1M", &image));
    assert!(taken.contains("backs volume `v`"), "{taken}");
    let again = rig.refused(&create("v", "1M", &rig.image("w")));
    assert!(again.contains("there is a volume `v` already"), "{again}");
    assert!(rig.refused(&["stat", "x"]).contains("there are: v"));
}

#[test]
fn a_mount_that_cannot_be_leaves_nothing_behind() {
    if !can_mount_or_skip() {
        return;
    }
    let rig = Rig::new();
    let (image, mnt) = (rig.image("v"), rig.mnt().display().to_string());
    rig.ok(&create("v", "64M", &image));
    assert!(rig.refused(&["mount", "v"]).contains("say where it goes"));
    assert!(rig.refused(&["mount", "v", "/proc"]).contains("is mounted on /proc already"));
    assert!(rig.refused(&["mount", "v", "/nonexistent"]).contains("mkdir -p"));
    assert!(rig.refused(&["umount", "v"]).contains("is not mounted"));
    // A user's data, which is no file system.
    let mut bytes = vec![0; 64 << 20];
    bytes[..9].copy_from_slice(b"precious!");
    fs::write(&image, &bytes).unwrap();
    let other = rig.refused(&["mount", "v", &mnt]);
    assert!(other.contains("--format"), "{other}");
    assert_eq!(rig.stat("v")["state"], "stopped");
    assert!(fs::read(&image).unwrap().starts_with(b"precious!"));
    rig.ok(&["mount", "--format", "v", &mnt]);
    assert!(rig.refused(&["mount", "v", &mnt]).contains("already"));
    assert!(rig.refused(&["rm", "v"]).contains("umount v"));
    let _held = fs::File::create(rig.mnt().join("open")).unwrap();
    let busy = rig.refused(&["umount", "v"]);
    assert!(busy.contains("fuser -vm"), "{busy}");
    drop(_held);
    rig.umount("v");
    // A backing that went away, or is in use, at the mount.
    let moved = format!("{image}.moved");
    fs::rename(&image, &moved).unwrap();
    assert!(rig.refused(&["mount", "v", &mnt]).contains("cannot open"));
    fs::rename(&moved, &image).unwrap();
    let held = fs::File::open(&image).unwrap();
    held.lock().unwrap();
    assert!(rig.refused(&["mount", "v", &mnt]).contains("in use"));
    assert_eq!(rig.stat("v")["state"], "stopped");
}

/// A file system that is unmounted at the end, whatever happens.
struct Unmounted(std::path::PathBuf);

impl Drop for Unmounted {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0).status();
    }
}

#[test]
fn a_backing_that_is_read_only_or_mounted_is_refused() {
    if !can_mount_or_skip() {
        return;
    }
    let rig = Rig::new();
    let dir = rig.dir.join("read-only");
    fs::create_dir(&dir).unwrap();
    let mount = |options: &str| {
        let mut command = Command::new("mount");
        command.args(["-t", "tmpfs", "-o", options, "tmpfs"]).arg(&dir);
        assert!(command.status().unwrap().success());
    };
    mount("size=8m");
    let _unmounted = Unmounted(dir.clone());
    let image = dir.join("v").display().to_string();
    fs::File::create(&image).unwrap().set_len(1 << 20).unwrap();
    mount("remount,ro");
    let refused = rig.refused(&create("v", "1M", &image));
    assert!(refused.contains("read-only file system"), "{refused}");
    let new = rig.refused(&create("v", "1M", &format!("{image}.new")));
    assert!(new.contains("cannot make the backing file"), "{new}");

    rig.ok(&["create", "lower", "--size", "64M", "--backing", "memory"]);
    rig.mount("lower");
    let device = rig.stat("lower")["device"].as_str().unwrap().to_owned();
    let busy = rig.refused(&create("v", "1M", &device));
    assert!(busy.contains("mounted or in use"), "{busy}");
    rig.umount("lower");
    assert!(!rig.ok(&["list"]).contains(" v "));
}

#[test]
fn a_device_that_is_set_read_only_is_refused() {
    if !can_mount_or_skip() {
        return;
    }
    let Some(losetup) = find("losetup") else {
        return println!("skipped: losetup is missing (apt-get install mount)");
    };
    let rig = Rig::new();
    let file = rig.dir.join("bytes");
    fs::File::create(&file).unwrap().set_len(1 << 20).unwrap();
    let made = Command::new(&losetup)
        .args(["--read-only", "--find", "--show"])
        .arg(&file)
        .output()
        .unwrap();
    let device = String::from_utf8(made.stdout).unwrap().trim().to_owned();
    let output = rig.run(&create("v", "1M", &device));
    // Before anything is asserted: nothing is left of a test that fails.
    let _ = Command::new(&losetup).args(["--detach", &device]).status();
    let refused = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && refused.contains("blockdev --setrw"), "{refused}");
}

/// A kernel without a front end, as it looks from here: none of the nodes are there.
#[test]
fn a_kernel_without_a_front_end_is_told_and_nothing_is_left() {
    if !can_mount_or_skip() {
        return;
    }
    let Some(unshare) = find("unshare") else {
        return println!("skipped: unshare is missing (apt-get install util-linux)");
    };
    let rig = Rig::new();
    rig.ok(&create("v", "64M", &rig.image("v")));
    let hidden = |arguments: &[&str]| {
        let plain = rig.command(arguments);
        let mut command = Command::new(&unshare);
        command
            .args([
                "--mount",
                "sh",
                "-c",
                "mount -t tmpfs tmpfs /dev && : >/dev/null && exec \"$@\"",
                "sh",
            ])
            .arg(plain.get_program())
            .args(plain.get_args());
        for (key, value) in plain.get_envs() {
            if let Some(value) = value {
                command.env(key, value);
            }
        }
        command.output().unwrap()
    };
    let output = hidden(&["mount", "v", &rig.mnt().display().to_string()]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success());
    assert!(said.contains("/dev/fuse is missing") && said.contains("modprobe fuse"), "{said}");
    assert!(said.contains("--nbd unix:PATH"), "{said}");
    assert_eq!(rig.stat("v")["state"], "stopped");
    let output = hidden(&["doctor"]);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(said.contains("volumes cannot run here"), "{said}");
}
