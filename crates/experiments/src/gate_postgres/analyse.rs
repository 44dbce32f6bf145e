//! From counts and histograms to the numbers of the table. Pure.

use super::arms::{Arm, Config, Load, Mode};
use super::record::{Measured, Record};
use crate::metrics::{mean, median, unfairness};

/// One arm: the median over its rounds of every number, and the rounds themselves.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Row {
    pub(super) arm: Arm,
    pub(super) median: Numbers,
    pub(super) rounds: Vec<Numbers>,
}

/// What one round, or the median of several, comes to.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Numbers {
    /// Transactions per second.
    pub(super) throughput_tps: f64,
    pub(super) p50_ms: f64,
    pub(super) p95_ms: f64,
    pub(super) p99_ms: f64,
    pub(super) max_ms: f64,
    /// U_f over the transactions of each client.
    pub(super) unfairness: Option<f64>,
    /// Coefficient of variation of each client's latency, averaged over clients.
    pub(super) latency_cv: Option<f64>,
}

/// The rows of all arms, in the order of the record.
pub(super) fn rows(record: &Record) -> Vec<Row> {
    let row = |arm: &super::record::ArmRecord| {
        let rounds: Vec<Numbers> =
            arm.rounds.iter().map(|round| numbers(&round.measured, record.window_s)).collect();
        Row { arm: arm.arm, median: medians(&rounds), rounds }
    };
    record.arms.iter().filter(|arm| !arm.rounds.is_empty()).map(row).collect()
}

/// The row of one arm, if it ran.
pub(super) fn row(rows: &[Row], load: Load, mode: Mode, config: Config) -> Option<&Row> {
    rows.iter().find(|row| row.arm == Arm { load, mode, config })
}

fn numbers(measured: &Measured, window_s: f64) -> Numbers {
    let total: u64 = measured.transactions.iter().sum();
    let counts: Vec<f64> = measured.transactions.iter().map(|&count| count as f64).collect();
    let variations: Vec<f64> = measured.latency_cv.iter().copied().flatten().collect();
    let at_ms = |quantile: f64| {
        let rank = (total as f64 * quantile).ceil().max(1.0) as u64;
        let mut seen = 0;
        let found = measured.latencies_us.iter().find(|(_, count)| {
            seen += count;
            seen >= rank
        });
        found.map_or(0.0, |(us, _)| f64::from(*us) / 1_000.0)
    };
    Numbers {
        throughput_tps: total as f64 / window_s,
        p50_ms: at_ms(0.50),
        p95_ms: at_ms(0.95),
        p99_ms: at_ms(0.99),
        max_ms: at_ms(1.0),
        unfairness: unfairness(&counts),
        latency_cv: mean(&variations),
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
    }
}

/// One number of two configurations of the same workload and protocol; `None` when one did not run or is 0.
pub(super) fn ratio(
    rows: &[Row],
    (load, mode): (Load, Mode),
    over: Config,
    under: Config,
    number: fn(&Numbers) -> f64,
) -> Option<f64> {
    let over = number(&row(rows, load, mode, over)?.median);
    let under = number(&row(rows, load, mode, under)?.median);
    (under > 0.0).then(|| over / under)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    #[test]
    fn numbers_come_from_counts() {
        // 100 transactions in 2 s: 98 of 1 ms, one of 5, one of 9.
        let measured = Measured {
            transactions: vec![60, 40],
            latencies_us: vec![(1_000, 98), (5_000, 1), (9_000, 1)],
            latency_cv: vec![Some(0.5), Some(1.5)],
        };
        let numbers = numbers(&measured, 2.0);
        assert_eq!(numbers.throughput_tps, 50.0);
        assert_eq!((numbers.p95_ms, numbers.p99_ms, numbers.max_ms), (1.0, 5.0, 9.0));
        // The largest deviation from the mean of 50, relative to it: 10 / 50.
        assert!((numbers.unfairness.unwrap() - 0.2).abs() < 1e-12);
        assert_eq!(numbers.latency_cv, Some(1.0));
    }

    /// Rows in which every promise holds, just.
    pub(in crate::gate_postgres) fn good() -> Vec<Row> {
        Arm::all(true)
            .into_iter()
            .map(|arm| {
                let (throughput_tps, p99_ms, unfairness) = match arm.config {
                    Config::Ungated => (1_000.0, 500.0, 0.4),
                    Config::Pgbouncer => (950.0, 140.0, 0.01),
                    Config::Gated => (1_060.0, 99.0, 0.019),
                    Config::Ungated16 => (2_000.0, 8.0, 0.1),
                    Config::Gated16 => (1_990.0, 8.0, 0.1),
                };
                let unfairness = Some(unfairness);
                let median = Numbers { throughput_tps, p99_ms, unfairness, ..Numbers::default() };
                Row { arm, median, rounds: vec![median] }
            })
            .collect()
    }
}
