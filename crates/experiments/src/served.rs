//! What the clients of a server were served within a window, as the numbers of a run.

use std::time::Duration;

use anyhow::Result;
use headworks_rig::gated::Instance;
use headworks_rig::machine::Load;

use crate::experiment::RunOptions;
use crate::progress::Progress;
use crate::running::Running;
use crate::sweep::record::Run;
use crate::sweep::rounds::Arm;
use headworks_policy::metrics::{mean, percentile, unfairness, variation_of};

/// How long clients may take to end.
const CLIENTS_TIMEOUT: Duration = Duration::from_secs(120);

/// Transactions per second, and their latency.
pub(crate) const TPS: &str = "throughput_tps";
pub(crate) const P50: &str = "p50_ms";
pub(crate) const P95: &str = "p95_ms";
pub(crate) const P99: &str = "p99_ms";
pub(crate) const MAX: &str = "max_ms";
/// U_f over the requests of each client; not there when no request was served.
pub(crate) const UNFAIRNESS: &str = "unfairness";
/// Coefficient of variation of each client's latency, averaged over the clients.
pub(crate) const VARIATION: &str = "latency_cv";
/// Requests answered per second.
pub(crate) const REQUESTS: &str = "requests_per_s";
/// Attempts that had to be repeated, in percent of the transactions.
pub(crate) const RETRIES: &str = "retries_percent";
/// Time in which some task of the machine waited for a processor, in percent of the window.
pub(crate) const CPU_WAITED: &str = "cpu_waited_percent";
/// A series: the requests of each client relative to the mean, from the least to the best served.
pub(crate) const SHARES: &str = "shares";

/// The sizes of the runs of a load generator that is a separate program.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Plan {
    pub(crate) rounds: usize,
    /// How much data there is: rows of a table, or a scale.
    pub(crate) size: u32,
    /// Load without counting, after all clients are connected.
    pub(crate) warm_up: Duration,
    /// The time in which clients count.
    pub(crate) window: Duration,
    /// What filling the tables takes, and what a run takes beside its clients.
    pub(crate) prepare: Duration,
    pub(crate) around: Duration,
}

impl Plan {
    /// This plan, unless the options say otherwise.
    pub(crate) fn with(self, options: &RunOptions) -> Self {
        let asked = options.window_s.map(|seconds| Duration::from_secs(seconds.max(1)));
        let window = asked.unwrap_or(self.window);
        let rounds = options.repeat.unwrap_or(self.rounds).max(1);
        Self { rounds, warm_up: self.warm_up.min(window), window, ..self }
    }

    /// From the start of the clients to the begin of the window: half a second and 10 ms for each
    /// to connect, and the warm-up.
    pub(crate) fn lead(&self, users: usize) -> Duration {
        Duration::from_millis(500 + 10 * users as u64) + self.warm_up
    }

    /// How long the clients work. Load generators count their time from when all clients are
    /// connected, so that this always outlasts the window.
    pub(crate) fn clients(&self, users: usize) -> Duration {
        self.lead(users) + self.window + Duration::from_secs(1)
    }

    /// How long a run will take.
    pub(crate) fn run(&self, users: usize) -> Duration {
        self.lead(users) + self.window + self.around
    }

    /// How long all rounds of these arms will take; `users` says how many an arm has at a point.
    pub(crate) fn expected(&self, arms: &[Arm], users: fn(&str, f64) -> usize) -> Duration {
        let of = |arm: &Arm| -> Duration {
            arm.points.iter().map(|at| self.run(users(arm.label, *at))).sum()
        };
        self.prepare + arms.iter().map(of).sum::<Duration>() * self.rounds as u32
    }

    /// Lets clients work from the begin of the window to their end. Returns how busy the machine
    /// was at the window's begin and end. A gate must still be closed then.
    pub(crate) fn watch(
        &self,
        clients: &mut Running,
        begin_us: u64,
        gate: Option<&Instance>,
        progress: &Progress,
    ) -> Result<[Load; 2]> {
        clients.wait_until(begin_us, progress)?;
        let begin = Load::read();
        clients.wait_until(begin_us + self.window.as_micros() as u64, progress)?;
        let end = Load::read();
        if let Some(gate) = gate {
            gate.enforcing_status()?;
        }
        clients.wait(CLIENTS_TIMEOUT, progress)?;
        Ok([begin, end])
    }
}

