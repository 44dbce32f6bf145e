//! More and more users.

use headworks_workload::tpcc::Mix;

use super::figure::{Arm, Claim, Figure, Load, ServerKind, Time, Users};
use super::site::Site;
use crate::sweep::found::Seed;
use crate::sweep::panel::Panel;

const AS_IS: &str = "MariaDB as it is";
const POOL: &str = "its own thread pool";
const LIMIT: &str = "innodb_thread_concurrency = 16";
const GATE: &str = "behind the gate";
const ALL: [&str; 4] = [AS_IS, POOL, LIMIT, GATE];
const AS_IS_LONG: &str = "MariaDB as it is, for two minutes";
const GATE_LONG: &str = "behind the gate, for two minutes";
const KEY: &str = "throughput_per_s";
const POINTS: &[f64] = &[4.0, 16.0, 64.0, 256.0, 512.0, 1024.0];
/// Where fairness is judged.
const MANY: f64 = 256.0;
const LOAD: Load = Load::of(Users::Point, Mix::STANDARD);

/// The smaller of two ratios, at 256 and 512 users.
fn least(seed: &Seed<'_>, than: &str) -> f64 {
    let at = |users| seed.get(GATE, users, KEY) / seed.get(than, users, KEY);
    at(256.0).min(at(512.0))
}

const ONE_EACH: ServerKind = ServerKind::Plain(&["--thread-handling=one-thread-per-connection"]);
const GATED: ServerKind = ServerKind::Gate("[gate]\nparallelism = 16\n");

const fn arm(label: &'static str, server: ServerKind) -> Arm {
    Arm { label, server, points: POINTS, load: LOAD, time: None }
}

/// A window in which a user has a thousand statements or more. In a short one, U_f of a fair
/// service is mostly the last transaction, which is not over yet.
const fn long(label: &'static str, server: ServerKind) -> Arm {
    Arm { label, server, points: &[MANY], load: LOAD, time: Some((4, 120)) }
}

pub(super) const USERS: Figure = Figure {
    id: "apples-users",
    site: Site::MariaDb,
    title: "Throughput, fairness and tails with more and more users",
    figure: "Figures 1 and 9",
    about: "Terminals without pauses, standard mix: MariaDB as it is, its pool of threads, its own limit of threads inside \
            InnoDB, and behind the gate with P = 8 x cores.",
    sweep: ("users", "users"),
    arms: &[
        arm(AS_IS, ONE_EACH),
        arm(POOL, ServerKind::Plain(&["--thread-handling=pool-of-threads"])),
        arm(LIMIT, ServerKind::Plain(&["--innodb-thread-concurrency=16"])),
        arm(GATE, GATED),
        long(AS_IS_LONG, ONE_EACH),
        long(GATE_LONG, GATED),
    ],
    time: Time { warm_up_s: 4, window_s: 20, rounds: 3 },
    extend: |_| {},
    claims: &[
        Claim::new("256 and 512 users: more throughput than MariaDB as it is")
            .paper("+9.8 % to +28.1 % (Figure 9)")
            .ours("lower ratio of throughput of the two", |seed| least(seed, AS_IS))
            .at_least(1.10),
        Claim::new("256 and 512 users: at least the throughput of MariaDB's own thread pool")
            .paper("not compared")
            .ours("lower ratio of throughput of the two", |seed| least(seed, POOL))
            .at_least(1.0),
        Claim::new("256 and 512 users: at least the throughput of a limit that was set by hand")
            .paper("not compared")
            .ours("lower ratio of throughput of the two", |seed| least(seed, LIMIT))
            .at_least(1.0),
        Claim::new("256 users: service is much fairer than from MariaDB as it is")
            .paper("31.8 x to 101.5 x (Figures 12 and 14)")
            .ours("ratio of U_f over statements, in two minutes", |seed| {
                let unfairness = |arm| seed.get(arm, MANY, "unfairness");
                unfairness(AS_IS_LONG) / unfairness(GATE_LONG)
            })
            .at_least(30.0),
    ],
    panels: || {
        let panel = |title: &str, unit: &str, key: &str| Panel::sweep(title, unit).lines(ALL, key);
        vec![
            panel("Throughput", "transactions/s", KEY),
            panel("Unfairness U_f", "", "unfairness"),
            panel("P99", "ms", "latency_p99_ms"),
            panel("Variation of a user's latency", "", "latency_cv"),
        ]
    },
};
