//! MongoDB, unknown usage: a worker finds out in the middle of its work whether a read needs the
//! disk.

use super::figure::{Claim, Figure, Sweep, Time, arm};
use super::panel::Panel;

pub(super) const FIGURE: Figure = Figure {
    id: "tad-mongodb-unknown-usage",
    title: "MongoDB: workers that turn out to need the disk keep reads from the cache waiting",
    figure: "Figure 4.19",
    about: "Eight replication sets. C1 and C2 read 1 MB from the disks of the primaries; C2 also reads what is in memory. Each load has 128 threads at each primary, as many as there are workers: with fewer there would be a free worker for everybody.",
    system: "mongodb",
    scenario: r#"
name = "MongoDB, unknown usage"
duration = "{duration}"
warmup = "{warmup}"
policy = "drf"
jitter = 0.2
client = [
    { name = "C1", load = [{ name = "cold", request = "read-cold", entry = "each", threads = {x} }] },
    { name = "C2", load = [
        { name = "cold", request = "read-cold", entry = "each", threads = {x} },
        { name = "cached", request = "read", entry = "each", threads = {x} },
    ] },
]
"#,
    sweep: Sweep { key: "threads_of_each_load", label: "threads of each load", points: &[1024.0] },
    arms: &[
        arm("original", "?|?|?|?|?"),
        arm("indirect: tried while the CPU is idle", "?|i|?|?|?"),
    ],
    time: Time { full_s: 60, quick_s: 15, warmup_s: 5 },
    keep: &["C*_per_s", "primary.cpu_used_fraction", "primary.io_*", "aborted_per_s"],
    derive: |_| {},
    claims: &[
        Claim::new("original: the CPUs are not used effectively")
            .paper("less than 40 %")
            .given(0.4)
            .ours("part of the time for which the CPUs are busy", |seed| {
                seed.get("original", 1024.0, "primary.cpu_used_fraction")
            })
            .at_most(0.4),
        Claim::new("the CPUs are used when cached reads are tried while they are idle")
            .paper("improved (figure)")
            .ours("part of the time for which the CPUs are busy", |seed| {
                seed.get(TRIED, 1024.0, "primary.cpu_used_fraction")
            })
            .at_least(0.8),
        Claim::new("C2's cached reads are served much faster then")
            .paper("improved (figure)")
            .ours("C2's cached reads per second, of those of the original", |seed| {
                seed.get(TRIED, 1024.0, "C2.cached_per_s")
                    / seed.get("original", 1024.0, "C2.cached_per_s")
            })
            .at_least(3.0),
        Claim::new("C1 loses nothing by it")
            .paper("unchanged (figure)")
            .ours("C1's throughput, of that of the original", |seed| {
                seed.get(TRIED, 1024.0, "C1_per_s") / seed.get("original", 1024.0, "C1_per_s")
            })
            .at_least(0.97),
    ],
    panels: || {
        let (mut served, mut used) = (
            Panel::bars("Throughput", "requests/s"),
            Panel::bars("Use of the primaries", "fraction"),
        );
        for (label, arm) in [("original", "original"), (TRIED, TRIED)] {
            for (name, key) in [
                ("C1, disk", "C1_per_s"),
                ("C2, disk", "C2.cold_per_s"),
                ("C2, cached", "C2.cached_per_s"),
            ] {
                served = served.bar(name, label, arm, 1024.0, key);
            }
            for (name, key) in
                [("CPU", "primary.cpu_used_fraction"), ("disk", "primary.io_used_fraction")]
            {
                used = used.bar(name, label, arm, 1024.0, key);
            }
        }
        vec![served, used.up_to(1.0)]
    },
    expected_s: (60, 5),
};

const TRIED: &str = "indirect: tried while the CPU is idle";
