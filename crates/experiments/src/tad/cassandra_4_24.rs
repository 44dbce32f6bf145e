//! Cassandra, hidden contention: stages with separate fair queues use the same network.

use super::figure::{Claim, Figure, Sweep, Time, arm};
use super::found::largest;
use super::panel::Panel;

pub(super) const FIGURE: Figure = Figure {
    id: "tad-cassandra-hidden-contention",
    title: "Cassandra: fair queues at every stage, and an unfair network",
    figure: "Figure 4.24",
    about: "Three nodes. C1 and C2 (40 threads each at each node) read what is in memory; requests have 1 KB. Replies to C1 have 10 KB, those to C2 more and more. Queues are fair, each separately or all of a node together.",
    system: "cassandra",
    scenario: r#"
name = "Cassandra, hidden contention"
duration = "{duration}"
warmup = "{warmup}"
policy = "drf"
jitter = 0.2
client = [
    { name = "C1", load = [{ request = "read-cached", entry = "each", threads = 120, parameters = { reply = "10 KB" } }] },
    { name = "C2", load = [{ request = "read-cached", entry = "each", threads = 120, parameters = { reply = "{x} KB" } }] },
]
"#,
    sweep: Sweep {
        key: "c2_reply_kb",
        label: "size of replies to C2, KB",
        points: &[10.0, 50.0, 100.0, 150.0, 200.0],
    },
    arms: &[arm("original", "?|?|?|?|?"), arm("direct: one scheduler", "?|?|d|?|?")],
    time: Time { full_s: 60, quick_s: 15, warmup_s: 5 },
    keep: &["C*_per_s", "node.network_*", "node.cpu_used_fraction"],
    derive: |_| {},
    claims: &[
        Claim::new("original: C2 takes nearly all of the network")
            .paper("up to 95 %").given(0.95)
            .ours(
                "C2's part of the network with 200 KB",
                |seed| seed.get("original", 200.0, "node.network_C2_fraction"),
            )
            .at_least(0.9),
        Claim::new("original: C1 declines")
            .paper("declines")
            .ours(
                "C1's throughput with 200 KB, of that with 10 KB",
                |seed| seed.ratio("original", "C1_per_s", 200.0, 10.0),
            )
            .at_most(0.3),
        Claim::new("direct: C2 gets no more than its share of the network")
            .paper("its fair share").given(0.5)
            .ours("C2's part of the network, largest", |seed| {
                seed.all("direct: one scheduler", "node.network_C2_fraction")
                    .into_iter()
                    .fold(0.0, largest)
            })
            .at_most(0.55),
        Claim::new("direct: C1 does not suffer from C2's larger replies")
            .paper("not affected")
            .ours(
                "C1's throughput with 200 KB, of that with 10 KB",
                |seed| seed.ratio("direct: one scheduler", "C1_per_s", 200.0, 10.0),
            )
            .at_least(0.95)
            .note("with 10 KB it has less than in the original: requests of one scheduler that takes the oldest first go from stage to stage in step, so that CPU and network wait for each other"),
    ],
    panels: || {
        let mut panels = Vec::new();
        for arm in ["original", "direct: one scheduler"] {
            panels.push(
                Panel::sweep(arm, "requests/s")
                    .line("C1", arm, "C1_per_s")
                    .line("C2", arm, "C2_per_s")
                    .up_to(16_000.0),
            );
        }
        for arm in ["original", "direct: one scheduler"] {
            panels.push(
                Panel::sweep("Use of the network", "fraction of the busy time")
                    .line("C1", arm, "node.network_C1_fraction")
                    .line("C2", arm, "node.network_C2_fraction")
                    .up_to(1.0),
            );
        }
        panels
    },
    expected_s: (150, 12),
};
