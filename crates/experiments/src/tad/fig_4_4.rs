//! Hidden contention: two stages that are scheduled separately share a network.

use super::figure::{Claim, Figure, Sweep, Time, arm};
use super::panel::Panel;

const ORIGINAL: &str = "original";
const INDIRECT: &str = "indirect: stages back off";
const DIRECT: &str = "direct: one scheduler";

/// Where the two stages have one queue, what it is forced to is counted at the stage that it chose.
pub(super) const FIGURE: Figure = Figure {
    id: "tad-hidden-contention",
    title: "Two fair stages, and yet the network is not shared fairly",
    figure: "Figure 4.4",
    about: "Requests of 1 KB are read by one stage, and replies sent by another; both are scheduled fairly, each for \
            itself. C1's replies have 10 KB, those of C2 more and more. 40 threads each.",
    system: "hidden-contention",
    scenario: r#"
name = "hidden contention"
duration = "{duration}"
warmup = "{warmup}"
policy = "drf"
jitter = 0.2
client = [
    { name = "C1", load = [{ request = "call", threads = 40, parameters = { reply = "10 KB" } }] },
    { name = "C2", load = [{ request = "call", threads = 40, parameters = { reply = "{x} KB" } }] },
]
"#,
    sweep: Sweep {
        key: "c2_reply_kb",
        label: "reply size of C2, KB",
        points: &[10.0, 50.0, 100.0, 150.0, 200.0],
    },
    arms: &[arm(ORIGINAL, "?|?|?|?|?"), arm(INDIRECT, "?|?|i|?|?"), arm(DIRECT, "?|?|d|?|?")],
    time: Time { full_s: 20, quick_s: 6, warmup_s: 2 },
    keep: &["C*_per_s", "node.network_*", "*_forced_fraction"],
    derive: |_| {},
    claims: &[
        Claim::new("original: C2 takes up to 95 % of the network")
            .paper("up to 95 %")
            .given(0.95)
            .ours("C2's part of the network at 200 KB", |seed| {
                seed.get(ORIGINAL, 200.0, "node.network_C2_fraction")
            })
            .between(0.9, 0.98),
        Claim::new("original: C1's throughput falls")
            .paper("reduced")
            .ours("throughput at 200 KB / at 10 KB", |seed| {
                seed.ratio(ORIGINAL, "C1_per_s", 200.0, 10.0)
            })
            .at_most(0.3),
        Claim::new("original: the reply stage has only C2 to choose most of the time")
            .paper("frequently forced")
            .ours("fraction of the network forced on it for C2 at 200 KB", |seed| {
                seed.get(ORIGINAL, 200.0, "respond_C2_forced_fraction")
            })
            .at_least(0.5),
        Claim::new("indirect: the reply stage is seldom forced to choose C2")
            .paper("sometimes")
            .ours("fraction of the network forced on it for C2 at 200 KB", |seed| {
                seed.get(INDIRECT, 200.0, "respond_C2_forced_fraction")
            })
            .at_most(0.25),
        Claim::new("indirect: C1 keeps its throughput")
            .paper("effective isolation")
            .ours("largest relative change over the sweep", |seed| seed.drift(INDIRECT, "C1_per_s"))
            .at_most(0.05),
        Claim::new("direct: C1 keeps its throughput")
            .paper("perfect isolation")
            .ours("largest relative change over the sweep", |seed| seed.drift(DIRECT, "C1_per_s"))
            .at_most(0.02),
    ],
    panels: || {
        let mut panels = Vec::new();
        for arm in [ORIGINAL, INDIRECT, DIRECT] {
            panels.push(
                Panel::sweep(arm, "requests/s")
                    .line("C1", arm, "C1_per_s")
                    .line("C2", arm, "C2_per_s")
                    .up_to(6_000.0),
            );
        }
        for arm in [ORIGINAL, INDIRECT, DIRECT] {
            panels.push(
                Panel::sweep("Network, and what was forced", "fraction of the network")
                    .line("C1 at S1", arm, "read_C1_forced_fraction")
                    .line("C2 at S1", arm, "read_C2_forced_fraction")
                    .line("C1 at S2", arm, "respond_C1_forced_fraction")
                    .colour(0)
                    .dashed()
                    .line("C2 at S2", arm, "respond_C2_forced_fraction")
                    .colour(1)
                    .dashed()
                    .line("all", arm, "node.network_used_fraction")
                    .colour(6)
                    .up_to(1.0),
            );
        }
        panels
    },
    expected_s: (40, 3),
};
