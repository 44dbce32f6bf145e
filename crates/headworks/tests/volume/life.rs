//! A volume's ordinary life.

use crate::rig::{Rig, can_mount_or_skip, find};
use std::fs;
use std::os::unix::fs::FileExt;
use std::process::Command;
use std::time::Instant;

/// Bytes that are not the same anywhere.
fn noise(len: usize, seed: u64) -> Vec<u8> {
    let mut state = seed;
    let mut bytes = Vec::with_capacity(len + 8);
    while bytes.len() < len {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        bytes.extend_from_slice(&(state ^ (state >> 29)).to_le_bytes());
    }
    bytes.truncate(len);
    bytes
}

fn round_trip(rig: &Rig, options: &[&str]) -> String {
    let image = rig.image("v");
    let create = ["create", "v", "--size", "400M", "--backing", &image];
    rig.ok(&[&create, options].concat());
    assert!(rig.mount("v").contains("(new "));
    let written = noise(5_000_000, 1);
    fs::create_dir(rig.mnt().join("dir")).unwrap();
    fs::write(rig.mnt().join("dir/file"), &written).unwrap();
    rig.ok(&["umount", "v"]);
    assert!(!rig.mnt().join("dir").exists());
    assert!(!rig.mount("v").contains("(new "), "what it holds is kept");
    assert!(fs::read(rig.mnt().join("dir/file")).unwrap() == written);
    fs::remove_file(rig.mnt().join("dir/file")).unwrap();
    rig.ok(&["umount", "v"]);
    image
}

#[test]
fn what_is_written_to_ext4_is_there_after_the_next_mount() {
    if !can_mount_or_skip() {
        return;
    }
    let rig = Rig::new();
    let image = round_trip(&rig, &["--layer", "stats"]);
    rig.assert_sound(&image);
    let listed: serde_json::Value = serde_json::from_str(&rig.ok(&["list", "--json"])).unwrap();
    assert_eq!(listed[0]["state"], "stopped");
    assert!(rig.ok(&["rm", "v"]).contains("still in"));
    assert!(fs::exists(&image).unwrap());
    assert!(rig.ok(&["list"]).contains("no volumes"));
}

#[test]
fn large_sectors_and_a_kernel_scheduler_work_too() {
    if !can_mount_or_skip() {
        return;
    }
    let rig = Rig::new();
    let image = round_trip(&rig, &["--block", "4096", "--kernel-scheduler", "mq-deadline"]);
    rig.assert_sound(&image);
    rig.mount("v");
    let stat = rig.stat("v");
    let device = stat["device"].as_str().unwrap().trim_start_matches("/dev/").to_owned();
    let queue = |name: &str| {
        fs::read_to_string(format!("/sys/block/{device}/queue/{name}")).unwrap().trim().to_owned()
    };
    assert_eq!(queue("logical_block_size"), "4096");
    assert!(queue("scheduler").contains("[mq-deadline]"));
    rig.ok(&["umount", "v"]);
    rig.ok(&["rm", "--with-backing", "v"]);
    assert!(!fs::exists(&image).unwrap());
}

#[test]
fn xfs_is_made_and_mounted() {
    if !can_mount_or_skip() {
        return;
    }
    if find("mkfs.xfs").is_none() {
        return println!("skipped: mkfs.xfs is missing (apt-get install xfsprogs)");
    }
    let kinds = fs::read_to_string("/proc/filesystems").unwrap_or_default();
    if !kinds.lines().any(|line| line.trim() == "xfs") {
        return println!("skipped: this kernel has no XFS");
    }
    round_trip(&Rig::new(), &["--fs", "xfs"]);
}

#[test]
fn a_raw_volume_is_a_block_device() {
    if !can_mount_or_skip() {
        return;
    }
    let rig = Rig::new();
    rig.ok(&["create", "r", "--size", "16M", "--backing", "memory", "--raw"]);
    rig.ok(&["mount", "r"]);
    let device = rig.stat("r")["device"].as_str().unwrap().to_owned();
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
    assert_eq!(figures["allocated_bytes"], 1 << 20);
    drop(file);
    rig.ok(&["umount", "r"]);
    assert!(
        !fs::read_to_string("/proc/self/mounts").unwrap().contains(&*rig.dir.display().to_string())
    );
}

#[test]
fn a_terabyte_takes_the_memory_of_what_is_written() {
    if !can_mount_or_skip() {
        return;
    }
    let rig = Rig::new();
    let began = Instant::now();
    rig.ok(&["create", "t", "--size", "1T", "--backing", "memory", "--memory-max", "1G"]);
    rig.mount("t");
    println!("created and mounted in {:?}", began.elapsed());
    fs::write(rig.mnt().join("file"), noise(1 << 20, 3)).unwrap();
    let taken = rig.stat("t")["figures"]["allocated_bytes"].as_u64().unwrap();
    println!("{taken} bytes are taken");
    assert!(taken < 256 << 20, "{taken}");
    rig.ok(&["umount", "t"]);
}

