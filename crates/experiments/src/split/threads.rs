//! Figure 2.17: many throttled threads beside a reader.

use super::figure::{Arm, Figure, Work};
use crate::sweep::panel::Panel;
use crate::sweep::{Claim, Seed};
use headworks_workload::files::{Pattern, Task};
use std::path::{Path, PathBuf};

const GIB: u64 = 1 << 30;

/// Bytes that each thread reads again and again from the cache.
const CACHED: u32 = 4 << 20;

/// A, and as many threads of B for each of its three activities. An arm has one of them.
fn tasks(at: f64, dir: &Path) -> Vec<Task> {
    let a = Task::new("A", Pattern::ReadSequential, dir.join("a"), GIB);
    let b = [
        Task::new("B-disk", Pattern::ReadRuns { bytes: 4096 }, dir.join("b"), GIB),
        Task::new("B-cache", Pattern::ReadCached { bytes: CACHED }, dir.join("c"), CACHED.into()),
        Task::new("B-none", Pattern::Compute, PathBuf::new(), 0),
    ];
    let threads = b.into_iter().flat_map(|task| std::iter::repeat_n(task, at as usize));
    std::iter::once(a).chain(threads).collect()
}

const RATE: &str = "a_mb_per_s";

const ALONE: &str = "A alone";
const DISK: &str = "split-token: reads";
const CACHE: &str = "split-token: cached reads";
const COMPUTE: &str = "split-token: computing";
const SCS_DISK: &str = "scs-token: reads";
const SCS_CACHE: &str = "scs-token: cached reads";

const FEWEST: f64 = 1.0;
const MOST: f64 = 64.0;

/// A's lowest rate over all numbers of threads, of that alone.
fn lowest(seed: &Seed<'_>, arm: &str) -> f64 {
    let rates = seed.all(arm, RATE);
    rates.into_iter().fold(f64::INFINITY, f64::min) / seed.get(ALONE, FEWEST, RATE)
}

pub(super) const FIG_17: Figure = Figure {
    id: "split-threads",
    title: "Many throttled threads beside a reader",
    paper: "Split and Maat",
    figure: "Figure 2.17",
    about: "A reads in sequence; threads of B share a limit of 1 MB/s of normalized I/O. They read 4 KiB at random \
        places of 1 GiB, or 4 MiB from the cache, or compute. 64 threads on 2 processors are as many for each as \
        1,024 were for the paper. Calls wait for up to a minute (io_hold_ms_max).",
    axis: "threads of B",
    categories: &[],
    times: [(6, 30, 5), (4, 6, 1)],
    around_s: 24,
    arms: &[
        Arm::new(ALONE, "hdd", "mq-deadline").only(&["A"]),
        Arm::new(DISK, "hdd", "mq-deadline").io("split-token").only(&["A", "B-disk"]),
        Arm::new(CACHE, "hdd", "mq-deadline").io("split-token").only(&["A", "B-cache"]),
        Arm::new(COMPUTE, "hdd", "mq-deadline")
            .io("split-token")
            .only(&["A", "B-none"])
            .full_only(),
        Arm::new(SCS_DISK, "hdd", "mq-deadline").io("scs-token").only(&["A", "B-disk"]).full_only(),
        Arm::new(SCS_CACHE, "hdd", "mq-deadline")
            .io("scs-token")
            .only(&["A", "B-cache"])
            .full_only(),
    ],
    points: &[FEWEST, 4.0, 16.0, MOST],
    quick_points: &[MOST],
    work: Work::Files(tasks),
    // 64 reads of 1 MB each at 1 MB/s: each of them waits for a minute.
    rules: "io_hold_ms_max = 60000\n[[io.thread]]\nname = \"B-*\"\nbytes_per_s = 1000000\n",
    claims: &[
        Claim::new("reads: the number of threads does not matter to A")
            .paper("no impact")
            .ours("lowest MB/s / those alone", |seed| lowest(seed, DISK))
            .at_least(0.9),
        Claim::new("reads: more than with system calls alone")
            .paper("SCS-Token: A loses more than 80 % beside one thread (Figure 2.16)")
            .ours("MB/s / those under scs-token, 64 threads", |seed| {
                seed.get(DISK, MOST, RATE) / seed.get(SCS_DISK, MOST, RATE)
            })
            .at_least(5.0),
        Claim::new("cached reads take only processors from A")
            .paper("A suffers as from threads that compute")
            .ours("MB/s / those beside 64 that compute", |seed| {
                seed.get(CACHE, MOST, RATE) / seed.get(COMPUTE, MOST, RATE)
            })
            .at_least(0.8),
    ],
    panels: || {
        vec![
            Panel::sweep("A, split-token", "MB/s")
                .logarithmic()
                .lines([ALONE, DISK, CACHE, COMPUTE], RATE),
            Panel::sweep("A, scs-token", "MB/s")
                .logarithmic()
                .lines([ALONE, SCS_DISK, SCS_CACHE], RATE),
        ]
    },
};
