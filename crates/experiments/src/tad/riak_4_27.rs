//! Riak, hidden contention: the partitions of a node use the same disk.

use super::figure::{Claim, Figure, Sweep, Time, arm};
use super::found::largest;
use super::panel::Panel;

pub(super) const FIGURE: Figure = Figure {
    id: "tad-riak-hidden-contention",
    title: "Riak: fair queues at every partition, and an unfair disk",
    figure: "Figure 4.27",
    about: "Four nodes with four partitions each. C1 and C2 (40 threads for each node) read from the partitions by Zipf's law: C1 5 KB, C2 more and more. Queues are fair, each separately or all of a node together.",
    system: "riak",
    scenario: r#"
name = "Riak, hidden contention"
duration = "{duration}"
warmup = "{warmup}"
policy = "drf"
jitter = 0.2
client = [
    { name = "C1", load = [{ request = "get-local", threads = 160, entry = "partition", keys = { zipf = 0.5 }, parameters = { io = "5 KB", reply = "1 KB" } }] },
    { name = "C2", load = [{ request = "get-local", threads = 160, entry = "partition", keys = { zipf = 0.5 }, parameters = { io = "{x} KB", reply = "1 KB" } }] },
]
"#,
    sweep: Sweep {
        key: "c2_io_kb",
        label: "size of reads of C2, KB",
        points: &[5.0, 200.0, 500.0, 750.0, 1000.0],
    },
    arms: &[arm("original", "?|?|?|?|?"), arm("direct: one scheduler", "?|?|d|?|?")],
    time: Time { full_s: 120, quick_s: 40, warmup_s: 10 },
    keep: &["C*_per_s", "node.io_*", "node.cpu_used_fraction"],
    derive: |_| {},
    claims: &[
        Claim::new("original: C2 takes more of the disks with larger reads")
            .paper("up to 70 %").given(0.7)
            .ours(
                "C2's part of the disks with 1,000 KB",
                |seed| seed.get("original", 1000.0, "node.io_C2_fraction"),
            )
            .between(0.55, 0.75)
            .note("the exponent is not given: with 0.99 one partition is what everybody waits for, and its own queue is fair"),
        Claim::new("original: C1 declines")
            .paper("decreases")
            .ours(
                "C1's throughput with 1,000 KB, of that with 5 KB",
                |seed| seed.ratio("original", "C1_per_s", 1000.0, 5.0),
            )
            .at_most(0.9),
        Claim::new("direct: C2 always receives a fair share")
            .paper("a fair share")
            .ours("C2's part of the disks, largest", |seed| {
                seed.all("direct: one scheduler", "node.io_C2_fraction")
                    .into_iter()
                    .fold(0.0, largest)
            })
            .at_most(0.55),
        Claim::new("direct: C1 is not affected")
            .paper("not affected")
            .ours(
                "C1's throughput with 1,000 KB, of that with 5 KB",
                |seed| seed.ratio("direct: one scheduler", "C1_per_s", 1000.0, 5.0),
            )
            .at_least(0.95),
    ],
    panels: || {
        let mut panels = Vec::new();
        for arm in ["original", "direct: one scheduler"] {
            panels.push(
                Panel::sweep(arm, "requests/s of C1").line("C1", arm, "C1_per_s").up_to(35_000.0),
            );
        }
        for arm in ["original", "direct: one scheduler"] {
            panels.push(
                Panel::sweep("Use of the disks", "fraction of the busy time")
                    .line("C1", arm, "node.io_C1_fraction")
                    .line("C2", arm, "node.io_C2_fraction")
                    .up_to(1.0),
            );
        }
        panels
    },
    expected_s: (250, 20),
};
