//! A few users with a latency target beside many without.

use headworks_workload::tpcc::Mix;

use super::figure::{Arm, Bound, Claim, Figure, Load, ServerKind, Time, Users};
use super::{report, run};
use crate::registry::Experiment;
use crate::sweep::found::Seed;
use crate::sweep::panel::Panel;

pub(super) const EXPERIMENT: Experiment =
    SLO.experiment(|options| run(&SLO, options), |directory| report(&SLO, directory));

const AS_IS: &str = "MariaDB as it is";
const FIXED: &str = "weights fixed";
const TARGET: &str = "weights follow the target";
const ALL: [&str; 3] = [AS_IS, FIXED, TARGET];
const POINTS: &[f64] = &[90.0, 140.0, 190.0];

const LOAD: Load =
    Load { users: Users::PointAndSensitive, mix: Mix::STANDARD, then: None, sensitive: 10 };

/// Without a target somebody has to guess a weight that is enough for the worst time: here each of the ten weighs as
/// much as twenty others.
const FIXED_CONFIG: &str = r#"
[gate]
parallelism = 16
[[class]]
name = "sensitive"
weight = 20.0
[[rule]]
account = "ls"
class = "sensitive"
"#;

const TARGET_CONFIG: &str = r#"
[gate]
parallelism = 16
[[class]]
name = "sensitive"
latency_ms_max = 60.0
percentile = 99.9
[[rule]]
account = "ls"
class = "sensitive"
"#;

fn over(seed: &Seed<'_>, value: fn(&Seed<'_>, f64) -> f64, pick: fn(f64, f64) -> f64) -> f64 {
    let mut values = POINTS.iter().map(|&at| value(seed, at));
    let first = values.next().unwrap_or(f64::NAN);
    values.fold(first, |a, b| if a.is_nan() || b.is_nan() { f64::NAN } else { pick(a, b) })
}

const fn gate(label: &'static str, config: &'static str) -> Arm {
    Arm { label, server: ServerKind::Gate(config), points: POINTS, load: LOAD, time: None }
}

const SLO: Figure = Figure {
    id: "apples-slo",
    title: "A P99.9 of 60 ms for ten users beside many others",
    figure: "Figures 17 and 18",
    about: "Ten terminals whose requests have a P99.9 target of 60 ms, in the gate and the database together, beside 90, \
            140 and 190 without one: MariaDB as it is, a gate with fixed weights, and one whose weights follow the target.",
    sweep: ("best_effort_users", "users without a target"),
    arms: &[
        Arm {
            label: AS_IS,
            server: ServerKind::Plain(&[]),
            points: POINTS,
            load: LOAD,
            time: None,
        },
        gate(FIXED, FIXED_CONFIG),
        gate(TARGET, TARGET_CONFIG),
    ],
    time: Time { warm_up_s: 20, window_s: 60, rounds: 3 },
    claims: &[
        Claim {
            statement: "the target is held",
            paper: "60 ms guaranteed",
            unit: "part of the windows in which requests had a P99.9 of at most 60 ms, lowest of the three",
            ours: |seed| {
                over(seed, |seed, at| seed.get(TARGET, at, "target_held_fraction"), f64::min)
            },
            bound: Bound::AtLeast(0.95),
            note: "windows of the daemon, from the start on: those in which it learned count too",
        },
        Claim {
            statement: "fixed weights hold it as well",
            paper: "60 ms guaranteed",
            unit: "P99.9 of the requests of the ten since the start, in ms, highest of the three",
            ours: |seed| over(seed, |seed, at| seed.get(FIXED, at, "ls_request_p999_ms"), f64::max),
            bound: Bound::AtMost(60.0),
            note: "or else the next line would compare with a gate that is too kind to the others",
        },
        Claim {
            statement: "the others get more than with fixed weights",
            paper: "up to 7.6 x (Figure 18)",
            unit: "throughput of those without a target / with fixed weights, lowest of the three",
            ours: |seed| {
                let ratio = |seed: &Seed<'_>, at| {
                    seed.get(TARGET, at, "be_per_s") / seed.get(FIXED, at, "be_per_s")
                };
                over(seed, ratio, f64::min)
            },
            bound: Bound::AtLeast(1.0),
            note: "",
        },
        Claim {
            statement: "latencies of the ten vary less than on MariaDB as it is",
            paper: "lower (Figure 17)",
            unit: "ratio of the variation of transactions' latency, highest of the three",
            ours: |seed| {
                let ratio = |seed: &Seed<'_>, at| {
                    seed.get(TARGET, at, "ls_latency_cv") / seed.get(AS_IS, at, "ls_latency_cv")
                };
                over(seed, ratio, f64::max)
            },
            bound: Bound::AtMost(1.0),
            note: "",
        },
    ],
    panels: || {
        let panel = |title: &str, unit: &str, key: &str| {
            let panel = Panel::sweep(title, unit);
            ALL.into_iter().fold(panel, |panel, arm| panel.line(arm, arm, key))
        };
        vec![
            panel("Throughput of the ten", "transactions/s", "ls_per_s"),
            panel("Throughput of the others", "transactions/s", "be_per_s"),
            panel("P99.9 of the ten's transactions", "ms", "ls_latency_p999_ms"),
            panel("Variation of the ten's latency", "", "ls_latency_cv"),
        ]
    },
};