#[test]
fn a_trace_is_recorded_and_played() {
    if !can_mount_or_skip() {
        return;
    }
    let rig = Rig::new();
    let trace = rig.dir.join("trace").display().to_string();
    let (first, second) = (rig.image("a"), rig.image("b"));
    let record = format!("record:{trace}");
    rig.ok(&["create", "a", "--size", "64M", "--backing", &first, "--layer", &record]);
    rig.mount("a");
    fs::write(rig.mnt().join("file"), noise(1 << 20, 4)).unwrap();
    rig.ok(&["umount", "a"]);
    rig.ok(&["create", "b", "--size", "64M", "--backing", &second]);
    assert!(rig.refused(&["replay", "b", &trace]).contains("--overwrite"));
    let played = rig.ok(&["replay", "b", &trace, "--overwrite", "--depth", "8", "--json"]);
    let played: serde_json::Value = serde_json::from_str(&played).unwrap();
    let lines = fs::read_to_string(&trace).unwrap().lines().count() as u64 - 1;
    assert_eq!(played["requests"].as_u64(), Some(lines));
    assert_eq!((played["errors"].as_u64(), played["outside"].as_u64()), (Some(0), Some(0)));
}

#[test]
fn a_volume_is_served_over_nbd_too() {
    let Some(nbdcopy) = find("nbdcopy") else {
        return println!("skipped: nbdcopy is missing (apt-get install libnbd-bin)");
    };
    let rig = Rig::new();
    let (image, socket) = (rig.image("n"), rig.dir.join("nbd.sock"));
    let options = ["--device", "ssd-a", "--scheduler", "deadline", "--layer", "stats", "--raw"];
    rig.ok(&[&["create", "n", "--size", "8M", "--backing", &image][..], &options].concat());
    let mut server = rig.spawn(&["serve", "n", "--nbd", &format!("unix:{}", socket.display())]);
    let began = Instant::now();
    while !socket.exists() {
        assert!(began.elapsed().as_secs() < 60, "nobody listens");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    assert!(rig.refused(&["umount", "n"]).contains("over NBD"));
    let written = rig.dir.join("written");
    fs::write(&written, noise(8 << 20, 9)).unwrap();
    let uri = format!("nbd+unix:///n?socket={}", socket.display());
    let copied = Command::new(nbdcopy).arg("--flush").arg(&written).arg(uri).status().unwrap();
    assert!(copied.success());
    // SAFETY: ends the process that this test started.
    unsafe { libc::kill(i32::try_from(server.id()).unwrap(), libc::SIGTERM) };
    assert!(server.wait().unwrap().success());
    assert!(fs::read(&image).unwrap() == noise(8 << 20, 9));
    assert_eq!(rig.stat("n")["state"], "stopped");
}

/// One volume is served over NBD, another one lies on it.
#[test]
fn a_volume_on_an_nbd_export_holds_a_file_system() {
    if !can_mount_or_skip() {
        return;
    }
    let rig = Rig::new();
    let (image, socket) = (rig.image("far"), rig.dir.join("far.sock"));
    rig.ok(&["create", "far", "--size", "128M", "--backing", &image, "--raw"]);
    let uri = format!("nbd+unix:///far?socket={}", socket.display());
    let near = ["create", "near", "--size", "128M", "--backing", &uri];
    assert!(rig.refused(&near).contains("is its server running"));
    let mut server = rig.spawn(&["serve", "far", "--nbd", &format!("unix:{}", socket.display())]);
    let began = Instant::now();
    while !socket.exists() {
        assert!(began.elapsed().as_secs() < 60, "nobody listens");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    let large = ["create", "near", "--size", "1G", "--backing", &uri];
    assert!(rig.refused(&large).contains("134217728 bytes"));
    let other = uri.replace("far?", "nothing?");
    let none = ["create", "near", "--size", "128M", "--backing", &other];
    assert!(rig.refused(&none).contains("no such export"));
    rig.ok(&near);
    let again = ["create", "third", "--size", "128M", "--backing", &uri];
    assert!(rig.refused(&again).contains("backs volume `near`"));
    rig.mount("near");
    let written = noise(20_000_000, 5);
    fs::write(rig.mnt().join("file"), &written).unwrap();
    rig.ok(&["umount", "near"]);
    rig.mount("near");
    assert!(fs::read(rig.mnt().join("file")).unwrap() == written);
    rig.ok(&["umount", "near"]);
    assert!(rig.refused(&["rm", "--with-backing", "near"]).contains("is no file"));
    // SAFETY: ends the process that this test started.
    unsafe { libc::kill(i32::try_from(server.id()).unwrap(), libc::SIGTERM) };
    assert!(server.wait().unwrap().success());
    rig.assert_sound(&image);
}
