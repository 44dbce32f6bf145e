//! MongoDB, blocking: workers wait for replication.

use anyhow::Result;
use headworks_tad::model::Tad;

use super::figure::{Arm, Claim, Figure, Sweep, Time, arm};
use super::panel::Panel;

pub(super) const FIGURE: Figure = Figure {
    id: "tad-mongodb-blocking",
    title: "MongoDB: slow secondaries take all workers from reads that do not need them",
    figure: "Figure 4.21",
    about: "One replication set. C1 reads from the primary, in memory (40 threads); C2 writes to it (200 threads), and a worker waits until both secondaries have the write. In the middle the disks of the secondaries become a hundred times slower.",
    system: "mongodb",
    scenario: r#"
name = "MongoDB, blocking"
duration = "{duration}"
warmup = "{warmup}"
policy = "drf"
jitter = 0.2
sample = "500 ms"
client = [
    { name = "C1", load = [{ request = "read", threads = 40 }] },
    { name = "C2", load = [{ request = "write", threads = {x} }] },
]
change = [{ at = "{middle}", node = "secondary", resource = "io", rate = "1 MB/s" }]
"#,
    sweep: Sweep { key: "c2_threads", label: "threads of C2", points: &[200.0] },
    arms: &[
        Arm { adjust: one_set, ..arm("original", "?|?|?|?|?") },
        Arm { adjust: one_set, ..arm("direct: workers do not wait", "?|?|?|d|?") },
    ],
    time: Time { full_s: 18, quick_s: 10, warmup_s: 2 },
    keep: &["C*_per_s", "series:C*_per_s", "series:worker_C*_serving_threads"],
    derive: |_| {},
    claims: &[
        Claim::new("original: C1 collapses when the secondaries become slow")
            .paper("suffers")
            .ours("C1's throughput in the second half, of that in the first", |seed| {
                seed.late("original", 200.0, "C1_per_s") / seed.early("original", 200.0, "C1_per_s")
            })
            .at_most(0.3),
        Claim::new("original: all 128 workers are taken by C2")
            .paper("all 128").given(128.0)
            .ours(
                "workers of C2 in the second half",
                |seed| seed.late("original", 200.0, "worker_C2_serving_threads"),
            )
            .at_least(100.0)
            .note("a worker that a write gives back serves one read and is then taken by the next write"),
        Claim::new("direct: C1 is not affected")
            .paper("not affected")
            .ours("C1's throughput in the second half, of that in the first", |seed| {
                seed.late(NO_WAIT, 200.0, "C1_per_s") / seed.early(NO_WAIT, 200.0, "C1_per_s")
            })
            .at_least(0.95)
            .note("it gets the CPU time that C2 no longer uses"),
        Claim::new("direct: C2 is as slow as the disks, and no slower than before")
            .paper("declines")
            .ours("C2's throughput in the second half, of that of the original", |seed| {
                seed.late(NO_WAIT, 200.0, "C2_per_s") / seed.late("original", 200.0, "C2_per_s")
            })
            .between(0.95, 1.05),
    ],
    panels: || {
        let mut panels = Vec::new();
        for arm in ["original", NO_WAIT] {
            panels.push(
                Panel::time(arm, "requests/s")
                    .at("C1", arm, 200.0, "C1_per_s")
                    .at("C2", arm, 200.0, "C2_per_s")
                    .up_to(10_000.0),
            );
        }
        for arm in ["original", NO_WAIT] {
            panels.push(
                Panel::time("Requests at the workers", "threads")
                    .at("C1", arm, 200.0, "worker_C1_serving_threads")
                    .at("C2", arm, 200.0, "worker_C2_serving_threads")
                    .up_to(128.0),
            );
        }
        panels
    },
    expected_s: (10, 2),
};

const NO_WAIT: &str = "direct: workers do not wait";

/// One replication set instead of eight.
fn one_set(tad: &mut Tad, _: f64) -> Result<()> {
    for node in &mut tad.nodes {
        node.count /= 8;
    }
    Ok(())
}
