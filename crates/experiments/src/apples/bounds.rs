//! Unfairness and variation of latencies under bounds.

use headworks_workload::tpcc::Mix;

use super::figure::{Arm, Bound, Claim, Figure, Load, ServerKind, Time, Users};
use super::{report, run};
use crate::registry::Experiment;
use crate::sweep::found::Seed;
use crate::sweep::panel::Panel;

pub(super) const EXPERIMENT: Experiment =
    BOUNDS.experiment(|options| run(&BOUNDS, options), |directory| report(&BOUNDS, directory));

const AS_IS: &str = "MariaDB as it is";
const BOUNDED: &str = "U_f at most 0.1";
const ALL: [&str; 2] = [AS_IS, BOUNDED];
const POINTS: &[f64] = &[64.0, 128.0, 256.0];
const LOAD: Load = Load::of(Users::Point, Mix::STANDARD);

fn least(seed: &Seed<'_>, of: impl Fn(&Seed<'_>, f64) -> f64) -> f64 {
    POINTS.iter().map(|&at| of(seed, at)).fold(f64::INFINITY, |least, value| {
        if value.is_nan() { f64::NAN } else { least.min(value) }
    })
}

const fn arm(label: &'static str, server: ServerKind) -> Arm {
    Arm { label, server, points: POINTS, load: LOAD, time: None }
}

const BOUNDS: Figure = Figure {
    id: "apples-bounds",
    title: "Throughput while unfairness stays under a bound",
    figure: "Figure 9; Algorithm 2",
    about: "Terminals without pauses, standard mix: MariaDB as it is, and a gate whose P and whose quota find themselves \
            with U_f bounded by 0.1.",
    sweep: ("users", "users"),
    arms: &[
        arm(AS_IS, ServerKind::Plain(&[])),
        arm(BOUNDED, ServerKind::Gate("[gate]\nparallelism = \"auto\"\nunfairness_max = 0.1\n")),
    ],
    time: Time { warm_up_s: 30, window_s: 60, rounds: 3 },
    claims: &[
        Claim {
            statement: "unfairness stays under its bound",
            paper: "bounded (Figure 9)",
            unit: "part of the windows of 10 s in which U_f over statements was at most 0.1, lowest of the three",
            ours: |seed| least(seed, |seed, at| seed.get(BOUNDED, at, "unfairness_held_fraction")),
            bound: Bound::AtLeast(0.95),
            note: "windows of the clients",
        },
        Claim {
            statement: "256 users: service is much fairer than from MariaDB as it is",
            paper: "31.8 x to 101.5 x (Figures 12 and 14)",
            unit: "ratio of U_f over statements, over a whole minute",
            ours: |seed| {
                let unfairness = |arm| seed.get(arm, 256.0, "unfairness");
                unfairness(AS_IS) / unfairness(BOUNDED)
            },
            bound: Bound::AtLeast(30.0),
            note: "",
        },
        Claim {
            statement: "and throughput is higher than without a gate",
            paper: "+9.8 % to +28.1 %",
            unit: "throughput / that of MariaDB as it is, lowest of the three",
            ours: |seed| {
                let key = "throughput_per_s";
                least(seed, |seed, at| seed.get(BOUNDED, at, key) / seed.get(AS_IS, at, key))
            },
            bound: Bound::AtLeast(1.0),
            note: "",
        },
    ],
    panels: || {
        let panel = |title: &str, unit: &str, key: &str| {
            let panel = Panel::sweep(title, unit);
            ALL.into_iter().fold(panel, |panel, arm| panel.line(arm, arm, key))
        };
        vec![
            panel("Throughput", "transactions/s", "throughput_per_s"),
            panel("Unfairness U_f over the whole window", "", "unfairness"),
            panel("Variation of a user's latency", "", "latency_cv"),
            panel("P99", "ms", "latency_p99_ms"),
        ]
    },
};
