//! From an architecture to a diagram that `headworks tad` checks, draws and simulates.
//!
//! A stage that no request reaches is left out if it did no work; the report names it. If it did
//! work, it has an arrow from the clients that is a guess, since its sender was not seen.

mod answers;
mod batch;
mod calibrate;
mod counted;
mod fit;
mod machines;
mod ordered;
mod pace;
mod requests;
mod scheduled;

use crate::infer::Architecture;
use crate::infer::arrows::{By, End, Meaning};
use crate::infer::names::word;
use crate::infer::waits::Kind;
use crate::trace::Trace;
use fit::Fit;
use headworks_console::{duration, rate};
use headworks_tad::model::{
    self, Confidence, Device, Discipline, Flow, FlowKind, Queue, Resource, ResourceKind, Tad,
    Threads, UNLIMITED, Use,
};
use headworks_tad::scenario::Scenario;
use std::collections::{BTreeMap, BTreeSet};

pub use calibrate::Match;
pub(crate) use machines::divided;
pub use machines::{ASKED, QUOTA, TIME, others};
pub use requests::Paused;

/// A diagram, and a load like the recorded one.
#[derive(Clone, Debug)]
pub struct Drawn {
    /// Diagram.
    pub tad: Tad,
    /// Load, if requests were seen.
    pub scenario: Option<Scenario>,
    /// Stages that were left out, in words.
    pub left_out: Vec<String>,
    /// Stages that a plug-in schedules, in words.
    pub scheduled: Vec<String>,
    /// What was measured of each load of the scenario, and how a simulation of it compares.
    pub loads: Vec<Match>,
    /// What of the steps' processor time is that of pauses of a virtual machine.
    pub paused: Vec<Paused>,
    /// From wake-ups until threads run, by request and step.
    wakes: Vec<Wakes>,
}

/// How long a step's threads take to run once they are woken.
#[derive(Clone, Copy, Debug)]
struct Wakes {
    request: usize,
    step: usize,
    /// Where processors are free.
    free_ns: u64,
    /// What it took longer, since they are not.
    busy_ns: u64,
}

/// Part of the processors below which a stage without arrows does nothing.
const CPU_SHARE_MIN: f64 = 0.001;
/// Resources of a machine: the locks with the longest waits are drawn.
const RESOURCES_MAX: usize = 9;
/// Clients on this machine are drawn if they take this part of its processors.
const CLIENTS_SHARE: f64 = 0.02;
/// Part of all processor time beyond which threads without a stage deserve a warning.
pub const NULL_SHARE: f64 = 0.1;

/// Stage numbers of the architecture and of the diagram, and the resources of the diagram.
pub(crate) struct Ids {
    pub stage: BTreeMap<usize, usize>,
    pub cpu: BTreeMap<usize, usize>,
    pub io: BTreeMap<usize, usize>,
    pub network: BTreeMap<usize, usize>,
    /// Time that passes, and servers that are not recorded.
    pub time: BTreeMap<usize, usize>,
    pub asked: BTreeMap<usize, usize>,
    /// Of the locks and permits of the fit.
    pub held: BTreeMap<usize, usize>,
}

/// Draws.
pub fn draw(trace: &Trace, found: &Architecture, name: &str) -> Drawn {
    let kept = kept(trace, found);
    let fit = fit::fit(trace, found);
    let left_out = found
        .stages
        .stages
        .iter()
        .enumerate()
        .filter(|(id, _)| !kept.contains(id))
        .map(|(_, stage)| format!("{} ({} threads)", stage.name, stage.most))
        .collect();
    let mut tad = Tad {
        name: name.to_owned(),
        version: String::new(),
        about: about(trace),
        source: "recorded by headworks tad record".to_owned(),
        nodes: Vec::new(),
        processes: Vec::new(),
        resources: Vec::new(),
        stages: Vec::new(),
        flows: Vec::new(),
        requests: Vec::new(),
        shared_queues: Vec::new(),
        controls: Vec::new(),
        remedies: BTreeMap::new(),
    };
    let mut ids = Ids {
        stage: BTreeMap::new(),
        cpu: BTreeMap::new(),
        io: BTreeMap::new(),
        network: BTreeMap::new(),
        time: BTreeMap::new(),
        asked: BTreeMap::new(),
        held: BTreeMap::new(),
    };
    machines::add(trace, found, &fit, &kept, &mut tad, &mut ids);
    stages((trace, found), &fit, &kept, &mut tad, &mut ids);
    held(&fit, &mut tad, &mut ids);
    flows(found, &mut tad, &ids);
    figures(trace, found, &mut tad, &ids);
    let drawn = Drawn {
        tad,
        scenario: None,
        left_out,
        scheduled: Vec::new(),
        loads: Vec::new(),
        paused: Vec::new(),
        wakes: Vec::new(),
    };
    let mut drawn = requests::add(trace, found, &fit, &ids, drawn);
    drawn.scheduled = scheduled::mark(trace, found, &ids, &mut drawn.tad);
    drawn
}

