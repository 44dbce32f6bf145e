//! Riak, unknown usage: a message looks the same whether it leaves the node or not.

use super::figure::{Claim, Figure, Sweep, Time, arm};
use super::panel::Panel;

pub(super) const FIGURE: Figure = Figure {
    id: "tad-riak-unknown-usage",
    title: "Riak: requests that need the network keep the disk from those that do not",
    figure: "Figure 4.26",
    about: "C1 asks node 0 for data of node 1. C2 asks node 0 for the same, and node 1 for what is there, with a reply that hardly needs the network. Each load has 40 threads; reads have 100 KB. The process that serves the partition either sends what leaves the node, or leaves that to a stage for the network.",
    system: "riak",
    scenario: r#"
name = "Riak, unknown usage"
duration = "{duration}"
warmup = "{warmup}"
policy = "drf"
jitter = 0.2
client = [
    { name = "C1", load = [{ name = "remote", request = "get-remote", threads = {x}, entry = "node 0", keys = { partition = 1 }, parameters = { io = "100 KB", reply = "100 KB" } }] },
    { name = "C2", load = [
        { name = "local", request = "get-local", threads = {x}, entry = "node 1", keys = { partition = 1 }, parameters = { io = "100 KB", reply = "1 KB" } },
        { name = "remote", request = "get-remote", threads = {x}, entry = "node 0", keys = { partition = 1 }, parameters = { io = "100 KB", reply = "100 KB" } },
    ] },
]
"#,
    sweep: Sweep { key: "threads_of_each_load", label: "threads of each load", points: &[40.0] },
    arms: &[arm("original", "?|?|?|?|?"), arm("direct: stages for the network", "?|d|?|?|?")],
    time: Time { full_s: 60, quick_s: 20, warmup_s: 5 },
    keep: &["C*_per_s", "node.*_used_fraction", "series:node.io_used_high_fraction"],
    derive: |_| {},
    claims: &[
        Claim::new("original: the disk is not used effectively")
            .paper("not effectively (figure)")
            .ours(
                "part of the time for which the disk of node 1 is busy",
                |seed| seed.late("original", 40.0, "node.io_used_high_fraction"),
            )
            .at_most(0.75),
        Claim::new("direct: the disk is fully used")
            .paper("fully").given(1.0)
            .ours(
                "part of the time for which the disk of node 1 is busy",
                |seed| seed.late(SPLIT, 40.0, "node.io_used_high_fraction"),
            )
            .at_least(0.95),
        Claim::new("C2's throughput improves by it")
            .paper("improves")
            .ours(
                "C2's throughput, of that of the original",
                |seed| seed.get(SPLIT, 40.0, "C2_per_s") / seed.get("original", 40.0, "C2_per_s"),
            )
            .at_least(1.5),
        Claim::new("because more requests for local data are served")
            .paper("more local requests")
            .ours("C2's local reads per second, of those of the original", |seed| {
                seed.get(SPLIT, 40.0, "C2.local_per_s")
                    / seed.get("original", 40.0, "C2.local_per_s")
            })
            .at_least(1.5),
        Claim::new("direct: C1 gets half of what leaves its node")
            .paper("not said")
            .ours("C1's throughput, of that of C2's remote reads", |seed| {
                seed.get(SPLIT, 40.0, "C1_per_s") / seed.get(SPLIT, 40.0, "C2.remote_per_s")
            })
            .between(0.95, 1.05)
            .note("before, it had two thirds, because C2 had spent its share of the partition on local reads"),
    ],
    panels: || {
        let (mut served, mut used) = (
            Panel::bars("Throughput", "requests/s"),
            Panel::time("Disk of node 1", "fraction of the time"),
        );
        for (label, arm) in [("original", "original"), (SPLIT, SPLIT)] {
            for (name, key) in [
                ("C1, remote", "C1_per_s"),
                ("C2, remote", "C2.remote_per_s"),
                ("C2, local", "C2.local_per_s"),
            ] {
                served = served.bar(name, label, arm, 40.0, key);
            }
            used = used.at(label, arm, 40.0, "node.io_used_high_fraction");
        }
        vec![served, used.up_to(1.0)]
    },
    expected_s: (5, 2),
};

const SPLIT: &str = "direct: stages for the network";
