//! A client's service in a run: on the whole, in its worst interval, and at the tail.
//!
//! A mean hides bursts. A client that gets nothing for half a second and twice as much in the next
//! has the right throughput and bad service.

use crate::scenario::{Change, Scenario};
use crate::sim::{LoadOutcome, Outcome};

/// Shortest interval: shorter ones differ too much by chance.
const INTERVAL_NS: u64 = 500_000_000;

/// By how much a mean of percentiles may be longer: each has an error of up to an eighth.
const STEP: f64 = 1.125;

/// By how much that of a single run may be longer. It varies from seed to seed.
const RUN_STEP: f64 = STEP * STEP;

/// One client's service.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Service {
    /// Requests answered, a second.
    pub per_s: f64,
    /// The same in the interval with the fewest.
    pub worst_per_s: f64,
    /// Length of an interval, in seconds.
    pub interval_s: f64,
    /// 99th percentile of the latency, of the load with the longest; infinite if a load got no
    /// answer.
    pub p99_ms: f64,
}

impl Service {
    /// A client's service in a run.
    pub(super) fn of(scenario: &Scenario, outcome: &Outcome, client: &str) -> Service {
        let loads = outcome.client(client).map_or(&[][..], |client| &client.loads);
        let (worst_per_s, interval_s) = worst(scenario, outcome, client);
        Service {
            per_s: outcome.throughput(client),
            worst_per_s,
            interval_s,
            p99_ms: tail(loads, replaced(scenario, client)),
        }
    }

    /// The worse of the two in each respect.
    pub(super) fn lesser(self, other: Service) -> Service {
        Service {
            per_s: self.per_s.min(other.per_s),
            worst_per_s: self.worst_per_s.min(other.worst_per_s),
            interval_s: self.interval_s,
            p99_ms: self.p99_ms.max(other.p99_ms),
        }
    }

    /// In which respect this is less than `due` by more than a loss, in words.
    pub(super) fn short_of(&self, due: &Service, loss: f64) -> Option<String> {
        let kept = 1.0 - loss;
        // In an interval, three standard deviations of a count may be missing by chance.
        let expected = due.worst_per_s * due.interval_s;
        let chance = 3.0 * expected.sqrt() / due.interval_s;
        if self.per_s < due.per_s * kept {
            Some(format!("gets {:.0}/s, not {:.0}/s", self.per_s, due.per_s))
        } else if self.worst_per_s < due.worst_per_s * kept - chance {
            Some(format!(
                "gets {:.0}/s in its worst {} s, not {:.0}/s",
                self.worst_per_s, self.interval_s, due.worst_per_s
            ))
        } else if self.p99_ms > due.p99_ms / kept * RUN_STEP {
            Some(longer(self.p99_ms, due.p99_ms))
        } else {
            None
        }
    }
}

/// A 99th percentile that is too long, in words.
fn longer(p99_ms: f64, due_ms: f64) -> String {
    let answer = if p99_ms.is_finite() {
        format!("{p99_ms:.0} ms")
    } else {
        "without end, as a load gets no answer".to_owned()
    };
    format!("has a p99 of {answer}, not {due_ms:.0} ms")
}

/// The 99th percentiles of one comparison, of several runs.
///
/// Even the unchanged system's differ by a sixth from seed to seed, so single ones are compared
/// with a wide bound, and their means with a narrow one.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tails {
    runs: u32,
    p99_ms: f64,
    due_ms: f64,
}

impl Tails {
    /// One more run.
    pub(super) fn add(&mut self, now: &Service, due: &Service) {
        self.runs += 1;
        self.p99_ms += now.p99_ms;
        self.due_ms += due.p99_ms;
    }

    /// Whether the mean so far, of `seeds` in the end, is too long by more than a loss, in words.
    /// The bound narrows with each run.
    pub(super) fn too_long(&self, loss: f64, seeds: u32) -> Option<String> {
        let runs = f64::from(self.runs.max(1));
        let (p99_ms, due_ms) = (self.p99_ms / runs, self.due_ms / runs);
        let step = STEP.powf(1.0 + 1.0 / runs - 1.0 / f64::from(seeds.max(1)));
        (p99_ms > due_ms / (1.0 - loss) * step)
            .then(|| format!("{}, on the mean of {} runs", longer(p99_ms, due_ms), self.runs))
    }
}

