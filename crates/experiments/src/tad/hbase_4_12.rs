//! HBase: Puts of all clients go into one log.

use super::figure::{Arm, Claim, Figure, Sweep, Time, arm, shipped};
use super::found::Seed;
use super::panel::Panel;

const ORIGINAL: &str = "original";
const SEPARATE: &str = "[d|i|di|i2|d]: a log for each";
const TEN: &str = "[d|i|di|i2|i]: 10 handlers";
const THIRTY: &str = "[d|i|di|i2|i]: 30 handlers";
const ALL: [&str; 4] = [ORIGINAL, SEPARATE, TEN, THIRTY];

/// With the default of 30 handlers, scheduling their time for the log's sake is what is done for
/// blocking already.
const ARMS: &[Arm] = &[
    shipped(ORIGINAL),
    arm(SEPARATE, "d|i|di|i2|d"),
    arm(TEN, "d|i|di|i2|i"),
    arm(THIRTY, "d|i|di|i2|?"),
];

const MEAN: &str = "C1.put_latency_mean_ms";

const SWEEP: Sweep =
    Sweep { key: "c2_threads", label: "threads of C2", points: &[80.0, 160.0, 320.0, 640.0] };

pub(super) const STEADY: Figure = Figure {
    id: "tad-hbase-ordering",
    title: "HBase: throughput of Puts beside a client with more and more threads",
    figure: "Figure 4.12 (a)",
    about: "Seven region servers. Both clients issue Puts of 1 KB, each of which is appended to a log; C1 from 80 threads \
            altogether, C2 from more and more.",
    system: "hbase",
    scenario: r#"
name = "ordering constraint"
duration = "{duration}"
warmup = "{warmup}"
policy = "drf"
jitter = 0.2
client = [
    { name = "C1", load = [{ request = "put", threads = 80 }] },
    { name = "C2", load = [{ request = "put", threads = {x} }] },
]
"#,
    sweep: SWEEP,
    arms: ARMS,
    time: Time { full_s: 3, quick_s: 2, warmup_s: 2 },
    keep: &["C*_per_s", "C1.put_latency_*", "log-append_*_waiting_requests"],
    derive: |_| {},
    claims: &[
        Claim::new("original: C1's throughput falls without end")
            .paper("unbounded drop")
            .ours("throughput with 640 threads of C2 / with 80", |seed| {
                seed.ratio(ORIGINAL, "C1_per_s", 640.0, 80.0)
            })
            .at_most(0.3),
        Claim::new("the three remedies limit that")
            .paper("limited")
            .ours("throughput with 640 threads of C2 / with 80, lowest of the three", |seed| {
                let ratio = |arm| seed.ratio(arm, "C1_per_s", 640.0, 80.0);
                ratio(SEPARATE).min(ratio(TEN)).min(ratio(THIRTY))
            })
            .at_least(0.8),
        Claim::new("separate logs give C1 the best throughput")
            .paper("best")
            .ours(
                "C1's throughput with 640 threads of C2 / that of the better other remedy",
                |seed| {
                    let of = |arm| seed.get(arm, 640.0, "C1_per_s");
                    of(SEPARATE) / of(TEN).max(of(THIRTY))
                },
            )
            .at_least(1.0),
        Claim::new("sharing handlers costs throughput")
            .paper("lower")
            .ours("C1's throughput with 640 threads of C2, 30 handlers / separate logs", |seed| {
                seed.get(THIRTY, 640.0, "C1_per_s") / seed.get(SEPARATE, 640.0, "C1_per_s")
            })
            .at_most(0.95)
            .note("hardly anything with 10, which are enough to keep the CPU busy"),
    ],
    panels: || {
        let panel = |title: &str, key: &str| Panel::sweep(title, "requests/s").lines(ALL, key);
        vec![panel("Throughput of C1", "C1_per_s"), panel("Throughput of C2", "C2_per_s")]
    },
    expected_s: (400, 45),
};

/// The text does not say how large a burst is: 80 Puts, as many as C1 has threads in part (a).
pub(super) const BURSTS: Figure = Figure {
    id: "tad-hbase-ordering-latency",
    title: "HBase: latency of Puts in bursts beside a client with more and more threads",
    figure: "Figure 4.12 (b)",
    about: "As in part (a), but C1 issues 80 Puts at once each second.",
    scenario: r#"
name = "ordering constraint: bursts"
duration = "{duration}"
warmup = "{warmup}"
policy = "drf"
jitter = 0.2
client = [
    { name = "C1", load = [{ request = "put", burst = { count = 80, every = "1 s" } }] },
    { name = "C2", load = [{ request = "put", threads = {x} }] },
]
"#,
    time: Time { full_s: 8, quick_s: 4, warmup_s: 2 },
    claims: &[
        Claim::new("original: C1's latency grows without end")
            .paper("unbounded increase")
            .ours(
                "mean latency with 640 threads of C2 / with 80",
                |seed| seed.ratio(ORIGINAL, MEAN, 640.0, 80.0),
            )
            .at_least(4.0),
        Claim::new("the three remedies limit that")
            .paper("limited")
            .ours("mean latency with 640 threads of C2 / with 80, highest of the three", |seed| {
                let ratio = |arm| seed.ratio(arm, MEAN, 640.0, 80.0);
                ratio(SEPARATE).max(ratio(TEN)).max(ratio(THIRTY))
            })
            .at_most(1.6),
        Claim::new("separate logs give C1 the shortest latency")
            .paper("best guarantee")
            .ours(
                "mean latency with 640 threads of C2 / that of the better other remedy",
                |seed| latency(seed, SEPARATE) / latency(seed, TEN).min(latency(seed, THIRTY)),
            )
            .at_most(1.0)
            .note("ten handlers keep more of C2 out of the CPU's queue than thirty with separate logs do"),
        Claim::new("with 30 handlers latency is longer than with 10")
            .paper("degrades")
            .ours(
                "ratio of mean latencies with 640 threads of C2",
                |seed| latency(seed, THIRTY) / latency(seed, TEN),
            )
            .at_least(1.1),
    ],
    panels: || {
        let panel = |title: &str, arms: &[&'static str]| {
            let panel = Panel::sweep(title, "ms, mean");
            ALL.into_iter()
                .enumerate()
                .filter(|(_, arm)| arms.contains(arm))
                .fold(panel, |panel, (number, arm)| panel.line(arm, arm, MEAN).colour(number))
        };
        vec![panel("Latency of C1's bursts", &ALL), panel("The remedies alone", &ALL[1..])]
    },
    expected_s: (900, 80),
    ..STEADY
};

fn latency(seed: &Seed<'_>, arm: &str) -> f64 {
    seed.get(arm, 640.0, MEAN)
}
