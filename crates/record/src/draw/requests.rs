//! Requests for each stage at which clients come in, with the mean of what they consume.
//!
//! A step is done once for each request, so a stage's consumption is divided by the requests that
//! come to it, not by how often it was woken: who is awake needs no wake-up. Where several entries
//! reach a stage, its consumption is divided among them by their requests.
//!
//! Where only some requests need the disk, or go a certain way, there are two kinds: with and
//! without.

mod clients;

use super::calibrate::Match;
use super::counted;
use super::fit::{Fit, Totals};
use super::pace::{idle_wake_ns, pace, several, think_ns};
use super::{Drawn, Ids, Wakes};
use crate::infer::arrows::{By, End, Meaning};
use crate::infer::{Architecture, Pace};
use crate::trace::Trace;
use headworks_tad::model::{
    Confidence, Consumption, Place, Quantity, RequestType, ResourceKind, Step, Tad, Use,
};
use headworks_tad::scenario::{Arrivals, Client, Entry, Keys, Load, Scenario};
use std::collections::{BTreeMap, BTreeSet};

const SECOND: u64 = 1_000_000_000;
/// A step's least work: a request that consumes nothing cannot be simulated.
const CPU_NS_MIN: u64 = 1_000;
/// A way that fewer requests go is one that only some go.
const ALWAYS: f64 = 0.85;
/// Entries that are drawn with requests, the busiest first: the simulator has 16 clients.
const ENTRIES_MAX: usize = 12;

/// A kind of request that comes in at one stage.
struct Kind {
    entry: usize,
    /// Stages that it reaches, each with the stage before it.
    parents: BTreeMap<usize, usize>,
    /// Requests.
    n: f64,
    /// Part of its entry's requests.
    part: f64,
    /// It is of those that need the disk, where only some do.
    disk: bool,
    suffix: &'static str,
}

/// Processor time of a step that passes while a virtual machine stops its threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Paused {
    /// Request.
    pub request: usize,
    /// Its step.
    pub step: usize,
    /// Time.
    pub ns: u64,
}

/// Adds requests to the diagram, and a load like the recorded one.
pub fn add(trace: &Trace, found: &Architecture, fit: &Fit, ids: &Ids, mut drawn: Drawn) -> Drawn {
    let kinds = kinds(trace, found, &drawn.tad, ids);
    let idle_ns = idle_wake_ns(trace);
    for kind in &kinds {
        let reached = |stage: usize| -> f64 {
            let reaches = |kind: &&Kind| kind.entry == stage || kind.parents.contains_key(&stage);
            kinds.iter().filter(reaches).map(|kind| kind.n).sum::<f64>().max(1.0)
        };
        let request = request(found, fit, &drawn.tad, ids, kind, &reached);
        let id = drawn.tad.requests.len();
        for (step, at) in stages_of(kind).into_iter().enumerate() {
            let paused_ns = (fit.stages[at].paused_ns as f64 / reached(at)) as u64;
            if paused_ns > 0 {
                drawn.paused.push(Paused { request: id, step, ns: paused_ns });
            }
            let (n, ns) = fit.stages[at].wakes;
            // The time until the entry's thread runs is part of the clients' time.
            let first = if at == kind.entry { reached(at) } else { 0.0 };
            let part = if n == 0 { 0.0 } else { (1.0 - first / n as f64).max(0.0) };
            let all_ns = ns as f64 * part / reached(at);
            let free_ns = (idle_ns * n as f64 * part / reached(at)).min(all_ns);
            drawn.wakes.push(Wakes {
                request: id,
                step,
                free_ns: free_ns as u64,
                busy_ns: (all_ns - free_ns) as u64,
            });
        }
        drawn.tad.requests.push(request);
    }
    if !kinds.is_empty() {
        scenario(trace, found, (fit, &kinds), ids, &mut drawn);
    }
    drawn
}

fn kinds(trace: &Trace, found: &Architecture, tad: &Tad, ids: &Ids) -> Vec<Kind> {
    let mut kinds = Vec::new();
    let entries =
        found.requests.iter().filter(|(entry, n)| *n >= 10 && ids.stage.contains_key(entry));
    for &(entry, n) in entries.take(ENTRIES_MAX) {
        let n = several(trace, found, entry).map_or(n as f64, |(n, _)| n);
        let parents = tree(found, ids, entry);
        let kind = |part: f64, disk, parents: &BTreeMap<usize, usize>, suffix| Kind {
            entry,
            parents: parents.clone(),
            n: n * part,
            part,
            disk,
            suffix,
        };
        let disk = disk_part(found, tad, ids, entry, &parents);
        let (some, part) = some_ways(trace, found, entry, n, &parents);
        if let Some(part) = disk {
            kinds.push(kind(1.0 - part, false, &parents, ""));
            kinds.push(kind(part, true, &parents, "-disk"));
        } else if let Some(part) = part {
            let mut without = parents.clone();
            without.retain(|stage, _| {
                !some.iter().any(|of| of == stage || descends(&parents, *stage, *of))
            });
            kinds.push(kind(1.0 - part, true, &without, ""));
            kinds.push(kind(part, true, &parents, "-further"));
        } else {
            kinds.push(kind(1.0, true, &parents, ""));
        }
    }
    kinds
}

