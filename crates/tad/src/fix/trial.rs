//! Trial of a changed system: every workload and every seed, until a goal is missed, or a client of
//! the goals is worse off than in the unchanged system.

use super::goal::{Goal, Miss, Run};
use super::parallel::side_by_side;
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

/// What a set is tried under.
struct Load<'b> {
    name: &'b str,
    scenario: &'b Scenario,
    /// The scenario at its start; none for a scenario as it is written.
    begins: Option<&'b Scenario>,
}

/// A run, the goal that it misses, and its comparisons.
type Judged<'g> = (Arc<Outcome>, Option<Miss>, Vec<Comparison<'g>>);

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
    /// `go_on` is called before runs, of which so many are made side by side.
    pub fn judge(
        &self,
        tad: &Tad,
        cheaper: &[&Holding],
        go_on: (usize, &(dyn Fn() -> bool + Sync)),
    ) -> Option<Tried> {
        let tried = self.measure(tad, cheaper, go_on);
        tried.unwrap_or_else(|error| Some((Verdict::Impossible { why: error.to_string() }, None)))
    }

    fn measure(
        &self,
        tad: &Tad,
        cheaper: &[&Holding],
        (at_a_time, go_on): (usize, &(dyn Fn() -> bool + Sync)),
    ) -> Result<Option<Tried>, SimError> {
        let mut sums = Sums::default();
        let mut first = None;
        let mut passed = 0;
        // By load and comparison.
        let mut tails: BTreeMap<(usize, usize), Tails> = BTreeMap::new();
        let loads: Vec<(usize, Load<'_>)> = self.loads().enumerate().collect();
        for seed in self.first_seed..self.first_seed + u64::from(self.seeds) {
            for some in loads.chunks(at_a_time.max(1)) {
                if !go_on() {
                    return Ok(None);
                }
                let runs =
                    side_by_side(some, at_a_time, &|(_, load)| self.try_load(tad, load, seed));
                for ((number, load), run) in some.iter().zip(runs) {
                    let (outcome, miss, comparisons) = run?;
                    let miss = miss.or_else(|| self.short(comparisons, (*number, &mut tails)));
                    if let Some(miss) = miss {
                        let workload = load.name.to_owned();
                        return Ok(Some((Verdict::Fails { workload, seed, passed, miss }, None)));
                    }
                    passed += 1;
                    if load.begins.is_none() {
                        self.add(&mut sums, load.scenario, &outcome);
                    }
                }
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

    /// What a set is tried under: the workloads, the hardest first, then the scenarios as written.
    fn loads(&self) -> impl Iterator<Item = Load<'_>> {
        let workloads = self.workloads.iter().map(|(workload, begins)| Load {
            name: &workload.name,
            scenario: &workload.scenario,
            begins: Some(begins),
        });
        let written = self.written.iter();
        workloads.chain(written.map(|scenario| Load {
            name: &scenario.name,
            scenario,
            begins: None,
        }))
    }

    /// One run, the goal that it misses, and the comparisons that count over several runs.
    fn try_load(&self, tad: &Tad, load: &Load<'_>, seed: u64) -> Result<Judged<'_>, SimError> {
        let workload = load.scenario;
        let outcome = self.run(tad, workload, seed)?;
        let begins = load.begins.unwrap_or(workload);
        let run = Run { workload, begins, outcome: &outcome, seed };
        let mut comparisons = Vec::new();
        if load.begins.is_some() {
            for goal in self.goals {
                if let Some(seen) = goal.misses(&run, &self.untouched)? {
                    let miss = Miss { goal: goal.to_string(), seen };
                    return Ok((outcome, Some(miss), comparisons));
                }
                comparisons.extend(self.isolated(goal, &run)?);
            }
        }
        comparisons.extend(self.harm(tad, &run)?);
        Ok((outcome, None, comparisons))
    }

    /// What isolation asks for, if that is the goal.
    fn isolated<'g>(
        &self,
        goal: &'g Goal,
        run: &Run<'_>,
    ) -> Result<Option<Comparison<'g>>, SimError> {
        let Goal::Isolate { client, loss } = goal else { return Ok(None) };
        let due = self.untouched.due(run.workload, run.begins, client, run.seed)?;
        let now = Service::of(run.workload, run.outcome, client);
        Ok(Some(Comparison { goal, client: client.clone(), now, due, loss: *loss, than: "" }))
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
