//! The report of a run.

use std::collections::BTreeMap;

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use super::RunOptions;
use super::recorder::{Shard, histogram};
use super::user::Served;
use crate::db::ErrorKind;
use headworks_policy::metrics;

/// Latencies in µs; all zero without any.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct LatencyReport {
    /// The mean.
    pub mean_us: f64,
    /// Half are below.
    pub p50_us: u64,
    /// 90 % are below.
    pub p90_us: u64,
    /// 95 % are below.
    pub p95_us: u64,
    /// 99 % are below.
    pub p99_us: u64,
    /// 99.9 % are below.
    pub p999_us: u64,
    /// The largest.
    pub max_us: u64,
}

impl LatencyReport {
    fn new(histogram: &Histogram<u64>) -> Self {
        if histogram.is_empty() {
            return Self::default();
        }
        Self {
            mean_us: histogram.mean(),
            p50_us: histogram.value_at_quantile(0.5),
            p90_us: histogram.value_at_quantile(0.9),
            p95_us: histogram.value_at_quantile(0.95),
            p99_us: histogram.value_at_quantile(0.99),
            p999_us: histogram.value_at_quantile(0.999),
            max_us: histogram.max(),
        }
    }
}

/// One kind of request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct KindReport {
    /// Its name.
    pub name: String,
    /// Answered in the window.
    pub count: u64,
    /// Answered per second.
    pub per_s: f64,
    /// From the beginning of the first attempt (closed loop) or the moment it was due (open loop).
    pub latency: LatencyReport,
}

/// One user.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct UserReport {
    /// Requests answered in the window.
    pub count: u64,
    /// Requests that the database received in the window, if the workload counts them.
    #[serde(default)]
    pub requests: u64,
    /// Attempts tried again.
    pub retries: u64,
    /// Requests given up.
    pub failures: u64,
    /// Latencies, to two significant digits.
    pub latency: LatencyReport,
    /// Standard deviation of the user's latencies over their mean, all kinds together.
    pub latency_cv: Option<f64>,
    /// If asked for, each answer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub trace: Vec<Answer>,
}

/// One answer in the window.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    /// Its time since the beginning of the window.
    pub at_ms: u32,
    /// As in [`KindReport::latency`].
    pub latency_us: u32,
    /// Requests to the database in the last attempt, if the workload counts them.
    pub requests: u32,
}

/// The report of a run. All figures are of the window, except the series.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// How it was run.
    pub options: RunOptions,
    /// Requests answered.
    pub count: u64,
    /// Requests answered per second.
    pub per_s: f64,
    /// All kinds together.
    pub latency: LatencyReport,
    /// Each kind.
    pub kinds: Vec<KindReport>,
    /// Requests answered in each second since the begin, warm-up included, per kind.
    pub series: Vec<Vec<u32>>,
    /// Attempts tried again, by kind of error.
    pub retries: BTreeMap<ErrorKind, u64>,
    /// Requests given up, by kind of error.
    pub failures: BTreeMap<ErrorKind, u64>,
    /// Why one of the requests was given up, even if during the warm-up.
    pub first_failure: Option<String>,
    /// Open loop: requests due in the window and not answered by its end.
    pub overdue: u64,
    /// U_f over users, all with the same weight (AppleS, section 3.1).
    pub unfairness: Option<f64>,
    /// Users' coefficients of variation of latency, their mean (AppleS, section 3.1).
    pub latency_cv: Option<f64>,
    /// The workload's other counts, over the whole run.
    pub notes: BTreeMap<String, u64>,
    /// Each user.
    pub users: Vec<UserReport>,
}

impl Report {
    pub(super) fn new(
        options: &RunOptions,
        kinds: &[&str],
        shards: &[Shard],
        users: &[Served],
    ) -> Self {
        let window_s = options.window.as_secs_f64();
        let mut all = histogram(3);
        let kinds: Vec<KindReport> = kinds
            .iter()
            .enumerate()
            .map(|(kind, name)| {
                let mut merged = histogram(3);
                for shard in shards {
                    // Histograms with the same bounds can always be added.
                    let _ = merged.add(&shard.latencies[kind]);
                }
                let _ = all.add(&merged);
                KindReport {
                    name: (*name).to_owned(),
                    count: merged.len(),
                    per_s: merged.len() as f64 / window_s,
                    latency: LatencyReport::new(&merged),
                }
            })
            .collect();
        let mut notes = BTreeMap::new();
        for (name, count) in users.iter().flat_map(|user| &user.notes) {
            *notes.entry((*name).to_owned()).or_default() += count;
        }
        let user_reports: Vec<UserReport> = users.iter().map(user_report).collect();
        Self {
            options: *options,
            count: all.len(),
            per_s: all.len() as f64 / window_s,
            latency: LatencyReport::new(&all),
            series: series(shards, kinds.len()),
            kinds,
            retries: by_kind(shards.iter().map(|shard| &shard.retries)),
            failures: by_kind(shards.iter().map(|shard| &shard.failures)),
            first_failure: shards.iter().find_map(|shard| shard.first_failure.clone()),
            overdue: users.iter().map(|user| user.overdue).sum(),
            unfairness: metrics::unfairness(user_reports.iter().map(|user| user.count as f64)),
            latency_cv: metrics::latency_variability(
                user_reports.iter().map(|user| user.latency_cv),
            ),
            notes,
            users: user_reports,
        }
    }

    /// Requests of this kind answered per minute.
    pub fn per_minute(&self, kind: usize) -> f64 {
        self.kinds.get(kind).map_or(0.0, |kind| kind.per_s * 60.0)
    }
}

fn user_report(user: &Served) -> UserReport {
    let count = user.latencies.len();
    UserReport {
        count,
        requests: user.requests,
        retries: user.retries,
        failures: user.failures,
        latency: LatencyReport::new(&user.latencies),
        latency_cv: metrics::coefficient_of_variation(count, user.sum_s, user.sum_of_squares_s2),
        trace: user.trace.clone(),
    }
}

fn series(shards: &[Shard], kinds: usize) -> Vec<Vec<u32>> {
    let seconds = shards.iter().map(|shard| shard.series.len()).max().unwrap_or(0);
    let mut sum = vec![vec![0; kinds]; seconds];
    for (second, counted) in shards.iter().flat_map(|shard| shard.series.iter().enumerate()) {
        for (cell, count) in sum[second].iter_mut().zip(counted) {
            *cell += count;
        }
    }
    sum
}

fn by_kind<'a>(
    counts: impl Iterator<Item = &'a [u64; ErrorKind::ALL.len()]>,
) -> BTreeMap<ErrorKind, u64> {
    let mut sums = BTreeMap::new();
    for counts in counts {
        for (kind, &count) in ErrorKind::ALL.into_iter().zip(counts) {
            if count > 0 {
                *sums.entry(kind).or_default() += count;
            }
        }
    }
    sums
}
