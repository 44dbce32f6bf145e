//! The matching point: what P does to throughput, and whether it is found.

use headworks_workload::tpcc::Mix;

use super::figure::{Arm, Bound, Claim, Figure, Load, ServerKind, Time, Users};
use super::{report, run};
use crate::registry::Experiment;
use crate::sweep::found::Seed;
use crate::sweep::panel::Panel;

pub(super) const STANDARD: Experiment =
    TPCC.experiment(|options| run(&TPCC, options), |directory| report(&TPCC, directory));

pub(super) const READ_MOSTLY: Experiment =
    READS.experiment(|options| run(&READS, options), |directory| report(&READS, directory));

pub(super) const WRITE_HEAVY: Experiment =
    WRITES.experiment(|options| run(&WRITES, options), |directory| report(&WRITES, directory));

const FIXED: &str = "P fixed";
const LATE: &str = "P fixed, after a minute";
const AUTO: &str = "P finds itself";
const POINTS: &[f64] = &[4.0, 8.0, 16.0, 32.0, 64.0, 256.0];
const KEY: &str = "throughput_per_s";

/// A P that was found has had a minute for it. In a minute of writing the server gets slower (old versions of rows wait
/// to be purged), so it is compared with fixed ones that have had a minute, too.
const COLD: (u64, u64) = (60, 20);
const LATE_POINTS: &[f64] = &[8.0, 16.0, 32.0];

const fn arms(mix: Mix) -> [Arm; 3] {
    let load = Load::of(Users::Fixed(256), mix);
    [
        Arm {
            label: FIXED,
            server: ServerKind::Gate("[gate]\nparallelism = {x}\n"),
            points: POINTS,
            load,
            time: None,
        },
        Arm {
            label: LATE,
            server: ServerKind::Gate("[gate]\nparallelism = {x}\n"),
            points: LATE_POINTS,
            load,
            time: Some(COLD),
        },
        Arm {
            label: AUTO,
            server: ServerKind::Gate("[gate]\nparallelism = \"auto\"\n"),
            points: &[0.0],
            load,
            time: Some(COLD),
        },
    ]
}

fn best(seed: &Seed<'_>, arm: &str) -> f64 {
    seed.all(arm, KEY).into_iter().fold(0.0, f64::max)
}

/// The λ_max error of a P that the gate found.
fn error(seed: &Seed<'_>, key: &str) -> f64 {
    let found = seed.get(AUTO, 0.0, key);
    let values = seed.all(FIXED, KEY);
    let curve: Vec<(f64, f64)> = POINTS.iter().copied().zip(values).collect();
    (interpolated(&curve, found) / best(seed, FIXED) - 1.0).abs()
}

/// The value at a P between two of a curve, on a line over log P.
fn interpolated(curve: &[(f64, f64)], at: f64) -> f64 {
    let pair = curve.windows(2).find(|pair| (pair[0].0..=pair[1].0).contains(&at));
    let Some(&[(p0, y0), (p1, y1)]) = pair else { return f64::NAN };
    y0 + (y1 - y0) * (at / p0).ln() / (p1 / p0).ln()
}

#[test]
fn between_two_points_the_curve_is_a_line_over_the_logarithm() {
    let curve = [(2.0, 100.0), (8.0, 200.0), (32.0, 100.0)];
    assert_eq!(interpolated(&curve, 2.0), 100.0);
    assert!((interpolated(&curve, 4.0) - 150.0).abs() < 1e-9);
    assert!((interpolated(&curve, 16.0) - 150.0).abs() < 1e-9);
    assert!(interpolated(&curve, 64.0).is_nan() && interpolated(&curve, f64::NAN).is_nan());
}

const CLAIMS: &[Claim] = &[
    Claim {
        statement: "a P that finds itself is as good as the best fixed one after a minute",
        paper: "P = 16 for most loads (section 5.1)",
        unit: "throughput / that of the best fixed P",
        ours: |seed| seed.get(AUTO, 0.0, KEY) / best(seed, LATE),
        bound: Bound::AtLeast(0.97),
        note: "",
    },
    Claim {
        statement: "the P that was found has nearly the largest throughput",
        paper: "λ_max error 3.58 % on average for MySQL (section 4.3.1)",
        unit: "relative distance of the throughput with that P fixed from that with the best one",
        ours: |seed| error(seed, "gate_p"),
        bound: Bound::AtMost(0.036),
        note: "between two fixed P that were measured, on a line over log P",
    },
    Claim {
        statement: "so has the P that the model alone points to",
        paper: "the same; the paper has no search after it",
        unit: "the same for the matching point of Eq. 2, fitted to the first three samples",
        ours: |seed| error(seed, "gate_model_p"),
        bound: Bound::AtMost(0.036),
        note: "from here the search goes on by measuring",
    },
];

fn panels() -> Vec<Panel> {
    vec![
        Panel::sweep("Throughput over P", "transactions/s")
            .line(FIXED, FIXED, KEY)
            .line(LATE, LATE, KEY),
        Panel::time("P finds itself: throughput", "transactions/s").at(
            "P finds itself",
            AUTO,
            0.0,
            "answered_per_s",
        ),
        Panel::sweep("P99", "ms").line("P fixed", FIXED, "latency_p99_ms"),
        Panel::sweep("Unfairness U_f", "").line("P fixed", FIXED, "unfairness"),
    ]
}

const TPCC: Figure = Figure {
    id: "apples-matching",
    title: "The P with the most throughput, looked for and found: TPC-C",
    figure: "Figures 7 and 8",
    about: "256 terminals without pauses, standard mix. P from 4 to 256, each for itself; and a P that finds itself from \
            a cold start, counted after a minute.",
    sweep: ("parallelism", "P"),
    arms: &arms(Mix::STANDARD),
    time: Time { warm_up_s: 4, window_s: 10, rounds: 3 },
    claims: CLAIMS,
    panels,
};

const READS: Figure = Figure {
    id: "apples-matching-reads",
    title: "The P with the most throughput, looked for and found: mostly reading",
    about: "As with the standard mix, but nine of ten transactions only read (Order-Status, Stock-Level).",
    arms: &arms(Mix::READ_MOSTLY),
    ..TPCC
};

const WRITES: Figure = Figure {
    id: "apples-matching-writes",
    title: "The P with the most throughput, looked for and found: only writing",
    about: "As with the standard mix, but New-Order, Payment and Delivery only.",
    arms: &arms(Mix::WRITE_HEAVY),
    ..TPCC
};
