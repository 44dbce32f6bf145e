//! No scheduling points: an on-demand stage does the I/O.

use super::figure::{Claim, Figure, Sweep, Time, arm};
use super::panel::Panel;

pub(super) const FIGURE: Figure = Figure {
    id: "tad-no-scheduling",
    title: "A stage without a scheduling point takes isolation away",
    figure: "Figure 4.2",
    about: "Requests need 100 µs of CPU and then 100 KB of a disk. C1 has 40 threads; C2 has more and more. The first \
            stage has a fair queue; the second one starts a thread for each request.",
    system: "no-scheduling",
    scenario: r#"
name = "no scheduling points"
duration = "{duration}"
warmup = "{warmup}"
policy = "drf"
jitter = 0.2
client = [
    { name = "C1", load = [{ request = "read", threads = 40 }] },
    { name = "C2", load = [{ request = "read", threads = {x} }] },
]
"#,
    sweep: Sweep {
        key: "c2_threads",
        label: "threads of C2",
        points: &[40.0, 120.0, 200.0, 280.0, 360.0],
    },
    arms: &[
        arm("original", "?|?|?|?|?"),
        arm("indirect: rate limits", "i|?|?|?|?"),
        arm("direct: a queue for I/O", "d|?|?|?|?"),
    ],
    time: Time { full_s: 60, quick_s: 15, warmup_s: 5 },
    keep: &["C*_per_s", "node.io_*", "node.cpu_used_fraction", "*_waiting_requests"],
    derive: |_| {},
    claims: &[
        Claim::new("original: C2 takes up to 90 % of the I/O")
            .paper("up to 90 %")
            .given(0.9)
            .ours("C2's part of the I/O with 360 threads", |seed| {
                seed.get("original", 360.0, "node.io_C2_fraction")
            })
            .between(0.85, 0.95),
        Claim::new("original: C1's throughput falls as C2's threads grow")
            .paper("declines")
            .ours("throughput with 360 threads of C2 / with 40", |seed| {
                seed.ratio("original", "C1_per_s", 360.0, 40.0)
            })
            .at_most(0.3),
        Claim::new("original: nothing waits in the queue that is scheduled")
            .paper("average length 0")
            .ours("requests of C2 with 360 threads", |seed| {
                seed.get("original", 360.0, "handle_C2_waiting_requests")
            })
            .at_most(0.5),
        Claim::new("indirect: C1 keeps its throughput")
            .paper("isolated (figure)")
            .ours("largest relative change over the sweep", |seed| {
                seed.drift("indirect: rate limits", "C1_per_s")
            })
            .at_most(0.05),
        Claim::new("direct: C1 keeps its throughput")
            .paper("isolated (figure)")
            .ours("largest relative change over the sweep", |seed| {
                seed.drift("direct: a queue for I/O", "C1_per_s")
            })
            .at_most(0.05),
    ],
    panels: || {
        let mut panels = Vec::new();
        for arm in ["original", "indirect: rate limits", "direct: a queue for I/O"] {
            panels.push(
                Panel::sweep(arm, "requests/s")
                    .line("C1", arm, "C1_per_s")
                    .line("C2", arm, "C2_per_s")
                    .up_to(1000.0),
            );
        }
        for arm in ["original", "indirect: rate limits", "direct: a queue for I/O"] {
            panels.push(
                Panel::sweep("Waiting to be scheduled", "requests, mean")
                    .line("C1 at Q1", arm, "handle_C1_waiting_requests")
                    .line("C2 at Q1", arm, "handle_C2_waiting_requests")
                    .line("C1 at Q2", arm, "io_C1_waiting_requests")
                    .colour(0)
                    .dashed()
                    .line("C2 at Q2", arm, "io_C2_waiting_requests")
                    .colour(1)
                    .dashed()
                    .up_to(360.0),
            );
        }
        panels
    },
    expected_s: (20, 3),
};
