//! What a user notices of its neighbours: a small account beside a large one, and three equal
//! accounts.
//!
//! The second half is what PgBouncer's users have long wished for (its issue 131). Three accounts
//! have fifteen clients each on ten server connections, and none should get more than the others.

mod client;
mod collect;
pub(crate) mod site;

use std::path::Path;

use anyhow::Result;

use crate::experiment::{Experiment, Outcome, Steps};
use crate::sweep::found::Seed;
use crate::sweep::panel::Panel;
use crate::sweep::{self, Claim, Presentation};
use site::Kind;

const ID: &str = "gate-neighbours";

/// What the registry knows of this experiment.
pub(crate) const EXPERIMENT: Experiment = Experiment {
    id: ID,
    title: "A small account beside one with 200 busy connections, and three equal ones",
    paper: "AppleS",
    figure: "section 3.1",
    expected_s: 12 * (WARM_UP_S + WINDOW_S + AROUND_S) * ROUNDS as u64,
    expected_quick_s: 12 * (1 + 3 + AROUND_S),
    needs: &["mariadb-server-core", "postgresql"],
    bench: &Steps { collect: collect::collect, report },
};

const WARM_UP_S: u64 = 3;
const WINDOW_S: u64 = 12;
const AROUND_S: u64 = 5;
const ROUNDS: usize = 3;

/// Who is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Guests {
    /// Four connections of the small account.
    Alone,
    /// The same beside 200 of another.
    Beside,
    /// Fifteen connections of each of three accounts.
    Three,
}

/// One arm.
#[derive(Debug, Clone, Copy)]
struct Arm {
    label: &'static str,
    kind: Kind,
    gated: bool,
    guests: Guests,
}

const fn arm(label: &'static str, kind: Kind, gated: bool, guests: Guests) -> Arm {
    Arm { label, kind, gated, guests }
}

const M_ALONE: &str = "MariaDB, alone";
const M_BESIDE: &str = "MariaDB, beside";
const M_GATE_ALONE: &str = "MariaDB, gate, alone";
const M_GATE_BESIDE: &str = "MariaDB, gate, beside";
const M_THREE: &str = "MariaDB, three";
const M_GATE_THREE: &str = "MariaDB, gate, three";
const P_ALONE: &str = "PostgreSQL, alone";
const P_BESIDE: &str = "PostgreSQL, beside";
const P_GATE_ALONE: &str = "PostgreSQL, gate, alone";
const P_GATE_BESIDE: &str = "PostgreSQL, gate, beside";
const P_THREE: &str = "PostgreSQL, three";
const P_GATE_THREE: &str = "PostgreSQL, gate, three";

const ARMS: [Arm; 12] = [
    arm(M_ALONE, Kind::MariaDb, false, Guests::Alone),
    arm(M_BESIDE, Kind::MariaDb, false, Guests::Beside),
    arm(M_GATE_ALONE, Kind::MariaDb, true, Guests::Alone),
    arm(M_GATE_BESIDE, Kind::MariaDb, true, Guests::Beside),
    arm(M_THREE, Kind::MariaDb, false, Guests::Three),
    arm(M_GATE_THREE, Kind::MariaDb, true, Guests::Three),
    arm(P_ALONE, Kind::PostgreSql, false, Guests::Alone),
    arm(P_BESIDE, Kind::PostgreSql, false, Guests::Beside),
    arm(P_GATE_ALONE, Kind::PostgreSql, true, Guests::Alone),
    arm(P_GATE_BESIDE, Kind::PostgreSql, true, Guests::Beside),
    arm(P_THREE, Kind::PostgreSql, false, Guests::Three),
    arm(P_GATE_THREE, Kind::PostgreSql, true, Guests::Three),
];

const fn tail(statement: &'static str, ours: fn(&Seed<'_>) -> f64) -> Claim {
    Claim::new(statement)
        .ours("P99 of the small account beside the large one / alone, both behind the gate", ours)
        .at_most(1.5)
        .note("classes of equal weight; the small account's clients pause between requests, the large one's do not")
}

const fn shares(statement: &'static str, ours: fn(&Seed<'_>) -> f64) -> Claim {
    Claim::new(statement)
        .ours("largest / smallest share of three accounts with 15 clients each on 10 places", ours)
        .at_most(1.05)
}

const CLAIMS: [Claim; 4] = [
    tail("MariaDB: the small account hardly notices its neighbour", |seed| {
        seed.get(M_GATE_BESIDE, 0.0, "small_p99_ms") / seed.get(M_GATE_ALONE, 0.0, "small_p99_ms")
    }),
    tail("PostgreSQL: the small account hardly notices its neighbour", |seed| {
        seed.get(P_GATE_BESIDE, 0.0, "small_p99_ms") / seed.get(P_GATE_ALONE, 0.0, "small_p99_ms")
    }),
    shares("MariaDB: three accounts get the same", |seed| {
        seed.get(M_GATE_THREE, 0.0, "share_ratio")
    }),
    shares("PostgreSQL: three accounts get the same", |seed| {
        seed.get(P_GATE_THREE, 0.0, "share_ratio")
    }),
];

fn report(directory: &Path, fresh: bool) -> Result<Outcome> {
    let record = sweep::read(directory, ID)?;
    let bars = |title: &str, unit: &str, key: &str, guests: [Guests; 2]| {
        let chosen = ARMS.iter().filter(|arm| guests.contains(&arm.guests));
        chosen.fold(Panel::bars(title, unit), |panel, arm| {
            let label = match (arm.gated, arm.guests) {
                (false, Guests::Alone) => "as it is, alone",
                (false, _) => "as it is",
                (true, Guests::Alone) => "gate, alone",
                (true, _) => "gate",
            };
            panel.bar(arm.kind.name(), label, arm.label, 0.0, key)
        })
    };
    let both = [Guests::Alone, Guests::Beside];
    let show = Presentation {
        id: ID,
        figure: EXPERIMENT.figure,
        about: "An account with four connections, whose clients pause between requests, alone and beside an account with \
                200 connections that are always busy; and three accounts with 15 busy connections each. The gate has \
                classes of equal weight for the accounts. Threads of clients that pause go ahead of all others on the \
                processors, as if they were on a separate machine.",
        sweep_label: "",
        time_label: "",
        caption: format!("windows of {} s", record.counted_s),
        claims: &CLAIMS,
        panels: vec![
            bars("P99 of the small account", "ms", "small_p99_ms", both),
            bars("Requests of the small account", "1/s", "small_per_s", both),
            bars(
                "Largest / smallest share of three accounts",
                "",
                "share_ratio",
                [Guests::Three, Guests::Three],
            ),
            bars("Requests of all", "1/s", "all_per_s", [Guests::Beside, Guests::Beside]),
        ],
        ..Presentation::default()
    };
    sweep::report(&show, record, directory, fresh)
}
