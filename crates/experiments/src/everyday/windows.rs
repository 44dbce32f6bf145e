//! Splits a run into windows. Pure.

use headworks_workload::driver::Answer;

use headworks_policy::metrics::percentile;

/// Throughput and latency of one group in each window.
#[derive(Debug, PartialEq)]
pub(super) struct Windows {
    /// Requests per second. A request that spans several windows counts in each of them, in
    /// proportion to its time there.
    pub(super) per_s: Vec<f64>,
    /// P99 of the requests that ended in a window; 0 if none did.
    pub(super) p99_ms: Vec<f64>,
}

impl Windows {
    /// Splits answers into `count` windows.
    pub(super) fn new<'a>(
        answers: impl Iterator<Item = &'a Answer>,
        length_ms: u32,
        count: usize,
    ) -> Self {
        let mut per_s = vec![0.0; count];
        let mut latencies = vec![Vec::new(); count];
        for answer in answers {
            let end_ms = f64::from(answer.at_ms);
            let took_ms = f64::from(answer.latency_us) / 1e3;
            let last = (answer.at_ms / length_ms) as usize;
            if let Some(latencies) = latencies.get_mut(last) {
                latencies.push(answer.latency_us);
            }
            let begin_ms = end_ms - took_ms;
            let first = (begin_ms.max(0.0) / f64::from(length_ms)) as usize;
            for (window, sum) in per_s.iter_mut().enumerate().take(last + 1).skip(first) {
                let (from, to) = (
                    window as f64 * f64::from(length_ms),
                    (window + 1) as f64 * f64::from(length_ms),
                );
                *sum += if first == last {
                    1.0
                } else {
                    (end_ms.min(to) - begin_ms.max(from)) / took_ms
                };
            }
        }
        for sum in &mut per_s {
            *sum /= f64::from(length_ms) / 1e3;
        }
        let p99 = |mut latencies: Vec<u32>| {
            latencies.sort_unstable();
            percentile(&latencies, 0.99).map_or(0.0, |us| f64::from(us) / 1e3)
        };
        Self { per_s, p99_ms: latencies.into_iter().map(p99).collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(at_ms: u32, latency_ms: u32) -> Answer {
        Answer { at_ms, latency_us: latency_ms * 1_000, requests: 0 }
    }

    #[test]
    fn a_request_counts_in_the_windows_that_it_took() {
        // The first took 20 ms of window 0. The second took 4 s of window 0, 10 s of window 1 and
        // 6 s of window 2.
        let answers = [answer(500, 20), answer(26_000, 20_000)];
        let found = Windows::new(answers.iter(), 10_000, 3);
        let expected = [(1.0 + 0.2) / 10.0, 0.5 / 10.0, 0.3 / 10.0];
        for (found, expected) in found.per_s.iter().zip(expected) {
            assert!((found - expected).abs() < 1e-12, "{found} is not {expected}");
        }
        assert_eq!(found.p99_ms, [20.0, 0.0, 20_000.0]);
    }

    #[test]
    fn what_lies_outside_is_left_out() {
        // Half of the first came before the begin. The second ended after the last window.
        let answers = [answer(10_000, 20_000), answer(25_000, 1_000)];
        let found = Windows::new(answers.iter(), 10_000, 2);
        assert_eq!(found.per_s, [0.05, 0.0]);
        assert_eq!(found.p99_ms, [0.0, 20_000.0]);
    }
}
