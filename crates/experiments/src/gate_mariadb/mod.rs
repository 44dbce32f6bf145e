//! The gate in front of an unmodified MariaDB: throughput, equal service and short tails with 256
//! users.
//!
//! Five arms run in turn on the same data. Three have 256 users: on MariaDB as it is, on MariaDB's
//! own pool of threads, and behind the gate. Two have 16 users, with and without the gate: there is
//! nothing to win and little to lose.

mod collect;
mod draw;
mod draw_fairness;
#[cfg(test)]
mod tests;
mod workload;

use std::path::Path;

use anyhow::Result;

use crate::experiment::{Experiment, Outcome, Steps};
use crate::served::{
    CPU_WAITED, MAX, P50, P95, P99, REQUESTS, RETRIES, TPS, UNFAIRNESS, VARIATION,
};
use crate::sweep::found::Seed;
use crate::sweep::{self, Claim, Presentation};

const ID: &str = "gate-mariadb";

/// What the registry knows of this experiment.
pub(crate) const EXPERIMENT: Experiment = Experiment {
    id: ID,
    title: "The gate in front of MariaDB: throughput, equal service and tails with 256 users",
    paper: "AppleS",
    figure: "Figs. 1, 9 and 11; section 3.1",
    expected_s: 490,
    expected_quick_s: 62,
    needs: &["mariadb-server-core", "sysbench", "2 GB of disk"],
    bench: &Steps { collect: collect::collect, report },
};

/// The arms.
const AS_IS: &str = "MariaDB as it is";
const POOL: &str = "its own thread pool";
const GATED: &str = "behind the gate";

/// Users that overload the server, and users that do not.
const USERS_MANY: f64 = 256.0;
const USERS_FEW: f64 = 16.0;

/// What the paper says about throughput.
const PAPER_THROUGHPUT: &str = "1.10 to 1.28 × from 64 to 512 users (MySQL 8.0.15, TPC-C, Fig. 9)";

fn over(seed: &Seed<'_>, key: &str, under: &'static str, users: f64) -> f64 {
    seed.get(GATED, users, key) / seed.get(under, users, key)
}

const CLAIMS: &[Claim] = &[
    Claim::new("256 users: at least 1.10 × the throughput of MariaDB as it is")
        .paper(PAPER_THROUGHPUT)
        .ours("ratio of tx/s", |seed| over(seed, TPS, AS_IS, USERS_MANY))
        .at_least(1.10),
    Claim::new("256 users: at least 1.10 × the throughput of MariaDB's own thread pool")
        .paper("not compared")
        .ours("ratio of tx/s", |seed| over(seed, TPS, POOL, USERS_MANY))
        .at_least(1.10),
    Claim::new("256 users: p95 latency at most 0.4 × that of MariaDB as it is")
        .paper("not reported for MySQL")
        .ours("ratio of ms", |seed| over(seed, P95, AS_IS, USERS_MANY))
        .at_most(0.4),
    Claim::new("256 users: p95 latency at most 0.4 × that of MariaDB's own thread pool")
        .paper("not compared")
        .ours("ratio of ms", |seed| over(seed, P95, POOL, USERS_MANY))
        .at_most(0.4),
    Claim::new("256 users: unfairness U_f at most 0.05")
        .paper("at most 0.15 wanted; 0.17 at 512 users (Fig. 9)")
        .ours("U_f over requests", |seed| seed.get(GATED, USERS_MANY, UNFAIRNESS))
        .at_most(0.05),
    Claim::new("16 users: at least 0.99 × the throughput without the gate")
        .paper("not reported; interception costs about 100 ns a call")
        .ours("ratio of tx/s", |seed| over(seed, TPS, AS_IS, USERS_FEW))
        .at_least(0.99),
];

/// Analyses and draws from what was recorded; `fresh` says that the record was made in this very
/// run.
fn report(directory: &Path, fresh: bool) -> Result<Outcome> {
    let record = sweep::read(directory, ID)?;
    let show = Presentation {
        id: ID,
        figure: EXPERIMENT.figure,
        about: "sysbench's oltp_read_write against one MariaDB, whose users are served as it serves them, by its own \
                pool of threads, and behind the gate. Latency runs from the begin of a transaction's first attempt to \
                the answer to its COMMIT, as the client sees it, so retries and waiting in the gate are part of it. \
                U_f is the largest deviation of one user's requests from the mean of all users, relative to that mean; \
                CV is the coefficient of variation of each user's latencies, averaged over users.",
        sweep_label: "users",
        caption: format!("windows of {} s", record.counted_s),
        columns: &[
            ("tx/s", TPS),
            ("p50 ms", P50),
            ("p95 ms", P95),
            ("p99 ms", P99),
            ("max ms", MAX),
            ("U_f", UNFAIRNESS),
            ("CV", VARIATION),
            ("statements/s", REQUESTS),
            ("repeated, %", RETRIES),
            ("waited for a processor, %", CPU_WAITED),
        ],
        claims: CLAIMS,
        own_picture: Some(draw::picture),
        ..Presentation::default()
    };
    sweep::report(&show, record, directory, fresh)
}