/// Part of the requests that need the disk, if only some do.
fn disk_part(
    found: &Architecture,
    tad: &Tad,
    ids: &Ids,
    entry: usize,
    parents: &BTreeMap<usize, usize>,
) -> Option<f64> {
    let sometimes = |stage: &&usize| {
        let stage = &tad.stages[ids.stage[*stage]];
        let io = |used: &Use| tad.resources[used.resource].kind == ResourceKind::Io;
        stage.uses.iter().any(|used| used.may && io(used))
    };
    let part = std::iter::once(&entry)
        .chain(parents.keys())
        .filter(sometimes)
        .map(|&stage| super::disk(found, stage) as f64 / super::visits(found, stage).max(1) as f64)
        .fold(0.0, f64::max);
    (part > 0.0).then(|| part.clamp(0.02, 0.98))
}

/// Stages to which only some requests go, and which part of them does. What goes several such ways
/// is not known: these are taken to be the same requests.
fn some_ways(
    trace: &Trace,
    found: &Architecture,
    entry: usize,
    n: f64,
    parents: &BTreeMap<usize, usize>,
) -> (Vec<usize>, Option<f64>) {
    let visits =
        |stage: usize| if stage == entry { n } else { super::all_visits(trace, found, stage) };
    let mut some = Vec::new();
    let mut most: f64 = 0.0;
    for (&stage, &parent) in parents {
        let part = visits(stage) / visits(parent).max(1.0);
        if part < ALWAYS {
            some.push(stage);
            most = most.max(visits(stage) / n);
        }
    }
    let any = !some.is_empty() && most > 0.02;
    (some, any.then(|| most.min(0.98)))
}

/// Stages that requests reach from an entry, each with the stage before it. Only arrows that are
/// more than a guess are followed.
fn tree(found: &Architecture, ids: &Ids, entry: usize) -> BTreeMap<usize, usize> {
    let mut parents = BTreeMap::new();
    let mut queue = std::collections::VecDeque::from([entry]);
    while let Some(from) = queue.pop_front() {
        for arrow in &found.arrows {
            let (End::Stage(a), End::Stage(b)) = (arrow.from, arrow.to) else { continue };
            let follows = a == from
                && arrow.meaning == Meaning::Data
                && arrow.by != By::Nothing
                && arrow.sure > Confidence::Guess;
            if follows && b != entry && !parents.contains_key(&b) && ids.stage.contains_key(&b) {
                parents.insert(b, a);
                queue.push_back(b);
            }
        }
    }
    parents
}

/// The entry, then the others: step by step.
fn stages_of(kind: &Kind) -> Vec<usize> {
    std::iter::once(kind.entry).chain(kind.parents.keys().copied()).collect()
}

fn request(
    found: &Architecture,
    fit: &Fit,
    tad: &Tad,
    ids: &Ids,
    kind: &Kind,
    reached: &dyn Fn(usize) -> f64,
) -> RequestType {
    let stages = stages_of(kind);
    let step_of = |stage: usize| stages.iter().position(|known| *known == stage);
    let mut blocked: BTreeSet<(usize, usize)> = found
        .arrows
        .iter()
        .filter(|arrow| arrow.meaning == Meaning::Blocking)
        .filter_map(|arrow| match (arrow.from, arrow.to) {
            (End::Stage(a), End::Stage(b)) => Some((a, b)),
            _ => None,
        })
        .collect();
    let mut steps: Vec<Step> = stages
        .iter()
        .map(|&stage| Step {
            name: tad.stages[ids.stage[&stage]].name.clone(),
            stage: ids.stage[&stage],
            place: Place::Same,
            uses: uses(&fit.stages[stage], fit, tad, ids, stage, (kind, reached(stage))),
            cache: None,
            submits: Vec::new(),
            waits: Vec::new(),
            enough: None,
            uses_after: Vec::new(),
            then: Vec::new(),
        })
        .collect();
    let answered_by = answered_by(found, &kind.parents, &step_of);
    let answers = |stage| step_of(stage).is_some_and(|step| answered_by.contains(&step));
    // An answer goes to who asked: not to a stage further down.
    let asked = |&(waiter, on): &(usize, usize)| !descends(&kind.parents, waiter, on);
    let waited_for: BTreeSet<usize> =
        blocked.iter().filter(|pair| asked(pair)).map(|(_, on)| *on).collect();
    // A stage that has nothing to answer does not wait for an answer of one that answers clients,
    // but for room in its queue. What is before a queue is not held up in the simulator.
    blocked.retain(|(waiter, on)| !answers(*on) || answers(*waiter) || waited_for.contains(waiter));
    submit(&kind.parents, &blocked, &step_of, &mut steps);
    RequestType {
        name: tad.stages[ids.stage[&kind.entry]].name.clone() + kind.suffix,
        about: "The mean of all that was recorded.".to_owned(),
        parameters: Vec::new(),
        steps,
        first: 0,
        answered_by,
    }
}

