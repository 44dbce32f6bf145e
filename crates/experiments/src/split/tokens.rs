//! Figures 2.7, 2.15, 2.16 and 2.18: what a throttled thread costs another one.

use super::figure::{Arm, Figure, Work};
use crate::sweep::panel::Panel;
use crate::sweep::{Claim, Seed};
use headworks_workload::files::{Pattern, Task};
use std::path::Path;

const GIB: u64 = 1 << 30;

pub(super) const ALONE: &str = "A alone";
pub(super) const SCS: &str = "scs-token";
pub(super) const SPLIT: &str = "split-token";
const SPLIT_XFS: &str = "xfs: split-token";
const FREE: &str = "B without a limit";

/// Seconds of warm-up and of the window, and rounds; for a full and for a quick run.
const TIMES: [(u64, u64, usize); 2] = [(6, 30, 5), (4, 6, 1)];

fn a(dir: &Path) -> Task {
    Task::new("A", Pattern::ReadSequential, dir.join("a"), GIB)
}

fn b(dir: &Path, pattern: Pattern) -> Task {
    Task::new("B", pattern, dir.join("b"), 2 * GIB)
}

/// B's runs, in powers of two of 4 KiB; those of writes are negative.
const RUNS: &[f64] =
    &[-13.0, -11.0, -9.0, -7.0, -5.0, -3.0, -1.0, 1.0, 3.0, 5.0, 7.0, 9.0, 11.0, 13.0];

fn run(at: f64, dir: &Path) -> Vec<Task> {
    let bytes = 4096 << (at.abs() as u32 - 1);
    let pattern = if at < 0.0 { Pattern::WriteRuns { bytes } } else { Pattern::ReadRuns { bytes } };
    vec![a(dir), b(dir, pattern)]
}

/// Standard deviation of A's rate over B's loads.
fn spread(seed: &Seed<'_>, arm: &str) -> f64 {
    let rates = seed.all(arm, "a_mb_per_s");
    let mean = rates.iter().sum::<f64>() / rates.len() as f64;
    (rates.iter().map(|rate| (rate - mean).powi(2)).sum::<f64>() / rates.len() as f64).sqrt()
}

pub(super) const FIG_15: Figure = Figure {
    id: "split-isolation",
    title: "A throttled thread beside a reader, by the size of its runs",
    paper: "Split and Maat",
    figure: "Figures 2.7, 2.15 and 2.18",
    about: "A reads in sequence; B, throttled to 10 MB/s of normalized I/O, reads (above 0) or writes (below 0) \
        runs at random places.",
    axis: "B's runs: 1 for 4 KiB, doubled with each step up to 13 for 16 MiB",
    categories: &[],
    times: TIMES,
    around_s: 30,
    arms: &[
        Arm::new(SCS, "hdd", "mq-deadline").io("scs-token"),
        Arm::new(SPLIT, "hdd", "mq-deadline").io("split-token"),
        Arm::new(SPLIT_XFS, "hdd", "mq-deadline").xfs().io("split-token").full_only(),
    ],
    points: RUNS,
    quick_points: &[-1.0],
    work: Work::Files(run),
    rules: "[[io.thread]]\nname = \"B\"\nbytes_per_s = 10000000\n",
    claims: &[
        Claim::new("A's rate depends less on what B does")
            .paper("standard deviation 41 against 7 MB/s: 6 times")
            .ours("deviation under scs-token / deviation", |seed| {
                spread(seed, SCS) / spread(seed, SPLIT)
            })
            .at_least(6.0),
        Claim::new("on XFS too")
            .paper("12.8 MB/s: 3.2 times")
            .ours("deviation under scs-token on ext4 / deviation", |seed| {
                spread(seed, SCS) / spread(seed, SPLIT_XFS)
            })
            .at_least(3.2)
            .note("not in a quick run"),
    ],
    panels: || {
        vec![
            Panel::sweep("A", "MB/s").lines([SCS, SPLIT, SPLIT_XFS], "a_mb_per_s"),
            Panel::sweep("B", "MB/s").lines([SCS, SPLIT, SPLIT_XFS], "b_mb_per_s"),
        ]
    },
};

/// The axis: B's six loads.
const READ_RANDOM: f64 = 0.0;
const READ_SEQUENTIAL: f64 = 1.0;
pub(super) const READ_MEMORY: f64 = 2.0;
const WRITE_RANDOM: f64 = 3.0;
const WRITE_SEQUENTIAL: f64 = 4.0;
pub(super) const WRITE_MEMORY: f64 = 5.0;
pub(super) const LOADS: &[f64] =
    &[READ_RANDOM, READ_SEQUENTIAL, READ_MEMORY, WRITE_RANDOM, WRITE_SEQUENTIAL, WRITE_MEMORY];

