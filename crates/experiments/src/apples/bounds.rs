//! Unfairness and variation of latencies under bounds.

use headworks_workload::tpcc::Mix;

use super::figure::{Arm, Claim, Figure, Load, ServerKind, Time, Users};
use super::measure::REQUEST_CV;
use super::site::Site;
use crate::sweep::found::Seed;
use crate::sweep::panel::Panel;

const AS_IS: &str = "MariaDB as it is";
const WATCHED: &str = "watched, none held";
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

/// A variation with both bounds, relative to another arm.
fn varies(seed: &Seed<'_>, key: &str, than: &str, at: f64) -> f64 {
    seed.get(BOTH, at, key) / seed.get(than, at, key)
}

const fn arm(label: &'static str, server: ServerKind) -> Arm {
    Arm { label, server, points: POINTS, load: LOAD, time: None }
}

pub(super) const BOUNDS: Figure = Figure {
    id: "apples-bounds",
    site: Site::MariaDb,
    title: "Throughput while unfairness stays under a bound",
    figure: "Figure 9; Algorithm 2",
    about: "Terminals without pauses, standard mix: MariaDB as it is, a gate whose P and whose quota find themselves with \
            U_f bounded by 0.1, and one with the paper's bounds: U_f by 0.15, and V_l of requests by nine tenths of what \
            a gate that holds no request sees.",
    sweep: ("users", "users"),
    arms: &[
        arm(AS_IS, ServerKind::Plain(&[])),
        Arm {
            time: Some((10, 20)),
            ..arm(WATCHED, ServerKind::Gate("[gate]\nmode = \"dry-run\"\n"))
        },
        arm(BOUNDED, ServerKind::Gate("[gate]\nparallelism = \"auto\"\nunfairness_max = 0.1\n")),
        arm(
            BOTH,
            ServerKind::Gate(
                "[gate]\nparallelism = \"auto\"\nunfairness_max = 0.15\nlatency_cv_max = {cv}\n",
            ),
        ),
    ],
    time: Time { warm_up_s: 30, window_s: 60, rounds: 3 },
    extend: |_| {},
    claims: &[
        Claim::new("unfairness stays under its bound")
            .paper("bounded (Figure 9)")
            .ours(
                "part of the windows in which U_f over statements was at most 0.1, lowest of the four",
                |seed| least(seed, |seed, at| seed.get(BOUNDED, at, "unfairness_held_fraction")),
            )
            .at_least(0.95)
            .note("windows of the clients, of 10 s or 40 transactions each"),
        Claim::new("and throughput is higher than without a gate")
            .paper("+9.8 % to +28.1 %")
            .ours("throughput / that of MariaDB as it is, lowest of the four", |seed| {
                let key = "throughput_per_s";
                least(seed, |seed, at| seed.get(BOUNDED, at, key) / seed.get(AS_IS, at, key))
            })
            .at_least(1.0),
        Claim::new("so it is with the paper's two bounds")
            .paper("+9.8 % to +28.1 %")
            .ours("throughput / that of MariaDB as it is, lowest of the four", |seed| {
                let key = "throughput_per_s";
                least(seed, |seed, at| seed.get(BOTH, at, key) / seed.get(AS_IS, at, key))
            })
            .at_least(1.0),
        Claim::new("the first of them holds")
            .paper("15 % (section 5.1)")
            .ours(
                "U_f over statements of the whole minute, highest of the four",
                |seed| -least(seed, |seed, at| -seed.get(BOTH, at, "unfairness")),
            )
            .at_most(0.15),
        Claim::new("the second of them holds")
            .paper("90 % of the baseline's (section 5.1)")
            .ours(
                "V_l of requests / what a gate that holds no request sees, highest of the four",
                |seed| -least(seed, |seed, at| -varies(seed, REQUEST_CV, WATCHED, at)),
            )
            .at_most(0.9)
            .note("of a transaction's requests the first waits and the others do not"),
        Claim::new("latencies of whole transactions vary less")
            .paper("the same, where a request is a transaction")
            .ours(
                "variation of a user's transactions / the same of MariaDB as it is, highest of the four",
                |seed| -least(seed, |seed, at| -varies(seed, "latency_cv", AS_IS, at)),
            )
            .at_most(0.9),
    ],
    panels: || {
        let panel = |title: &str, unit: &str, key: &str| Panel::sweep(title, unit).lines(ALL, key);
        vec![
            panel("Throughput", "transactions/s", "throughput_per_s"),
            panel("Unfairness U_f over the whole window", "", "unfairness"),
            panel("Variation of a user's latency", "", "latency_cv"),
            panel("P99", "ms", "latency_p99_ms"),
            Panel::sweep("V_l of requests, as the gate counts them", "")
                .lines([WATCHED, BOUNDED, BOTH], REQUEST_CV),
        ]
    },
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_bound_follows_from_is_seen_at_each_of_its_points() {
        let watching: Vec<&Arm> = BOUNDS.arms.iter().filter(|arm| arm.watches()).collect();
        let [watching] = watching[..] else { panic!("one arm only watches") };
        let mut following = BOUNDS.arms.iter().filter(|arm| arm.follows());
        assert!(following.any(|arm| arm.label == BOTH && arm.points == watching.points));
    }
}