/// Stages that answer clients. If several do, the last one to be done does. An event loop that
/// passes requests on answers when a stage behind it gives them back.
fn answered_by(
    found: &Architecture,
    parents: &BTreeMap<usize, usize>,
    step_of: &dyn Fn(usize) -> Option<usize>,
) -> Vec<usize> {
    /// A stage that answers a smaller part does so by the way.
    const PART: u64 = 10;
    let given_back = |stage: usize, answers: u64| {
        let back = found.arrows.iter().filter(move |arrow| {
            arrow.meaning == Meaning::Data
                && arrow.to == End::Stage(stage)
                && arrow.n * PART >= answers
        });
        let behind = back.filter_map(move |arrow| match arrow.from {
            End::Stage(from) if descends(parents, from, stage) => Some((arrow.n, from)),
            _ => None,
        });
        behind.max().map_or(stage, |(_, from)| from)
    };
    let replies: Vec<(usize, u64)> = found
        .arrows
        .iter()
        .filter(|arrow| arrow.to == End::Clients)
        .filter_map(|arrow| match arrow.from {
            End::Stage(stage) => Some((step_of(given_back(stage, arrow.n))?, arrow.n)),
            End::Clients => None,
        })
        .collect();
    let most = replies.iter().map(|(_, n)| *n).max().unwrap_or(0);
    let answers: Vec<usize> =
        replies.into_iter().filter(|(_, n)| n * PART >= most).map(|(step, _)| step).collect();
    if answers.is_empty() { vec![0] } else { answers }
}

/// Who submits whom, and waits for whom.
fn submit(
    parents: &BTreeMap<usize, usize>,
    blocked: &BTreeSet<(usize, usize)>,
    step_of: &dyn Fn(usize) -> Option<usize>,
    steps: &mut [Step],
) {
    for (&stage, &parent) in parents {
        let (Some(step), Some(before)) = (step_of(stage), step_of(parent)) else { continue };
        // The stage waits for this one, or for one further down the same way.
        let waits = blocked
            .iter()
            .any(|&(waiter, on)| waiter == parent && (on == stage || descends(parents, on, stage)));
        if waits {
            steps[before].submits.push(step);
            let on = blocked
                .iter()
                .filter(|(waiter, _)| *waiter == parent)
                .filter(|(_, on)| *on == stage || descends(parents, *on, stage))
                .filter_map(|(_, on)| step_of(*on));
            for on in on {
                if !steps[before].waits.contains(&on) {
                    steps[before].waits.push(on);
                }
            }
        } else {
            steps[before].then.push(step);
        }
    }
}

/// Whether the way to `stage` leads by `over`.
fn descends(parents: &BTreeMap<usize, usize>, stage: usize, over: usize) -> bool {
    let mut at = stage;
    for _ in 0..parents.len() {
        match parents.get(&at) {
            Some(&parent) if parent == over => return true,
            Some(&parent) => at = parent,
            None => return false,
        }
    }
    false
}

