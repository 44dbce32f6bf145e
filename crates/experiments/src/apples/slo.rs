//! A few users with a latency target beside many without.

use headworks_workload::tpcc::Mix;
use headworks_workload::ycsb::Core;

use super::figure::{Arm, Claim, Figure, Load, ServerKind, Time, Users};
use super::site::Site;
use crate::sweep::found::{Seed, largest};
use crate::sweep::panel::Panel;

const MARIADB: &str = "MariaDB as it is";
const STORE: &str = "as it is";
const FIXED: &str = "weights fixed";
const TARGET: &str = "weights follow the target";
const POINTS: &[f64] = &[90.0, 140.0, 190.0];

const LOAD: Load = Load { sensitive: 10, ..Load::of(Users::PointAndSensitive, Mix::STANDARD) };

/// A gate with a class for the sensitive users, who are known by their `$who`.
macro_rules! config {
    ($parallelism:literal, $who:literal, $class:expr) => {
        concat!(
            "[gate]\nparallelism = ",
            $parallelism,
            "\n[[class]]\nname = \"sensitive\"\n",
            $class,
            "\n[[rule]]\n",
            $who,
            " = \"ls\"\nclass = \"sensitive\"\n"
        )
    };
}

/// Without a target, an operator must guess a weight that suffices at the worst time. Here each of
/// the ten has twenty times the weight of the others.
macro_rules! fixed {
    ($parallelism:literal, $who:literal) => {
        config!($parallelism, $who, "weight = 20.0")
    };
}

macro_rules! target {
    ($parallelism:literal, $who:literal, $ms:literal) => {
        config!($parallelism, $who, concat!("latency_ms_max = ", $ms, "\npercentile = 99.9"))
    };
}

fn over(seed: &Seed<'_>, value: fn(&Seed<'_>, f64) -> f64, pick: fn(f64, f64) -> f64) -> f64 {
    let mut values = POINTS.iter().map(|&at| value(seed, at));
    let first = values.next().unwrap_or(f64::NAN);
    values.fold(first, |a, b| if a.is_nan() || b.is_nan() { f64::NAN } else { pick(a, b) })
}

/// The largest variation of the ten's latency, relative to that without the gate.
fn varies(seed: &Seed<'_>, as_is: &str) -> f64 {
    let key = "ls_latency_cv";
    let ratio = |&at: &f64| seed.get(TARGET, at, key) / seed.get(as_is, at, key);
    POINTS.iter().map(ratio).fold(0.0, largest)
}

const fn arm(label: &'static str, server: ServerKind) -> Arm {
    Arm { label, server, points: POINTS, load: LOAD, time: None }
}

const fn arms(as_is: &'static str, fixed: &'static str, target: &'static str) -> [Arm; 3] {
    [
        arm(as_is, ServerKind::Plain(&[])),
        arm(FIXED, ServerKind::Gate(fixed)),
        arm(TARGET, ServerKind::Gate(target)),
    ]
}

/// What must hold, with this target and this variation relative to the server as it is.
const fn claims(target_ms: f64, varies: fn(&Seed<'_>) -> f64) -> [Claim; 4] {
    [
        Claim::new("the target is held")
            .paper("60 ms guaranteed")
            .ours(
                "part of the windows in which the P99.9 of requests was within the target, lowest of the three",
                |seed| {
                    over(seed, |seed, at| seed.get(TARGET, at, "target_held_fraction"), f64::min)
                },
            )
            .at_least(0.95)
            .note("windows of the daemon, from the start on: those in which it learned count too"),
        Claim::new("fixed weights hold it as well")
            .paper("60 ms guaranteed")
            .ours(
                "P99.9 of the requests of the ten since the start, in ms, highest of the three",
                |seed| over(seed, |seed, at| seed.get(FIXED, at, "ls_request_p999_ms"), f64::max),
            )
            .at_most(target_ms)
            .note("or else the next line would compare with a gate that is too kind to the others"),
        Claim::new("the others get more than with fixed weights")
            .paper("up to 7.6 x (Figure 18)")
            .ours(
                "throughput of those without a target / with fixed weights, lowest of the three",
                |seed| {
                    let ratio = |seed: &Seed<'_>, at| {
                        seed.get(TARGET, at, "be_per_s") / seed.get(FIXED, at, "be_per_s")
                    };
                    over(seed, ratio, f64::min)
                },
            )
            .at_least(1.0),
        Claim::new("latencies of the ten vary less than on the server as it is")
            .paper("lower (Figure 17)")
            .ours("ratio of the variation of latency, highest of the three", varies)
            .at_most(1.0),
    ]
}

