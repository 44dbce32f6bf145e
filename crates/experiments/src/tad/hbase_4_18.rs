//! HBase: five clients with different weights.

use super::figure::{Arm, Claim, Figure, Sweep, Time, arm, shipped};
use super::found::Seed;
use super::panel::Panel;

const ORIGINAL: &str = "HBase as it is";
const MAAT: &str = "HBase-Maat";

/// The only point: threads of each client.
const AT: f64 = 140.0;

/// Keys of the clients, whose weights are 1 to 5.
const KEYS: [&str; 5] = ["C1_per_s", "C2_per_s", "C3_per_s", "C4_per_s", "C5_per_s"];

/// YCSB's workload A: as many reads as updates. The text does not say which workload it was.
pub(super) const FIGURE: Figure = Figure {
    id: "tad-hbase-weights",
    title: "HBase: five clients with weights 1 to 5",
    figure: "Figure 4.18",
    about: "Seven region servers. Five clients, with weights 1 to 5, issue Gets that hit the cache and Puts, as many \
            threads for the one as for the other. The text measures that on a cluster; this is a simulation.",
    system: "hbase",
    scenario: r#"
name = "weights"
duration = "{duration}"
warmup = "{warmup}"
policy = "drf"
jitter = 0.2
client = [
    { name = "C1", weight = 1, load = [{ request = "get-cached", threads = {x} }, { request = "put", threads = {x} }] },
    { name = "C2", weight = 2, load = [{ request = "get-cached", threads = {x} }, { request = "put", threads = {x} }] },
    { name = "C3", weight = 3, load = [{ request = "get-cached", threads = {x} }, { request = "put", threads = {x} }] },
    { name = "C4", weight = 4, load = [{ request = "get-cached", threads = {x} }, { request = "put", threads = {x} }] },
    { name = "C5", weight = 5, load = [{ request = "get-cached", threads = {x} }, { request = "put", threads = {x} }] },
]
"#,
    sweep: Sweep { key: "threads", label: "threads of each kind of each client", points: &[AT] },
    arms: &[shipped(ORIGINAL), Arm { system: Some("hbase-maat"), ..arm(MAAT, "?|?|?|?|?") }],
    time: Time { full_s: 20, quick_s: 10, warmup_s: 10 },
    keep: &["C*_per_s", "slave.*_used_fraction"],
    derive: |_| {},
    claims: &[
        Claim::new("HBase as it is: about the same throughput for all")
            .paper("approximately equal")
            .ours("largest throughput / smallest", |seed| {
                let got = got(seed, ORIGINAL);
                let high = got.into_iter().fold(0.0, super::found::largest);
                high / got.into_iter().fold(f64::INFINITY, f64::min)
            })
            .at_most(1.1),
        Claim::new("HBase-Maat: throughput follows the weights")
            .paper("as desired (figure)")
            .ours("largest relative distance from the share by weight", |seed| {
                let got = got(seed, MAAT);
                let sum: f64 = got.iter().sum();
                let apart = got.into_iter().zip(1..).map(|(got, weight)| {
                    let fair = f64::from(weight) / 15.0;
                    (got / sum / fair - 1.0).abs()
                });
                apart.fold(0.0, super::found::largest)
            })
            .at_most(0.1),
    ],
    panels: || {
        let mut panel = Panel::bars("Throughput", "requests/s");
        for arm in [ORIGINAL, MAAT] {
            for (number, key) in KEYS.into_iter().enumerate() {
                let category = format!("C{0}, weight {0}", number + 1);
                panel = panel.bar(&category, arm, arm, AT, key);
            }
        }
        vec![panel]
    },
    expected_s: (220, 20),
};

fn got(seed: &Seed<'_>, arm: &str) -> [f64; 5] {
    KEYS.map(|key| seed.get(arm, AT, key))
}
