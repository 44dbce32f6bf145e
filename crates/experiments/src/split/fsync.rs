//! Figures 2.6 and 2.14: small `fsync`s beside large ones.

use super::figure::{Arm, Figure, Work};
use crate::sweep::Claim;
use crate::sweep::panel::Panel;
use headworks_workload::files::{Pattern, Task};
use std::path::Path;

const PAPER: &str = "Split and Maat";

/// Seconds of warm-up and of the window, and rounds; for a full and for a quick run.
const TIMES: [(u64, u64, usize); 2] = [(6, 30, 5), (4, 6, 1)];

/// The deadlines of Table 2.4 for a disk; a flash drive has those of the table by its own arms'
/// names.
const RULES: &str = "[[io.file]]\npath = \"*/a\"\nfsync_ms = 100\n\
    [[io.file]]\npath = \"*/b\"\nfsync_ms = 6000\n";

const GIB: u64 = 1 << 30;

fn a(dir: &Path, pause_us: u64) -> Task {
    Task { pause_us, ..Task::new("A", Pattern::Append, dir.join("a"), 0) }
}

fn b(dir: &Path, blocks: u32) -> Task {
    Task::new("B", Pattern::RandomSync { blocks }, dir.join("b"), GIB)
}

const ALONE_A: &str = "disk: A alone";
const ALONE_B: &str = "disk: B alone";
const DISK: &str = "disk: mq-deadline";
const DISK_BFQ: &str = "disk: bfq";
const DISK_NONE: &str = "disk: none";
const DISK_KYBER: &str = "disk: kyber";
const DISK_THROTTLE: &str = "disk: mq-deadline, throttle on";
const DISK_SPLIT_THROTTLE: &str = "disk: split-deadline, throttle on";
const DISK_SPLIT: &str = "disk: split-deadline";
const DISK_SPLIT_B: &str = "disk: split-deadline, B alone";
const FLASH_A: &str = "flash: A alone";
const FLASH: &str = "flash: mq-deadline";
const FLASH_SPLIT: &str = "flash: split-deadline";

/// A's pauses in milliseconds: a closed loop, and 20 `fsync`s a second at the most.
const PAUSES: &[f64] = &[0.0, 40.0];