/// B's limit.
const LIMIT_MB_PER_S: f64 = 1.0;

fn load(at: f64, dir: &Path) -> Vec<Task> {
    let (block, some) = (4096, 4 << 20);
    let pattern = match at {
        READ_RANDOM => Pattern::ReadRuns { bytes: block },
        READ_SEQUENTIAL => Pattern::ReadSequential,
        READ_MEMORY => Pattern::ReadCached { bytes: some },
        WRITE_RANDOM => Pattern::WriteRuns { bytes: block },
        WRITE_SEQUENTIAL => Pattern::WriteSequential,
        _ => Pattern::WriteOver { bytes: some },
    };
    vec![a(dir), b(dir, pattern)]
}

/// The largest distance of A's rate from that alone less what B may take, in percent.
pub(super) fn distance(seed: &Seed<'_>, arm: &str, limit_mb_per_s: f64) -> f64 {
    let target = seed.get(ALONE, READ_RANDOM, "a_mb_per_s") - limit_mb_per_s;
    let far = |at: &f64| (seed.get(arm, *at, "a_mb_per_s") / target - 1.0).abs() * 100.0;
    // If a run is missing, its rate is NaN, and so is the result.
    let larger = |most: f64, far: f64| if far > most || far.is_nan() { far } else { most };
    LOADS.iter().map(far).fold(0.0, larger)
}

fn of_free(seed: &Seed<'_>, at: f64) -> f64 {
    seed.get(SPLIT, at, "b_mb_per_s") / seed.get(FREE, at, "b_mb_per_s")
}

pub(super) const FIG_16: Figure = Figure {
    id: "split-throttled",
    title: "A throttled thread beside a reader, by what it does",
    paper: "Split and Maat",
    figure: "Figure 2.16",
    about: "A reads in sequence; B is throttled to 1 MB/s of normalized I/O. 0: reads at random; 1: in sequence; \
        2: cached; 3: writes at random; 4: in sequence; 5: over the same 4 MiB.",
    axis: "B's load",
    categories: &["reads at random", "reads", "cached", "writes at random", "writes", "written over"],
    times: TIMES,
    around_s: 28,
    arms: &[
        Arm::new(ALONE, "hdd", "mq-deadline").only(&["A"]),
        Arm::new(FREE, "hdd", "mq-deadline").only(&["B"]).full_only(),
        Arm::new(SCS, "hdd", "mq-deadline").io("scs-token"),
        Arm::new(SPLIT, "hdd", "mq-deadline").io("split-token"),
    ],
    points: LOADS,
    quick_points: &[WRITE_RANDOM],
    work: Work::Files(load),
    rules: "[[io.thread]]\nname = \"B\"\nbytes_per_s = 1000000\n",
    claims: &[
        Claim::new("A is where it should be in all six cases")
            .paper("near the target all six times; SCS-Token deviates three times, twice by more than 50 %")
            .ours("largest distance from the target, percent", |seed| distance(seed, SPLIT, LIMIT_MB_PER_S))
            .at_most(5.0),
        Claim::new("nearer than by system calls")
            .paper("as above")
            .ours("scs-token's largest distance / largest distance", |seed| {
                distance(seed, SCS, LIMIT_MB_PER_S) / distance(seed, SPLIT, LIMIT_MB_PER_S)
            })
            .at_least(1.0),
        Claim::new("reads from the cache are not throttled")
            .paper("2.3 times as fast as with SCS-Token")
            .ours("B's MB/s / those without a limit", |seed| of_free(seed, READ_MEMORY))
            .at_least(0.9)
            .note("not in a quick run"),
        Claim::new("writes over the same memory are not throttled")
            .paper("837 times as fast as with SCS-Token")
            .ours("B's MB/s / those without a limit", |seed| of_free(seed, WRITE_MEMORY))
            .at_least(0.9)
            .note("not in a quick run"),
    ],
    panels: || {
        vec![
            Panel::sweep("A", "MB/s").lines([ALONE, SCS, SPLIT], "a_mb_per_s"),
            Panel::sweep("B", "MB/s").lines([FREE, SCS, SPLIT], "b_mb_per_s"),
        ]
    },
};
