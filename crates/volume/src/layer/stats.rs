//! `stats`: latencies of every kind of request, as the front end sees them.

use super::Layer;
use headworks_policy::Nanos;
use headworks_policy::block::{Operation, Request};
use headworks_policy::histogram::{BUCKETS, bucket_of, percentile};

struct Kind {
    counts: [u64; BUCKETS],
    requests: u64,
    sum: Nanos,
    max: Nanos,
}

/// A histogram for each kind of request.
pub struct Stats {
    of: [Kind; 5],
    outstanding: u64,
    outstanding_max: u64,
}

impl Default for Stats {
    fn default() -> Self {
        let kind = || Kind { counts: [0; BUCKETS], requests: 0, sum: Nanos(0), max: Nanos(0) };
        Stats { of: [(); 5].map(|()| kind()), outstanding: 0, outstanding_max: 0 }
    }
}

impl Layer for Stats {
    fn name(&self) -> &'static str {
        "stats"
    }

    fn admit(&mut self, _now: Nanos, _request: &Request) -> super::Verdict {
        self.outstanding += 1;
        self.outstanding_max = self.outstanding_max.max(self.outstanding);
        super::Verdict::default()
    }

    fn completed(&mut self, now: Nanos, request: &Request, came: Nanos, _failed: bool) {
        self.outstanding = self.outstanding.saturating_sub(1);
        let latency = now.since(came);
        let kind = &mut self.of[request.operation as usize];
        kind.counts[bucket_of(latency)] += 1;
        kind.requests += 1;
        kind.sum += latency;
        kind.max = kind.max.max(latency);
    }

    fn figures(&self) -> Vec<(String, f64)> {
        let us = |ns: u64| ns as f64 / 1e3;
        let mut list = vec![("outstanding_max".to_owned(), self.outstanding_max as f64)];
        for (name, operation) in [
            ("read", Operation::Read),
            ("write", Operation::Write),
            ("flush", Operation::Flush),
            ("discard", Operation::Discard),
            ("write_zeroes", Operation::WriteZeroes),
        ] {
            let kind = &self.of[operation as usize];
            if kind.requests == 0 {
                continue;
            }
            let at = |quantile| percentile(&kind.counts, quantile).unwrap_or_default().0;
            list.extend([
                (format!("{name}_requests"), kind.requests as f64),
                (format!("{name}_latency_us_mean"), us(kind.sum.0) / kind.requests as f64),
                (format!("{name}_latency_us_p50"), us(at(0.5))),
                (format!("{name}_latency_us_p99"), us(at(0.99))),
                (format!("{name}_latency_us_max"), us(kind.max.0)),
            ]);
        }
        list
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latencies_are_counted_by_kind() {
        let mut stats = Stats::default();
        let read = Request::new(Operation::Read, 0, 8);
        for _ in 0..3 {
            stats.admit(Nanos(0), &read);
        }
        for us in [10, 20, 30] {
            stats.completed(Nanos::from_micros(us), &read, Nanos(0), false);
        }
        let figures = stats.figures();
        let figure = |name: &str| figures.iter().find(|(key, _)| key == name).unwrap().1;
        assert_eq!(figure("read_requests"), 3.0);
        assert_eq!(figure("read_latency_us_mean"), 20.0);
        assert_eq!(figure("read_latency_us_max"), 30.0);
        assert_eq!(figure("outstanding_max"), 3.0);
        assert!(!figures.iter().any(|(key, _)| key.starts_with("write")));
    }
}
