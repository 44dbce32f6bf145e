//! HBase: how long it takes until throughput is steady after a client's responses have grown.

use super::figure::{Claim, Figure, Sweep, Time, arm};
use super::panel::Panel;
use super::record::Run;

const DIRECT: &str = "[d|i|d|?|?]: one scheduler";
const INDIRECT: &str = "[d|i|i|?|?]: weights";
const HYBRID: &str = "[d|i|di|?|?]: both";

/// When C2's responses change: the end of the warm-up.
const CHANGE_S: u64 = 5;

/// How far throughput may be from its final value.
const STEADY: f64 = 0.05;

/// For how long it must be that near, in seconds.
const WHILE_S: f64 = 3.0;

/// How much of the end is taken for final, in seconds.
const FINAL_S: f64 = 10.0;

pub(super) const FIGURE: Figure = Figure {
    id: "tad-hbase-convergence",
    title: "HBase: until throughput is steady after a client has changed",
    figure: "Figure 4.9 (b)",
    about: "As in part (a). C2's responses have 20 KB as those of C1, and then change. C1's throughput is steady when it \
            stays for three seconds within 5 % of its mean over the last ten; it is looked at twice a second.",
    system: "hbase",
    scenario: r#"
name = "hidden contention: a change"
duration = "{duration}"
warmup = "{warmup}"
sample = "500 ms"
policy = "drf"
jitter = 0.2
client = [
    { name = "C1", load = [{ request = "get-cached", threads = 420, parameters = { reply = "20 KB" } }] },
    { name = "C2", load = [{ request = "get-cached", threads = 420, parameters = { reply = "20 KB" } }] },
]
[[change]]
at = "{warmup}"
client = "C2"
load = [{ request = "get-cached", threads = 420, parameters = { reply = "{x} KB" } }]
"#,
    sweep: Sweep {
        key: "c2_response_kb",
        label: "response size of C2 after the change, KB",
        points: &[50.0, 100.0, 150.0, 200.0],
    },
    arms: &[arm(DIRECT, "d|i|d|?|?"), arm(INDIRECT, "d|i|i|?|?"), arm(HYBRID, "d|i|di|?|?")],
    time: Time { full_s: 25, quick_s: 25, warmup_s: CHANGE_S },
    keep: &["series:C1_per_s"],
    derive: |run| {
        if let Some(settled_s) = settled_s(run) {
            run.numbers.insert("settled_s".to_owned(), settled_s);
        }
    },
    claims: &[
        Claim::new("one scheduler: steady soon")
            .paper("much more quickly")
            .ours("s after the change to 200 KB", |seed| seed.get(DIRECT, 200.0, "settled_s"))
            .at_most(2.0),
        Claim::new("weights: it takes long")
            .paper("a long time")
            .ours(
                "times as long as with one scheduler, at 200 KB (at least half a second)",
                |seed| {
                    let settled = |arm| seed.get(arm, 200.0, "settled_s");
                    settled(INDIRECT) / settled(DIRECT).max(0.5)
                },
            )
            .at_least(3.0),
        Claim::new("weights: longer for a larger change")
            .paper("depending on the amount of imbalance")
            .ours("s at 200 KB - s at 50 KB", |seed| {
                let settled = |at| seed.get(INDIRECT, at, "settled_s");
                settled(200.0) - settled(50.0)
            })
            .at_least(0.5),
    ],
    panels: || {
        let arms = [DIRECT, INDIRECT, HYBRID];
        let steady = Panel::sweep("Time until C1's throughput is steady", "s");
        let steady = arms.into_iter().enumerate().fold(steady, |panel, (number, arm)| {
            panel.line(arm, arm, "settled_s").colour(number + 1)
        });
        let change = Panel::time("C1 when C2 changes to 200 KB", "requests/s");
        let change = arms.into_iter().enumerate().fold(change, |panel, (number, arm)| {
            panel.at(arm, arm, 200.0, "C1_per_s").colour(number + 1)
        });
        vec![steady, change]
    },
    expected_s: (500, 70),
};

/// Time from the change until the first moment from which on throughput is steady for a while. Not
/// until the end: the controller now and then overcorrects long after it has settled.
fn settled_s(run: &Run) -> Option<f64> {
    let series = run.series.get("C1_per_s")?;
    let buckets = |seconds: f64| (seconds / run.bucket_s).round() as usize;
    // The last bucket may be one that has only begun.
    let series = &series[..series.len().checked_sub(1)?];
    let last = &series[series.len().checked_sub(buckets(FINAL_S))?..];
    let last_mean = last.iter().sum::<f64>() / last.len() as f64;
    let after = series.get(buckets(CHANGE_S as f64)..)?;
    let steady = |value: &f64| (value / last_mean - 1.0).abs() <= STEADY;
    let windows = after.windows(buckets(WHILE_S));
    let first = windows.into_iter().position(|window| window.iter().all(steady))?;
    Some(first as f64 * run.bucket_s)
}
