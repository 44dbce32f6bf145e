//! Random systems. Each could be described by a file: steps follow the order of the stages, so that
//! no stage waits for itself.

use super::case::{Case, Growth};
use super::shrink::compact;
use crate::model::{
    Batch, Confidence, Consumption, Device, Discipline, NodeKind, Parameter, Place, Policy,
    Process, Quantity, Queue, RequestType, Resource, ResourceKind, SharedQueue, Stage, Step, Tad,
    Threads, Use,
};
use crate::scenario::{Arrivals, Client, Entry, Keys, Load, Scenario};
use crate::sim::rng::Rng;
use std::collections::BTreeMap;

const SECOND: u64 = 1_000_000_000;

struct Dice(Rng);

impl Dice {
    fn below(&mut self, below: usize) -> usize {
        self.0.below(below as u64) as usize
    }

    fn chance(&mut self, probability: f64) -> bool {
        self.0.unit() < probability
    }

    fn one<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())]
    }
}

/// The system and the load of a seed.
pub fn random(seed: u64) -> Case {
    let mut dice = Dice(Rng::new(seed));
    let mut tad = empty(seed);
    nodes(&mut dice, &mut tad);
    stages(&mut dice, &mut tad);
    let count = 1 + dice.below(2);
    for number in 0..count {
        let request = request(&mut dice, &tad, number);
        tad.requests.push(request);
    }
    share(&mut dice, &mut tad);
    batches(&mut dice, &mut tad);
    let base = scenario(&mut dice, &tad);
    let growth = dice.one(&[Growth::Threads, Growth::Amounts]);
    let mut case = Case { tad, base, growth };
    compact(&mut case);
    case
}

fn empty(seed: u64) -> Tad {
    Tad {
        name: format!("random-{seed}"),
        version: String::new(),
        about: String::new(),
        source: String::new(),
        nodes: Vec::new(),
        processes: Vec::new(),
        resources: Vec::new(),
        stages: Vec::new(),
        flows: Vec::new(),
        requests: Vec::new(),
        shared_queues: Vec::new(),
        controls: Vec::new(),
        remedies: BTreeMap::new(),
    }
}

fn nodes(dice: &mut Dice, tad: &mut Tad) {
    const KINDS: [(ResourceKind, &str, f64); 3] = [
        (ResourceKind::Cpu, "cpu", 1e9),
        (ResourceKind::Io, "io", 100e6),
        (ResourceKind::Network, "network", 125e6),
    ];
    for node in 0..1 + dice.below(3) {
        let name = format!("n{node}");
        tad.nodes.push(NodeKind {
            name: name.clone(),
            title: name.clone(),
            count: dice.one(&[1, 1, 2, 3]),
        });
        tad.processes.push(Process { name: name.clone(), title: name, node });
        for (at, (kind, name, rate_per_s)) in KINDS.into_iter().enumerate() {
            if at > 0 && dice.chance(0.4) {
                continue;
            }
            tad.resources.push(Resource {
                name: name.to_owned(),
                title: kind.name().to_owned(),
                kind,
                node,
                rate_per_s,
                parallelism: dice.one(&[1, 1, 2, 4]),
                discipline: Discipline::Fifo,
                device: Device::Plain,
            });
        }
    }
}

fn stages(dice: &mut Dice, tad: &mut Tad) {
    // Mostly each resource belongs to one stage, as otherwise hardly any system would be clean.
    let mut owned = vec![false; tad.resources.len()];
    let strict = dice.chance(0.6);
    for number in 0..2 + dice.below(7) {
        let process = dice.below(tad.processes.len());
        let node = tad.processes[process].node;
        let on_demand = dice.chance(0.2);
        let mut uses = Vec::new();
        for (id, resource) in tad.resources.iter().enumerate() {
            let free = !(strict && owned[id]);
            if resource.node == node && free && !on_demand && dice.chance(0.5) {
                owned[id] = true;
                uses.push(Use { resource: id, may: dice.chance(0.05) });
            }
        }
        tad.stages.push(Stage {
            name: format!("s{number}"),
            title: format!("s{number}"),
            process,
            threads: if on_demand {
                Threads::OnDemand
            } else {
                Threads::Bounded(dice.one(&[1, 2, 4, 8, 16, 32]))
            },
            threads_label: None,
            queue: Queue {
                explicit: !on_demand,
                pluggable: !on_demand,
                policy: if on_demand { Policy::Fifo } else { Policy::Drf },
                ..Queue::IMPLICIT
            },
            uses,
            instances: 1,
            asynchronous: !on_demand && dice.chance(0.2),
            confidence: Confidence::Certain,
            batch: None,
        });
    }
}

