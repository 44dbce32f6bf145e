//! The gate in front of a Redis: 1,000 connections, and a noisy neighbour.

mod collect;

use std::path::Path;

use anyhow::Result;

use crate::experiment::{Experiment, Outcome, Steps};
use crate::sweep::found::Seed;
use crate::sweep::panel::Panel;
use crate::sweep::{self, Claim, Presentation};

const ID: &str = "gate-redis";

/// One server as it is, and one behind the gate.
const AS_IS: &str = "Redis as it is";
const GATE: &str = "behind the gate";

/// Commands that each connection has under way.
const PIPELINES: [f64; 2] = [1.0, 16.0];

/// Connections of the arms, and of the noisy neighbour and the small one.
const MANY: usize = 1_000;
const NOISY: usize = 200;
const SMALL: usize = 4;

const BENCHMARK: &str = "benchmark_per_s";
const UNFAIRNESS: &str = "unfairness";
const P99: &str = "p99_ms";
const ALONE: &str = "small_alone_p99_ms";
const BESIDE: &str = "small_beside_p99_ms";

pub(crate) const EXPERIMENT: Experiment = Experiment {
    id: ID,
    title: "1,000 connections to a Redis, and a small account beside a large one",
    paper: "AppleS",
    figure: "not in the paper",
    expected_s: 600,
    expected_quick_s: 40,
    needs: &["redis-server", "redis-tools"],
    bench: &Steps { collect: collect::collect, report },
};

fn over(seed: &Seed<'_>, pipeline: f64) -> f64 {
    seed.get(GATE, pipeline, BENCHMARK) / seed.get(AS_IS, pipeline, BENCHMARK)
}

const CLAIMS: &[Claim] = &[
    Claim::new("redis-benchmark, 1,000 clients, one command under way: throughput is kept")
        .paper("not measured")
        .ours("ratio of throughput to that of Redis as it is", |seed| over(seed, 1.0))
        .at_least(0.97)
        .note("SET and GET, the mean of both"),
    Claim::new("redis-benchmark, 1,000 clients, 16 commands under way: throughput is kept")
        .paper("not measured")
        .ours("ratio of throughput to that of Redis as it is", |seed| over(seed, 16.0))
        .at_least(0.97)
        .note("SET and GET, the mean of both"),
    Claim::new("1,000 connections are served alike")
        .paper("not measured")
        .ours(
            "larger U_f over commands, of 1 and 16 under way",
            |seed| seed.get(GATE, 1.0, UNFAIRNESS).max(seed.get(GATE, 16.0, UNFAIRNESS)),
        )
        .at_most(0.10)
        .note("the largest distance of any connection from the mean"),
    Claim::new("4 connections beside 200 busy ones of another account, at equal class weights: tails as alone")
        .paper("not measured")
        .ours(
            "larger ratio of their p99 to that alone, of neighbours with 1 and 16 under way",
            |seed| {
                let ratio = |at| seed.get(GATE, at, BESIDE) / seed.get(GATE, at, ALONE);
                ratio(1.0).max(ratio(16.0))
            },
        )
        .at_most(1.5)
        .note("the small account's clients pause between requests, the large one's do not; the clients share the machine \
               with the server: alone, the small ones have it for themselves"),
];

fn report(directory: &Path, fresh: bool) -> Result<Outcome> {
    let record = sweep::read(directory, ID)?;
    let panel =
        |title: &str, unit: &str, key: &str| Panel::sweep(title, unit).lines([AS_IS, GATE], key);
    let show = Presentation {
        id: ID,
        figure: "not in the paper",
        about: "redis-benchmark with 1,000 clients; 1,000 connections counted one by one; 4 connections of one account, \
                which pause between requests, alone and beside 200 of another, which always have commands under way, with P = 2. Client and server share the machine.",
        sweep_label: "commands under way for each connection",
        caption: format!("windows of {} s", record.counted_s),
        claims: CLAIMS,
        panels: vec![
            panel("redis-benchmark", "commands/s", BENCHMARK),
            panel("Unfairness U_f", "", UNFAIRNESS),
            panel("P99 of 1,000 connections", "ms", P99),
            panel("P99 of the small account beside the large one", "ms", BESIDE),
        ],
        ..Presentation::default()
    };
    sweep::report(&show, record, directory, fresh)
}
