//! Cassandra, blocking: a coordinating thread waits for the stage that reads.

use super::figure::{Claim, Figure, Sweep, Time, arm};
use super::panel::Panel;

pub(super) const FIGURE: Figure = Figure {
    id: "tad-cassandra-blocking",
    title: "Cassandra: reads from the disk take all coordinating threads from cached ones",
    figure: "Figure 4.23",
    about: "Three nodes with 128 C-ReqHandle threads each. C1 (40 threads at each node) and C2 (160) read what is in memory. In the middle C2 begins to read 100 KB from the disk instead.",
    system: "cassandra",
    scenario: r#"
name = "Cassandra, blocking"
duration = "{duration}"
warmup = "{warmup}"
policy = "drf"
jitter = 0.2
sample = "500 ms"
client = [
    { name = "C1", load = [{ request = "read-cached", entry = "each", threads = 120 }] },
    { name = "C2", load = [{ request = "read-cached", entry = "each", threads = {x} }] },
]
change = [{ at = "{middle}", client = "C2", load = [{ request = "read-cold", entry = "each", threads = {x} }] }]
"#,
    sweep: Sweep { key: "c2_threads", label: "threads of C2", points: &[480.0] },
    arms: &[arm("original", "?|?|?|?|?"), arm("direct: C-ReqHandle does not wait", "?|?|?|d|?")],
    time: Time { full_s: 18, quick_s: 10, warmup_s: 2 },
    keep: &["C*_per_s", "series:C*_per_s", "series:c-reqhandle_C*_serving_threads"],
    derive: |_| {},
    claims: &[
        Claim::new("original: C1 falls when C2 begins to read from the disk")
            .paper("declines abruptly")
            .ours("C1's throughput in the second half, of that in the first", |seed| {
                seed.late("original", 480.0, "C1_per_s") / seed.early("original", 480.0, "C1_per_s")
            })
            .at_most(0.4),
        Claim::new("original: the C-ReqHandle threads serve C2")
            .paper("all 128 of a node")
            .given(128.0)
            .ours("threads of a node that serve C2 in the second half", |seed| {
                seed.late("original", 480.0, "c-reqhandle_C2_serving_threads") / 3.0
            })
            .at_least(115.0),
        Claim::new("direct: C1 improves")
            .paper("improves")
            .ours("C1's throughput in the second half, of that in the first", |seed| {
                seed.late(NO_WAIT, 480.0, "C1_per_s") / seed.early(NO_WAIT, 480.0, "C1_per_s")
            })
            .at_least(1.2),
        Claim::new("direct: few C-ReqHandle threads serve C2")
            .paper("remains low")
            .ours("threads of a node that serve C2 in the second half", |seed| {
                seed.late(NO_WAIT, 480.0, "c-reqhandle_C2_serving_threads") / 3.0
            })
            .at_most(20.0),
    ],
    panels: || {
        let mut panels = Vec::new();
        for arm in ["original", NO_WAIT] {
            panels.push(
                Panel::time(arm, "requests/s")
                    .at("C1", arm, 480.0, "C1_per_s")
                    .at("C2", arm, 480.0, "C2_per_s")
                    .up_to(25_000.0),
            );
        }
        for arm in ["original", NO_WAIT] {
            panels.push(
                Panel::time("C-ReqHandle, three nodes", "threads")
                    .at("that serve C1", arm, 480.0, "c-reqhandle_C1_serving_threads")
                    .at("that serve C2", arm, 480.0, "c-reqhandle_C2_serving_threads")
                    .up_to(384.0),
            );
        }
        panels
    },
    expected_s: (20, 2),
};

const NO_WAIT: &str = "direct: C-ReqHandle does not wait";
