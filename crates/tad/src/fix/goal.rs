//! Goals, and whether a run reaches them.

use super::service::Service;
use super::untouched::Untouched;
use crate::scenario::Scenario;
use crate::sim::{Outcome, SimError};
use crate::units;
use serde::Serialize;
use std::fmt;

/// A goal. Fractions are of one.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Goal {
    /// Whatever the others do, the client keeps its throughput of the unchanged system at their
    /// base load, or that of a machine of its share if that is less; except for this loss.
    Isolate {
        /// Who.
        client: String,
        /// Fraction that may be lost.
        loss: f64,
    },
    /// The 99th percentile of the latency of each of the client's loads.
    Tail {
        /// Who.
        client: String,
        /// Bound.
        limit_ms: f64,
    },
    /// Throughput of all clients follows their weights.
    Throughput {
        /// Fraction by which a client may miss its part.
        within: f64,
    },
    /// Dominant shares of all clients follow their weights.
    Dominant {
        /// Fraction by which a client may miss its part.
        within: f64,
    },
}

/// Why a goal cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the goal \"{text}\" cannot be read: {why}\n  write isolate:CLIENT:10%, p99:CLIENT:50ms, fair:10% or drf:10%"
)]
pub struct GoalError {
    text: String,
    why: String,
}

/// A run to evaluate.
#[derive(Clone, Copy, Debug)]
pub(super) struct Run<'a> {
    /// What was simulated.
    pub workload: &'a Scenario,
    /// The scenario at its start.
    pub begins: &'a Scenario,
    /// What came of it.
    pub outcome: &'a Outcome,
    /// Seed.
    pub seed: u64,
}

/// A goal that a run misses.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Miss {
    /// Goal, as it is written.
    pub goal: String,
    /// The observation, in words.
    pub seen: String,
}

impl Goal {
    /// Reads `isolate:C1:10%`, `p99:C1:50ms`, `fair:10%` or `drf:10%`.
    pub fn parse(text: &str) -> Result<Goal, GoalError> {
        let wrong = |why: &str| GoalError { text: text.to_owned(), why: why.to_owned() };
        let parts: Vec<&str> = text.split(':').map(str::trim).collect();
        match parts.as_slice() {
            ["isolate", client, loss] => Ok(Goal::Isolate {
                client: (*client).to_owned(),
                loss: fraction(loss).ok_or_else(|| wrong("the loss is no percentage"))?,
            }),
            ["p99", client, limit] => {
                let limit_ns = units::time(limit).map_err(|error| wrong(&error.to_string()))?;
                if limit_ns == 0 {
                    return Err(wrong("no request takes no time"));
                }
                let limit_ms = limit_ns as f64 / 1e6;
                Ok(Goal::Tail { client: (*client).to_owned(), limit_ms })
            }
            ["fair", within] => Ok(Goal::Throughput {
                within: fraction(within)
                    .ok_or_else(|| wrong("what may be missed is no percentage"))?,
            }),
            ["drf", within] => Ok(Goal::Dominant {
                within: fraction(within)
                    .ok_or_else(|| wrong("what may be missed is no percentage"))?,
            }),
            [kind, ..] if ["isolate", "p99", "fair", "drf"].contains(kind) => {
                Err(wrong("it has too few or too many parts"))
            }
            _ => Err(wrong("there is no such kind of goal")),
        }
    }

    /// The client that it names.
    pub fn client(&self) -> Option<&str> {
        match self {
            Goal::Isolate { client, .. } | Goal::Tail { client, .. } => Some(client),
            Goal::Throughput { .. } | Goal::Dominant { .. } => None,
        }
    }

    /// The client that the goal is for, in a run of the unchanged system: the named one, or the one
    /// with the smallest part of its fair share.
    pub(super) fn subject<'s>(&'s self, scenario: &'s Scenario, outcome: &Outcome) -> &'s str {
        let got = match self {
            Goal::Isolate { client, .. } | Goal::Tail { client, .. } => return client,
            Goal::Throughput { .. } => throughput(outcome),
            Goal::Dominant { .. } => dominant(scenario, outcome),
        };
        let neediest = scenario.clients.iter().zip(got).min_by(|(one, got), (other, gets)| {
            (got / one.weight).total_cmp(&(gets / other.weight))
        });
        neediest.map_or("", |(client, _)| client.name.as_str())
    }

