//! A running simulation: its state, and the passing of time.

use super::CLIENTS;
use super::cache::Lru;
use super::calendar::{Calendar, Event};
use super::clients::LoadState;
use super::controls::Controls;
use super::outcome::Outcome;
use super::plan::{Plan, SimError};
use super::queue::Queue;
use super::resource::ResourceInstance;
use super::rng::Rng;
use super::slab::{Followers, NONE, Slab};
use super::stats::Stats;
use crate::model::Tad;
use crate::scenario::{Change, Scenario};
use std::collections::{HashMap, VecDeque};

/// A stage of one node.
#[derive(Clone, Debug)]
pub(super) struct StageInstance {
    pub(super) stage: u32,
    pub(super) node: u32,
    /// Its queue; none for a stage on demand.
    pub(super) queue: u32,
    /// Its index among the queue's members.
    pub(super) member: u32,
    pub(super) busy: u32,
    /// Threads that it has.
    pub(super) limit: u32,
    /// Parts that wait here or are in service.
    pub(super) present: u32,
    /// Threads that serve each client.
    pub(super) serving: [u32; CLIENTS],
}

impl StageInstance {
    /// Whether a thread is free.
    pub(super) fn has_room(&self) -> bool {
        self.busy < self.limit
    }
}

/// Work to do at this instant.
#[derive(Clone, Copy, Debug)]
pub(super) enum Todo {
    /// A request's first part goes to a node.
    Enter(u32, u32),
    /// A part is submitted from a node.
    Submit(u32, u32),
    /// A part goes on.
    Advance(u32),
    /// A queue checks whether it can start a part.
    Dispatch(u32),
    /// A load's thread continues; its request began on this node.
    Proceed(u32, u32),
}

/// A simulation under way.
#[derive(Debug)]
pub(super) struct Engine<'a> {
    tad: &'a Tad,
    pub(super) scenario: &'a Scenario,
    pub(super) plan: &'a Plan,
    pub(super) rng: Rng,
    pub(super) calendar: Calendar,
    pub(super) now_ns: u64,
    pub(super) slab: Slab,
    pub(super) instances: Vec<StageInstance>,
    pub(super) queues: Vec<Queue>,
    pub(super) resources: Vec<ResourceInstance>,
    pub(super) caches: Vec<Lru>,
    pub(super) seed: u64,
    pub(super) stats: Stats,
    pub(super) todo: VecDeque<Todo>,
    pub(super) loads: Vec<LoadState>,
    pub(super) controls: Controls,
    pub(super) clients: usize,
    pub(super) partitions: u32,
    pub(super) error: Option<SimError>,
    pub(super) order: u64,
    /// By the part that leads; looked up, never iterated.
    pub(super) batches: HashMap<u32, Followers>,
}

/// Simulates. `progress` gets the finished fraction of simulated time, now and then.
pub fn run(
    tad: &Tad,
    scenario: &Scenario,
    seed: u64,
    progress: &mut dyn FnMut(f64),
) -> Result<Outcome, SimError> {
    let plan = Plan::new(tad, scenario)?;
    let mut engine = Engine::new(tad, scenario, &plan, seed)?;
    engine.begin_all();
    while let Some(at_ns) = engine.step()? {
        if engine.stats.events.is_multiple_of(1 << 20) {
            progress(at_ns as f64 / scenario.duration_ns as f64);
        }
    }
    progress(1.0);
    Ok(engine.finish(seed))
}

