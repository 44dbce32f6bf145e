//! HBase: handlers wait for other nodes' disks.

use super::figure::{Claim, Figure, Sweep, Time, arm};
use super::panel::Panel;

const BEFORE: &str = "[d|i|di|?|?]";
const DIRECT: &str = "[d|i|di|d|?]: do not wait";
const FEEDBACK: &str = "[d|i|di|i1|?]: congestion";
const SHARED: &str = "[d|i|di|i2|?]: shared handlers";

/// The only point.
const AT: f64 = 420.0;

pub(super) const FIGURE: Figure = Figure {
    id: "tad-hbase-blocking",
    title: "HBase: cached Gets while another client's Gets wait for disks",
    figure: "Figure 4.10",
    about: "Seven region servers. Both clients issue Gets that hit the cache; half-way, C2 begins to issue Gets of \
            128 KB that are on another node's disk, for which the handler waits. The text gives no number of threads: \
            60 for each client and node, twice the handlers.",
    system: "hbase",
    scenario: r#"
name = "blocking"
duration = "{duration}"
warmup = "{warmup}"
policy = "drf"
jitter = 0.2
client = [
    { name = "C1", load = [{ request = "get-cached", threads = {x} }] },
    { name = "C2", load = [{ request = "get-cached", threads = {x} }] },
]
change = [{ at = "{middle}", client = "C2", load = [{ request = "get", threads = {x} }] }]
"#,
    sweep: Sweep { key: "threads", label: "threads of each client", points: &[AT] },
    arms: &[
        arm(BEFORE, "d|i|di|?|?"),
        arm(DIRECT, "d|i|di|d|?"),
        arm(FEEDBACK, "d|i|di|i1|?"),
        arm(SHARED, "d|i|di|i2|?"),
    ],
    time: Time { full_s: 40, quick_s: 20, warmup_s: 0 },
    keep: &["series:C*_per_s", "series:slave.cpu_used_*", "series:slave.io_used_*"],
    derive: |_| {},
    claims: &[
        Claim::new("[d|i|di|?|?]: C1's throughput falls when C2 begins to read from disks")
            .paper("very low")
            .ours(
                "after the change / before",
                |seed| seed.late(BEFORE, AT, "C1_per_s") / seed.early(BEFORE, AT, "C1_per_s"),
            )
            .at_most(0.3),
        Claim::new("all three remedies: C1 keeps at least what it had")
            .paper("high")
            .ours("C1's throughput after the change / before, lowest of the three", |seed| {
                let ratio = |arm| seed.late(arm, AT, "C1_per_s") / seed.early(arm, AT, "C1_per_s");
                ratio(DIRECT).min(ratio(FEEDBACK)).min(ratio(SHARED))
            })
            .at_least(1.0),
        Claim::new("the direct one gives the highest throughput")
            .paper("highest")
            .ours("C1 after the change / that of the better indirect one", |seed| {
                let late = |arm| seed.late(arm, AT, "C1_per_s");
                late(DIRECT) / late(FEEDBACK).max(late(SHARED))
            })
            .at_least(1.0),
        Claim::new("the direct one: CPU and disks are nearly always used")
            .paper("nearly perfect").given(1.0)
            .ours("lower of the two utilizations after the change", |seed| {
                let used = |key| seed.late(DIRECT, AT, key);
                used("slave.cpu_used_mean_fraction").min(used("slave.io_used_mean_fraction"))
            })
            .at_least(0.9)
            .note("a shared scheduler with two requests in service for each resource now and then leaves one without \
                   work"),
    ],
    panels: || {
        let arms = [BEFORE, DIRECT, FEEDBACK, SHARED];
        let throughput = arms.map(|arm| {
            Panel::time(arm, "requests/s")
                .at("C1", arm, AT, "C1_per_s")
                .at("C2", arm, AT, "C2_per_s")
                .up_to(45_000.0)
        });
        let used = arms.map(|arm| {
            let panel = Panel::time("Utilization, lowest to highest node", "fraction").up_to(1.0);
            ["cpu", "io"].into_iter().fold(panel, |panel, name| {
                let key = |part: &str| format!("slave.{name}_used_{part}_fraction");
                let label = if name == "cpu" { "CPU" } else { "I/O" };
                panel
                    .at(label, arm, AT, &key("mean"))
                    .last(|line| line.band = Some((key("low"), key("high"))))
            })
        });
        throughput.into_iter().chain(used).collect()
    },
    expected_s: (420, 30),
};