fn uses(
    totals: &Totals,
    fit: &Fit,
    tad: &Tad,
    ids: &Ids,
    stage: usize,
    (kind, requests): (&Kind, f64),
) -> Vec<Consumption> {
    let node = tad.node_of(ids.stage[&stage]);
    let declared = |resource: usize| {
        tad.stages[ids.stage[&stage]].uses.iter().find(|used| used.resource == resource)
    };
    let mut uses = Vec::new();
    let mut add = |resource: Option<&usize>, total: f64, least: f64| {
        let Some(used) = resource.and_then(|&resource| declared(resource)) else { return };
        // Only some requests need the disk: then these use all of it.
        let some = used.may && Some(&used.resource) == ids.io.get(&node);
        let amount = match (some, kind.disk) {
            (true, false) => 0.0,
            (true, true) => (total / requests / kind.part).max(1.0),
            (false, _) => (total / requests).max(least),
        };
        if amount >= 1.0 {
            let amount = Quantity::Fixed(amount as u64);
            uses.push(Consumption { resource: used.resource, amount });
        }
    };
    // Each request of a batch is drawn with all that its batch uses once.
    let batches = fit.batches[stage];
    let once = |total: f64| batches.map_or(total, |batches| total / batches.syncs * requests);
    let least = f64::from(u8::from(batches.is_some()));
    let device_bytes = once(totals.device_ns as f64 / 1e9 * fit.disk.rate_per_s);
    let cpu_ns = totals.cpu_ns + totals.paused_ns;
    add(ids.cpu.get(&node), cpu_ns as f64, CPU_NS_MIN as f64);
    for &(held, ns) in &totals.held_ns {
        add(ids.held.get(&held), ns as f64, 0.0);
    }
    add(ids.io.get(&node), device_bytes, least);
    add(ids.network.get(&node), totals.network_bytes as f64, 0.0);
    add(ids.asked.get(&node), totals.asked_ns as f64, 0.0);
    add(ids.time.get(&node), once(totals.time_ns as f64), least);
    uses
}

fn scenario(
    trace: &Trace,
    found: &Architecture,
    (fit, kinds): (&Fit, &[Kind]),
    ids: &Ids,
    drawn: &mut Drawn,
) {
    let counted_s = trace.head.counted_s.max(1e-9);
    let all_per_s = kinds.iter().map(|kind| kind.n).sum::<f64>() / counted_s;
    let client_ns = clients::add(trace, all_per_s, ids, &mut drawn.tad);
    let mut clients: Vec<Client> = Vec::new();
    let entries: BTreeSet<usize> = kinds.iter().map(|kind| kind.entry).collect();
    for entry in entries {
        let own = || kinds.iter().enumerate().filter(|(_, kind)| kind.entry == entry);
        let n: f64 = own().map(|(_, kind)| kind.n).sum();
        let (threads, pace, each_ns) = pace(trace, found, entry, n);
        let seen_ns = pace.as_ref().and_then(Pace::think_ns);
        let think_ns = match seen_ns {
            Some(ns) => think_ns(trace, (fit, entry, n), (all_per_s, client_ns), ns),
            // Not recorded: half of the time that their number and the throughput leave.
            None => (each_ns * 0.5) as u64,
        };
        let simulated_ns = seen_ns.map_or(client_ns, |ns| ns - think_ns);
        let most = own().max_by(|a, b| a.1.part.total_cmp(&b.1.part)).map(|(id, _)| id);
        let loads = own()
            .map(|(request, kind)| Load {
                request,
                arrivals: if Some(request) == most {
                    Arrivals::Closed { threads, think_ns }
                } else {
                    Arrivals::Part { part: kind.part }
                },
                parameters: Vec::new(),
                entry: Entry::Any,
                keys: Keys::Uniform,
                name: drawn.tad.requests[request].name.clone(),
                patience: None,
            })
            .collect();
        let requests =
            counted::counted(trace, found, (entry, n, several(trace, found, entry).is_some()));
        let answers = found.answered.get(&entry).map_or(0.0, |n| *n as f64);
        drawn.loads.push(Match {
            name: drawn.tad.stages[ids.stage[&entry]].name.clone(),
            threads,
            per_s: requests.per_s,
            within: requests.within,
            least: requests.least,
            answers_per_s: answers * requests.per_s / n.max(1.0),
            answer_ms: pace.and_then(|pace| pace.answer_ns()).map(|ns| ns as f64 / 1e6),
            client_ms: simulated_ns as f64 / 1e6,
            simulated: None,
        });
        clients.push(Client { name: format!("C{}", clients.len() + 1), weight: 1.0, loads });
    }
    drawn.scenario = Some(load(drawn, kinds, ids, clients));
}

/// All clients, as long as a simulation takes.
fn load(drawn: &Drawn, kinds: &[Kind], ids: &Ids, clients: Vec<Client>) -> Scenario {
    let busiest = kinds.iter().max_by(|a, b| a.n.total_cmp(&b.n));
    let busiest =
        busiest.map_or(String::new(), |kind| drawn.tad.stages[ids.stage[&kind.entry]].name.clone());
    Scenario {
        name: format!("{}-load", drawn.tad.name),
        about: format!("As many clients as were connected. Most requests came to {busiest}."),
        clients,
        changes: Vec::new(),
        duration_ns: 10 * SECOND,
        warmup_ns: SECOND,
        sample_ns: SECOND / 2,
        policy: None,
        jitter: 0.1,
        switch_ns: 0,
    }
}
