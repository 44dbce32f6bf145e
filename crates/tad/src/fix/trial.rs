//! Trial of a changed system: every workload and every seed, until a goal is missed, or a client of
//! the goals is worse off than in the unchanged system.

use super::goal::{Goal, Miss, Run};
use super::service::{Service, Tails};
use super::untouched::Untouched;
use super::workload::Workload;
use crate::model::Tad;
use crate::scenario::Scenario;
use crate::sim::{Outcome, SimError, run};
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Allowed loss against the unchanged system: differences of this size are chance.
const CHANCE: f64 = 0.05;

/// What became of a set.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "verdict")]
pub enum Verdict {
    /// The goals hold in all runs.
    Holds(Measured),
    /// A run missed a goal.
    Fails {
        /// Workload of that run.
        workload: String,
        /// Seed of that run.
        seed: u64,
        /// Earlier runs, which all reached the goals.
        passed: u32,
        /// What was missed.
        #[serde(flatten)]
        miss: Miss,
    },
    /// The goals hold with the first seed, but a cheaper set holds and performs as well.
    Beaten {
        /// The cheaper set, by the names of its choices.
        by: Vec<String>,
    },
    /// The remedies do not fit together, or the system cannot be simulated.
    Impossible {
        /// Why.
        why: String,
    },
}

/// Performance over all scenarios as written and all seeds, for sets that hold.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Measured {
    /// Mean requests a second, all clients together.
    pub throughput_per_s: f64,
    /// Mean requests a second of each client.
    pub clients_per_s: Vec<f64>,
    /// Fewest requests a second in any interval, among the clients of the goals.
    pub worst_per_s: f64,
    /// Mean 99th percentile of the clients that the goals protect, or of all.
    pub latency_ms_p99: f64,
    /// Runs.
    pub runs: u32,
}

impl Measured {
    /// Whether this is as good as another. Differences of less than a hundredth are chance.
    pub(super) fn matches(&self, other: &Measured) -> bool {
        self.throughput_per_s >= other.throughput_per_s * 0.99
            && self.latency_ms_p99 <= other.latency_ms_p99 * 1.01
    }

    /// Whether this is better than another in some respect.
    pub(super) fn exceeds(&self, other: &Measured) -> bool {
        self.throughput_per_s > other.throughput_per_s * 1.01
            || self.latency_ms_p99 < other.latency_ms_p99 * 0.99
    }
}

/// A client's service beside the least that it is due.
struct Comparison<'g> {
    goal: &'g Goal,
    client: String,
    now: Service,
    due: Service,
    loss: f64,
    /// What it is due from, in words.
    than: &'static str,
}

/// A set that holds, and its measurement with the first seed.
#[derive(Clone, Debug)]
pub(super) struct Holding {
    pub cost: u32,
    pub names: Vec<String>,
    pub first: Measured,
}

/// Goals and workloads.
#[derive(Debug)]
pub(super) struct Bench<'a> {
    pub goals: &'a [Goal],
    /// Workloads, each with its scenario at the start.
    pub workloads: &'a [(Workload, Scenario)],
    /// The scenarios as written: in these no client may be worse off, and sets are measured.
    pub written: &'a [Scenario],
    pub protected: &'a [&'a str],
    pub seeds: u32,
    /// The others follow it.
    pub first_seed: u64,
    pub untouched: Untouched<'a>,
}

/// A verdict, and for a set that holds its measurement with the first seed.
pub(super) type Tried = (Verdict, Option<Measured>);

