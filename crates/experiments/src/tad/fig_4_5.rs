//! Blocking: handlers wait for the disk, and are missing for requests that do not need it.

use headworks_tad::remedy::{Remedy, apply};

use super::figure::{Arm, Claim, Figure, Sweep, Time};
use super::found::Seed;
use super::panel::Panel;

const ORIGINAL: &str = "original";
const INDIRECT: &str = "indirect: congestion is told";
const DIRECT: &str = "direct: handlers do not wait";
const HANDLERS: [f64; 3] = [10.0, 20.0, 30.0];

/// Requests that the disk can serve in a second.
const DISK_PER_S: f64 = 1_000.0;

const fn arm(label: &'static str, maat: &'static str) -> Arm {
    Arm {
        label,
        system: None,
        maat,
        shipped: false,
        adjust: |tad, handlers| {
            let remedy = Remedy::SetThreads { stage: "handle".into(), threads: handlers as u32 };
            Ok(apply(tad, &remedy)?)
        },
    }
}

pub(super) const FIGURE: Figure = Figure {
    id: "tad-blocking",
    title: "Handlers that wait for the disk are missing elsewhere",
    figure: "Figure 4.5",
    about: "Both clients issue requests that need 100 µs of CPU, from 40 threads each. Half-way, C2 begins to issue \
            requests that also need 100 KB of the disk, for which the handler waits. With 10, 20 and 30 handlers.",
    system: "blocking",
    scenario: r#"
name = "blocking"
duration = "{duration}"
warmup = "{warmup}"
policy = "drf"
jitter = 0.2
client = [
    { name = "C1", load = [{ request = "cpu", threads = 40 }] },
    { name = "C2", load = [{ request = "cpu", threads = 40 }] },
]
change = [{ at = "{middle}", client = "C2", load = [{ request = "io", threads = 40 }] }]
"#,
    sweep: Sweep { key: "handler_threads", label: "handlers", points: &HANDLERS },
    arms: &[arm(ORIGINAL, "?|?|?|?|?"), arm(INDIRECT, "?|?|?|i|?"), arm(DIRECT, "?|?|?|d|?")],
    time: Time { full_s: 120, quick_s: 30, warmup_s: 0 },
    keep: &["series:C*_per_s", "series:*_C2_serving_threads", "node.*_used_fraction"],
    derive: |_| {},
    claims: &[
        Claim::new("before the change both clients get half of the CPU")
            .paper("high (figure)")
            .ours("lower throughput of the two, requests/s", |seed| {
                let early = |client: &str| HANDLERS.map(|at| seed.early(ORIGINAL, at, client));
                let all = early("C1_per_s").into_iter().chain(early("C2_per_s"));
                all.fold(f64::INFINITY, f64::min)
            })
            .at_least(4_800.0),
        Claim::new("original: C1 falls to what the disk can serve, with 10, 20 and 30 handlers")
            .paper("both clients drop to the disk's rate")
            .ours("C1's throughput after the change / the disk's, highest of the three", |seed| {
                most(seed, ORIGINAL) / DISK_PER_S
            })
            .between(0.9, 1.1),
        Claim::new("original: more handlers are only more that wait")
            .paper("more blocked threads")
            .ours("fraction of 30 handlers that C2 holds after the change", |seed| {
                seed.late(ORIGINAL, 30.0, "handle_C2_serving_threads") / 30.0
            })
            .at_least(0.9),
        Claim::new("indirect: few handlers wait")
            .paper("low number of blocked threads")
            .ours(
                "requests at the I/O stage after the change, each with one of 10 handlers",
                |seed| seed.late(INDIRECT, 10.0, "io_C2_serving_threads"),
            )
            .at_most(5.0)
            .note("two may wait there; what is on its way is not seen"),
        Claim::new("indirect: C1 gets the CPU that C2 leaves")
            .paper("high")
            .ours("C1's throughput after the change, requests/s, lowest of the three", |seed| {
                least(seed, INDIRECT)
            })
            .at_least(8_500.0)
            .note("9,000 are left"),
        Claim::new("direct: C1 gets the CPU that C2 leaves")
            .paper("high")
            .ours("C1's throughput after the change, requests/s, lowest of the three", |seed| {
                least(seed, DIRECT)
            })
            .at_least(8_500.0)
            .note("9,000 are left"),
    ],
    panels: || {
        let arms = [ORIGINAL, INDIRECT, DIRECT];
        let panel = |arm, client: &str| {
            let key = format!("{client}_per_s");
            let panel = Panel::time(&format!("{client}, {arm}"), "requests/s").up_to(9_000.0);
            HANDLERS
                .into_iter()
                .fold(panel, |panel, at| panel.at(&format!("{at} handlers"), arm, at, &key))
        };
        let of = |client: &str| arms.map(|arm| panel(arm, client));
        of("C1").into_iter().chain(of("C2")).collect()
    },
    expected_s: (40, 3),
};

fn late(seed: &Seed<'_>, arm: &str) -> [f64; 3] {
    HANDLERS.map(|at| seed.late(arm, at, "C1_per_s"))
}

fn most(seed: &Seed<'_>, arm: &str) -> f64 {
    late(seed, arm).into_iter().fold(0.0, super::found::largest)
}

fn least(seed: &Seed<'_>, arm: &str) -> f64 {
    late(seed, arm).into_iter().fold(f64::INFINITY, f64::min)
}