impl Drawn {
    /// Which figures do not fit, in words.
    pub fn doubts(&self) -> Vec<String> {
        self.loads.iter().flat_map(Match::doubts).collect()
    }

    /// A short load like the recorded one.
    pub fn trial(&self) -> Option<Scenario> {
        calibrate::trial_of(self)
    }

    /// Simulates the recorded load, and sets what the recording leaves open so that answers take
    /// as long as they did.
    pub fn calibrate(&mut self) {
        calibrate::calibrate(self);
    }

    /// Says how many clients the busiest load came from: it cannot be seen where one connection has
    /// several requests at a time. Their pace is set so that they send what was recorded.
    pub fn know_clients(&mut self, clients: u32) {
        calibrate::know_clients(self, clients);
    }

    /// Requests a second of the busiest load in the simulation, were it of so many clients.
    pub fn simulated(&self, clients: u32) -> Option<f64> {
        calibrate::throughput(self, clients)
    }
}

fn about(trace: &Trace) -> String {
    let head = &trace.head;
    let programs: BTreeSet<&str> =
        trace.processes.values().map(|process| process.program.as_str()).collect();
    let programs: Vec<&str> = programs.into_iter().collect();
    let hosts: BTreeSet<&str> = trace.heads().map(|head| head.host.as_str()).collect();
    let hosts = Vec::from_iter(hosts).join(", ");
    format!("{} on {hosts}, {:.0} s by {}.", programs.join(", "), head.seconds, head.mode)
}

/// Stages that are drawn.
fn kept(trace: &Trace, found: &Architecture) -> BTreeSet<usize> {
    let counted_ns = trace.head.counted_s * 1e9 * f64::from(trace.head.processors.max(1));
    let linked: BTreeSet<usize> = found
        .arrows
        .iter()
        .flat_map(|arrow| [arrow.from, arrow.to])
        .filter_map(|end| match end {
            End::Stage(stage) => Some(stage),
            End::Clients => None,
        })
        .collect();
    let works = |id: usize| {
        let facts = &found.facts[id];
        facts.cpu_ns as f64 > CPU_SHARE_MIN * counted_ns || facts.bios > 0
    };
    (0..found.stages.stages.len()).filter(|id| linked.contains(id) || works(*id)).collect()
}

/// Sleeps of a stage for a device, and its requests to one.
pub(crate) fn disk(found: &Architecture, stage: usize) -> u64 {
    let at = Kind::ALL.iter().position(|kind| *kind == Kind::Device).unwrap_or(0);
    let facts = &found.facts[stage];
    // A few sleeps without a request are chance.
    facts.bios.max(if facts.bios > 0 || facts.sleeps[at] >= 10 { facts.sleeps[at] } else { 0 })
}

fn stages(
    (trace, found): (&Trace, &Architecture),
    fit: &Fit,
    kept: &BTreeSet<usize>,
    tad: &mut Tad,
    ids: &mut Ids,
) {
    for &id in kept {
        let stage = &found.stages.stages[id];
        let node = tad.processes[stage.place].node;
        let queued = found.arrows.iter().any(|arrow| {
            arrow.meaning == Meaning::Data
                && arrow.to == End::Stage(id)
                && matches!(arrow.by, By::Wake | By::Ready | By::Probe | By::Answer)
        });
        let on_demand = stage.on_demand || one_for_each_connection(trace, found, id);
        let mut uses = vec![Use { resource: ids.cpu[&node], may: false }];
        let requests = visits(found, id);
        let disk = disk(found, id);
        if let (true, Some(&io)) = (disk > 0, ids.io.get(&node)) {
            // Fewer accesses than requests: some requests need the disk, and some do not.
            let may = requests > 0 && disk * 10 < requests * 9 && fit.batches[id].is_none();
            uses.push(Use { resource: io, may });
        }
        if let (true, Some(&network)) = (found.facts[id].outside_bytes > 0, ids.network.get(&node))
        {
            uses.push(Use { resource: network, may: answers::only_some(found, id) });
        }
        uses.push(Use { resource: ids.time[&node], may: false });
        if let (true, Some(&asked)) = (fit.stages[id].asked_ns > 0, ids.asked.get(&node)) {
            uses.push(Use { resource: asked, may: false });
        }
        let ordered = !on_demand && ordered::may_be(trace, found, id);
        let once = [ids.io.get(&node), ids.time.get(&node)];
        let once = once.into_iter().flatten().copied().collect();
        let batch = fit.batches[id].map(|_| model::Batch { most: batch::MOST, once });
        ids.stage.insert(id, tad.stages.len());
        tad.stages.push(model::Stage {
            name: stage.name.clone(),
            title: stage.title.clone(),
            process: stage.place,
            threads: if on_demand { Threads::OnDemand } else { Threads::Bounded(stage.most) },
            threads_label: None,
            queue: Queue {
                explicit: queued && !on_demand,
                ordered,
                order_confidence: if ordered { Confidence::Guess } else { Confidence::Certain },
                ..Queue::IMPLICIT
            },
            uses,
            instances: 1,
            asynchronous: false,
            confidence: stage.sure,
            batch,
        });
    }
}