    /// How a run misses the goal, in words. Throughput counts on the whole and in the worst
    /// interval, and so does the tail.
    pub(super) fn misses(
        &self,
        run: &Run<'_>,
        untouched: &Untouched<'_>,
    ) -> Result<Option<String>, SimError> {
        let Run { workload, outcome, .. } = *run;
        Ok(match self {
            // A comparison of several runs: see `Bench::miss`.
            Goal::Isolate { .. } => None,
            Goal::Tail { client, limit_ms } => {
                let p99_ms = Service::of(workload, outcome, client).p99_ms;
                if p99_ms.is_infinite() {
                    Some(format!("a load of {client} gets no answer"))
                } else {
                    (p99_ms > *limit_ms).then(|| format!("p99 of {client} is {p99_ms:.1} ms"))
                }
            }
            Goal::Throughput { within } => match uneven(workload, throughput(outcome), *within) {
                None => unsteady(run, untouched, *within)?,
                seen => seen,
            },
            Goal::Dominant { within } => {
                match uneven(workload, dominant(workload, outcome), *within) {
                    None => unsteady(run, untouched, *within)?,
                    seen => seen,
                }
            }
        })
    }
}

impl fmt::Display for Goal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Goal::Isolate { client, loss } => write!(f, "isolate:{client}:{}%", loss * 100.0),
            Goal::Tail { client, limit_ms } => write!(f, "p99:{client}:{limit_ms}ms"),
            Goal::Throughput { within } => write!(f, "fair:{}%", within * 100.0),
            Goal::Dominant { within } => write!(f, "drf:{}%", within * 100.0),
        }
    }
}

/// A percentage below a hundred, as a fraction.
pub fn fraction(text: &str) -> Option<f64> {
    let percent: f64 = text.trim().strip_suffix('%')?.trim().parse().ok()?;
    (0.0..100.0).contains(&percent).then_some(percent / 100.0)
}

/// Requests a second of each client.
fn throughput(outcome: &Outcome) -> Vec<f64> {
    outcome.clients.iter().map(|client| client.throughput_per_s).collect()
}

/// Each client's largest share of any kind of resource.
fn dominant(scenario: &Scenario, outcome: &Outcome) -> Vec<f64> {
    let of = |client: usize| {
        let parts = outcome.resources.iter().map(|resource| {
            resource.utilization * resource.shares.get(client).copied().unwrap_or(0.0)
        });
        parts.fold(0.0, f64::max)
    };
    (0..scenario.clients.len()).map(of).collect()
}

/// The client that misses its part by more than allowed, in words.
fn uneven(scenario: &Scenario, got: Vec<f64>, within: f64) -> Option<String> {
    let all: f64 = got.iter().sum();
    let weights: f64 = scenario.clients.iter().map(|client| client.weight).sum();
    scenario.clients.iter().zip(got).find_map(|(client, got)| {
        let (part, due) = (got / all.max(f64::MIN_POSITIVE), client.weight / weights);
        ((part / due - 1.0).abs() > within).then(|| {
            format!("{} gets {:.0} % instead of {:.0} %", client.name, part * 100.0, due * 100.0)
        })
    })
}

/// The client whose service is in bursts that the unchanged system does not have, in words: a mean
/// share does not count if a client gets nothing for a while.
fn unsteady(
    run: &Run<'_>,
    untouched: &Untouched<'_>,
    within: f64,
) -> Result<Option<String>, SimError> {
    let before = untouched.outcome(run.workload, run.seed)?;
    Ok(run.workload.clients.iter().find_map(|client| {
        let [now, was] =
            [run.outcome, &*before].map(|outcome| Service::of(run.workload, outcome, &client.name));
        let steady = (was.worst_per_s / was.per_s.max(f64::MIN_POSITIVE)).min(1.0);
        let due = Service { worst_per_s: now.per_s * steady, ..now };
        now.short_of(&due, within).map(|short| format!("{} {short}", client.name))
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn goals_are_read_and_written() {
        for text in ["isolate:C1:10%", "p99:C1:50ms", "fair:5%", "drf:5%"] {
            assert_eq!(Goal::parse(text).unwrap().to_string(), text);
        }
        assert_eq!(Goal::parse("p99:C1:1 s").unwrap().to_string(), "p99:C1:1000ms");
    }

    #[test]
    fn what_is_no_goal_is_told_how_goals_look() {
        for (text, why) in [
            ("isolate:C1", "too few"),
            ("isolate:C1:often", "percentage"),
            ("p99:C1:0ms", "no time"),
            ("p99:C1:50", "unit"),
            ("happy:C1", "no such kind"),
        ] {
            let error = Goal::parse(text).unwrap_err().to_string();
            assert!(error.contains(why) && error.contains("fair:10%"), "{error}");
        }
    }
}
