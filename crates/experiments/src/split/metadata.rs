//! Figure 2.19: a throttled thread that makes files beside a reader, on two file systems.

use super::figure::{Arm, Figure, Work};
use crate::sweep::panel::Panel;
use crate::sweep::{Claim, Seed};
use headworks_workload::files::{Pattern, Task};
use std::path::Path;

fn tasks(at: f64, dir: &Path) -> Vec<Task> {
    let a = Task::new("A", Pattern::ReadSequential, dir.join("a"), 1 << 30);
    let pause_us = (at * 1e3) as u64;
    let b = Task { pause_us, ..Task::new("B", Pattern::Create, dir.join("b"), 0) };
    vec![a, b]
}

const ALONE: &str = "ext4: A alone";
const FREE: &str = "ext4: B without a limit";
const SPLIT: &str = "ext4: split-token";
const XFS_ALONE: &str = "xfs: A alone";
const XFS_FREE: &str = "xfs: B without a limit";
const XFS_SPLIT: &str = "xfs: split-token";

/// A's lowest rate over all pauses, of that alone.
fn lowest(seed: &Seed<'_>, arm: &str, alone: &str) -> f64 {
    let low = |arm| seed.all(arm, "a_mb_per_s").into_iter().fold(f64::INFINITY, f64::min);
    low(arm) / low(alone)
}

/// Files that B made, at the pause with the most.
fn most(seed: &Seed<'_>, arm: &str) -> f64 {
    seed.all(arm, "b_per_s").into_iter().fold(0.0, f64::max)
}

pub(super) const FIG_19: Figure = Figure {
    id: "split-metadata",
    title: "A throttled thread that makes files beside a reader",
    paper: "Split and Maat",
    figure: "Figure 2.19",
    about: "A reads in sequence; B makes an empty file, calls fsync on it, pauses, and so on. It is throttled to 1 \
        MB/s of normalized I/O, of which each fsync takes a seek: 8 ms, or 1 MB.",
    axis: "B's pause, ms",
    categories: &[],
    times: [(6, 30, 5), (4, 8, 1)],
    around_s: 10,
    arms: &[
        Arm::new(ALONE, "hdd", "mq-deadline").only(&["A"]),
        Arm::new(FREE, "hdd", "mq-deadline"),
        Arm::new(SPLIT, "hdd", "mq-deadline").io("split-token"),
        Arm::new(XFS_ALONE, "hdd", "mq-deadline").xfs().only(&["A"]),
        Arm::new(XFS_FREE, "hdd", "mq-deadline").xfs().full_only(),
        Arm::new(XFS_SPLIT, "hdd", "mq-deadline").xfs().io("split-token"),
    ],
    points: &[1.0, 4.0, 16.0, 64.0, 256.0, 1024.0],
    quick_points: &[64.0],
    work: Work::Files(tasks),
    rules: "[[io.thread]]\nname = \"B\"\nbytes_per_s = 1000000\n",
    claims: &[
        Claim::new("ext4: A keeps its rate at any pause")
            .paper("A is isolated")
            .ours("lowest MB/s / those alone", |seed| lowest(seed, SPLIT, ALONE))
            .at_least(0.9),
        Claim::new("XFS: A keeps its rate at any pause")
            .paper("not isolated: the journal's writes were not mapped to B")
            .ours("lowest MB/s / those alone", |seed| lowest(seed, XFS_SPLIT, XFS_ALONE))
            .at_least(0.9),
        Claim::new("ext4: B's limit holds at any pause")
            .paper("correctly throttled")
            .ours("most files/s", |seed| most(seed, SPLIT))
            .at_most(1.2),
        Claim::new("XFS: B's limit holds at any pause")
            .paper("not throttled")
            .ours("most files/s", |seed| most(seed, XFS_SPLIT))
            .at_most(1.2),
    ],
    panels: || {
        let all = [ALONE, FREE, SPLIT, XFS_ALONE, XFS_FREE, XFS_SPLIT];
        let b = [FREE, SPLIT, XFS_FREE, XFS_SPLIT];
        vec![
            Panel::sweep("A", "MB/s").logarithmic().lines(all, "a_mb_per_s"),
            Panel::sweep("B", "files/s").logarithmic().lines(b, "b_per_s"),
        ]
    },
};
