//! Power cuts under a writer: what it was told is durable must be there.

use crate::rig::{KINDS, Rig, can_make_or_skip, can_mount_or_skip, cuts_or};
use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

const RECORD: usize = 700;

fn record(number: u64) -> Vec<u8> {
    let mut bytes = vec![(number % 251) as u8; RECORD];
    bytes[..8].copy_from_slice(&number.to_le_bytes());
    bytes
}

/// Appends records, each made durable, until it cannot; beside it grows a file that is never
/// flushed.
fn write_until_the_end(dir: &std::path::Path, acknowledged: &AtomicU64) {
    let log =
        OpenOptions::new().write(true).create(true).truncate(false).open(dir.join("log")).unwrap();
    let noise = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .open(dir.join("noise"))
        .unwrap();
    for number in acknowledged.load(Ordering::SeqCst).. {
        let written = log
            .write_all_at(&record(number), number * RECORD as u64)
            .and_then(|()| noise.write_all_at(&record(number), (number % 9_000) * 7_001))
            .and_then(|()| log.sync_data());
        if written.is_err() {
            return;
        }
        acknowledged.store(number + 1, Ordering::SeqCst);
    }
}

fn assert_records(dir: &std::path::Path, acknowledged: u64) {
    let log = fs::read(dir.join("log")).unwrap();
    for number in 0..acknowledged {
        let at = number as usize * RECORD;
        let found = log.get(at..at + RECORD);
        assert!(
            found == Some(&record(number)[..]),
            "record {number} of {acknowledged} is not there; the file has {} bytes",
            log.len()
        );
    }
}

#[test]
fn every_acknowledged_record_survives_power_cuts_under_load() {
    if !can_mount_or_skip() {
        return;
    }
    for (file_system, block) in KINDS {
        if can_make_or_skip(file_system) {
            survives(file_system, block);
        }
    }
}

fn survives(file_system: &str, block: &str) {
    let rig = Rig::new();
    let image = rig.image("p");
    let create = ["create", "p", "--size", "400M", "--backing", &image, "--layer"];
    let kind = ["powercut:seed=11,cache=16M,keep=0.4", "--fs", file_system, "--block", block];
    rig.ok(&[&create[..], &kind].concat());
    rig.mount("p");
    let acknowledged = Arc::new(AtomicU64::new(0));
    let (mut mended, mut harmful) = (0, 0);
    let cuts = cuts_or(2);
    for round in 0..cuts {
        let before = acknowledged.load(Ordering::SeqCst);
        let writer = {
            let (dir, acknowledged) = (rig.mnt(), Arc::clone(&acknowledged));
            std::thread::spawn(move || write_until_the_end(&dir, &acknowledged))
        };
        let began = Instant::now();
        while acknowledged.load(Ordering::SeqCst) < before + 30 + 17 * (round % 7) {
            assert!(began.elapsed() < Duration::from_secs(60), "the writer does not get on");
            std::thread::sleep(Duration::from_millis(1));
        }
        let said = rig.ok(&["powercut", "p"]);
        assert!(said.contains("is off"), "{said}");
        writer.join().unwrap();
        let power = &rig.stat("p")["figures"]["power"];
        assert_eq!(power["on"], false);
        harmful += u64::from(power["last_cut"]["dropped"] != 0);
        rig.umount("p");
        // The journal is played back at the mount.
        mended += u64::from(rig.mount_after_cut("p", &image, block));
        assert_records(&rig.mnt(), acknowledged.load(Ordering::SeqCst));
        rig.umount("p");
        rig.assert_sound(&image);
        rig.mount("p");
    }
    rig.umount("p");
    println!(
        "{file_system}, sectors of {block}: {cuts} cuts, of which {harmful} lost sectors and {mended} needed \
         e2fsck; {} records were acknowledged, none is lost",
        acknowledged.load(Ordering::SeqCst)
    );
}

