//! Riak, no scheduling: each connection has a process, and nothing orders their work.

use super::figure::{Claim, Figure, Sweep, Time, arm};
use super::panel::Panel;

pub(super) const FIGURE: Figure = Figure {
    id: "tad-riak-no-scheduling",
    title: "Riak: who has more connections gets more of the network",
    figure: "Figure 4.25",
    about: "Four nodes. C1 and C2 read what is in memory on another node than the one that they are connected to, 20 KB each, so that only the network is contended. C1 has 40 threads at each node, C2 has more and more.",
    system: "riak",
    scenario: r#"
name = "Riak, no scheduling"
duration = "{duration}"
warmup = "{warmup}"
jitter = 0.2
client = [
    { name = "C1", load = [{ request = "get-remote-cached", entry = "each", threads = 160, parameters = { reply = "20 KB" } }] },
    { name = "C2", load = [{ request = "get-remote-cached", entry = "each", threads = {x}, parameters = { reply = "20 KB" } }] },
]
"#,
    sweep: Sweep {
        key: "c2_threads",
        label: "threads of C2",
        points: &[160.0, 480.0, 800.0, 1120.0, 1440.0],
    },
    arms: &[arm("original", "?|?|?|?|?"), arm("direct: queues", "d|?|?|?|?")],
    time: Time { full_s: 60, quick_s: 15, warmup_s: 5 },
    keep: &["C*_per_s", "node.network_*", "node.cpu_used_fraction"],
    derive: |_| {},
    claims: &[
        Claim::new("original: C1's throughput falls as C2's threads grow")
            .paper("suffers greatly")
            .ours("C1's throughput with 1,440 threads of C2, of that with 160", |seed| {
                seed.ratio("original", "C1_per_s", 1440.0, 160.0)
            })
            .at_most(0.4),
        Claim::new("original: C2 takes the network")
            .paper("more (figure)")
            .ours("C2's part of the network with 1,440 threads", |seed| {
                seed.get("original", 1440.0, "node.network_C2_fraction")
            })
            .at_least(0.8),
        Claim::new("direct: C1 keeps its throughput")
            .paper("not affected")
            .ours("largest relative change over the sweep", |seed| {
                seed.drift("direct: queues", "C1_per_s")
            })
            .at_most(0.05),
        Claim::new("direct: the network is shared fairly")
            .paper("fairly")
            .ours("C2's part of the network with 1,440 threads", |seed| {
                seed.get("direct: queues", 1440.0, "node.network_C2_fraction")
            })
            .between(0.47, 0.53),
    ],
    panels: || {
        let mut panels = Vec::new();
        for arm in ["original", "direct: queues"] {
            panels.push(
                Panel::sweep(arm, "requests/s")
                    .line("C1", arm, "C1_per_s")
                    .line("C2", arm, "C2_per_s")
                    .up_to(6_000.0),
            );
        }
        for arm in ["original", "direct: queues"] {
            panels.push(
                Panel::sweep("Use of the network", "fraction of the busy time")
                    .line("C1", arm, "node.network_C1_fraction")
                    .line("C2", arm, "node.network_C2_fraction")
                    .up_to(1.0),
            );
        }
        panels
    },
    expected_s: (60, 6),
};
