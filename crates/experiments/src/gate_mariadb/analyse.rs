//! From raw latencies and counts to the numbers of the table. Pure.

use anyhow::ensure;
use serde::{Deserialize, Serialize};

use super::arms::Config;
use super::record::{Record, Round};
use crate::metrics::{coefficient_of_variation, mean, median, percentile, unfairness};

/// `result.json`.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Result {
    pub(crate) rows: Vec<Row>,
}

/// One arm: the median over its rounds of every number, and the rounds themselves.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Row {
    pub(crate) config: Config,
    pub(crate) users: usize,
    #[serde(flatten)]
    pub(crate) median: Numbers,
    pub(crate) rounds: Vec<Numbers>,
}

/// What one round, or the median of several, comes to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Numbers {
    /// Transactions per second.
    pub(crate) throughput_tps: f64,
    /// Latency of transactions.
    pub(crate) p50_ms: f64,
    pub(crate) p95_ms: f64,
    pub(crate) p99_ms: f64,
    pub(crate) max_ms: f64,
    /// U_f over the requests of each user; `null` when nobody was served.
    pub(crate) unfairness: Option<f64>,
    /// Coefficient of variation of each user's latency, averaged over users; `null` when no user committed twice.
    pub(crate) latency_cv: Option<f64>,
    /// Statements answered per second.
    pub(crate) requests_per_s: f64,
    /// Attempts that had to be repeated, in percent of the transactions.
    pub(crate) retries_percent: f64,
}

/// The rows of all arms, in the order of the record.
pub(crate) fn rows(record: &Record) -> anyhow::Result<Vec<Row>> {
    ensure!(
        record.arms.iter().all(|arm| !arm.rounds.is_empty()),
        "the record has an arm without rounds"
    );
    Ok(record
        .arms
        .iter()
        .map(|arm| {
            let rounds: Vec<Numbers> = arm.rounds.iter().map(numbers).collect();
            Row { config: arm.config, users: arm.users, median: medians(&rounds), rounds }
        })
        .collect())
}

/// The row of one arm, if it ran.
pub(crate) fn row(rows: &[Row], config: Config) -> Option<&Row> {
    rows.iter().find(|row| row.config == config)
}

fn numbers(round: &Round) -> Numbers {
    let mut latencies_us: Vec<u32> =
        round.clients.iter().flat_map(|client| client.latencies_us.iter().copied()).collect();
    latencies_us.sort_unstable();
    let at_ms =
        |quantile| percentile(&latencies_us, quantile).map_or(0.0, |us| f64::from(us) / 1000.0);
    let requests: Vec<f64> = round.clients.iter().map(|client| client.requests as f64).collect();
    let retries: u64 = round.clients.iter().map(|client| client.retries).sum();
    let variations: Vec<f64> = round
        .clients
        .iter()
        .filter_map(|client| {
            let latencies: Vec<f64> = client.latencies_us.iter().map(|&us| f64::from(us)).collect();
            coefficient_of_variation(&latencies)
        })
        .collect();
    Numbers {
        throughput_tps: latencies_us.len() as f64 / round.window_s,
        p50_ms: at_ms(0.50),
        p95_ms: at_ms(0.95),
        p99_ms: at_ms(0.99),
        max_ms: at_ms(1.0),
        unfairness: unfairness(&requests),
        latency_cv: mean(&variations),
        requests_per_s: requests.iter().sum::<f64>() / round.window_s,
        retries_percent: 100.0 * retries as f64 / latencies_us.len().max(1) as f64,
    }
}

fn medians(rounds: &[Numbers]) -> Numbers {
    let of = |number: fn(&Numbers) -> f64| {
        median(&rounds.iter().map(number).collect::<Vec<_>>()).unwrap_or_default()
    };
    let of_known = |number: fn(&Numbers) -> Option<f64>| {
        median(&rounds.iter().filter_map(number).collect::<Vec<_>>())
    };
    Numbers {
        throughput_tps: of(|n| n.throughput_tps),
        p50_ms: of(|n| n.p50_ms),
        p95_ms: of(|n| n.p95_ms),
        p99_ms: of(|n| n.p99_ms),
        max_ms: of(|n| n.max_ms),
        unfairness: of_known(|n| n.unfairness),
        latency_cv: of_known(|n| n.latency_cv),
        requests_per_s: of(|n| n.requests_per_s),
        retries_percent: of(|n| n.retries_percent),
    }
}

/// `numerator / denominator` of one number of two arms; `None` when one of them did not run or is 0.
pub(crate) fn ratio(
    rows: &[Row],
    over: Config,
    under: Config,
    number: fn(&Numbers) -> f64,
) -> Option<f64> {
    let (over, under) = (number(&row(rows, over)?.median), number(&row(rows, under)?.median));
    (under > 0.0).then(|| over / under)
}
