//! A request for each stage at which clients come in, with what it consumes: means over all.
//!
//! A step is done once for each request, so a stage's consumption is divided by the requests that
//! came in, not by how often the stage was woken: who is awake needs no wake-up. Where several
//! entries reach a stage, its consumption is divided among them by their requests.
//!
//! Where only some requests need the disk, there are two kinds: with and without.

use super::Ids;
use crate::infer::Architecture;
use crate::infer::arrows::{By, End, Meaning};
use crate::trace::Trace;
use headworks_tad::model::{Consumption, Place, Quantity, RequestType, Step, Tad};
use headworks_tad::scenario::{Arrivals, Client, Entry, Keys, Load, Scenario};
use std::collections::{BTreeMap, BTreeSet};

const SECOND: u64 = 1_000_000_000;
/// A unit of what is not worth a step's amount.
const CPU_NS_MIN: u64 = 1_000;

/// Adds requests to the diagram. Returns a load like the recorded one.
pub fn add(trace: &Trace, found: &Architecture, tad: &mut Tad, ids: &Ids) -> Option<Scenario> {
    let entries: Vec<(usize, u64)> = found
        .requests
        .iter()
        .copied()
        .filter(|(stage, n)| *n >= 10 && ids.stage.contains_key(stage))
        .collect();
    let reach: Vec<BTreeMap<usize, usize>> =
        entries.iter().map(|(stage, _)| tree(found, ids, *stage)).collect();
    let mut loads = Vec::new();
    for (at, &(entry, n)) in entries.iter().enumerate() {
        // Of all requests that reach a stage.
        let reached = |stage: usize| -> u64 {
            let reaching = entries.iter().zip(&reach);
            reaching
                .filter(|((entry, _), tree)| *entry == stage || tree.contains_key(&stage))
                .map(|((_, n), _)| *n)
                .sum::<u64>()
                .max(1)
        };
        let clients = found.connections.get(&entry).copied().unwrap_or(1).max(1) as u32;
        for (disk, part) in disk_parts(found, tad, ids, entry, &reach[at]) {
            let mut request = request(found, tad, ids, entry, &reach[at], &|stage| Share {
                requests: reached(stage),
                disk,
                part,
            });
            if disk && part < 1.0 {
                request.name += "-disk";
            }
            let id = tad.requests.len();
            tad.requests.push(request);
            let clients = ((f64::from(clients) * part).round() as u32).max(1);
            loads.push((id, clients, (n as f64 * part) as u64));
        }
    }
    scenario(trace, tad, &loads)
}

/// What of a stage's consumption a request has.
#[derive(Clone, Copy)]
struct Share {
    /// Requests that reached the stage.
    requests: u64,
    /// It is of the kind that needs the disk where only some do.
    disk: bool,
    /// Part of the requests that are of its kind.
    part: f64,
}

/// Kinds of requests by their use of the disk, with their parts.
fn disk_parts(
    found: &Architecture,
    tad: &Tad,
    ids: &Ids,
    entry: usize,
    parents: &BTreeMap<usize, usize>,
) -> Vec<(bool, f64)> {
    let sometimes = |stage: &&usize| {
        let stage = &tad.stages[ids.stage[*stage]];
        let io = |used: &headworks_tad::model::Use| {
            tad.resources[used.resource].kind == headworks_tad::model::ResourceKind::Io
        };
        stage.uses.iter().any(|used| used.may && io(used))
    };
    let part = std::iter::once(&entry)
        .chain(parents.keys())
        .filter(sometimes)
        .map(|&stage| super::disk(found, stage) as f64 / super::visits(found, stage).max(1) as f64)
        .fold(0.0, f64::max);
    if part == 0.0 {
        return vec![(true, 1.0)];
    }
    let part = part.clamp(0.02, 0.98);
    vec![(false, 1.0 - part), (true, part)]
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
                && arrow.sure > headworks_tad::model::Confidence::Guess;
            if follows && b != entry && !parents.contains_key(&b) && ids.stage.contains_key(&b) {
                parents.insert(b, a);
                queue.push_back(b);
            }
        }
    }
    parents
}

