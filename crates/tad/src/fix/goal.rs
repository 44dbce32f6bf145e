//! What is to hold, and whether a run bears it out.

use crate::scenario::Scenario;
use crate::sim::Outcome;
use crate::units;
use serde::Serialize;
use std::fmt;

/// A goal. Fractions are of one.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Goal {
    /// Whatever the others do, the client gets at least what it gets at their base load, or what a
    /// machine of its share would give it if that is less; but for this loss.
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
        /// Fraction by which one may miss its part.
        within: f64,
    },
    /// Dominant shares of all clients follow their weights.
    Dominant {
        /// Fraction by which one may miss its part.
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

/// What a client must get at least, for isolation.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Floor {
    /// What it gets while the others are at their base load.
    pub base_per_s: f64,
    /// What it would get alone on machines with its share of every resource.
    pub entitled_per_s: f64,
}

impl Floor {
    /// The less of the two: more than its share is lent, and may be taken back.
    pub fn per_s(self) -> f64 {
        self.base_per_s.min(self.entitled_per_s)
    }
}

/// A goal that a run does not reach.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Miss {
    /// Goal, as it is written.
    pub goal: String,
    /// What was seen, in words.
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

    /// Whether a run reaches it. `floor` gives what isolation compares with.
    pub fn judge<E>(
        &self,
        scenario: &Scenario,
        outcome: &Outcome,
        floor: impl FnOnce(&str) -> Result<Floor, E>,
    ) -> Result<Option<Miss>, E> {
        let miss = |seen: String| Some(Miss { goal: self.to_string(), seen });
        Ok(match self {
            Goal::Isolate { client, loss } => {
                let floor = floor(client)?;
                let got = outcome.throughput(client);
                if got >= floor.per_s() * (1.0 - loss) {
                    None
                } else {
                    miss(format!("{client} gets {got:.0}/s instead of {:.0}/s", floor.per_s()))
                }
            }
            Goal::Tail { client, limit_ms } => {
                let loads = outcome.client(client).map_or(&[][..], |client| &client.loads);
                let worst = loads.iter().map(|load| load.latency_ms_p99).fold(0.0, f64::max);
                let starved = loads.iter().any(|load| load.answered == 0);
                if starved {
                    miss(format!("a load of {client} gets no answer"))
                } else if worst > *limit_ms {
                    miss(format!("p99 of {client} is {worst:.1} ms"))
                } else {
                    None
                }
            }
            Goal::Throughput { within } => {
                let got = outcome.clients.iter().map(|client| client.throughput_per_s).collect();
                uneven(scenario, got, *within).and_then(miss)
            }
            Goal::Dominant { within } => {
                let got = dominant(scenario, outcome);
                uneven(scenario, got, *within).and_then(miss)
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

/// The largest part of any kind of resource that each client had.
fn dominant(scenario: &Scenario, outcome: &Outcome) -> Vec<f64> {
    let of = |client: usize| {
        let parts = outcome.resources.iter().map(|resource| {
            resource.utilization * resource.shares.get(client).copied().unwrap_or(0.0)
        });
        parts.fold(0.0, f64::max)
    };
    (0..scenario.clients.len()).map(of).collect()
}

/// Who misses its part by more than what is allowed, in words.
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