pub(super) const FIG_14: Figure = Figure {
    id: "split-fsync",
    title: "Small fsyncs beside large ones",
    paper: PAPER,
    figure: "Figure 2.14; Table 2.4",
    about: "A appends a block of 4 KiB and calls fsync; B writes 1,024 blocks at random places of 1 GiB \
            and calls fsync. Writeback throttle off, but where an arm has it.",
    axis: "A's pause, ms",
    categories: &[],
    times: TIMES,
    around_s: 9,
    arms: &[
        Arm::new(ALONE_A, "hdd", "mq-deadline").only(&["A"]),
        Arm::new(ALONE_B, "hdd", "mq-deadline").only(&["B"]).full_only(),
        Arm::new(DISK, "hdd", "mq-deadline"),
        Arm::new(DISK_BFQ, "hdd", "bfq").full_only(),
        Arm::new(DISK_NONE, "hdd", "none").full_only(),
        Arm::new(DISK_KYBER, "hdd", "kyber").full_only(),
        Arm::new(DISK_THROTTLE, "hdd", "mq-deadline").throttle().full_only(),
        Arm::new(DISK_SPLIT_THROTTLE, "hdd", "mq-deadline")
            .throttle()
            .io("split-deadline")
            .full_only(),
        Arm::new(DISK_SPLIT, "hdd", "mq-deadline").io("split-deadline"),
        Arm::new(DISK_SPLIT_B, "hdd", "mq-deadline").io("split-deadline").only(&["B"]).full_only(),
        Arm::new(FLASH_A, "ssd-c", "mq-deadline").only(&["A"]).full_only(),
        Arm::new(FLASH, "ssd-c", "mq-deadline").full_only(),
        Arm::new(FLASH_SPLIT, "ssd-c", "mq-deadline").io("split-deadline").full_only(),
    ],
    points: PAUSES,
    quick_points: PAUSES,
    work: Work::Files(|at, dir| vec![a(dir, (at * 1e3) as u64), b(dir, 1024)]),
    rules: RULES,
    claims: &[
        Claim::new("disk, closed loop: A's P99 is at most three times that alone")
            .paper("latencies fluctuate around the deadline (Figure 2.14)")
            .ours("P99 / P99 alone", |seed| {
                seed.get(DISK_SPLIT, 0.0, "a_p99_ms") / seed.get(ALONE_A, 0.0, "a_p99_ms")
            })
            .at_most(3.0),
        Claim::new("disk, closed loop: B keeps its speed")
            .paper("not given")
            .ours("MB/s / MB/s under mq-deadline", |seed| {
                seed.get(DISK_SPLIT, 0.0, "b_mb_per_s") / seed.get(DISK, 0.0, "b_mb_per_s")
            })
            .at_least(0.6),
        Claim::new("disk, A pauses: B keeps its speed")
            .paper("not given")
            .ours("MB/s / MB/s under mq-deadline", |seed| {
                seed.get(DISK_SPLIT, 40.0, "b_mb_per_s") / seed.get(DISK, 40.0, "b_mb_per_s")
            })
            .at_least(0.85),
        Claim::new("disk, A is away: B keeps its speed")
            .paper("not given")
            .ours("MB/s / MB/s alone without a scheduler", |seed| {
                seed.get(DISK_SPLIT_B, 0.0, "b_mb_per_s") / seed.get(ALONE_B, 0.0, "b_mb_per_s")
            })
            .at_least(0.95)
            .note("not in a quick run"),
        Claim::new("flash, closed loop: A's P99 is at most three times that alone")
            .paper("latencies fluctuate around the deadline (Figure 2.14)")
            .ours("P99 / P99 alone", |seed| {
                seed.get(FLASH_SPLIT, 0.0, "a_p99_ms") / seed.get(FLASH_A, 0.0, "a_p99_ms")
            })
            .at_most(3.0)
            .note("not in a quick run"),
    ],
    panels: || {
        vec![
            Panel::sweep("A: P99 of fsync", "ms")
                .lines([ALONE_A, DISK, DISK_BFQ, DISK_SPLIT], "a_p99_ms"),
            Panel::sweep("B: written", "MB/s").lines([DISK, DISK_BFQ, DISK_SPLIT], "b_mb_per_s"),
        ]
    },
};

pub(super) const FIG_6: Figure = Figure {
    id: "split-dependency",
    title: "What a small fsync takes by the size of another program's",
    paper: PAPER,
    figure: "Figure 2.6",
    about: "A appends a block and calls fsync; B writes blocks at random places and calls fsync.",
    axis: "blocks of each fsync of B",
    categories: &[],
    times: TIMES,
    around_s: 10,
    arms: &[
        Arm::new(DISK, "hdd", "mq-deadline"),
        Arm::new(DISK_SPLIT, "hdd", "mq-deadline").io("split-deadline"),
    ],
    points: &[4.0, 16.0, 64.0, 256.0, 1024.0],
    quick_points: &[4.0, 256.0],
    work: Work::Files(|at, dir| vec![a(dir, 0), b(dir, at as u32)]),
    rules: RULES,
    claims: &[Claim::new("A's latency does not follow B's size")
        .paper("with a block scheduler it grows with it (Figure 2.6)")
        .ours("median at the largest size / at the smallest", |seed| {
            let all = seed.all(DISK_SPLIT, "a_p50_ms");
            all.last().copied().unwrap_or(f64::NAN) / all.first().copied().unwrap_or(f64::NAN)
        })
        .at_most(3.0)],
    panels: || {
        let panel = Panel::sweep("A: median of fsync", "ms").logarithmic();
        vec![panel.lines([DISK, DISK_SPLIT], "a_p50_ms")]
    },
};