fn request(
    found: &Architecture,
    tad: &Tad,
    ids: &Ids,
    entry: usize,
    parents: &BTreeMap<usize, usize>,
    share: &dyn Fn(usize) -> Share,
) -> RequestType {
    let stages: Vec<usize> = std::iter::once(entry).chain(parents.keys().copied()).collect();
    let step_of = |stage: usize| stages.iter().position(|known| *known == stage);
    let blocked: BTreeSet<(usize, usize)> = found
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
            uses: uses(found, tad, ids, stage, share(stage)),
            cache: None,
            submits: Vec::new(),
            waits: Vec::new(),
            enough: None,
            uses_after: Vec::new(),
            then: Vec::new(),
        })
        .collect();
    submit(parents, &blocked, &step_of, &mut steps);
    let replies: Vec<usize> = found
        .arrows
        .iter()
        .filter(|arrow| arrow.to == End::Clients)
        .filter_map(|arrow| match arrow.from {
            End::Stage(stage) => step_of(stage),
            End::Clients => None,
        })
        .collect();
    let answered_by = vec![replies.first().copied().unwrap_or(0)];
    RequestType {
        name: tad.stages[ids.stage[&entry]].name.clone(),
        about: "The mean of all that was recorded.".to_owned(),
        parameters: Vec::new(),
        steps,
        first: 0,
        answered_by,
    }
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
    found: &Architecture,
    tad: &Tad,
    ids: &Ids,
    stage: usize,
    share: Share,
) -> Vec<Consumption> {
    let facts = &found.facts[stage];
    let node = tad.node_of(ids.stage[&stage]);
    let declared = |resource: usize| {
        tad.stages[ids.stage[&stage]].uses.iter().find(|used| used.resource == resource)
    };
    let mut uses = Vec::new();
    let mut add = |resource: Option<&usize>, amount: u64| {
        let Some(used) = resource.and_then(|&resource| declared(resource)) else { return };
        // Only some requests use it: then these use all of it.
        let amount = match (used.may, share.disk) {
            (true, false) => 0,
            (true, true) => ((amount as f64 / share.part) as u64).max(1),
            (false, _) => amount,
        };
        if amount > 0 {
            let amount = Quantity::Fixed(amount);
            uses.push(Consumption { resource: used.resource, amount });
        }
    };
    add(ids.cpu.get(&node), (facts.cpu_ns / share.requests).max(CPU_NS_MIN));
    add(ids.io.get(&node), facts.bio_bytes / share.requests);
    add(ids.network.get(&node), facts.outside_bytes / share.requests);
    uses
}

fn scenario(trace: &Trace, tad: &Tad, loads: &[(usize, u32, u64)]) -> Option<Scenario> {
    let (most, ..) = loads.iter().max_by_key(|(_, _, n)| *n)?;
    let counted_s = trace.head.counted_s.max(1e-9);
    let load = |request: usize, threads: u32, n: u64| {
        // The time that clients think is what their number and the throughput leave.
        let each_s = f64::from(threads) * counted_s / n.max(1) as f64;
        let think_ns = if n == 0 { 0 } else { (each_s * 0.5 * 1e9) as u64 };
        Load {
            request,
            arrivals: Arrivals::Closed { threads, think_ns },
            parameters: Vec::new(),
            entry: Entry::Any,
            keys: Keys::Uniform,
            name: tad.requests[request].name.clone(),
            patience: None,
        }
    };
    let clients = loads
        .iter()
        .enumerate()
        .map(|(at, &(request, threads, n))| Client {
            name: format!("C{}", at + 1),
            weight: 1.0,
            loads: vec![load(request, threads, n)],
        })
        .collect();
    Some(Scenario {
        name: format!("{}-load", tad.name),
        about: format!(
            "As many clients as were connected. Most requests came to {}.",
            tad.requests[*most].name
        ),
        clients,
        changes: Vec::new(),
        duration_ns: 10 * SECOND,
        warmup_ns: SECOND,
        sample_ns: SECOND / 2,
        policy: None,
        jitter: 0.1,
        switch_ns: 0,
    })
}
