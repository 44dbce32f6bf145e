//! Other P on the same server, each for moments.
//!
//! Two servers with the same P differ by up to 7 % on a small machine. A good P and the best one
//! differ by less. So once a run's window is over, its clients go on. Fixed P then take turns with
//! the P that the server has found (`headworks set --parallelism P --for S`). After two fixed ones
//! comes the found one for a moment, then two others, until each has had its turn. Several passes
//! follow, each in a different order. All P see the same server, data and age.

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;

use headworks_workload::driver::{Answer, Report};

use headworks_policy::metrics::{percentile, unfairness};
use headworks_policy::random::Random;

/// Length of a moment and the part of it that does not count, in seconds, and passes: of full and
/// of quick runs. What is inside at the moment's begin was admitted with another P.
const FULL: (u64, u64, usize) = (5, 1, 3);
const QUICK: (u64, u64, usize) = (3, 1, 1);

/// Turns of tried P between two of the server's own.
const BETWEEN: usize = 2;

/// Moments, in their order.
pub(super) struct Trials {
    /// What is in force in each: a P, or the server's own.
    moments: Vec<Option<f64>>,
    length_s: u64,
    skipped_s: u64,
    /// When the first one begins, since the begin of the window, in seconds.
    from_s: u64,
    /// The moment that comes next.
    next: usize,
}

impl Trials {
    /// Trials of `points`, after a window.
    pub(super) fn new(points: &[f64], window_s: u64, quick: bool, random: &mut Random) -> Self {
        let (length_s, skipped_s, passes) = if quick { QUICK } else { FULL };
        let mut points = points.to_vec();
        let mut moments = Vec::new();
        for _ in 0..passes {
            random.shuffle(&mut points);
            for some in points.chunks(BETWEEN) {
                moments.push(None);
                moments.extend(some.iter().copied().map(Some));
            }
        }
        Self { moments, length_s, skipped_s, from_s: window_s, next: 0 }
    }

    /// How long they take, in seconds.
    pub(super) const fn duration_s(points: usize, quick: bool) -> u64 {
        let (length_s, _, passes) = if quick { QUICK } else { FULL };
        (points + points.div_ceil(BETWEEN)) as u64 * length_s * passes as u64
    }

    /// Whether a moment begins at this time since the begin of the window: its P, if it is not the
    /// server's own, and for how many seconds.
    pub(super) fn due(&mut self, elapsed: Duration) -> Option<(f64, u64)> {
        let begin_s = self.from_s + self.next as u64 * self.length_s;
        let moment = self.moments.get(self.next)?;
        if elapsed < Duration::from_secs(begin_s) {
            return None;
        }
        self.next += 1;
        moment.map(|point| (point, self.length_s))
    }

    /// Times at which a P was tried, or the server's own was in force, in ms since the begin of the
    /// window.
    fn times(&self, of: Option<f64>) -> Vec<Range<u32>> {
        let ms = |seconds: u64| u32::try_from(seconds * 1_000).unwrap_or(u32::MAX);
        let begins = (0..).map(|at| self.from_s + at * self.length_s);
        let moments = self.moments.iter().zip(begins).filter(|(moment, _)| **moment == of);
        moments.map(|(_, s)| ms(s + self.skipped_s)..ms(s + self.length_s)).collect()
    }

    /// Numbers of the window before the trials (see [`within`]), and `own_per_s`, the throughput in
    /// the moments of the server's own P between them.
    pub(super) fn own(&self, report: &Report) -> BTreeMap<String, f64> {
        let window = 0..u32::try_from(self.from_s * 1_000).unwrap_or(u32::MAX);
        let mut numbers = within(report, &[window]);
        let between = within(report, &self.times(None));
        numbers
            .extend(between.get("throughput_per_s").map(|&per_s| ("own_per_s".to_owned(), per_s)));
        numbers
    }

    /// Numbers of a P that was tried.
    pub(super) fn tried(&self, report: &Report, point: f64) -> BTreeMap<String, f64> {
        within(report, &self.times(Some(point)))
    }
}

/// Numbers of parts of a run: `throughput_per_s`, `latency_{p50,p95,p99}_ms`, `unfairness` (over
/// statements).
fn within(report: &Report, times: &[Range<u32>]) -> BTreeMap<String, f64> {
    let seconds: f64 = times.iter().map(|part| f64::from(part.end - part.start) / 1e3).sum();
    let counts = |answer: &&Answer| times.iter().any(|part| part.contains(&answer.at_ms));
    let all = report.users.iter().flat_map(|user| &user.trace).filter(counts);
    let mut latencies: Vec<u32> = all.map(|answer| answer.latency_us).collect();
    latencies.sort_unstable();
    let requests = report.users.iter().map(|user| {
        let answers = user.trace.iter().filter(counts);
        answers.map(|answer| f64::from(answer.requests)).sum()
    });
    let requests: Vec<f64> = requests.collect();
    let tail = |part| percentile(&latencies, part).map_or(f64::NAN, |us| f64::from(us) / 1e3);
    let numbers = [
        ("throughput_per_s", latencies.len() as f64 / seconds),
        ("latency_p50_ms", tail(0.50)),
        ("latency_p95_ms", tail(0.95)),
        ("latency_p99_ms", tail(0.99)),
        ("unfairness", unfairness(requests.iter().copied()).unwrap_or(f64::NAN)),
    ];
    let finite = numbers.into_iter().filter(|(_, value)| value.is_finite());
    finite.map(|(key, value)| (key.to_owned(), value)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_point_has_its_turn_in_each_pass_and_ours_comes_between() {
        let points = [4.0, 8.0, 16.0];
        let mut trials = Trials::new(&points, 20, false, &mut Random::new(1));
        assert_eq!(trials.moments.len() as u64 * 5, Trials::duration_s(3, false));
        for pass in trials.moments.chunks(5) {
            assert_eq!((pass[0], pass[3]), (None, None));
            let mut tried = [pass[1], pass[2], pass[4]].map(Option::unwrap);
            tried.sort_by(f64::total_cmp);
            assert_eq!(tried, points);
        }
        let first = trials.moments[1].unwrap();
        let second = trials.moments[2].unwrap();
        let due: Vec<_> =
            (0..31).filter_map(|s| Some((s, trials.due(Duration::from_secs(s))?))).collect();
        assert_eq!(due, [(25, (first, 5)), (30, (second, 5))]);
        assert_eq!(trials.times(Some(first))[0], 26_000..30_000);
        assert_eq!(trials.times(None)[..2], [21_000..25_000, 36_000..40_000]);
        assert_eq!(trials.times(None).len(), 6);
    }
}