/// What one client was served inside the window.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Client {
    /// Requests answered.
    pub(crate) requests: u64,
    /// Attempts refused with an error that a retry mends, such as a deadlock.
    pub(crate) retries: u64,
    /// Latency of every transaction that committed, from the begin of its first attempt.
    pub(crate) latencies_us: Vec<u32>,
}

/// The numbers of a window of this length, at whose begin and end the machine was so busy.
pub(crate) fn measure(clients: &[Client], window_s: f64, loads: [Load; 2]) -> Run {
    let mut latencies: Vec<u32> = clients.iter().flat_map(|it| &it.latencies_us).copied().collect();
    latencies.sort_unstable();
    let requests: Vec<f64> = clients.iter().map(|client| client.requests as f64).collect();
    let retries: u64 = clients.iter().map(|client| client.retries).sum();
    let variation = |client: &Client| {
        let latencies: Vec<f64> = client.latencies_us.iter().map(|&us| f64::from(us)).collect();
        variation_of(&latencies)
    };
    let variations: Vec<f64> = clients.iter().filter_map(variation).collect();
    let waited_us = loads[1].cpu.some_total_us.saturating_sub(loads[0].cpu.some_total_us);
    let at_ms = |quantile| percentile(&latencies, quantile).map(|us| f64::from(us) / 1000.0);
    let numbers = [
        (TPS, Some(latencies.len() as f64 / window_s)),
        (P50, at_ms(0.50)),
        (P95, at_ms(0.95)),
        (P99, at_ms(0.99)),
        (MAX, at_ms(1.0)),
        (UNFAIRNESS, unfairness(requests.iter().copied())),
        (VARIATION, mean(&variations)),
        (REQUESTS, Some(requests.iter().sum::<f64>() / window_s)),
        (RETRIES, Some(100.0 * retries as f64 / latencies.len().max(1) as f64)),
        (CPU_WAITED, Some(waited_us as f64 / 1e4 / window_s)),
    ];
    let numbers = numbers.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?)));
    let mean = mean(&requests).filter(|mean| *mean > 0.0);
    let mut shares: Vec<f64> =
        mean.map_or(Vec::new(), |mean| requests.iter().map(|count| count / mean).collect());
    shares.sort_by(f64::total_cmp);
    Run {
        numbers: numbers.collect(),
        series: [(SHARES.to_owned(), shares)].into(),
        bucket_s: window_s,
        load: Some(Load::at_rest()),
        ..Run::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_from_what_clients_were_served() {
        let client = |transactions: usize, latency_us| Client {
            requests: 20 * transactions as u64,
            retries: 1,
            latencies_us: vec![latency_us; transactions],
        };
        // 100 transactions in 2 s: 98 of 1 ms by two clients, one each of 5 and 9 ms by one.
        let mut clients = [client(60, 1_000), client(38, 1_000)];
        clients[1].latencies_us.extend([5_000, 9_000]);
        clients[1].requests += 40;
        let run = measure(&clients, 2.0, [Load::default(); 2]);
        let get = |key: &str| run.numbers[key];
        assert_eq!((get(TPS), get(REQUESTS), get(RETRIES)), (50.0, 1_000.0, 2.0));
        assert_eq!((get(P50), get(P95), get(P99), get(MAX)), (1.0, 1.0, 5.0, 9.0));
        // The largest deviation from the mean of 1,000 requests, relative to it: 200 / 1,000.
        assert!((get(UNFAIRNESS) - 0.2).abs() < 1e-12);
        assert_eq!(run.series[SHARES], [0.8, 1.2]);
    }

    #[test]
    fn nobody_served_is_no_division_by_zero() {
        let run = measure(&[Client::default(), Client::default()], 1.0, [Load::default(); 2]);
        assert_eq!(run.numbers[TPS], 0.0);
        assert!(!run.numbers.contains_key(UNFAIRNESS) && !run.numbers.contains_key(P50));
        assert!(run.series[SHARES].is_empty());
    }
}