impl<'a> Engine<'a> {
    pub(super) fn new(
        tad: &'a Tad,
        scenario: &'a Scenario,
        plan: &'a Plan,
        seed: u64,
    ) -> Result<Engine<'a>, SimError> {
        let clients = scenario.clients.len();
        let (instances, mut queues) = stages(tad, scenario, plan);
        for queue in &mut queues {
            for (client, each) in scenario.clients.iter().enumerate() {
                queue.set_weight(client, each.weight);
            }
        }
        let mut resources = Vec::with_capacity(plan.resource_instances as usize);
        for (id, resource) in tad.resources.iter().enumerate() {
            for _ in 0..plan.resources[id].nodes {
                resources.push(ResourceInstance::new(
                    id as u32,
                    resource.rate_per_s,
                    resource.parallelism,
                    resource.device,
                ));
            }
        }
        let controls = Controls::new(tad, scenario, plan)?;
        controls.mark(&instances, &mut queues, &mut resources);
        Ok(Engine {
            tad,
            scenario,
            plan,
            rng: Rng::new(seed ^ 0xD6E8_FEB8_6659_FD93),
            calendar: Calendar::default(),
            now_ns: 0,
            slab: Slab::default(),
            controls,
            instances,
            queues,
            resources,
            caches: plan.lrus(tad),
            seed,
            stats: Stats::new(plan, clients, (scenario.sample_ns, scenario.duration_ns)),
            todo: VecDeque::new(),
            loads: vec![LoadState::default(); plan.loads.len()],
            clients,
            partitions: plan.stages.iter().map(|s| s.nodes * s.instances).max().unwrap_or(1),
            error: None,
            order: 0,
            batches: HashMap::new(),
        })
    }

    /// Makes the initial events.
    pub(super) fn begin_all(&mut self) {
        self.start_loads();
        self.calendar.push(self.scenario.warmup_ns, Event::Count);
        self.calendar.push(self.scenario.sample_ns, Event::Sample);
        for (at, (at_ns, _)) in self.scenario.changes.iter().enumerate() {
            self.calendar.push(*at_ns, Event::Change(at as u32));
        }
        self.start_controls();
    }

    /// Processes the next event, and everything that follows from it at the same instant. Returns
    /// its time; nothing at the end of the simulated time.
    pub(super) fn step(&mut self) -> Result<Option<u64>, SimError> {
        let Some((at_ns, event)) = self.calendar.pop() else { return Ok(None) };
        if at_ns > self.scenario.duration_ns {
            return Ok(None);
        }
        self.now_ns = at_ns;
        self.stats.events += 1;
        self.happen(event);
        self.settle();
        self.error.take().map_or(Ok(Some(at_ns)), Err)
    }

    /// What was found.
    pub(super) fn finish(self, seed: u64) -> Outcome {
        let Engine { tad, scenario, plan, stats, slab, resources, caches, .. } = self;
        let end_ns = scenario.duration_ns;
        stats.finish((tad, scenario, seed), plan, (&slab, &resources, &caches), end_ns)
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Used(part) => self.used(part),
            Event::Arrive(load) => self.arrive(load),
            Event::Wake(queue) => {
                self.controls.woke(queue);
                self.todo.push_back(Todo::Dispatch(queue));
            }
            Event::Expire(request) => self.expire(request),
            Event::Control(control) => self.control(control),
            Event::Change(change) => self.change(change as usize),
            Event::Sample => {
                self.stats.sample(&self.resources, self.now_ns);
                self.calendar.push(self.now_ns + self.scenario.sample_ns, Event::Sample);
            }
            Event::Count => {
                self.stats.count(&self.resources, self.now_ns);
                for cache in &mut self.caches {
                    (cache.hits, cache.misses) = (0, 0);
                }
            }
        }
    }

    /// Does all work of this instant.
    fn settle(&mut self) {
        while let Some(todo) = self.todo.pop_front() {
            match todo {
                Todo::Enter(part, node) => self.enter(part, node),
                Todo::Submit(part, from) => self.submit(part, from),
                Todo::Advance(part) => self.advance(part),
                Todo::Dispatch(queue) => self.dispatch(queue),
                Todo::Proceed(load, node) => self.proceed(load, node),
            }
        }
    }

    fn change(&mut self, at: usize) {
        match &self.scenario.changes[at].1 {
            Change::Loads { client, .. } => {
                self.change_loads(*client as u32, &self.plan.change_loads[at]);
            }
            Change::Rate { resource, rate_per_s } => {
                let planned = &self.plan.resources[*resource];
                for instance in planned.base..planned.base + planned.nodes {
                    self.resources[instance as usize].ns_per_unit = 1e9 / rate_per_s.max(1e-9);
                }
            }
        }
    }
}

/// The instances of all stages, and their queues.
fn stages(tad: &Tad, scenario: &Scenario, plan: &Plan) -> (Vec<StageInstance>, Vec<Queue>) {
    let mut instances = Vec::with_capacity(plan.stage_instances as usize);
    for (stage, planned) in plan.stages.iter().enumerate() {
        for node in 0..planned.nodes {
            for _ in 0..planned.instances {
                instances.push(StageInstance {
                    stage: stage as u32,
                    node,
                    queue: NONE,
                    member: 0,
                    busy: 0,
                    limit: planned.threads,
                    present: 0,
                    serving: [0; CLIENTS],
                });
            }
        }
    }
    let clients = scenario.clients.len();
    let mut queues = Vec::new();
    let mut attach = |instances: &mut Vec<StageInstance>, members: Vec<u32>, policy, bound| {
        for (member, place) in members.iter().enumerate() {
            instances[*place as usize].queue = queues.len() as u32;
            instances[*place as usize].member = member as u32;
        }
        queues.push(Queue::new(policy, clients, members, bound));
        queues.len() - 1
    };
    let mut kept: Vec<(usize, usize)> = Vec::new();
    for shared in &tad.shared_queues {
        let nodes = shared.stages.first().map_or(0, |stage| plan.stages[*stage].nodes);
        let policy = scenario.policy.unwrap_or(shared.policy);
        for node in 0..nodes {
            let members = shared.stages.iter().filter(|stage| plan.stages[**stage].threads > 0);
            let members = members.flat_map(|stage| {
                let planned = &plan.stages[*stage];
                let first = planned.base + node * planned.instances;
                first..first + planned.instances
            });
            let queue =
                attach(&mut instances, members.collect(), policy, shared.concurrency.max(1));
            for &stage in &shared.stages {
                let ordering = &tad.stages[stage].queue;
                if ordering.ordered && !ordering.ordered_per_client {
                    kept.push((queue, stage));
                }
            }
        }
    }
    for place in 0..instances.len() {
        let stage = instances[place].stage as usize;
        if plan.stages[stage].threads == 0 || instances[place].queue != NONE {
            continue;
        }
        let queue = &tad.stages[stage].queue;
        let policy = queue.policy_with(scenario.policy);
        attach(&mut instances, vec![place as u32], policy, u32::MAX);
    }
    for (queue, stage) in kept {
        for member in 0..queues[queue].members.len() {
            let place = queues[queue].members[member];
            if instances[place as usize].stage as usize == stage {
                queues[queue].keep_order(member);
            }
        }
    }
    (instances, queues)
}

impl Engine<'_> {
    /// The system, for controllers.
    pub(super) fn tad(&self) -> &Tad {
        self.tad
    }
}