/// Requests that came to a stage: a lower bound.
pub(crate) fn visits(found: &Architecture, stage: usize) -> u64 {
    let direct = found.requests.iter().find(|(at, _)| *at == stage).map_or(0, |(_, n)| *n);
    let passed: u64 =
        found.arrows.iter().filter(|arrow| arrow.feeds(stage)).map(|arrow| arrow.n).sum();
    // What is never asleep is not woken, but answers.
    let answers = |arrow: &&crate::infer::arrows::Arrow| match arrow.meaning {
        Meaning::Data => (arrow.from, arrow.to) == (End::Stage(stage), End::Clients),
        Meaning::Blocking => arrow.to == End::Stage(stage),
    };
    let answered = found.arrows.iter().filter(answers).map(|arrow| arrow.n).max().unwrap_or(0);
    direct.max(passed).max(answered)
}

/// Requests that came to a stage, with those that woke no thread because all were at work.
pub(crate) fn all_visits(trace: &Trace, found: &Architecture, stage: usize) -> f64 {
    let threads = f64::from(found.stages.stages[stage].most.max(1));
    let counted_ns = (trace.head.counted_s * 1e9).max(1.0);
    let busy = (fit::working(found, stage, counted_ns) / threads).clamp(0.0, 1.0);
    let asleep = (1.0 - busy.powf(threads)).max(0.05);
    let each = |arrow: &crate::infer::arrows::Arrow| match arrow.by {
        By::Wake | By::Ready => arrow.n as f64 / asleep,
        _ => arrow.n as f64,
    };
    let passed: f64 = found.arrows.iter().filter(|arrow| arrow.feeds(stage)).map(each).sum();
    passed.max(visits(found, stage) as f64)
}

/// Each thread reads the requests of one connection, and no queue is before it.
fn one_for_each_connection(trace: &Trace, found: &Architecture, stage: usize) -> bool {
    let connections = found.connections.get(&stage).copied().unwrap_or(0);
    let threads = found.stages.stages[stage].most as usize;
    let queue = found.arrows.iter().any(|arrow| {
        arrow.meaning == Meaning::Data
            && arrow.to == End::Stage(stage)
            && matches!(arrow.by, By::Wake | By::Ready)
    });
    let own = !found.roaming.contains(&stage);
    connections >= 2
        && connections.abs_diff(threads) * 10 <= threads
        && !queue
        && own
        && !began_with_their_process(trace, found, stage)
}

/// Whether all threads of a stage began with their process: a pool that is fixed. Those that are
/// made for connections begin when clients come.
fn began_with_their_process(trace: &Trace, found: &Architecture, stage: usize) -> bool {
    /// In hundredths of a second.
    const SOON: u64 = 100;
    let mut own = found.stages.stages[stage].threads.iter().filter_map(|tid| {
        let thread = trace.threads.get(tid)?;
        Some((thread.started, trace.processes.get(&thread.pid)?.started))
    });
    // A process's first thread begins with it.
    let soon = |(began, with): (u64, u64)| began > 0 && with > 0 && began <= with + SOON;
    found.stages.stages[stage].threads.len() > 1 && own.all(soon)
}

