//! HBase: the stages of a node compete for its network.

use super::figure::{Claim, Figure, Sweep, Time, arm, shipped};
use super::found::Seed;
use super::panel::Panel;

const ORIGINAL: &str = "original";
const BEFORE: &str = "[d|i|?|?|?]";
const DIRECT: &str = "[d|i|d|?|?]: one scheduler";
const INDIRECT: &str = "[d|i|i|?|?]: weights";
const HYBRID: &str = "[d|i|di|?|?]: both";

/// The size at which both clients ask for the same.
const ALIKE: f64 = 20.0;

pub(super) const FIGURE: Figure = Figure {
    id: "tad-hbase-hidden-contention",
    title: "HBase: a client's responses grow, and who pays for it",
    figure: "Figure 4.9 (a)",
    about: "Seven region servers. Requests have 1 KB; C1's responses 20 KB, those of C2 10 to 200 KB, all of them from \
            the cache. The text gives no number of threads: 60 for each client and node, twice the handlers.",
    system: "hbase",
    scenario: r#"
name = "hidden contention"
duration = "{duration}"
warmup = "{warmup}"
policy = "drf"
jitter = 0.2
client = [
    { name = "C1", load = [{ request = "get-cached", threads = 420, parameters = { reply = "20 KB" } }] },
    { name = "C2", load = [{ request = "get-cached", threads = 420, parameters = { reply = "{x} KB" } }] },
]
"#,
    sweep: Sweep {
        key: "c2_response_kb",
        label: "response size of C2, KB",
        points: &[10.0, ALIKE, 50.0, 100.0, 200.0],
    },
    arms: &[
        shipped(ORIGINAL),
        arm(BEFORE, "d|i|?|?|?"),
        arm(DIRECT, "d|i|d|?|?"),
        arm(INDIRECT, "d|i|i|?|?"),
        arm(HYBRID, "d|i|di|?|?"),
    ],
    // Weights are corrected once a second and need some ten corrections (part b of the figure).
    time: Time { full_s: 8, quick_s: 5, warmup_s: 15 },
    keep: &["C*_per_s", "slave.network_*", "slave.cpu_used_fraction"],
    derive: |_| {},
    claims: &[
        Claim::new("original: C1's throughput falls as C2's responses grow")
            .paper("no isolation")
            .ours("throughput at 200 KB / at 20 KB", |seed| {
                seed.ratio(ORIGINAL, "C1_per_s", 200.0, ALIKE)
            })
            .at_most(0.4),
        Claim::new("[d|i|?|?|?]: the same")
            .paper("no isolation")
            .ours("throughput at 200 KB / at 20 KB", |seed| {
                seed.ratio(BEFORE, "C1_per_s", 200.0, ALIKE)
            })
            .at_most(0.4),
        Claim::new("one scheduler: C1 keeps what it has when both ask for the same")
            .paper("isolated")
            .ours("lowest throughput of the sweep / that at 20 KB", |seed| kept(seed, DIRECT))
            .at_least(0.9),
        Claim::new("weights: C1 keeps what it has when both ask for the same")
            .paper("isolated")
            .ours("lowest throughput of the sweep / that at 20 KB", |seed| kept(seed, INDIRECT))
            .at_least(0.9),
        Claim::new("both: C1 keeps what it has when both ask for the same")
            .paper("not in the figure; it is what HBase-Maat has")
            .ours("lowest throughput of the sweep / that at 20 KB", |seed| kept(seed, HYBRID))
            .at_least(0.9),
    ],
    panels: || {
        let arms = [ORIGINAL, BEFORE, DIRECT, INDIRECT, HYBRID];
        let panel = |title: &str, label: &str, key: &str| {
            let colours = [0, 4, 1, 2, 3];
            let lines = arms.into_iter().zip(colours);
            lines.fold(Panel::sweep(title, label), |panel, (arm, colour)| {
                panel.line(arm, arm, key).colour(colour)
            })
        };
        vec![
            panel("Throughput of C1", "requests/s", "C1_per_s"),
            panel(
                "C2's part of the network",
                "fraction of what is used",
                "slave.network_C2_fraction",
            )
            .up_to(1.0),
        ]
    },
    expected_s: (550, 60),
};

fn kept(seed: &Seed<'_>, arm: &str) -> f64 {
    let alike = seed.get(arm, ALIKE, "C1_per_s");
    seed.all(arm, "C1_per_s").into_iter().map(|one| one / alike).fold(f64::INFINITY, f64::min)
}
