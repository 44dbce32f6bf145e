//! HBase on one node: handlers themselves read what is not in the cache (short-circuit reads).

use anyhow::{Result, anyhow};
use headworks_tad::model::Tad;

use super::figure::{Arm, Claim, Figure, Sweep, Time, arm, shipped};
use super::found::Seed;
use super::panel::Panel;

const ORIGINAL: &str = "original";
const INDIRECT: &str = "[d|i|?|?|?]: speculation";
const DIRECT: &str = "[d|d|?|?|?]: a stage for I/O";

/// The only point.
const AT: f64 = 40.0;

/// One slave node, so that all that is read is on its own disk.
fn standalone(tad: &mut Tad, _: f64) -> Result<()> {
    let slave = tad.nodes.iter_mut().find(|node| node.name == "slave");
    slave.ok_or_else(|| anyhow!("the system has no slave nodes"))?.count = 1;
    Ok(())
}

pub(super) const FIGURE: Figure = Figure {
    id: "tad-hbase-unknown-usage",
    title: "HBase: Gets that hit the cache among Gets that read the disk",
    figure: "Figure 4.8",
    about: "One region server with its own DataNode. C1 and C2 issue Gets of 100 KB that are read short-circuited, from \
            40 threads each; C2 also issues Gets that hit the cache, from 40 more.",
    system: "hbase",
    scenario: r#"
name = "unknown resource usage"
duration = "{duration}"
warmup = "{warmup}"
policy = "drf"
jitter = 0.2
[[client]]
name = "C1"
load = [{ request = "get-short-circuit", name = "cold", threads = 40 }]
[[client]]
name = "C2"
load = [
    { request = "get-short-circuit", name = "cold", threads = 40 },
    { request = "get-cached", name = "cached", threads = {x} },
]
"#,
    sweep: Sweep { key: "c2_cached_threads", label: "threads of C2-cached", points: &[AT] },
    arms: &[
        Arm { adjust: standalone, ..shipped(ORIGINAL) },
        Arm { adjust: standalone, ..arm(INDIRECT, "d|i|?|?|?") },
        Arm { adjust: standalone, ..arm(DIRECT, "d|d|?|?|?") },
    ],
    time: Time { full_s: 40, quick_s: 15, warmup_s: 5 },
    keep: &["C*_per_s", "slave.*_used_fraction", "aborted_per_s"],
    derive: |_| {},
    claims: &[
        Claim::new("speculation: C2's cached Gets get more")
            .paper("additional throughput")
            .ours("ratio of requests/s to the original", |seed| {
                against(seed, INDIRECT, "C2.cached_per_s")
            })
            .at_least(2.0),
        Claim::new("a stage for I/O: C2's cached Gets get more")
            .paper("additional throughput")
            .ours("ratio of requests/s to the original", |seed| {
                against(seed, DIRECT, "C2.cached_per_s")
            })
            .at_least(2.0),
        Claim::new("neither takes anything from C1")
            .paper("not reduced")
            .ours("lower ratio of requests/s to the original", |seed| {
                against(seed, INDIRECT, "C1_per_s").min(against(seed, DIRECT, "C1_per_s"))
            })
            .at_least(0.97),
        Claim::new("neither takes anything from C2's cold Gets")
            .paper("not reduced")
            .ours("lower ratio of requests/s to the original", |seed| {
                let key = "C2.cold_per_s";
                against(seed, INDIRECT, key).min(against(seed, DIRECT, key))
            })
            .at_least(0.97),
        Claim::new("speculation gives the cached Gets a little less than a stage for I/O")
            .paper("slightly lower, because some requests are aborted")
            .ours("ratio of requests/s", |seed| {
                let cached = |arm| seed.get(arm, AT, "C2.cached_per_s");
                cached(INDIRECT) / cached(DIRECT)
            })
            .between(0.7, 0.999),
    ],
    panels: || {
        let mut throughput = Panel::bars("Throughput", "requests/s");
        let mut used = Panel::bars("Utilization", "fraction of the time").up_to(1.0);
        for arm in [ORIGINAL, INDIRECT, DIRECT] {
            throughput = throughput
                .bar("C1", arm, arm, AT, "C1_per_s")
                .bar("C2-cold", arm, arm, AT, "C2.cold_per_s")
                .bar("C2-cached", arm, arm, AT, "C2.cached_per_s");
            used = used.bar("CPU", arm, arm, AT, "slave.cpu_used_fraction").bar(
                "I/O",
                arm,
                arm,
                AT,
                "slave.io_used_fraction",
            );
        }
        vec![throughput, used]
    },
    expected_s: (15, 2),
};

fn against(seed: &Seed<'_>, arm: &str, key: &str) -> f64 {
    seed.get(arm, AT, key) / seed.get(ORIGINAL, AT, key)
}
