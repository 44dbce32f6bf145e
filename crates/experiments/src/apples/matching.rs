//! The matching point: what P does to throughput, and whether it is found.

mod model;

use headworks_workload::sysbench::Oltp;
use headworks_workload::tpcc::Mix;
use headworks_workload::ycsb::Core;

use super::figure::{Arm, Claim, Figure, Load, ServerKind, Time, Users};
use super::site::{Engine, Site};
use crate::sweep::found::Seed;
use crate::sweep::panel::Panel;
use model::MODEL;

const FIXED: &str = "P fixed";
const AUTO: &str = "P finds itself";
const POINTS: &[f64] = &[4.0, 8.0, 12.0, 16.0, 24.0, 32.0, 64.0, 256.0];
const KEY: &str = "throughput_per_s";

const fn arms(mix: Mix) -> [Arm; 2] {
    let load = Load::of(Users::Fixed(256), mix);
    let auto = ServerKind::Gate("[gate]\nparallelism = \"auto\"\n");
    [
        Arm { label: FIXED, server: ServerKind::Tried, points: POINTS, load, time: None },
        Arm { label: AUTO, server: auto, points: &[0.0], load, time: None },
    ]
}

/// The λ_max error of the P that was found, by means over all rounds: one round is too noisy to
/// tell two good values of P apart.
fn error(seed: &Seed<'_>, found: f64) -> f64 {
    let values = seed.means(FIXED, KEY);
    let best = values.iter().copied().fold(0.0, f64::max);
    let curve: Vec<(f64, f64)> = POINTS.iter().copied().zip(values).collect();
    if found < POINTS[0] {
        // None that small was tried, but the search's own moments were measured beside the others.
        return 1.0 - seed.get(AUTO, 0.0, "own_per_s") / seed.best(FIXED, KEY);
    }
    1.0 - interpolated(&curve, found) / best
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

/// What must hold; `paper` is the λ_max error that the paper has, and `most` what is allowed.
const fn claims(paper: &'static str, most: f64) -> [Claim; 5] {
    [
        Claim::new("a P that finds itself is as good as the best fixed one after a minute")
            .paper("P = 16 for most loads (section 5.1)")
            .ours(
                "throughput / that of the best fixed P",
                |seed| seed.get(AUTO, 0.0, "own_per_s") / seed.best(FIXED, KEY),
            )
            .at_least(0.97)
            .note("in moments that alternate on one server; the best is the P with the largest sum over all rounds"),
        Claim::new("and was so in the first 20 s after that minute")
            .paper("the same")
            .ours(
                "the same, with the throughput from the 60th to the 80th second",
                |seed| seed.get(AUTO, 0.0, KEY) / seed.best(FIXED, KEY),
            )
            .at_least(0.97)
            .note("before others were tried; what the server got slower meanwhile is in it"),
        Claim::new("the P that was found has nearly the largest throughput")
            .paper(paper)
            .ours(
                "relative distance of the throughput with that P fixed from that with the best one",
                |seed| error(seed, seed.get(AUTO, 0.0, "gate_p")),
            )
            .at_most(most)
            .note("by the means over all rounds; between two fixed P that were measured, on a line over log P; \
                   below all of them by the search's own moments"),
        Claim::new("so has the P that the model alone points to")
            .paper("the same; the paper has no search after it")
            .ours(
                "the same for the matching point of Eq. 2, fitted to the first three samples",
                |seed| error(seed, seed.get(AUTO, 0.0, "gate_model_p")),
            )
            .at_most(most)
            .note("from here the search goes on by measuring"),
        Claim::new("so has the P that the model points to if its samples are three of the fixed P")
            .paper("the same (Figure 8)")
            .ours(
                "the same for the matching point of Eq. 2, fitted to P = 4, 24 and 256",
                |seed| error(seed, seed.get(MODEL, POINTS[0], "matching_p")),
            )
            .at_most(most),
    ]
}

const MYSQL: [Claim; 5] = claims("λ_max error 3.58 % on average for MySQL (section 4.3.1)", 0.036);
const NOT_MEASURED: [Claim; 5] =
    claims("not measured; λ_max error 3.58 % on average for MySQL (section 4.3.1)", 0.036);
const MONGO: [Claim; 5] =
    claims("λ_max error 4.46 % for MongoDB with 1,024 users (section 4.3.1)", 0.0446);

fn panels(unit: &str) -> Vec<Panel> {
    vec![
        Panel::sweep("Throughput λ over P", unit)
            .logarithmic()
            .line(FIXED, FIXED, KEY)
            .line("Eq. 2 through P = 4, 24 and 256", MODEL, KEY)
            .dashed(),
        Panel::sweep("Parallel fraction α over P", "")
            .logarithmic()
            .line("from λ, P fixed", FIXED, "alpha")
            .line("Eq. 1 through P = 4, 24 and 256", MODEL, "alpha")
            .colour(2)
            .dashed(),
        Panel::time("P finds itself: throughput", unit).at(
            "P finds itself",
            AUTO,
            0.0,
            "answered_per_s",
        ),
        Panel::sweep("P99", "ms").logarithmic().line("P fixed", FIXED, "latency_p99_ms"),
        Panel::sweep("Unfairness U_f", "").logarithmic().line("P fixed", FIXED, "unfairness"),
    ]
}

/// A P that was found has had a minute for it.
const TIME: Time = Time { warm_up_s: 60, window_s: 20, rounds: 3 };

pub(super) const TPCC: Figure = Figure {
    id: "apples-matching",
    site: Site::MariaDb,
    title: "The P with the most throughput, looked for and found: TPC-C",
    figure: "Figures 7 and 8",
    about: "256 terminals without pauses, standard mix. A P that finds itself from a cold start, counted after a \
            minute; then others from 4 to 256 on the same server, each for 5 s in turn, three times.",
    sweep: ("parallelism", "P"),
    arms: &arms(Mix::STANDARD),
    time: TIME,
    // The curves that are fitted to the record.
    extend: |record| model::add(record, FIXED),
    claims: &MYSQL,
    panels: || panels("transactions/s"),
};

pub(super) const READS: Figure = Figure {
    id: "apples-matching-reads",
    title: "The P with the most throughput, looked for and found: mostly reading",
    about: "As with the standard mix, but nine of ten transactions only read (Order-Status, Stock-Level).",
    arms: &arms(Mix::READ_MOSTLY),
    ..TPCC
};

pub(super) const WRITES: Figure = Figure {
    id: "apples-matching-writes",
    title: "The P with the most throughput, looked for and found: only writing",
    about: "As with the standard mix, but New-Order, Payment and Delivery only.",
    arms: &arms(Mix::WRITE_HEAVY),
    ..TPCC
};

pub(super) const ON_POSTGRESQL: Figure = Figure {
    id: "apples-matching-postgresql",
    site: Site::PostgreSql,
    title: "The P with the most throughput, looked for and found: TPC-C on PostgreSQL",
    claims: &NOT_MEASURED,
    ..TPCC
};

pub(super) const WITH_SYSBENCH: Figure = Figure {
    id: "apples-matching-sysbench",
    site: Site::Sysbench(Engine::MariaDb, Oltp::ReadWrite),
    title: "The P with the most throughput, looked for and found: sysbench on MariaDB",
    about: "256 users without pauses, sysbench's oltp_read_write, ten tables of 200,000 rows, all in memory. A P that finds \
            itself from a cold start, counted after a minute; then others from 4 to 256 on the same server, each for 5 s in \
            turn, three times.",
    claims: &NOT_MEASURED,
    ..TPCC
};

pub(super) const ON_REDIS: Figure = Figure {
    id: "apples-matching-ycsb-redis",
    site: Site::Redis(Core::A),
    title: "The P with the most throughput, looked for and found: YCSB A on Redis",
    about: "256 users, half reads and half updates of 1 KB records by Zipf's law, 100,000 records, all in memory. A P that \
            finds itself from a cold start, counted after a minute; then others from 4 to 256 on the same server, each for 5 s \
            in turn, three times.",
    claims: &NOT_MEASURED,
    panels: || panels("operations/s"),
    ..TPCC
};

pub(super) const ON_REDIS_READS: Figure = Figure {
    id: "apples-matching-ycsb-redis-reads",
    site: Site::Redis(Core::B),
    title: "The P with the most throughput, looked for and found: YCSB B on Redis",
    about: "As with YCSB A on Redis, but 95 % reads and 5 % updates.",
    ..ON_REDIS
};

pub(super) const ON_MONGODB: Figure = Figure {
    id: "apples-matching-ycsb-mongodb",
    site: Site::MongoDb(Core::A),
    title: "The P with the most throughput, looked for and found: YCSB A on MongoDB's protocol",
    about: "256 users, half reads and half updates of 1 KB records by Zipf's law, 50,000 records, all in memory, in \
            mongo-java-server, which is not MongoDB but speaks its protocol. A P that finds itself from a cold start, \
            counted after a minute; then others from 4 to 256 on the same server, each for 5 s in turn, three times.",
    claims: &MONGO,
    ..ON_REDIS
};

pub(super) const ON_MONGODB_READS: Figure = Figure {
    id: "apples-matching-ycsb-mongodb-reads",
    site: Site::MongoDb(Core::B),
    title: "The P with the most throughput, looked for and found: YCSB B on MongoDB's protocol",
    about: "As with YCSB A on MongoDB's protocol, but 95 % reads and 5 % updates.",
    ..ON_MONGODB
};
