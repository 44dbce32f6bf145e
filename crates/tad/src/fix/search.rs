//! The search itself.

use super::candidate::{Candidate, candidates, together};
use super::cost::Costs;
use super::goal::Goal;
use super::parallel::side_by_side;
use super::trial::{Bench, Holding, Measured, Verdict};
use super::untouched::Untouched;
use super::workload::{Workload, begins, workloads};
use crate::file::read_remedies;
use crate::model::Tad;
use crate::remedy::apply;
use crate::scenario::Scenario;
use serde::Serialize;
use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};
use std::sync::atomic::{AtomicUsize, Ordering};

/// How to search.
#[derive(Clone, Debug)]
pub struct Options {
    /// Seeds that a set must pass.
    pub seeds: u32,
    /// Engineering costs.
    pub costs: Costs,
    /// How far above the cheapest set's cost the search continues.
    pub slack: u32,
    /// Sets to try at most.
    pub limit: usize,
    /// Simulated time of each run.
    pub duration_ns: u64,
    /// Only the remedies of the system's own file.
    pub own: bool,
    /// Sets that are tried in parallel.
    pub workers: usize,
}

/// An observer of a running search, called from any of its threads.
pub trait Watch: Sync {
    /// A run is about to begin, for a set of this cost, after this many sets. Returning false ends
    /// the search.
    fn go_on(&self, _settled: usize, _cost: u32) -> bool {
        true
    }

    /// A set was decided. The first is the unchanged system.
    fn settled(&self, _set: &SetReport) {}
}

/// Without a watcher.
impl Watch for () {}

/// Why there is nothing to search.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FixError {
    /// A goal is for a client that a scenario does not have.
    #[error("scenario \"{scenario}\" has no client \"{client}\"; it has {known}")]
    Client {
        /// Scenario.
        scenario: String,
        /// What the goal says.
        client: String,
        /// What it could say.
        known: String,
    },
    /// There is no goal, or no remedy to try.
    #[error("a search needs at least one {0}")]
    Nothing(&'static str),
}

/// A set that was tried.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SetReport {
    /// Its choices, by name.
    pub names: Vec<String>,
    /// What it costs to build.
    pub cost: u32,
    /// The same for `--maat`, if it consists of letters only.
    pub maat: Option<String>,
    /// Its remedies, in the form of a system file and `--remedy`.
    pub remedies: Vec<String>,
    /// What became of it.
    #[serde(flatten)]
    pub verdict: Verdict,
    /// Throughput lost against the best set that holds, as a fraction.
    pub lost: Option<f64>,
    /// Latency above that of the best set that holds.
    pub added_ms: Option<f64>,
    /// No set that holds is cheaper, faster and shorter in latency all at once.
    pub front: bool,
}

/// What a search found.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Found {
    /// System.
    pub system: String,
    /// Goals, as written on the command line.
    pub goals: Vec<String>,
    /// Workloads that were tried, in order.
    pub workloads: Vec<String>,
    /// Seeds.
    pub seeds: u32,
    /// Number of choices.
    pub choices: usize,
    /// Measurements of the unchanged system, if a set holds that can be compared with it.
    pub as_it_is: Option<Measured>,
    /// Sets in the order of their cost; the first is the unchanged system.
    pub tried: Vec<SetReport>,
    /// Sets that were skipped because their remedies do not fit together or change nothing new.
    pub skipped: usize,
    /// The limit ended the search before all sets were tried.
    pub limited: bool,
    /// The search was stopped: more sets may hold.
    pub stopped: bool,
}

impl Found {
    /// The sets that hold, the cheapest first.
    pub fn holding(&self) -> impl Iterator<Item = &SetReport> {
        self.tried.iter().filter(|set| matches!(set.verdict, Verdict::Holds(_)))
    }

    /// The cheapest set on the front.
    pub fn best(&self) -> Option<&SetReport> {
        // Differences below the threshold can form a ring of sets of equal cost, each beaten by
        // another.
        self.holding().find(|set| set.front).or_else(|| self.holding().next())
    }
}

/// A queued set: cost, size and choices, in the order of trial.
type Waiting = Reverse<(u32, usize, Vec<usize>)>;

