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
const WATCHED: &str = "watched, nobody held";
const BOUNDED: &str = "U_f at most 0.1";
const BOTH: &str = "U_f at most 0.15, V_l at most 0.9 x as it is";
const ALL: [&str; 3] = [AS_IS, BOUNDED, BOTH];
const POINTS: &[f64] = &[64.0, 128.0, 256.0, 512.0];
const LOAD: Load = Load::of(Users::Point, Mix::STANDARD);

fn least(seed: &Seed<'_>, of: impl Fn(&Seed<'_>, f64) -> f64) -> f64 {
    POINTS.iter().map(|&at| of(seed, at)).fold(f64::INFINITY, |least, value| {
        if value.is_nan() { f64::NAN } else { least.min(value) }
    })
}

const fn arm(label: &'static str, server: ServerKind) -> Arm {
    Arm { label, server, points: POINTS, load: LOAD, time: None }
}

/// A server in which nothing has to be found first.
const fn at_once(label: &'static str, server: ServerKind, window_s: u64) -> Arm {
    Arm { time: Some((10, window_s)), ..arm(label, server) }
}

const BOUNDS: Figure = Figure {
    id: "apples-bounds",
    title: "Throughput while unfairness stays under a bound",
    figure: "Figure 9; Algorithm 2",
    about: "Terminals without pauses, standard mix: MariaDB as it is, a gate whose P and whose quota find themselves with \
            U_f bounded by 0.1, and one with the paper's bounds: U_f by 0.15, and V_l of requests by nine tenths of what \
            a gate that holds nobody sees.",
    sweep: ("users", "users"),
    arms: &[
        at_once(AS_IS, ServerKind::Plain(&[]), 60),
        at_once(WATCHED, ServerKind::Gate("[gate]\nmode = \"observe\"\n"), 20),
        arm(BOUNDED, ServerKind::Gate("[gate]\nparallelism = \"auto\"\nunfairness_max = 0.1\n")),
        arm(
            BOTH,
            ServerKind::Gate(
                "[gate]\nparallelism = \"auto\"\nunfairness_max = 0.15\nlatency_cv_max = {cv}\n",
            ),
        ),
    ],
    time: Time { warm_up_s: 30, window_s: 60, rounds: 3 },
    claims: &[
        Claim {
            statement: "unfairness stays under its bound",
            paper: "bounded (Figure 9)",
            unit: "part of the windows of 10 s in which U_f over statements was at most 0.1, lowest of the four",
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
            unit: "throughput / that of MariaDB as it is, lowest of the four",
            ours: |seed| {
                let key = "throughput_per_s";
                least(seed, |seed, at| seed.get(BOUNDED, at, key) / seed.get(AS_IS, at, key))
            },
            bound: Bound::AtLeast(1.0),
            note: "",
        },
        Claim {
            statement: "so it is with the paper's two bounds",
            paper: "+9.8 % to +28.1 %",
            unit: "throughput / that of MariaDB as it is, lowest of the four",
            ours: |seed| {
                let key = "throughput_per_s";
                least(seed, |seed, at| seed.get(BOTH, at, key) / seed.get(AS_IS, at, key))
            },
            bound: Bound::AtLeast(1.0),
            note: "",
        },
        Claim {
            statement: "transactions' latencies vary less than nine tenths of MariaDB's as it is",
            paper: "CV at most 90 % of the baseline's (section 5.1)",
            unit: "variation of a user's transactions / the same of MariaDB as it is, highest of the four",
            ours: |seed| {
                let key = "latency_cv";
                let least =
                    least(seed, |seed, at| -seed.get(BOTH, at, key) / seed.get(AS_IS, at, key));
                -least
            },
            bound: Bound::AtMost(0.9),
            note: "the bound itself is about requests, of which the first of a transaction waits and the others do not",
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
            [WATCHED, BOUNDED, BOTH].into_iter().fold(
                Panel::sweep("V_l of requests, as the gate counts them", ""),
                |panel, arm| panel.line(arm, arm, "request_latency_cv"),
            ),
        ]
    },
};