/// Requests a second in the interval with the fewest, and the length of an interval. The first
/// interval begins after the warm-up, the last ends with the run.
fn worst(scenario: &Scenario, outcome: &Outcome, client: &str) -> (f64, f64) {
    let sample_ns = scenario.sample_ns.max(1);
    let each = INTERVAL_NS.div_ceil(sample_ns).max(1) as usize;
    let from = scenario.warmup_ns.div_ceil(sample_ns) as usize;
    let to = (scenario.duration_ns / sample_ns) as usize;
    let interval_s = each as f64 * sample_ns as f64 / 1e9;
    let series = outcome.client(client).map_or(&[][..], |client| &client.series_per_s);
    // The series ends with the last answer; after it there are none.
    let at = |sample: usize| series.get(sample).copied().unwrap_or(0.0);
    let worst = (from..to)
        .step_by(each)
        .filter(|start| start + each <= to)
        .map(|start| (start..start + each).map(at).sum::<f64>() / each as f64)
        .fold(f64::INFINITY, f64::min);
    // Too short for an interval: the whole run is one.
    (if worst.is_finite() { worst } else { outcome.throughput(client) }, interval_s)
}

/// The longest 99th percentile. A load without answers is starved, unless another replaced it.
fn tail(loads: &[LoadOutcome], replaced: bool) -> f64 {
    let starved = |load: &LoadOutcome| load.answered == 0;
    if loads.iter().all(starved) || (!replaced && loads.iter().any(starved)) {
        return f64::INFINITY;
    }
    loads.iter().map(|load| load.latency_ms_p99).fold(0.0, f64::max)
}

/// Whether the client's loads change during the run.
fn replaced(scenario: &Scenario, client: &str) -> bool {
    scenario.changes.iter().any(|(_, change)| match change {
        Change::Loads { client: changed, .. } => scenario.clients[*changed].name == client,
        Change::Rate { .. } => false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const STEADY: Service =
        Service { per_s: 1_000.0, worst_per_s: 950.0, interval_s: 0.5, p99_ms: 40.0 };

    #[test]
    fn bursts_are_short_of_a_steady_mean() {
        assert_eq!(STEADY.short_of(&STEADY, 0.0), None);
        let bursts = Service { worst_per_s: 146.0, ..STEADY };
        let seen = bursts.short_of(&STEADY, 0.1).unwrap();
        assert!(seen.contains("146/s in its worst 0.5 s"), "{seen}");
        let noisy = Service { worst_per_s: 900.0, ..STEADY };
        assert_eq!(noisy.short_of(&STEADY, 0.0), None);
    }

    #[test]
    fn a_tail_counts_beside_the_mean() {
        let slow = Service { p99_ms: 630.0, ..STEADY };
        let seen = slow.short_of(&STEADY, 0.1).unwrap();
        assert!(seen.contains("p99 of 630 ms, not 40 ms"), "{seen}");
        let starved = Service { p99_ms: f64::INFINITY, ..STEADY };
        assert!(starved.short_of(&STEADY, 0.5).unwrap().contains("no answer"));
        let step = Service { p99_ms: 44.0, ..STEADY };
        assert_eq!(step.short_of(&STEADY, 0.0), None);
    }

    #[test]
    fn one_long_tail_is_chance_and_the_same_in_every_run_is_not() {
        let run = |p99_ms| Service { p99_ms, ..STEADY };
        assert_eq!(run(50.0).short_of(&STEADY, 0.05), None);
        let mut tails = Tails::default();
        for p99_ms in [50.0, 38.0, 42.0, 36.0, 41.0] {
            tails.add(&run(p99_ms), &STEADY);
            assert_eq!(tails.too_long(0.05, 5), None);
        }
        let mut tails = Tails::default();
        (0..5).for_each(|_| tails.add(&run(49.0), &STEADY));
        let seen = tails.too_long(0.05, 5).unwrap();
        assert!(seen.contains("49 ms, not 40 ms, on the mean of 5 runs"), "{seen}");
        // A single seed has no mean: its bound is the narrow one.
        let mut tails = Tails::default();
        tails.add(&run(49.0), &STEADY);
        assert!(tails.too_long(0.05, 1).is_some() && tails.too_long(0.05, 5).is_none());
    }

    #[test]
    fn less_on_the_mean_is_less() {
        let less = Service { per_s: 880.0, ..STEADY };
        assert!(less.short_of(&STEADY, 0.1).unwrap().contains("880/s, not 1000/s"));
        assert_eq!(less.short_of(&STEADY, 0.15), None);
    }
}