/// Soon after it was made, much of a file system was never flushed, and ext4's superblock is larger
/// than a sector of 512 bytes.
#[test]
fn a_fresh_file_system_is_mountable_after_a_cut_or_as_the_message_says() {
    if !can_mount_or_skip() {
        return;
    }
    for (file_system, block) in KINDS {
        if !can_make_or_skip(file_system) {
            continue;
        }
        let (cuts, mut mended) = (cuts_or(3), 0);
        for seed in 0..cuts {
            let rig = Rig::new();
            let (image, layer) = (rig.image("p"), format!("powercut:seed={seed}"));
            let create = ["create", "p", "--size", "400M", "--backing", &image, "--layer", &layer];
            rig.ok(&[&create[..], &["--fs", file_system, "--block", block]].concat());
            rig.mount("p");
            fs::write(rig.mnt().join("durable"), "before").unwrap();
            fs::File::open(rig.mnt().join("durable")).unwrap().sync_all().unwrap();
            let synced = Command::new("sync").arg("-f").arg(rig.mnt()).status().unwrap();
            assert!(synced.success());
            fs::write(rig.mnt().join("other"), vec![1; 3 << 20]).unwrap();
            rig.ok(&["powercut", "p"]);
            rig.umount("p");
            mended += u64::from(rig.mount_after_cut("p", &image, block));
            assert_eq!(fs::read(rig.mnt().join("durable")).unwrap(), b"before");
            rig.umount("p");
            rig.assert_sound(&image);
        }
        println!(
            "{file_system}, fresh, sectors of {block}: {cuts} cuts, of which {mended} needed e2fsck"
        );
    }
}

#[test]
fn a_torn_superblock_comes_with_the_command_that_mends_it() {
    if !can_mount_or_skip() {
        return;
    }
    let rig = Rig::new();
    let image = rig.image("p");
    rig.ok(&["create", "p", "--size", "64M", "--backing", &image]);
    rig.mount("p");
    fs::write(rig.mnt().join("file"), "kept").unwrap();
    rig.umount("p");
    // The superblock begins at byte 1024; its checksum is its end, in the second sector.
    let file = OpenOptions::new().write(true).open(&image).unwrap();
    file.write_all_at(b"torn", 1024 + 0x78).unwrap();
    drop(file);
    assert!(rig.mount_after_cut("p", &image, "512"), "a wrong checksum was not seen");
    assert_eq!(fs::read(rig.mnt().join("file")).unwrap(), b"kept");
    rig.umount("p");
}

#[test]
fn the_power_comes_back_to_a_raw_device() {
    if !can_mount_or_skip() {
        return;
    }
    let rig = Rig::new();
    let layer = "powercut:keep=0";
    rig.ok(&["create", "p", "--size", "8M", "--backing", "memory", "--raw", "--layer", layer]);
    rig.ok(&["mount", "p"]);
    let device = rig.stat("p")["device"].as_str().unwrap().to_owned();
    let open = || {
        use std::os::unix::fs::OpenOptionsExt;
        let mut options = OpenOptions::new();
        options.read(true).write(true).custom_flags(libc::O_DIRECT).open(&device).unwrap()
    };
    #[repr(align(4096))]
    struct Block([u8; 4096]);
    let mut block = Block([7; 4096]);
    let file = open();
    file.write_all_at(&block.0, 0).unwrap();
    file.sync_data().unwrap();
    file.write_all_at(&block.0, 4096).unwrap();
    rig.ok(&["powercut", "p"]);
    assert!(rig.refused(&["powercut", "p"]).contains("off already"));
    assert!(file.read_exact_at(&mut block.0, 0).is_err());
    rig.ok(&["powercut", "--restore", "p"]);
    file.read_exact_at(&mut block.0, 0).unwrap();
    assert_eq!(block.0, [7; 4096]);
    file.read_exact_at(&mut block.0, 4096).unwrap();
    assert_eq!(block.0, [0; 4096]);
    drop(file);
    rig.umount("p");
}
