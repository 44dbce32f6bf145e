//! Cassandra, unknown usage: the stage that reads does not know what is cached.

use super::figure::{Claim, Figure, Sweep, Time, arm};
use super::panel::Panel;

pub(super) const FIGURE: Figure = Figure {
    id: "tad-cassandra-unknown-usage",
    title: "Cassandra: reads that need the disk keep cached ones and the network waiting",
    figure: "Figure 4.22",
    about: "Three nodes. C1 and C2 read 100 KB from the disk; C2 also reads one key again and again, which is in memory. Each load has 40 threads at each node; replies have 10 KB, as those of C1 in Figure 4.24.",
    system: "cassandra",
    scenario: r#"
name = "Cassandra, unknown usage"
duration = "{duration}"
warmup = "{warmup}"
policy = "drf"
jitter = 0.2
client = [
    { name = "C1", load = [{ name = "cold", request = "read-cold", entry = "each", threads = {x}, parameters = { reply = "10 KB" } }] },
    { name = "C2", load = [
        { name = "cold", request = "read-cold", entry = "each", threads = {x}, parameters = { reply = "10 KB" } },
        { name = "cached", request = "read-cached", entry = "each", threads = {x}, parameters = { reply = "10 KB" } },
    ] },
]
"#,
    sweep: Sweep { key: "threads_of_each_load", label: "threads of each load", points: &[120.0] },
    arms: &[
        arm("original", "?|?|?|?|?"),
        arm("indirect: tried while the CPU is idle", "?|i|?|?|?"),
    ],
    time: Time { full_s: 60, quick_s: 15, warmup_s: 5 },
    keep: &["C*_per_s", "node.*_used_fraction", "aborted_per_s"],
    derive: |_| {},
    claims: &[
        Claim::new("original: the network is not used effectively")
            .paper("less than 20 %")
            .given(0.2)
            .ours("part of the time for which the network is busy", |seed| {
                seed.get("original", 120.0, "node.network_used_fraction")
            })
            .at_most(0.2),
        Claim::new(
            "C2's cached reads are served much faster when they are tried while the CPU is idle",
        )
        .paper("8 times")
        .given(8.0)
        .ours("C2's cached reads per second, of those of the original", |seed| {
            seed.get(TRIED, 120.0, "C2.cached_per_s")
                / seed.get("original", 120.0, "C2.cached_per_s")
        })
        .at_least(5.0),
        Claim::new("the network is used then")
            .paper("fully")
            .given(1.0)
            .ours("part of the time for which the network is busy", |seed| {
                seed.get(TRIED, 120.0, "node.network_used_fraction")
            })
            .at_least(0.8)
            .note("the CPUs are full first: 100 µs a request"),
        Claim::new("C1 loses nothing by it")
            .paper("unchanged (figure)")
            .ours("C1's throughput, of that of the original", |seed| {
                seed.get(TRIED, 120.0, "C1_per_s") / seed.get("original", 120.0, "C1_per_s")
            })
            .at_least(0.97),
    ],
    panels: || {
        let (mut served, mut used) =
            (Panel::bars("Throughput", "requests/s"), Panel::bars("Use of the nodes", "fraction"));
        for (label, arm) in [("original", "original"), (TRIED, TRIED)] {
            for (name, key) in [
                ("C1, disk", "C1_per_s"),
                ("C2, disk", "C2.cold_per_s"),
                ("C2, cached", "C2.cached_per_s"),
            ] {
                served = served.bar(name, label, arm, 120.0, key);
            }
            for (name, key) in [
                ("CPU", "node.cpu_used_fraction"),
                ("disk", "node.io_used_fraction"),
                ("network", "node.network_used_fraction"),
            ] {
                used = used.bar(name, label, arm, 120.0, key);
            }
        }
        vec![served, used.up_to(1.0)]
    },
    expected_s: (25, 3),
};

const TRIED: &str = "indirect: tried while the CPU is idle";
