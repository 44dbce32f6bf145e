//! HBase: the stages that read and write blocks have no scheduling point.

use super::figure::{Claim, Figure, Sweep, Time, arm, shipped};
use super::panel::Panel;

const ORIGINAL: &str = "original";
const INDIRECT: &str = "[i|?|?|?|?]: rate limits";
const DIRECT: &str = "[d|?|?|?|?]: scheduling points";

pub(super) const FIGURE: Figure = Figure {
    id: "tad-hbase-no-scheduling",
    title: "HBase: uncached Gets of a client with more and more threads",
    figure: "Figure 4.7",
    about: "Seven region servers. Both clients issue Gets of 128 KB that are on another node's disk; C1 from 40 threads \
            altogether, C2 from 40 to 200.",
    system: "hbase",
    scenario: r#"
name = "no scheduling"
duration = "{duration}"
warmup = "{warmup}"
policy = "drf"
jitter = 0.2
client = [
    { name = "C1", load = [{ request = "get", threads = 40 }] },
    { name = "C2", load = [{ request = "get", threads = {x} }] },
]
"#,
    sweep: Sweep {
        key: "c2_threads",
        label: "threads of C2",
        points: &[40.0, 80.0, 120.0, 160.0, 200.0],
    },
    arms: &[shipped(ORIGINAL), arm(INDIRECT, "i|?|?|?|?"), arm(DIRECT, "d|?|?|?|?")],
    // Rate limits begin with half of the disks and find the rest in some ten seconds.
    time: Time { full_s: 30, quick_s: 15, warmup_s: 15 },
    keep: &["C*_per_s", "slave.io_*", "slave.cpu_used_fraction", "data-xceive_*_waiting_requests"],
    derive: |_| {},
    claims: &[
        Claim::new("original: C1's throughput falls as C2's threads grow")
            .paper("C1 is not isolated")
            .ours("throughput with 200 threads of C2 / with 40", |seed| {
                seed.ratio(ORIGINAL, "C1_per_s", 200.0, 40.0)
            })
            .at_most(0.5),
        Claim::new("rate limits: C1's throughput is stable")
            .paper("stable")
            .ours("largest relative change over the sweep", |seed| seed.drift(INDIRECT, "C1_per_s"))
            .at_most(0.1),
        Claim::new("scheduling points: C1's throughput is stable")
            .paper("stable")
            .ours("largest relative change over the sweep", |seed| seed.drift(DIRECT, "C1_per_s"))
            .at_most(0.1)
            .note(
                "40 threads on seven nodes: now and then C1 has nothing at a disk, and C2 uses it",
            ),
        Claim::new("rate limits give less throughput than scheduling points")
            .paper("lower")
            .ours("C1 + C2 with 200 threads of C2, ratio", |seed| {
                let sum = |arm| seed.get(arm, 200.0, "C1_per_s") + seed.get(arm, 200.0, "C2_per_s");
                sum(INDIRECT) / sum(DIRECT)
            })
            .at_most(0.97),
    ],
    panels: || {
        let arms = [ORIGINAL, INDIRECT, DIRECT];
        let panel = |title: &str, key: &str| Panel::sweep(title, "requests/s").lines(arms, key);
        vec![panel("Throughput of C1", "C1_per_s"), panel("Throughput of C2", "C2_per_s")]
    },
    expected_s: (120, 10),
};
