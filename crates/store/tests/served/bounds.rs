//! Memory is bounded, whatever a client pushes.

use crate::raw::{Raw, WRITE};
use crate::rig::Rig;
use std::io::Write;
use std::time::{Duration, Instant};

/// Resident memory of a process, in MiB.
fn resident_mib(pid: u32) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = text.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() / 1024
}

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