/// Locks and permits as resources.
fn held(fit: &Fit, tad: &mut Tad, ids: &mut Ids) {
    for (at, each) in fit.held.iter().enumerate() {
        let node = tad.processes[each.place].node;
        let resources = tad.resources.iter().filter(|resource| resource.node == node).count();
        let users: Vec<usize> =
            each.users.iter().filter_map(|(stage, _)| ids.stage.get(stage).copied()).collect();
        if resources >= RESOURCES_MAX || users.is_empty() {
            continue;
        }
        let base = word(&each.name);
        let mut name = base.clone();
        let mut number = 2;
        while tad.resource(node, &name).is_some() {
            name = format!("{base}-{number}");
            number += 1;
        }
        let resource = tad.resources.len();
        ids.held.insert(at, resource);
        tad.resources.push(Resource {
            name,
            title: each.name.clone(),
            kind: ResourceKind::Lock,
            node,
            rate_per_s: 1e9,
            parallelism: each.parallelism.clamp(1, UNLIMITED - 1),
            discipline: Discipline::Fifo,
            device: Device::Plain,
        });
        for stage in users {
            tad.stages[stage].uses.push(Use { resource, may: false });
        }
    }
}

fn flows(found: &Architecture, tad: &mut Tad, ids: &Ids) {
    let end = |end: End| match end {
        End::Clients => Some(model::End::Clients),
        End::Stage(stage) => ids.stage.get(&stage).map(|stage| model::End::Stage(*stage)),
    };
    for arrow in &found.arrows {
        let (Some(from), Some(to)) = (end(arrow.from), end(arrow.to)) else { continue };
        let kind = match arrow.meaning {
            Meaning::Data => FlowKind::Data,
            Meaning::Blocking => FlowKind::Blocking,
        };
        let same =
            tad.flows.iter_mut().find(|flow| (flow.from, flow.to, flow.kind) == (from, to, kind));
        match same {
            Some(flow) => flow.confidence = flow.confidence.max(arrow.sure),
            None => tad.flows.push(Flow {
                from,
                to,
                kind,
                label: String::new(),
                remote: false,
                confidence: arrow.sure,
            }),
        }
    }
    for stage in 0..tad.stages.len() {
        let to = model::End::Stage(stage);
        let fed = tad.flows.iter().any(|flow| flow.kind == FlowKind::Data && flow.to == to);
        if !fed {
            tad.flows.push(Flow {
                from: model::End::Clients,
                to,
                kind: FlowKind::Data,
                label: String::new(),
                remote: false,
                confidence: Confidence::Guess,
            });
        }
    }
}

/// Says at each line how often a second something went along it, or how long a wait took; at each
/// stage which part of the time its threads worked, or waited for something else than a request;
/// and the names of locks, which have one symbol.
fn figures(trace: &Trace, found: &Architecture, tad: &mut Tad, ids: &Ids) {
    let end = |end: End| match end {
        End::Clients => Some(model::End::Clients),
        End::Stage(stage) => ids.stage.get(&stage).map(|stage| model::End::Stage(*stage)),
    };
    let counted_ns = (trace.head.counted_s * 1e9).max(1.0);
    for (&id, &stage) in &ids.stage {
        let most = found.stages.stages[id].most.max(1);
        let working = fit::working(found, id, counted_ns);
        let stage = &mut tad.stages[stage];
        stage.threads_label = Some(match stage.threads {
            Threads::OnDemand => format!("on demand, {working:.1} busy"),
            Threads::Bounded(_) => {
                let busy = (working / f64::from(most)).min(1.0) * 100.0;
                format!("{most}, {busy:.0} % busy")
            }
        });
    }
    let locks = tad.resources.iter().filter(|resource| resource.kind == ResourceKind::Lock);
    let locks: Vec<&str> = locks.map(|lock| &*lock.title).collect();
    if !locks.is_empty() {
        tad.about += &format!(" Waits for locks in {}.", locks.join(", "));
    }
    for flow in &mut tad.flows {
        let kind = |meaning| match meaning {
            Meaning::Data => FlowKind::Data,
            Meaning::Blocking => FlowKind::Blocking,
        };
        let own = found.arrows.iter().filter(|arrow| {
            let ends = (end(arrow.from), end(arrow.to));
            ends == (Some(flow.from), Some(flow.to)) && kind(arrow.meaning) == flow.kind
        });
        let (n, off_ns) = own.fold((0, 0), |sum, arrow| (sum.0 + arrow.n, sum.1 + arrow.off_ns));
        flow.label = match flow.kind {
            FlowKind::Data if n > 0 => {
                format!("{}/s", rate(n as f64 / trace.head.counted_s.max(1e-9)))
            }
            FlowKind::Blocking if off_ns > 0 => duration(off_ns as f64 / 1e6 / n.max(1) as f64),
            _ => String::new(),
        };
    }
}
