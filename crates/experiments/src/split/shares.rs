//! Figure 2.13: what threads of eight priorities get.

use super::figure::{Arm, Figure, Work};
use crate::sweep::panel::Panel;
use crate::sweep::{Claim, Seed};
use headworks_workload::files::{Pattern, Priority, Task};
use std::path::Path;

/// The axis: what every thread does with its own file.
const READ: f64 = 0.0;
const WRITE: f64 = 1.0;
const SYNC: f64 = 2.0;
const MEMORY: f64 = 3.0;

const LEVELS: u8 = 8;

/// Threads of each level that write and flush, as in the paper.
const SYNC_THREADS: u32 = 5;

const MIB: u64 = 1 << 20;

const RULES: &str = "\
    [[io.thread]]\nname = \"p0-*\"\npriority = 0\n[[io.thread]]\nname = \"p1-*\"\npriority = 1\n\
    [[io.thread]]\nname = \"p2-*\"\npriority = 2\n[[io.thread]]\nname = \"p3-*\"\npriority = 3\n\
    [[io.thread]]\nname = \"p4-*\"\npriority = 4\n[[io.thread]]\nname = \"p5-*\"\npriority = 5\n\
    [[io.thread]]\nname = \"p6-*\"\npriority = 6\n[[io.thread]]\nname = \"p7-*\"\npriority = 7\n";

fn tasks(at: f64, dir: &Path) -> Vec<Task> {
    let (pattern, bytes, threads) = match at {
        READ => (Pattern::ReadSequential, 256 * MIB, 1),
        WRITE => (Pattern::WriteSequential, 700 * MIB, 1),
        SYNC => (Pattern::RandomSync { blocks: 1 }, 64 * MIB, SYNC_THREADS),
        _ => (Pattern::WriteOver { bytes: 4 << 20 }, 4 * MIB, 1),
    };
    let task = |level: u8, thread: u32| {
        let name = format!("p{level}-{thread}");
        let path = dir.join(&name);
        Task { priority: Priority::Level(level), ..Task::new(name, pattern, path, bytes) }
    };
    (0..LEVELS).flat_map(|level| (0..threads).map(move |thread| task(level, thread))).collect()
}

/// Bytes per second of each level.
fn rates(seed: &Seed<'_>, arm: &str, at: f64) -> [f64; LEVELS as usize] {
    let threads = if at == SYNC { SYNC_THREADS } else { 1 };
    std::array::from_fn(|level| {
        (0..threads).map(|thread| seed.get(arm, at, &format!("p{level}-{thread}_mb_per_s"))).sum()
    })
}

/// Average distance from the ideal share, which is proportional to eight minus the level, in
/// percent of it.
fn deviation(seed: &Seed<'_>, arm: &str, at: f64) -> f64 {
    let rates = rates(seed, arm, at);
    let total: f64 = rates.iter().sum();
    let weights: f64 = (1..=u32::from(LEVELS)).map(f64::from).sum();
    let distance = |(level, rate): (usize, &f64)| {
        let ideal = f64::from(LEVELS - level as u8) / weights;
        (rate / total - ideal).abs() / ideal
    };
    rates.iter().enumerate().map(distance).sum::<f64>() / f64::from(LEVELS) * 100.0
}

/// Of the rivals the one that comes nearer.
fn rivals(seed: &Seed<'_>, at: f64) -> f64 {
    deviation(seed, BFQ, at).min(deviation(seed, CFQ, at))
}

const BFQ: &str = "bfq";
/// Its requests come from the loop device and have no priority, as a CFQ's have none that come from
/// the kernel's flusher.
const CFQ: &str = "cfq";
const AFQ: &str = "afq";
const AFQ_VOLUME: &str = "afq, volume";
const NOTHING: &str = "mq-deadline";

pub(super) const FIG_13: Figure = Figure {
    id: "split-shares",
    title: "Shares of eight priorities",
    paper: "Split and Maat",
    figure: "Figures 2.4 and 2.13",
    about: "Eight priorities, a thread and a file each (five for 2). 0: sequential reads; 1: sequential writes \
        to the cache; 2: 4 KiB at a random place and fsync; 3: 4 MiB written over in the cache.",
    axis: "load",
    categories: &["reads", "writes", "fsyncs", "in memory"],
    times: [(6, 30, 5), (4, 10, 1)],
    around_s: 15,
    arms: &[
        Arm::new(NOTHING, "hdd", "mq-deadline").full_only(),
        Arm::new(BFQ, "hdd", "bfq"),
        Arm::new(CFQ, "hdd", "none").volume("cfq"),
        Arm::new(AFQ, "hdd", "mq-deadline").io("afq"),
        Arm::new(AFQ_VOLUME, "hdd", "none").io_and_volume("afq"),
    ],
    points: &[READ, WRITE, SYNC, MEMORY],
    quick_points: &[WRITE],
    work: Work::Files(tasks),
    rules: RULES,
    claims: &[
        Claim::new("synchronous writes: distance from the ideal shares")
            .paper("3 %; CFQ 86 %")
            .ours("percent", |seed| deviation(seed, AFQ, SYNC))
            .at_most(3.0),
        Claim::new("synchronous writes: nearer than BFQ and CFQ")
            .paper("28 times (CFQ)")
            .ours("the nearer one's distance / distance", |seed| {
                rivals(seed, SYNC) / deviation(seed, AFQ, SYNC)
            })
            .at_least(28.0),
        Claim::new("writes to the cache: distance from the ideal shares")
            .paper("16 %; CFQ 82 %")
            .ours("percent", |seed| deviation(seed, AFQ, WRITE))
            .at_most(16.0),
        Claim::new("writes to the cache: nearer than BFQ and CFQ")
            .paper("5 times (CFQ)")
            .ours("the nearer one's distance / distance", |seed| {
                rivals(seed, WRITE) / deviation(seed, AFQ, WRITE)
            })
            .at_least(5.0),
        Claim::new("reads: as near as BFQ")
            .paper("as CFQ")
            .ours("distance / BFQ's distance", |seed| {
                deviation(seed, AFQ, READ) / deviation(seed, BFQ, READ)
            })
            .at_most(1.0),
        Claim::new("what stays in memory is not held")
            .paper("slightly slower")
            .ours("MB/s / those under BFQ", |seed| {
                let total = |arm| rates(seed, arm, MEMORY).iter().sum::<f64>();
                total(AFQ) / total(BFQ)
            })
            .at_least(0.9),
    ],
    panels: || {
        let lines = |arm: &'static str| {
            let panel = Panel::sweep(arm, "MB/s");
            [0, 2, 4, 7].into_iter().fold(panel, |panel, level| {
                panel.line(&format!("level {level}"), arm, &format!("p{level}-0_mb_per_s"))
            })
        };
        vec![lines(BFQ), lines(CFQ), lines(AFQ)]
    },
};
