//! Ordering constraint: a log is written in order, even if a later request is more urgent.

use super::figure::{Claim, Figure, Sweep, Time, arm};
use super::panel::Panel;

const ORIGINAL: &str = "original";
const INDIRECT: &str = "indirect: 10 in the log's queue";
const DIRECT: &str = "direct: a log for each";
const LATENCY: &str = "C1.put_latency_mean_ms";

/// The text does not say how large a burst is: ten requests each second, one percent of what the
/// disk can do.
pub(super) const FIGURE: Figure = Figure {
    id: "tad-ordering",
    title: "Who has priority waits for what came before",
    figure: "Figure 4.6",
    about: "Requests need 100 µs of CPU and then 100 KB of a log that is written in order. C1 has priority and issues \
            ten requests at once each second; C2 issues requests from more and more threads.",
    system: "ordering",
    scenario: r#"
name = "ordering constraint"
duration = "{duration}"
warmup = "{warmup}"
policy = "priority"
jitter = 0.2
client = [
    { name = "C1", weight = 2, load = [{ request = "put", burst = { count = 10, every = "1 s" } }] },
    { name = "C2", weight = 1, load = [{ request = "put", threads = {x} }] },
]
"#,
    sweep: Sweep {
        key: "c2_threads",
        label: "threads of C2",
        points: &[5.0, 10.0, 20.0, 40.0, 80.0, 120.0, 160.0, 200.0],
    },
    arms: &[arm(ORIGINAL, "?|?|?|?|?"), arm(INDIRECT, "?|?|?|?|i"), arm(DIRECT, "?|?|?|?|d")],
    time: Time { full_s: 60, quick_s: 20, warmup_s: 5 },
    keep: &["C2_per_s", "C1.put_latency_*", "log_*_waiting_requests"],
    derive: |run| {
        let waiting = ["log_C1_waiting_requests", "log_C2_waiting_requests"];
        let sum = waiting.iter().filter_map(|key| run.numbers.get(*key)).sum();
        run.numbers.insert("log_waiting_requests".to_owned(), sum);
    },
    claims: &[
        Claim::new("original: C1's latency grows with C2's threads without end")
            .paper("much longer latency")
            .ours("mean latency with 200 threads / with 40", |seed| {
                seed.ratio(ORIGINAL, LATENCY, 200.0, 40.0)
            })
            .at_least(3.0),
        Claim::new("indirect: C1's latency grows at first")
            .paper("increases initially")
            .ours("mean latency with 40 threads / with 5", |seed| {
                seed.ratio(INDIRECT, LATENCY, 40.0, 5.0)
            })
            .at_least(1.2),
        Claim::new("indirect: C1's latency is bounded")
            .paper("bounded eventually")
            .ours("mean latency with 200 threads / with 40", |seed| {
                seed.ratio(INDIRECT, LATENCY, 200.0, 40.0)
            })
            .at_most(1.05),
        Claim::new("indirect: never more than ten in the log's queue")
            .paper("never more than 10")
            .given(10.0)
            .ours("requests, mean, with 200 threads", |seed| {
                seed.get(INDIRECT, 200.0, "log_waiting_requests")
            })
            .at_most(10.0),
        Claim::new("direct: C1's latency stays low")
            .paper("low")
            .ours("mean latency with 200 threads / with 5", |seed| {
                seed.ratio(DIRECT, LATENCY, 200.0, 5.0)
            })
            .at_most(1.05),
        Claim::new("direct: although the log's queue is longer")
            .paper("larger queue")
            .ours("requests, mean, with 200 threads", |seed| {
                seed.get(DIRECT, 200.0, "log_waiting_requests")
            })
            .at_least(100.0),
    ],
    panels: || {
        let arms = [ORIGINAL, INDIRECT, DIRECT];
        let panel = |title: &str, label: &str, key: &str| {
            arms.into_iter().fold(Panel::sweep(title, label), |p, arm| p.line(arm, arm, key))
        };
        vec![
            panel("Latency of C1's bursts", "ms, mean", LATENCY),
            panel("Queue of LOG Append", "requests, mean", "log_waiting_requests"),
        ]
    },
    expected_s: (20, 3),
};
