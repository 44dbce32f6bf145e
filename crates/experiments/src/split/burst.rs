//! Figure 2.3: what a burst of buffered writes by an idle thread does to a reader.

use super::figure::{Arm, Figure, Work};
use crate::sweep::panel::Panel;
use crate::sweep::{Claim, Seed};
use headworks_workload::files::{Pattern, Priority, Task};
use std::path::Path;

const GIB: u64 = 1 << 30;

/// Seconds of warm-up. B begins when they are over.
const WARM_UP_S: u64 = 5;

/// The axis has one point.
const THIS: f64 = 0.0;

fn tasks(_: f64, dir: &Path) -> Vec<Task> {
    let a = Task::new("A", Pattern::ReadSequential, dir.join("a"), GIB);
    let pattern = Pattern::WriteRuns { bytes: 4096 };
    let b = Task {
        after_ms: WARM_UP_S * 1_000,
        for_ms: Some(1_000),
        priority: Priority::Idle,
        ..Task::new("B", pattern, dir.join("b"), 2 * GIB)
    };
    vec![a, b]
}

/// A's rate in the second half of the window, of that alone. The kernel writes then.
fn late(seed: &Seed<'_>, arm: &str) -> f64 {
    seed.late(arm, THIS, RATE) / seed.late(ALONE, THIS, RATE)
}

const RATE: &str = "a_mb_per_s";

const ALONE: &str = "A alone";
const NOTHING: &str = "mq-deadline, B is idle";
const BFQ: &str = "bfq, B is idle";
const AFQ: &str = "afq, B has the lowest priority";

pub(super) const FIG_3: Figure = Figure {
    id: "split-burst",
    title: "A reader beside a burst of buffered writes",
    paper: "Split and Maat",
    figure: "Figure 2.3",
    about: "A reads in sequence; B, of the kernel's idle class, writes blocks of 4 KiB at random places of 2 GiB for \
        one second, and calls no fsync. Under afq, A has the highest priority and B the lowest. The kernel \
        begins to write what is dirty when that is a tenth of the memory, or 30 s old. Writeback throttle off.",
    axis: "load",
    categories: &[],
    times: [(WARM_UP_S, 180, 5), (WARM_UP_S, 25, 1)],
    around_s: 27,
    arms: &[
        Arm::new(ALONE, "hdd", "mq-deadline").only(&["A"]),
        Arm::new(NOTHING, "hdd", "mq-deadline").full_only(),
        Arm::new(BFQ, "hdd", "bfq").full_only(),
        Arm::new(AFQ, "hdd", "mq-deadline").io("afq"),
    ],
    points: &[THIS],
    quick_points: &[THIS],
    work: Work::FilesOverTime(tasks),
    rules: "[[io.thread]]\nname = \"A\"\npriority = 0\n[[io.thread]]\nname = \"B\"\npriority = 7\n",
    claims: &[
        Claim::new("A keeps its rate after the burst")
            .paper("with CFQ's idle class A takes more than five minutes to recover")
            .ours("MB/s / those alone", |seed| {
                seed.get(AFQ, THIS, RATE) / seed.get(ALONE, THIS, RATE)
            })
            .at_least(0.9),
        Claim::new("A keeps its rate while the kernel writes")
            .paper("as above")
            .ours("MB/s in the second half / those alone", |seed| late(seed, AFQ))
            .at_least(0.9),
        Claim::new("the idle class does not do that")
            .paper("it provides no help")
            .ours("bfq: MB/s in the second half / those alone", |seed| late(seed, BFQ))
            .at_most(0.5),
    ],
    panels: || {
        let arms = [ALONE, NOTHING, BFQ, AFQ];
        let panel = Panel::time("A, after a burst of B in the first second", "MB/s");
        vec![arms.into_iter().fold(panel, |panel, arm| panel.at(arm, arm, THIS, RATE))]
    },
};
