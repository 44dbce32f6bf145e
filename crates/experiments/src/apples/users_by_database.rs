//! More and more users, on other databases and with other workloads than TPC-C on MariaDB.

use headworks_workload::sysbench::Oltp;
use headworks_workload::tpcc::Mix;
use headworks_workload::ycsb::Core;

use super::figure::{Arm, Claim, Figure, Load, ServerKind, Time, Users};
use super::site::{Engine, Site};
use crate::sweep::found::Seed;
use crate::sweep::panel::Panel;

const AS_IS: &str = "as it is";
const GATE: &str = "behind the gate";
const AS_IS_LONG: &str = "as it is, for two minutes";
const GATE_LONG: &str = "behind the gate, for two minutes";
/// Where fairness is judged.
const MANY: f64 = 256.0;
const KEY: &str = "throughput_per_s";
const POINTS: &[f64] = &[4.0, 16.0, 64.0, 256.0, 512.0];
const LOAD: Load = Load::of(Users::Point, Mix::STANDARD);

/// A number behind the gate relative to that without it, at 256 and 512 users: the smaller one.
fn least(seed: &Seed<'_>, key: &str) -> f64 {
    let at = |users| seed.get(GATE, users, key) / seed.get(AS_IS, users, key);
    at(256.0).min(at(512.0))
}

/// How many times fairer service is behind the gate, at 256 users.
fn fairer(seed: &Seed<'_>, as_is: &str, gate: &str) -> f64 {
    seed.get(as_is, MANY, "unfairness") / seed.get(gate, MANY, "unfairness")
}

const fn arm(label: &'static str, server: ServerKind) -> Arm {
    Arm { label, server, points: POINTS, load: LOAD, time: None }
}

const fn arms(config: &'static str) -> [Arm; 2] {
    [arm(AS_IS, ServerKind::Plain(&[])), arm(GATE, ServerKind::Gate(config))]
}

/// A window of two minutes: in a short one U_f of a fair service is mostly the last transaction
/// that is not over yet.
const fn long(label: &'static str, server: ServerKind) -> Arm {
    Arm { label, server, points: &[MANY], load: LOAD, time: Some((4, 120)) }
}

/// The same for transactions.
const fn arms_of_transactions(config: &'static str) -> [Arm; 4] {
    let [as_is, gate] = arms(config);
    let long_gate = long(GATE_LONG, ServerKind::Gate(config));
    [as_is, gate, long(AS_IS_LONG, ServerKind::Plain(&[])), long_gate]
}

