//! Unknown resource usage: whether a request needs the disk shows only when it is under way.

use super::figure::{Bound, Claim, Figure, Sweep, Time, arm};
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
        Claim {
            statement: "original: the CPU is little used",
            paper: "low utilization",
            unit: "fraction of the CPU",
            ours: |seed| seed.get(ORIGINAL, AT, "node.cpu_used_fraction"),
            bound: Bound::AtMost(0.3),
            note: "",
        },
        Claim {
            statement: "indirect: the CPU is used",
            paper: "high (figure)",
            unit: "fraction of the CPU",
            ours: |seed| seed.get(INDIRECT, AT, "node.cpu_used_fraction"),
            bound: Bound::AtLeast(0.9),
            note: "",
        },
        Claim {
            statement: "direct: the CPU is used",
            paper: "high",
            unit: "fraction of the CPU",
            ours: |seed| seed.get(DIRECT, AT, "node.cpu_used_fraction"),
            bound: Bound::AtLeast(0.9),
            note: "",
        },
        Claim {
            statement: "indirect: C2-cached gets many times what it gets in the original",
            paper: "high instead of low",
            unit: "ratio of requests/s",
            ours: |seed| against_original(seed, INDIRECT, "C2.cached_per_s"),
            bound: Bound::AtLeast(5.0),
            note: "",
        },
        Claim {
            statement: "direct: C2-cached gets many times what it gets in the original",
            paper: "high instead of low",
            unit: "ratio of requests/s",
            ours: |seed| against_original(seed, DIRECT, "C2.cached_per_s"),
            bound: Bound::AtLeast(5.0),
            note: "",
        },
        Claim {
            statement: "neither remedy takes anything from C1",
            paper: "not reduced (figure)",
            unit: "lower ratio of requests/s to the original",
            ours: |seed| {
                let ratio = |arm| against_original(seed, arm, "C1_per_s");
                ratio(INDIRECT).min(ratio(DIRECT))
            },
            bound: Bound::AtLeast(0.97),
            note: "",
        },
        Claim {
            statement: "neither remedy takes anything from C2-cold",
            paper: "not reduced (figure)",
            unit: "lower ratio of requests/s to the original",
            ours: |seed| {
                let ratio = |arm| against_original(seed, arm, "C2.cold_per_s");
                ratio(INDIRECT).min(ratio(DIRECT))
            },
            bound: Bound::AtLeast(0.97),
            note: "",
        },
        Claim {
            statement: "indirect: some requests are tried in vain",
            paper: "some are aborted",
            unit: "aborted requests/s",
            ours: |seed| seed.get(INDIRECT, AT, "aborted_per_s"),
            bound: Bound::AtLeast(1.0),
            note: "",
        },
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