fn panels(as_is: &'static str, requests: &str) -> Vec<Panel> {
    let panel = |title: &str, unit: &str, key: &str| {
        Panel::sweep(title, unit).lines([as_is, FIXED, TARGET], key)
    };
    let per_s = format!("{requests}/s");
    vec![
        panel("Throughput of the ten", &per_s, "ls_per_s"),
        panel("Throughput of the others", &per_s, "be_per_s"),
        panel(&format!("P99.9 of the ten's {requests}"), "ms", "ls_latency_p999_ms"),
        panel("Variation of the ten's latency", "", "ls_latency_cv"),
    ]
}

pub(super) const SLO: Figure = Figure {
    id: "apples-slo",
    site: Site::MariaDb,
    title: "A P99.9 of 60 ms for ten users beside many others",
    figure: "Figures 17 and 18",
    about: "Ten terminals whose requests have a P99.9 target of 60 ms, in the gate and the database together, beside 90, \
            140 and 190 without one: MariaDB as it is, a gate with fixed weights, and one whose weights follow the target.",
    sweep: ("best_effort_users", "users without a target"),
    arms: &arms(MARIADB, fixed!("16", "account"), target!("16", "account", "60.0")),
    time: Time { warm_up_s: 20, window_s: 120, rounds: 3 },
    extend: |_| {},
    claims: &claims(60.0, |seed| varies(seed, MARIADB)),
    panels: || panels(MARIADB, "transactions"),
};

pub(super) const IN_REDIS: Figure = Figure {
    id: "apples-slo-redis",
    site: Site::Redis(Core::A),
    title: "A P99.9 of 10 ms for ten users beside many others: YCSB A on Redis",
    figure: "Figures 17 and 18, on another database",
    about: "Ten users with an account of their own, whose requests have a P99.9 target of 10 ms, in the gate and Redis \
            together, beside 90, 140 and 190 without one; half reads, half updates of 1 KB records, all in memory. Redis \
            answers so soon that the paper's 60 ms would hold by themselves. As it is, a gate with fixed weights, and one \
            whose weights follow the target, both with P = 64.",
    arms: &arms(STORE, fixed!("64", "account"), target!("64", "account", "10.0")),
    claims: &claims(10.0, |seed| varies(seed, STORE)),
    panels: || panels(STORE, "operations"),
    ..SLO
};

pub(super) const IN_MONGODB: Figure = Figure {
    id: "apples-slo-mongodb",
    site: Site::MongoDb(Core::A),
    title: "A P99.9 of 10 ms for ten users beside many others: YCSB A on MongoDB's protocol",
    figure: "Figures 17 and 18",
    about: "Ten users of one application, whose requests have a P99.9 target of 10 ms, in the gate and the database together, \
            beside 90, 140 and 190 without one; half reads, half updates of 1 KB records, all in memory, in \
            mongo-java-server, which is not MongoDB but speaks its protocol. It answers so soon that the paper's 60 ms would \
            hold by themselves. As it is, a gate with fixed weights, and one whose weights follow the target, both with \
            P = 8 x cores.",
    arms: &arms(STORE, fixed!("16", "application"), target!("16", "application", "10.0")),
    ..IN_REDIS
};