/// Searches.
pub fn search(
    tad: &Tad,
    scenarios: &[Scenario],
    goals: &[Goal],
    options: &Options,
    watch: &dyn Watch,
) -> Result<Found, FixError> {
    let protected: Vec<&str> =
        goals.iter().filter_map(Goal::client).collect::<BTreeSet<_>>().into_iter().collect();
    check_arguments(scenarios, goals, &protected)?;
    let loads = loads(tad, scenarios, &protected, options);
    let bench = Bench {
        goals,
        workloads: &loads,
        written: scenarios,
        protected: &protected,
        seeds: options.seeds.max(1),
        first_seed: 1,
        untouched: Untouched::new(tad),
    };
    let choices = candidates(tad, options.own, |stage| reached(tad, &loads, stage));
    let mut walk =
        Walk { tad, choices: &choices, options, waiting: BinaryHeap::new(), seen: Vec::new() };
    walk.waiting.push(Reverse((0, 0, Vec::new())));
    let mut found = nothing_tried(tad, &bench, choices.len());
    let mut holding: Vec<Holding> = Vec::new();
    let mut budget = u32::MAX;
    while !found.stopped {
        let room = options.limit.max(1) - found.tried.len();
        if room == 0 {
            found.limited = !walk.waiting.is_empty();
            break;
        }
        let batch = walk.batch(&mut found.skipped, budget, room);
        let Some(cost) = batch.first().map(|(report, _)| report.cost) else { break };
        let cheaper: Vec<&Holding> = holding.iter().filter(|set| set.cost < cost).collect();
        let settled = AtomicUsize::new(found.tried.len());
        // Few sets of a cost leave processors for their runs.
        let at_a_time = (options.workers / batch.len()).max(1);
        let judge = |(report, changed): &(SetReport, Tad)| {
            let go_on = || watch.go_on(settled.load(Ordering::Relaxed), cost);
            let (verdict, first) = bench.judge(changed, &cheaper, (at_a_time, &go_on))?;
            let report = SetReport { verdict, ..report.clone() };
            settled.fetch_add(1, Ordering::Relaxed);
            watch.settled(&report);
            Some((report, first))
        };
        let judged = side_by_side(&batch, options.workers, &judge);
        found.stopped = judged.iter().any(Option::is_none);
        for (report, first) in judged.into_iter().flatten() {
            if let Some(first) = first {
                budget = budget.min(cost.saturating_add(options.slack));
                holding.push(Holding { cost, names: report.names.clone(), first });
            }
            found.tried.push(report);
        }
    }
    if !holding.is_empty() {
        found.as_it_is = bench.as_it_is().ok();
    }
    compare(&mut found.tried);
    Ok(found)
}

fn nothing_tried(tad: &Tad, bench: &Bench<'_>, choices: usize) -> Found {
    Found {
        system: tad.name.clone(),
        goals: bench.goals.iter().map(Goal::to_string).collect(),
        workloads: bench.workloads.iter().map(|(workload, _)| workload.name.clone()).collect(),
        seeds: bench.seeds,
        choices,
        as_it_is: None,
        tried: Vec::new(),
        skipped: 0,
        limited: false,
        stopped: false,
    }
}

/// All workloads, each with its scenario at the start.
fn loads(
    tad: &Tad,
    scenarios: &[Scenario],
    protected: &[&str],
    options: &Options,
) -> Vec<(Workload, Scenario)> {
    let of = |scenario: &Scenario| {
        let begins = begins(scenario, options.duration_ns);
        let all = workloads(tad, scenario, protected, options.duration_ns).into_iter();
        all.map(|workload| (workload, begins.clone())).collect::<Vec<_>>()
    };
    scenarios.iter().flat_map(of).collect()
}

/// Tries a set once more, with seeds from `first_seed` on that the search did not use: whether it
/// keeps its promise for other reasons than chance.
pub fn recheck(
    tad: &Tad,
    scenarios: &[Scenario],
    goals: &[Goal],
    options: &Options,
    (set, first_seed): (&SetReport, u64),
) -> Verdict {
    let impossible = |why: String| Verdict::Impossible { why };
    let text = format!("remedies = [{}]", set.remedies.join(", "));
    let remedies = match read_remedies("the set", &text, tad) {
        Ok(remedies) => remedies,
        Err(errors) => return impossible(errors.to_string()),
    };
    let mut changed = tad.clone();
    for remedy in &remedies {
        if let Err(error) = apply(&mut changed, remedy) {
            return impossible(error.to_string());
        }
    }
    let protected: Vec<&str> = goals.iter().filter_map(Goal::client).collect();
    let loads = loads(tad, scenarios, &protected, options);
    let bench = Bench {
        goals,
        workloads: &loads,
        written: scenarios,
        protected: &protected,
        seeds: options.seeds.max(1),
        first_seed,
        untouched: Untouched::new(tad),
    };
    match bench.judge(&changed, &[], (options.workers, &|| true)) {
        Some((verdict, _)) => verdict,
        None => impossible("it was stopped".to_owned()),
    }
}

fn check_arguments(
    scenarios: &[Scenario],
    goals: &[Goal],
    protected: &[&str],
) -> Result<(), FixError> {
    if scenarios.is_empty() {
        return Err(FixError::Nothing("scenario"));
    }
    if goals.is_empty() {
        return Err(FixError::Nothing("goal"));
    }
    for scenario in scenarios {
        for client in protected {
            if scenario.clients.iter().all(|known| known.name != *client) {
                let known: Vec<&str> =
                    scenario.clients.iter().map(|known| known.name.as_str()).collect();
                return Err(FixError::Client {
                    scenario: scenario.name.clone(),
                    client: (*client).to_owned(),
                    known: known.join(", "),
                });
            }
        }
    }
    Ok(())
}

