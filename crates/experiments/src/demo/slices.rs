//! One slice: the load goes to one server for some seconds.

use super::client::{Act, Guest};
use crate::interrupt;
use crate::sweep::record::Run;
use anyhow::{Context, Result, ensure};
use headworks_policy::metrics::percentile;
use headworks_policy::random::Random;
use headworks_rig::machine;
use headworks_workload::db::{Database, DbError};
use headworks_workload::driver::{self, Answer, Arrivals, Report, RunOptions, Stop};
use std::time::Duration;

/// Length of a slice, and of the moments in its picture.
pub(super) const SLICE_S: f64 = 6.0;
pub(super) const BUCKET_S: f64 = 0.25;

/// Those who do the same.
#[derive(Debug)]
pub(super) struct Group {
    pub(super) clients: usize,
    pub(super) database: Database,
    pub(super) act: Act,
    pub(super) pause: Duration,
}

/// Who loads the server, and how. The first group is measured.
#[derive(Debug)]
pub(super) struct Load {
    pub(super) groups: Vec<Group>,
    pub(super) arrivals: Arrivals,
    pub(super) seconds: f64,
    pub(super) seed: u64,
}

impl Load {
    fn group(&self, number: usize) -> &Group {
        let mut first = 0;
        let of = |group: &&Group| {
            first += group.clients;
            number < first
        };
        self.groups.iter().find(of).unwrap_or(&self.groups[0])
    }
}

/// Lets the clients work; reports on all of them.
pub(super) fn drive(load: &Load, tick: &dyn Fn()) -> Result<Report> {
    let options = RunOptions {
        users: load.groups.iter().map(|group| group.clients).sum(),
        arrivals: load.arrivals,
        warm_up: Duration::ZERO,
        window: Duration::from_secs_f64(load.seconds),
        seed: load.seed,
        trace: true,
        ..RunOptions::default()
    };
    let connect = |number: usize| -> Result<Guest, DbError> {
        let group = load.group(number);
        let random = Random::stream(load.seed, number as u64);
        Guest::connect(&group.database, group.act, group.pause, random)
    };
    let stop = Stop::default();
    let report = driver::run(&options, &["request"], &connect, &stop, &mut |_| {
        tick();
        if interrupt::check().is_err() {
            stop.stop();
        }
    });
    interrupt::check()?;
    let report = report.context("cannot run the load")?;
    ensure!(report.first_failure.is_none(), "a request failed: {:?}", report.first_failure);
    Ok(report)
}

/// Runs a slice; returns what the first group saw.
pub(super) fn slice(load: &Load, tick: &dyn Fn()) -> Result<Run> {
    let pace = machine::Load::at_rest();
    let report = drive(load, tick)?;
    let clients = load.groups[0].clients.min(report.users.len());
    let answers: Vec<Answer> =
        report.users[..clients].iter().flat_map(|user| user.trace.iter().copied()).collect();
    ensure!(!answers.is_empty(), "no request was answered in {} s", load.seconds);
    let mut latencies: Vec<u32> = answers.iter().map(|answer| answer.latency_us).collect();
    latencies.sort_unstable();
    let at = |quantile| percentile(&latencies, quantile).map_or(f64::NAN, |us| f64::from(us) / 1e3);
    let arrived = answers.len() as f64 + report.overdue as f64;
    let numbers = [
        ("p50_ms", at(0.5)),
        ("p99_ms", at(0.99)),
        ("max_ms", at(1.0)),
        ("per_s", answers.len() as f64 / load.seconds),
        ("arrived_per_s", arrived / load.seconds),
        ("work_ms", pace.work_ms.unwrap_or(f64::NAN)),
    ];
    Ok(Run {
        numbers: numbers.map(|(key, value)| (key.to_owned(), value)).into(),
        series: [("longest_ms".to_owned(), longest(&answers, load.seconds))].into(),
        bucket_s: BUCKET_S,
        load: Some(pace),
        ..Run::default()
    })
}

/// The longest latency, in milliseconds, of the requests that arrived in each moment. A moment
/// without an arrival has that of the moment before.
fn longest(answers: &[Answer], seconds: f64) -> Vec<f64> {
    let mut longest = vec![0.0f64; (seconds / BUCKET_S).round() as usize];
    for answer in answers {
        let took_ms = f64::from(answer.latency_us) / 1e3;
        let arrived_s = (f64::from(answer.at_ms) - took_ms).max(0.0) / 1e3;
        if let Some(moment) = longest.get_mut((arrived_s / BUCKET_S) as usize) {
            *moment = moment.max(took_ms);
        }
    }
    let mut last = longest.iter().copied().find(|ms| *ms > 0.0).unwrap_or(0.0);
    for moment in &mut longest {
        match *moment > 0.0 {
            true => last = *moment,
            false => *moment = last,
        }
    }
    longest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_shows_the_longest_of_those_who_arrived_in_it() {
        let answer = |at_ms, latency_us| Answer { at_ms, latency_us, requests: 1 };
        // Arrived at 0.1, 0.2, 0.3 and 0.9 s; none between 0.5 and 0.75 s.
        let answers =
            [answer(101, 1_000), answer(700, 500_000), answer(310, 10_000), answer(905, 5_000)];
        assert_eq!(longest(&answers, 1.0), [500.0, 10.0, 10.0, 5.0]);
        assert_eq!(longest(&[], 0.5), [0.0, 0.0]);
    }
}
