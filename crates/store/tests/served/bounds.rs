//! Memory is bounded, whatever a client pushes.

use crate::raw::{Raw, WRITE};
use crate::rig::{Rig, has, of_status, resident_mib, times, until};
use std::io::Write;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

#[test]
fn four_gibibytes_of_queued_writes_take_no_memory_and_hold_up_no_other() {
    let rig = Rig::start(
        "[device]\nkind = \"array\"\ndisks = 15\nmodel = \"disks\"\n\
         [[volume]]\nname = \"flood\"\npath = \"memory\"\nsize = \"8MiB\"\n\
         [[volume]]\nname = \"small\"\npath = \"memory\"\nsize = \"8MiB\"\n",
    );
    Raw::open(&rig.socket(), "flood").write(0, 1);
    let before = resident_mib(rig.pid());
    let pushers: Vec<_> = (0..4)
        .map(|_| {
            let mut raw = Raw::open(&rig.socket(), "flood");
            let ends = raw.stream.try_clone().unwrap();
            let thread = std::thread::spawn(move || {
                let payload = vec![3; 1 << 20];
                let mut head = 0x2560_9513_u32.to_be_bytes().to_vec();
                head.extend(0_u16.to_be_bytes());
                head.extend(WRITE.to_be_bytes());
                head.extend([0; 16]);
                head.extend((1_u32 << 20).to_be_bytes());
                // As much as the store reads, without ever reading an answer.
                for _ in 0..1_024 {
                    if raw.stream.write_all(&head).is_err()
                        || raw.stream.write_all(&payload).is_err()
                    {
                        return;
                    }
                }
            });
            (thread, ends)
        })
        .collect();
    std::thread::sleep(Duration::from_secs(2));
    let mut small = Raw::open(&rig.socket(), "small");
    for _ in 0..5 {
        let begun = Instant::now();
        small.read(0);
        // Not a matter of speed: the queue before it has seconds.
        assert!(begun.elapsed() < Duration::from_secs(1), "{:?}", begun.elapsed());
    }
    // Of the same application, it waits for what is with the store, and not for the 4 GiB.
    let mut same = Raw::open(&rig.socket(), "flood");
    for _ in 0..3 {
        let begun = Instant::now();
        same.read(0);
        assert!(begun.elapsed() < Duration::from_secs(3), "{:?}", begun.elapsed());
    }
    let (requests, bytes) =
        (rig.app("flood")["requests"].clone(), rig.app("flood")["bytes"].clone());
    assert!(bytes.as_u64().unwrap() <= 16 << 20, "{requests} requests, {bytes} bytes");
    let grown = resident_mib(rig.pid()).saturating_sub(before);
    // 16 MiB in flight, and a payload of 1 MiB that each connection is reading.
    assert!(grown <= 16 + 16, "{grown} MiB");
    for (thread, ends) in pushers {
        let _ = ends.shutdown(std::net::Shutdown::Both);
        thread.join().unwrap();
    }
}

/// Descriptors of a process.
fn descriptors(pid: u32) -> usize {
    std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count()
}

#[test]
fn clients_that_connect_and_are_killed_never_use_up_the_connections() {
    let rig = Rig::start(
        "connections = 4\n[[volume]]\nname = \"m\"\npath = \"memory\"\nsize = \"1MiB\"\n",
    );
    let none_left = || until("all are gone", || rig.status()["connections"] == 0);
    Raw::open(&rig.socket(), "m").write(0, 1);
    none_left();
    let before =
        (descriptors(rig.pid()), of_status(rig.pid(), "Threads:"), resident_mib(rig.pid()));
    let mut random = crate::rig::Random(3);
    let real = has("qemu-io");
    for round in 0..times("HEADWORKS_STORE_CONNECTS", 2_000) {
        if real && round.is_multiple_of(200) {
            // A whole process. Otherwise the end of its socket, which is all that the store sees.
            let mut child = Command::new("qemu-io")
                .args([
                    "-f",
                    "raw",
                    &rig.uri("m"),
                    "-c",
                    "aio_write -P 5 0 64k",
                    "-c",
                    "sleep 10000",
                ])
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .unwrap();
            std::thread::sleep(Duration::from_millis(random.below(60)));
            child.kill().unwrap();
            child.wait().unwrap();
        }
        match random.below(4) {
            // In the middle of the handshake.
            0 => drop(std::os::unix::net::UnixStream::connect(rig.socket())),
            way => {
                let mut raw = None;
                // The one before may be on its way out.
                until("there is room for one", || {
                    raw = Raw::try_open(&rig.socket(), "m").ok();
                    raw.is_some()
                });
                let mut raw = raw.unwrap();
                for _ in 0..way {
                    let _ = raw.try_send(WRITE, 0, 4096, &[2; 4000]);
                }
            }
        }
    }
    none_left();
    let mut open: Vec<Raw> = (0..4).map(|_| Raw::open(&rig.socket(), "m")).collect();
    open.iter_mut().for_each(|raw| raw.write(4096, 3));
    assert!(Raw::try_open(&rig.socket(), "m").is_err(), "a fifth");
    assert!(rig.status()["turned_away"].as_u64().unwrap() > 0);
    drop(open);
    none_left();
    let after = (descriptors(rig.pid()), of_status(rig.pid(), "Threads:"), resident_mib(rig.pid()));
    assert!(after.0 <= before.0 + 2 && after.1 <= before.1 + 2, "{before:?} {after:?}");
    assert!(after.2 <= before.2 + 16, "{before:?} {after:?}");
}
