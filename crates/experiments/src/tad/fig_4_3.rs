//! Unknown resource usage: whether a request needs the disk shows only when it is under way.

use super::figure::{Claim, Figure, Sweep, Time, arm};
use super::panel::Panel;

const ORIGINAL: &str = "original";
const INDIRECT: &str = "indirect: speculation";
const DIRECT: &str = "direct: a stage for I/O";

/// The only point.
const AT: f64 = 40.0;

pub(super) const FIGURE: Figure = Figure {
    id: "tad-unknown-usage",
    title: "Requests that hit the cache wait behind those that do not",
    figure: "Figure 4.3",
    about: "C1 and C2 issue requests that need 100 µs of CPU and 100 KB of the disk, from 40 threads each; C2 also \
            issues, from 40 more threads, requests that hit the cache and need only the CPU. The queue cannot tell \
            them apart.",
    system: "unknown-usage",
    scenario: r#"
name = "unknown resource usage"
duration = "{duration}"
warmup = "{warmup}"
policy = "drf"
jitter = 0.2
client = [
    { name = "C1", load = [{ request = "cold", threads = 40 }] },
    { name = "C2", load = [{ request = "cold", threads = 40 }, { request = "cached", threads = {x} }] },
]
"#,
    sweep: Sweep { key: "c2_cached_threads", label: "threads of C2-cached", points: &[AT] },
    arms: &[arm(ORIGINAL, "?|?|?|?|?"), arm(INDIRECT, "?|i|?|?|?"), arm(DIRECT, "?|d|?|?|?")],
    time: Time { full_s: 60, quick_s: 15, warmup_s: 5 },
    keep: &["C*_per_s", "node.*_used_fraction", "aborted_per_s"],
    derive: |_| {},
    claims: &[
        Claim::new("original: the CPU is little used")
            .paper("low utilization")
            .ours("fraction of the CPU", |seed| seed.get(ORIGINAL, AT, "node.cpu_used_fraction"))
            .at_most(0.3),
        Claim::new("indirect: the CPU is used")
            .paper("high (figure)")
            .ours("fraction of the CPU", |seed| seed.get(INDIRECT, AT, "node.cpu_used_fraction"))
            .at_least(0.9),
        Claim::new("direct: the CPU is used")
            .paper("high")
            .ours("fraction of the CPU", |seed| seed.get(DIRECT, AT, "node.cpu_used_fraction"))
            .at_least(0.9),
        Claim::new("indirect: C2-cached gets many times what it gets in the original")
            .paper("high instead of low")
            .ours("ratio of requests/s", |seed| against_original(seed, INDIRECT, "C2.cached_per_s"))
            .at_least(5.0),
        Claim::new("direct: C2-cached gets many times what it gets in the original")
            .paper("high instead of low")
            .ours("ratio of requests/s", |seed| against_original(seed, DIRECT, "C2.cached_per_s"))
            .at_least(5.0),
        Claim::new("neither remedy takes anything from C1")
            .paper("not reduced (figure)")
            .ours("lower ratio of requests/s to the original", |seed| {
                let ratio = |arm| against_original(seed, arm, "C1_per_s");
                ratio(INDIRECT).min(ratio(DIRECT))
            })
            .at_least(0.97),
        Claim::new("neither remedy takes anything from C2-cold")
            .paper("not reduced (figure)")
            .ours("lower ratio of requests/s to the original", |seed| {
                let ratio = |arm| against_original(seed, arm, "C2.cold_per_s");
                ratio(INDIRECT).min(ratio(DIRECT))
            })
            .at_least(0.97),
        Claim::new("indirect: some requests are tried in vain")
            .paper("some are aborted")
            .ours("aborted requests/s", |seed| seed.get(INDIRECT, AT, "aborted_per_s"))
            .at_least(1.0),
    ],
    panels: || {
        let (mut throughput, mut used) = (
            Panel::bars("Throughput", "requests/s"),
            Panel::bars("Utilization", "fraction of the time").up_to(1.0),
        );
        for arm in [ORIGINAL, INDIRECT, DIRECT] {
            throughput = throughput
                .bar("C1", arm, arm, AT, "C1_per_s")
                .bar("C2-cold", arm, arm, AT, "C2.cold_per_s")
                .bar("C2-cached", arm, arm, AT, "C2.cached_per_s");
            used = used.bar("CPU", arm, arm, AT, "node.cpu_used_fraction").bar(
                "I/O",
                arm,
                arm,
                AT,
                "node.io_used_fraction",
            );
        }
        vec![throughput, used]
    },
    expected_s: (5, 1),
};

fn against_original(seed: &super::found::Seed<'_>, arm: &str, key: &str) -> f64 {
    seed.get(arm, AT, key) / seed.get(ORIGINAL, AT, key)
}