/// Whether a stage is on the path of a request of any workload.
fn reached(tad: &Tad, loads: &[(Workload, Scenario)], stage: &str) -> bool {
    let Some(stage) = tad.stage(stage) else { return false };
    let clients = loads.iter().flat_map(|(workload, _)| &workload.scenario.clients);
    clients
        .flat_map(|client| &client.loads)
        .any(|load| tad.requests[load.request].steps.iter().any(|step| step.stage == stage))
}

/// The sets, in order of cost.
struct Walk<'a> {
    tad: &'a Tad,
    choices: &'a [Candidate],
    options: &'a Options,
    waiting: BinaryHeap<Waiting>,
    /// Systems that were returned already.
    seen: Vec<Tad>,
}

impl Walk<'_> {
    /// All sets of the next cost that are worth trying, up to a limit, with their changed systems.
    fn batch(&mut self, skipped: &mut usize, budget: u32, room: usize) -> Vec<(SetReport, Tad)> {
        let mut batch: Vec<(SetReport, Tad)> = Vec::new();
        while batch.len() < room {
            let next = self.waiting.peek().map(|Reverse((cost, _, _))| *cost);
            let Some(cost) = next.filter(|cost| *cost <= budget) else { break };
            if batch.first().is_some_and(|(first, _)| first.cost != cost) {
                break;
            }
            let Some(Reverse((_, _, set))) = self.waiting.pop() else { break };
            self.extend(&set);
            let chosen: Vec<&Candidate> = set.iter().map(|&at| &self.choices[at]).collect();
            let (remedies, cost) = together(self.tad, &chosen, &self.options.costs);
            let mut changed = self.tad.clone();
            let fits = remedies.iter().all(|remedy| apply(&mut changed, remedy).is_ok());
            if !fits || self.seen.contains(&changed) {
                *skipped += 1;
                continue;
            }
            self.seen.push(changed.clone());
            let report = SetReport {
                names: chosen.iter().map(|each| each.name()).collect(),
                cost,
                maat: maat(&chosen),
                remedies: remedies.iter().map(crate::remedy::Remedy::to_toml).collect(),
                verdict: Verdict::Impossible { why: String::new() },
                lost: None,
                added_ms: None,
                front: false,
            };
            batch.push((report, changed));
        }
        batch
    }

    /// Queues every set with one more choice after the last, so that each set comes once.
    fn extend(&mut self, set: &[usize]) {
        let from = set.last().map_or(0, |last| last + 1);
        for next in from..self.choices.len() {
            let choice = &self.choices[next];
            let taken = choice.letter.is_some()
                && set.iter().any(|&other| {
                    let other = &self.choices[other];
                    other.letter.is_some() && other.problem == choice.problem
                });
            if taken {
                continue;
            }
            let larger: Vec<usize> = set.iter().copied().chain([next]).collect();
            let chosen: Vec<&Candidate> = larger.iter().map(|&at| &self.choices[at]).collect();
            let (_, cost) = together(self.tad, &chosen, &self.options.costs);
            self.waiting.push(Reverse((cost, larger.len(), larger)));
        }
    }
}

/// The letters of a set, if it consists of letters only.
fn maat(chosen: &[&Candidate]) -> Option<String> {
    if chosen.iter().any(|each| each.letter.is_none()) {
        return None;
    }
    let letters = crate::remedy::Problem::ALL.map(|problem| {
        let of = chosen.iter().find(|each| each.problem == problem);
        of.and_then(|each| each.letter.as_deref()).unwrap_or("?")
    });
    let last = letters.iter().rposition(|letter| *letter != "?").map_or(0, |last| last + 1);
    Some(letters[..last.max(crate::remedy::Problem::OF_THE_PAPER)].join("|"))
}

/// Fills in the figures that depend on all sets.
fn compare(tried: &mut [SetReport]) {
    let measured: Vec<Option<(u32, Measured)>> = tried
        .iter()
        .map(|set| match &set.verdict {
            Verdict::Holds(measured) => Some((set.cost, measured.clone())),
            _ => None,
        })
        .collect();
    let holding = || measured.iter().flatten();
    let most = holding().map(|(_, each)| each.throughput_per_s).fold(0.0, f64::max);
    let least = holding().map(|(_, each)| each.latency_ms_p99).fold(f64::INFINITY, f64::min);
    for (set, own) in tried.iter_mut().zip(&measured) {
        let Some((cost, own)) = own else { continue };
        set.lost = Some(1.0 - own.throughput_per_s / most.max(f64::MIN_POSITIVE));
        set.added_ms = Some(own.latency_ms_p99 - least);
        let beaten = holding().any(|(other_cost, other)| {
            other_cost <= cost && other.matches(own) && (other_cost < cost || other.exceeds(own))
        });
        set.front = !beaten;
    }
}