const fn claims(
    throughput: (&'static str, f64),
    fairness: (&'static str, f64),
    fairer: fn(&Seed<'_>) -> f64,
) -> [Claim; 3] {
    [
        Claim::new("256 and 512 users: throughput against the server as it is")
            .paper(throughput.0)
            .ours("lower ratio of throughput of the two", |seed| least(seed, KEY))
            .at_least(throughput.1),
        Claim::new("256 users: service is fairer than from the server as it is")
            .paper(fairness.0)
            .ours("ratio of U_f over requests", fairer)
            .at_least(fairness.1),
        Claim::new("4 users, fewer than P: the gate costs next to nothing")
            .paper("about 100 ns for each intercepted call (section 3.4)")
            .ours("ratio of throughput", |seed| {
                seed.get(GATE, 4.0, KEY) / seed.get(AS_IS, 4.0, KEY)
            })
            .at_least(0.97),
    ]
}

fn panels(unit: &str) -> Vec<Panel> {
    let panel =
        |title: &str, unit: &str, key: &str| Panel::sweep(title, unit).lines([AS_IS, GATE], key);
    vec![
        panel("Throughput", unit, KEY),
        panel("Unfairness U_f", "", "unfairness"),
        panel("P99", "ms", "latency_p99_ms"),
        panel("Variation of a user's latency", "", "latency_cv"),
    ]
}

pub(super) const TPCC: Figure = Figure {
    id: "apples-users-postgresql",
    site: Site::PostgreSql,
    title: "Throughput, fairness and tails with more and more users: PostgreSQL",
    figure: "Figures 1 and 9, on another database",
    about: "TPC-C's terminals without pauses, standard mix: PostgreSQL as it is, and behind the gate with P = 8 x cores.",
    sweep: ("users", "users"),
    arms: &arms_of_transactions("[gate]\nparallelism = 16\n"),
    time: Time { warm_up_s: 4, window_s: 20, rounds: 3 },
    extend: |_| {},
    claims: &claims(
        ("+9.8 % to +28.1 % (Figure 9, MySQL)", 1.10),
        ("31.8 x to 101.5 x (Figures 12 and 14)", 30.0),
        |seed| fairer(seed, AS_IS_LONG, GATE_LONG),
    ),
    panels: || panels("transactions/s"),
};

pub(super) const IN_MARIADB: Figure = Figure {
    id: "apples-users-sysbench",
    site: Site::Sysbench(Engine::MariaDb, Oltp::ReadWrite),
    title: "Throughput, fairness and tails with more and more users: sysbench on MariaDB",
    figure: "Figures 1 and 9, with another workload",
    about: "sysbench's oltp_read_write without pauses, ten tables of 200,000 rows, all in memory, three of four statements \
            on a hundredth of the rows: MariaDB as it is, and behind the gate with P = 8 x cores.",
    claims: &claims(
        ("not shown; TPC-C: +9.8 % to +28.1 % (Figure 9)", 1.10),
        ("not shown; TPC-C: 31.8 x to 101.5 x (Figures 12 and 14)", 30.0),
        |seed| fairer(seed, AS_IS_LONG, GATE_LONG),
    ),
    ..TPCC
};

pub(super) const IN_POSTGRESQL: Figure = Figure {
    id: "apples-users-sysbench-postgresql",
    site: Site::Sysbench(Engine::PostgreSql, Oltp::ReadWrite),
    title: "Throughput, fairness and tails with more and more users: sysbench on PostgreSQL",
    figure: "Figures 1 and 9, with another workload and on another database",
    about: "sysbench's oltp_read_write without pauses, ten tables of 200,000 rows, all in memory, three of four statements \
            on a hundredth of the rows: PostgreSQL as it is, and behind the gate with P = 8 x cores.",
    ..IN_MARIADB
};

pub(super) const IN_REDIS: Figure = Figure {
    id: "apples-users-ycsb-redis",
    site: Site::Redis(Core::A),
    title: "Throughput, fairness and tails with more and more users: YCSB A on Redis",
    figure: "Figure 16, on another database",
    about: "Half reads, half updates of 1 KB records by Zipf's law, 100,000 records, all in memory: Redis as it is, and \
            behind the gate with P = 64, which is what one return of its event loop serves.",
    arms: &arms("[gate]\nparallelism = 64\n"),
    claims: &claims(
        ("at most 2.5 % less (Figure 16, MongoDB)", 0.975),
        ("4.6 x to 39.6 x (Figure 16, MongoDB)", 4.6),
        |seed| fairer(seed, AS_IS, GATE),
    ),
    panels: || panels("operations/s"),
    ..TPCC
};

pub(super) const IN_MONGODB: Figure = Figure {
    id: "apples-users-ycsb-mongodb",
    site: Site::MongoDb(Core::A),
    title: "Throughput, fairness and tails with more and more users: YCSB A on MongoDB's protocol",
    figure: "Figures 14 and 16",
    about: "Half reads, half updates of 1 KB records by Zipf's law, 50,000 records, all in memory, in mongo-java-server, \
            which is not MongoDB but speaks its protocol: as it is, and behind the gate with P = 8 x cores.",
    arms: &arms("[gate]\nparallelism = 16\n"),
    claims: &claims(
        (
            "at most 2.5 % less (Figure 16), up to 28.6 % more with control groups (Figure 14)",
            0.975,
        ),
        ("4.6 x to 39.6 x (Figure 16)", 4.6),
        |seed| fairer(seed, AS_IS, GATE),
    ),
    panels: || panels("operations/s"),
    ..TPCC
};
