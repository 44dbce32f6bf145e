//! The ublk front end where the kernel has it, and what is said where it has not.

use crate::life::noise;
use crate::rig::{Rig, can_mount_or_skip};
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::Path;

fn has_ublk() -> bool {
    Path::new("/dev/ublk-control").exists()
}

fn has_ublk_or_skip() -> bool {
    if !can_mount_or_skip() {
        return false;
    }
    if !has_ublk() {
        println!("skipped: /dev/ublk-control is missing (modprobe ublk_drv, Linux 6.0 or later)");
    }
    has_ublk()
}

#[test]
fn ublk_that_is_missing_is_refused_with_what_would_give_it() {
    if !can_mount_or_skip() {
        return;
    }
    if has_ublk() {
        return println!("skipped: this machine has ublk");
    }
    let rig = Rig::new();
    rig.ok(&["create", "u", "--size", "16M", "--backing", "memory", "--raw"]);
    let said = rig.refused(&["mount", "--front-end", "ublk", "u"]);
    assert!(said.contains("/dev/ublk-control is missing"), "{said}");
    assert!(said.contains("modprobe ublk_drv") && said.contains("6.0 or later"), "{said}");
    assert!(said.contains("--front-end fuse"), "{said}");
    assert_eq!(rig.stat("u")["state"], "stopped");
    assert!(rig.ok(&["doctor"]).contains("nothing is left"));
}

#[test]
fn the_front_end_is_chosen_and_the_reason_is_shown() {
    if !can_mount_or_skip() {
        return;
    }
    let rig = Rig::new();
    rig.ok(&["create", "u", "--size", "16M", "--backing", "memory", "--raw"]);
    let said = rig.ok(&["mount", "u"]);
    let (kind, reason) = if has_ublk() {
        ("ublk", "this kernel has it")
    } else {
        ("fuse", "/dev/ublk-control is missing")
    };
    assert!(said.contains("front end:") && said.contains(reason), "{said}");
    assert_eq!(rig.stat("u")["front_end"], kind);
    assert!(rig.ok(&["stat", "u"]).contains(reason));
    rig.ok(&["umount", "u"]);
    let said = rig.ok(&["mount", "--front-end", "fuse", "u"]);
    assert!(said.contains("FUSE and a loop device (as asked)"), "{said}");
    rig.ok(&["umount", "u"]);
    assert!(rig.refused(&["mount", "--front-end", "nbd", "u"]).contains("ublk"));
}

#[test]
fn what_is_written_through_ublk_is_there_after_the_next_mount() {
    if !has_ublk_or_skip() {
        return;
    }
    let rig = Rig::new();
    let (image, mnt) = (rig.image("v"), rig.mnt().display().to_string());
    rig.ok(&["create", "v", "--size", "400M", "--backing", &image, "--scheduler", "deadline"]);
    let mount = || rig.ok(&["mount", "--front-end", "ublk", "v", &mnt]);
    assert!(mount().contains("(new "));
    assert_eq!(rig.stat("v")["front_end"], "ublk");
    let written = noise(5_000_000, 1);
    fs::write(rig.mnt().join("file"), &written).unwrap();
    rig.ok(&["umount", "v"]);
    assert!(!mount().contains("(new "), "what it holds is kept");
    assert!(fs::read(rig.mnt().join("file")).unwrap() == written);
    rig.ok(&["umount", "v"]);
    rig.assert_sound(&image);
    assert!(rig.ok(&["doctor"]).contains("nothing is left"));
}

#[test]
fn a_raw_volume_is_a_ublk_device() {
    if !has_ublk_or_skip() {
        return;
    }
    let rig = Rig::new();
    rig.ok(&["create", "r", "--size", "16M", "--backing", "memory", "--raw", "--block", "4096"]);
    rig.ok(&["mount", "--front-end", "ublk", "r"]);
    let device = rig.stat("r")["device"].as_str().unwrap().to_owned();
    assert!(device.starts_with("/dev/ublkb"), "{device}");
    let file = fs::OpenOptions::new().read(true).write(true).open(&device).unwrap();
    let written = noise(1 << 20, 2);
    file.write_all_at(&written, 3 << 20).unwrap();
    file.sync_all().unwrap();
    let mut back = vec![0; 1 << 20];
    file.read_exact_at(&mut back, 3 << 20).unwrap();
    assert!(back == written);
    let figures = rig.stat("r")["figures"].clone();
    assert!(figures["counts"]["flush"]["requests"].as_u64().unwrap() > 0, "{figures}");
    assert_eq!(figures["counts"]["write"]["bytes"], 1 << 20);
    drop(file);
    rig.ok(&["umount", "r"]);
    assert!(!Path::new(&device).exists());
}

#[test]
fn the_doctor_removes_the_ublk_device_of_a_crashed_volume() {
    if !has_ublk_or_skip() {
        return;
    }
    let rig = Rig::new();
    rig.ok(&["create", "c", "--size", "16M", "--backing", &rig.image("c"), "--raw"]);
    rig.ok(&["create", "alive", "--size", "16M", "--backing", "memory", "--raw"]);
    rig.ok(&["mount", "--front-end", "ublk", "c"]);
    rig.ok(&["mount", "--front-end", "ublk", "alive"]);
    let stat = rig.stat("c");
    let pid = i32::try_from(stat["pid"].as_i64().unwrap()).unwrap();
    // SAFETY: kills the process that this test started.
    assert_eq!(unsafe { libc::kill(pid, libc::SIGKILL) }, 0);
    crate::crash::wait_until("the crash is seen", || rig.stat("c")["state"] == "crashed");
    let said = rig.ok(&["doctor"]);
    assert!(said.contains("cleaned up: the ublk device"), "{said}");
    let node = stat["device"].as_str().unwrap().replace("ublkb", "ublkc");
    assert!(!Path::new(&node).exists());
    assert_eq!(rig.stat("alive")["state"], "running");
    rig.ok(&["umount", "alive"]);
}