fn request(dice: &mut Dice, tad: &Tad, number: usize) -> RequestType {
    let mut parameters: Vec<Parameter> = Vec::new();
    let mut steps: Vec<Step> = Vec::new();
    for stage in 0..tad.stages.len() {
        if stage > 0 && dice.chance(0.3) {
            continue;
        }
        let id = steps.len();
        let mut step = Step {
            name: format!("t{id}"),
            stage,
            place: Place::Same,
            uses: Vec::new(),
            cache: None,
            submits: Vec::new(),
            waits: Vec::new(),
            enough: None,
            uses_after: Vec::new(),
            then: Vec::new(),
        };
        if id > 0 {
            let parent = dice.below(id);
            if tad.node_of(steps[parent].stage) != tad.node_of(stage) {
                step.place = Place::Any;
            }
            match dice.below(2) {
                0 => steps[parent].then.push(id),
                _ => {
                    steps[parent].submits.push(id);
                    steps[parent].waits.push(id);
                }
            }
        }
        for each in &tad.stages[stage].uses {
            if each.may && dice.chance(0.5) {
                continue;
            }
            let resource = &tad.resources[each.resource];
            // From 200 us to 10 ms of the resource, uniform in the logarithm.
            let time_s = 200e-6 * 50f64.powf(dice.0.unit());
            parameters.push(Parameter {
                name: format!("p{}", parameters.len()),
                dimension: resource.kind.dimension(),
                default: (time_s * resource.rate_per_s) as u64,
            });
            let amount = Quantity::Parameter(parameters.len() - 1);
            step.uses.push(Consumption { resource: each.resource, amount });
        }
        steps.push(step);
    }
    RequestType {
        name: format!("r{number}"),
        about: String::new(),
        parameters,
        answered_by: (0..steps.len()).collect(),
        steps,
        first: 0,
    }
}

/// Half of the kinds of nodes have one queue for all their stages that use something.
fn share(dice: &mut Dice, tad: &mut Tad) {
    for node in 0..tad.nodes.len() {
        if dice.chance(0.5) {
            continue;
        }
        let stages: Vec<usize> = (0..tad.stages.len())
            .filter(|&id| {
                let stage = &tad.stages[id];
                tad.node_of(id) == node
                    && matches!(stage.threads, Threads::Bounded(_))
                    && !stage.uses.is_empty()
            })
            .collect();
        if stages.len() < 2 {
            continue;
        }
        let threads = |&id: &usize| match tad.stages[id].threads {
            Threads::Bounded(threads) => threads,
            Threads::OnDemand => 0,
        };
        // As many as there are threads: a thread that waits for another does not block it.
        let concurrency = stages.iter().map(threads).sum();
        tad.shared_queues.push(SharedQueue {
            name: format!("q{node}"),
            stages,
            concurrency,
            policy: Policy::Drf,
        });
    }
}

/// Some stages serve what waits as one. A file allows it where steps are alike and do not wait.
fn batches(dice: &mut Dice, tad: &mut Tad) {
    for id in 0..tad.stages.len() {
        let mut steps = tad.requests.iter().flat_map(|r| &r.steps).filter(|s| s.stage == id);
        let uses = |step: &Step| step.uses.iter().map(|each| each.resource).collect::<Vec<_>>();
        let first = steps.next().map(|step| (uses(step), step.waits.is_empty()));
        let Some((used, true)) = first else { continue };
        let alike = steps.all(|step| step.waits.is_empty() && uses(step) == used);
        if !alike || used.is_empty() || tad.stages[id].threads == Threads::OnDemand {
            continue;
        }
        if dice.chance(0.2) {
            let once = used.into_iter().filter(|_| dice.chance(0.5)).collect();
            tad.stages[id].batch = Some(Batch { most: dice.one(&[2, 4, 16, 64]), once });
        }
    }
}

fn scenario(dice: &mut Dice, tad: &Tad) -> Scenario {
    let threads = dice.one(&[1, 4, 16, 40]);
    let client = |number: usize, request: usize| Client {
        name: format!("C{number}"),
        weight: 1.0,
        loads: vec![Load {
            request,
            arrivals: Arrivals::Closed { threads, think_ns: 0 },
            parameters: tad.requests[request].parameters.iter().map(|p| p.default).collect(),
            entry: Entry::Any,
            keys: Keys::Uniform,
            name: tad.requests[request].name.clone(),
            patience: None,
        }],
    };
    let second = dice.below(tad.requests.len());
    Scenario {
        name: "growth".to_owned(),
        about: "C2 grows half-way. Look at C1.".to_owned(),
        clients: vec![client(1, 0), client(2, second)],
        changes: Vec::new(),
        duration_ns: 4 * SECOND,
        warmup_ns: SECOND,
        sample_ns: SECOND / 4,
        policy: Some(Policy::Drf),
        jitter: 0.1,
        switch_ns: 0,
    }
}