impl Bench<'_> {
    /// Tries a changed system, given the results of cheaper sets. Returns nothing if it is stopped:
    /// `go_on` is called before each run.
    pub fn judge(
        &self,
        tad: &Tad,
        cheaper: &[&Holding],
        go_on: &(dyn Fn() -> bool + Sync),
    ) -> Option<Tried> {
        let tried = self.measure(tad, cheaper, go_on);
        tried.unwrap_or_else(|error| Some((Verdict::Impossible { why: error.to_string() }, None)))
    }

    fn measure(
        &self,
        tad: &Tad,
        cheaper: &[&Holding],
        go_on: &(dyn Fn() -> bool + Sync),
    ) -> Result<Option<Tried>, SimError> {
        let mut sums = Sums::default();
        let mut first = None;
        let mut passed = 0;
        // By workload and comparison.
        let mut tails: BTreeMap<(usize, usize), Tails> = BTreeMap::new();
        for seed in self.first_seed..self.first_seed + u64::from(self.seeds) {
            for (number, (workload, begins)) in self.workloads.iter().enumerate() {
                if !go_on() {
                    return Ok(None);
                }
                let outcome = self.run(tad, &workload.scenario, seed)?;
                let run = Run { workload: &workload.scenario, begins, outcome: &outcome, seed };
                if let Some(miss) = self.miss(tad, &run, (number, &mut tails))? {
                    let workload = workload.name.clone();
                    return Ok(Some((Verdict::Fails { workload, seed, passed, miss }, None)));
                }
                passed += 1;
            }
            for (number, scenario) in self.written.iter().enumerate() {
                if !go_on() {
                    return Ok(None);
                }
                let outcome = self.run(tad, scenario, seed)?;
                let run = Run { workload: scenario, begins: scenario, outcome: &outcome, seed };
                let number = self.workloads.len() + number;
                if let Some(miss) = self.short(self.harm(tad, &run)?, (number, &mut tails)) {
                    let workload = scenario.name.clone();
                    return Ok(Some((Verdict::Fails { workload, seed, passed, miss }, None)));
                }
                passed += 1;
                self.add(&mut sums, scenario, &outcome);
            }
            let own = sums.measured();
            if seed == self.first_seed {
                let better = cheaper.iter().find(|other| other.first.matches(&own));
                if let Some(better) = better {
                    let by = better.names.clone();
                    return Ok(Some((Verdict::Beaten { by }, None)));
                }
                first = Some(own);
            }
        }
        Ok(Some((Verdict::Holds(sums.measured()), first)))
    }

    /// Measurements of the unchanged system under the scenarios as written.
    pub fn as_it_is(&self) -> Result<Measured, SimError> {
        let mut sums = Sums::default();
        for seed in self.first_seed..self.first_seed + u64::from(self.seeds) {
            for scenario in self.written {
                self.add(&mut sums, scenario, &*self.untouched.outcome(scenario, seed)?);
            }
        }
        Ok(sums.measured())
    }

    fn run(&self, tad: &Tad, scenario: &Scenario, seed: u64) -> Result<Arc<Outcome>, SimError> {
        if self.is_untouched(tad) {
            return self.untouched.outcome(scenario, seed);
        }
        run(tad, scenario, seed, &mut |_| {}).map(Arc::new)
    }

    fn is_untouched(&self, tad: &Tad) -> bool {
        tad == self.untouched.tad()
    }

    /// The first goal that a run misses, or the client that it harms.
    fn miss(
        &self,
        tad: &Tad,
        run: &Run<'_>,
        tails: (usize, &mut BTreeMap<(usize, usize), Tails>),
    ) -> Result<Option<Miss>, SimError> {
        for goal in self.goals {
            if let Some(seen) = goal.misses(run, &self.untouched)? {
                return Ok(Some(Miss { goal: goal.to_string(), seen }));
            }
        }
        let mut all = Vec::new();
        for goal in self.goals {
            if let Goal::Isolate { client, loss } = goal {
                let due = self.untouched.due(run.workload, run.begins, client, run.seed)?;
                let now = Service::of(run.workload, run.outcome, client);
                all.push(Comparison {
                    goal,
                    client: client.clone(),
                    now,
                    due,
                    loss: *loss,
                    than: "",
                });
            }
        }
        all.extend(self.harm(tad, run)?);
        Ok(self.short(all, tails))
    }

    /// The clients of the goals beside themselves in the unchanged system.
    fn harm(&self, tad: &Tad, run: &Run<'_>) -> Result<Vec<Comparison<'_>>, SimError> {
        if self.is_untouched(tad) {
            return Ok(Vec::new());
        }
        let before = self.untouched.outcome(run.workload, run.seed)?;
        let of = |goal| {
            let client = Goal::subject(goal, run.workload, &before).to_owned();
            let mut due = Service::of(run.workload, &before, &client);
            if let Goal::Tail { limit_ms, .. } = goal {
                // The goal limits this latency.
                due.p99_ms = due.p99_ms.max(*limit_ms);
            }
            let now = Service::of(run.workload, run.outcome, &client);
            Comparison { goal, client, now, due, loss: CHANCE, than: " as it is" }
        };
        Ok(self.goals.iter().map(of).collect())
    }

    /// The first comparison in which a run is short, or all runs so far are on the mean.
    fn short(
        &self,
        all: Vec<Comparison<'_>>,
        (workload, tails): (usize, &mut BTreeMap<(usize, usize), Tails>),
    ) -> Option<Miss> {
        all.into_iter().enumerate().find_map(|(at, each)| {
            let tails = tails.entry((workload, at)).or_default();
            tails.add(&each.now, &each.due);
            let short = each.now.short_of(&each.due, each.loss);
            let short = short.or_else(|| tails.too_long(each.loss, self.seeds))?;
            let seen = format!("{} {short}{}", each.client, each.than);
            Some(Miss { goal: each.goal.to_string(), seen })
        })
    }

    fn add(&self, sums: &mut Sums, scenario: &Scenario, outcome: &Outcome) {
        let is_for = |name: &str| self.protected.is_empty() || self.protected.contains(&name);
        sums.runs += 1;
        sums.clients_per_s.resize(outcome.clients.len().max(sums.clients_per_s.len()), 0.0);
        for (sum, client) in sums.clients_per_s.iter_mut().zip(&outcome.clients) {
            *sum += client.throughput_per_s;
        }
        let mut tail = 0.0f64;
        for client in outcome.clients.iter().filter(|client| is_for(&client.name)) {
            let service = Service::of(scenario, outcome, &client.name);
            sums.worst_per_s = sums.worst_per_s.min(service.worst_per_s);
            tail = tail.max(service.p99_ms);
        }
        sums.latency_ms += tail;
    }
}

/// What runs add up to.
#[derive(Debug)]
struct Sums {
    clients_per_s: Vec<f64>,
    worst_per_s: f64,
    latency_ms: f64,
    runs: u32,
}

impl Default for Sums {
    fn default() -> Sums {
        Sums { clients_per_s: Vec::new(), worst_per_s: f64::INFINITY, latency_ms: 0.0, runs: 0 }
    }
}

impl Sums {
    fn measured(&self) -> Measured {
        let count = f64::from(self.runs.max(1));
        let clients_per_s: Vec<f64> = self.clients_per_s.iter().map(|sum| sum / count).collect();
        Measured {
            throughput_per_s: clients_per_s.iter().sum(),
            clients_per_s,
            worst_per_s: self.worst_per_s,
            latency_ms_p99: self.latency_ms / count,
            runs: self.runs,
        }
    }
}
