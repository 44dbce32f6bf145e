//! The life of a request: submitted to a stage, picked from its queue, worked on, blocked, done.

use super::calendar::{Calendar, Event};
use super::clients::LoadState;
use super::controls::Controls;
use super::outcome::Outcome;
use super::plan::{Plan, SimError};
use super::queue::Queue;
use super::resource::ResourceInstance;
use super::rng::Rng;
use super::slab::{NONE, Phase, Slab};
use super::stages::{StageInstance, stages};
use super::stats::Stats;
use crate::model::{Place, Tad};
use crate::scenario::{Change, Scenario};
use std::collections::VecDeque;

/// Something to do at this instant.
#[derive(Clone, Copy, Debug)]
pub(super) enum Todo {
    /// A request's first part goes to a node.
    Enter(u32, u32),
    /// A part is submitted from a node.
    Submit(u32, u32),
    /// A part goes on.
    Advance(u32),
    /// A queue looks whether it can start something.
    Dispatch(u32),
    /// A load's thread goes on.
    Proceed(u32),
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
    pub(super) stats: Stats,
    pub(super) todo: VecDeque<Todo>,
    pub(super) loads: Vec<LoadState>,
    pub(super) controls: Controls,
    pub(super) clients: usize,
    pub(super) partitions: u32,
    pub(super) error: Option<SimError>,
    order: u64,
}

/// Simulates. `progress` gets the fraction of simulated time that is over, now and then.
pub fn run(
    tad: &Tad,
    scenario: &Scenario,
    seed: u64,
    progress: &mut dyn FnMut(f64),
) -> Result<Outcome, SimError> {
    let plan = Plan::new(tad, scenario)?;
    let mut engine = Engine::new(tad, scenario, &plan, seed)?;
    engine.start_loads();
    engine.calendar.push(scenario.warmup_ns, Event::Count);
    engine.calendar.push(scenario.sample_ns, Event::Sample);
    for (at, (at_ns, _)) in scenario.changes.iter().enumerate() {
        engine.calendar.push(*at_ns, Event::Change(at as u32));
    }
    engine.start_controls();
    while let Some((at_ns, event)) = engine.calendar.pop() {
        if at_ns > scenario.duration_ns {
            break;
        }
        engine.now_ns = at_ns;
        engine.stats.events += 1;
        if engine.stats.events.is_multiple_of(1 << 20) {
            progress(at_ns as f64 / scenario.duration_ns as f64);
        }
        engine.happen(event);
        engine.settle();
        if let Some(error) = engine.error.take() {
            return Err(error);
        }
    }
    progress(1.0);
    let Engine { stats, slab, .. } = engine;
    Ok(stats.finish((tad, scenario, seed), &plan, &slab, scenario.duration_ns))
}

impl<'a> Engine<'a> {
    fn new(
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
        Ok(Engine {
            tad,
            scenario,
            plan,
            rng: Rng::new(seed ^ 0xD6E8_FEB8_6659_FD93),
            calendar: Calendar::default(),
            now_ns: 0,
            slab: Slab::default(),
            controls: Controls::new(tad, scenario, plan)?,
            instances,
            queues,
            resources,
            stats: Stats::new(plan, clients, scenario.sample_ns),
            todo: VecDeque::new(),
            loads: vec![LoadState::default(); plan.loads.len()],
            clients,
            partitions: plan.stages.iter().map(|s| s.nodes * s.instances).max().unwrap_or(1),
            error: None,
            order: 0,
        })
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Used(part) => self.used(part),
            Event::Arrive(load) => self.arrive(load),
            Event::Wake(queue) => {
                self.controls.woke(queue);
                self.todo.push_back(Todo::Dispatch(queue));
            }
            Event::Control(control) => self.control(control),
            Event::Change(change) => self.change(change as usize),
            Event::Sample => {
                self.stats.sample(&mut self.resources, self.now_ns);
                self.calendar.push(self.now_ns + self.scenario.sample_ns, Event::Sample);
            }
            Event::Count => self.stats.count(&self.resources, self.now_ns),
        }
    }

    /// Does all that is to be done at this instant.
    fn settle(&mut self) {
        while let Some(todo) = self.todo.pop_front() {
            match todo {
                Todo::Enter(part, node) => self.enter(part, node),
                Todo::Submit(part, from) => self.submit(part, from),
                Todo::Advance(part) => self.advance(part),
                Todo::Dispatch(queue) => self.dispatch(queue),
                Todo::Proceed(load) => self.proceed(load),
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

    /// The load and the step of a part.
    pub(super) fn step_of(&self, part: u32) -> (u32, usize, usize) {
        let request = self.slab.parts[part as usize].request;
        let header = &self.slab.requests[request as usize];
        (request, header.load as usize, (part - header.base) as usize)
    }

    fn enter(&mut self, part: u32, node: u32) {
        let (request, load, step) = self.step_of(part);
        let stage = &self.plan.stages[self.plan.loads[load].steps[step].stage as usize];
        let instance = self.slab.requests[request as usize].partition / stage.nodes;
        let place = stage.base + node * stage.instances + instance % stage.instances;
        self.place(part, place);
    }

    fn submit(&mut self, part: u32, from: u32) {
        let (request, load, step) = self.step_of(part);
        let planned = &self.plan.loads[load].steps[step];
        let stage = &self.plan.stages[planned.stage as usize];
        let header = &self.slab.requests[request as usize];
        let nodes = stage.nodes;
        let node = match planned.place {
            Place::Same => from % nodes,
            Place::Any => self.rng.below(u64::from(nodes)) as u32,
            Place::Other if nodes == 1 => 0,
            Place::Other => (from + 1 + self.rng.below(u64::from(nodes) - 1) as u32) % nodes,
            Place::Partition => header.partition % nodes,
            Place::Origin => header.origin % nodes,
            Place::Fixed(node) => node % nodes,
        };
        let instance = header.partition / nodes % stage.instances;
        self.place(part, stage.base + node * stage.instances + instance);
    }

    /// A part has come to a stage.
    fn place(&mut self, part: u32, place: u32) {
        self.slab.parts[part as usize].place = place;
        let instance = &mut self.instances[place as usize];
        instance.present += 1;
        if instance.queue == NONE {
            self.begin(part, place);
        } else {
            self.enqueue(part, place);
        }
    }

    pub(super) fn enqueue(&mut self, part: u32, place: u32) {
        let client = self.client_of(part);
        let instance = &self.instances[place as usize];
        let (queue, member, stage) = (instance.queue, instance.member, instance.stage);
        let entry = &mut self.slab.parts[part as usize];
        entry.phase = Phase::Waiting;
        // Whoever is put back keeps its age.
        if !entry.tried {
            self.order += 1;
            entry.order = self.order;
        }
        let mistaken = self.controls.mistakes(place, self.slab.parts[part as usize].order);
        let entry = &mut self.queues[queue as usize];
        entry.push(&mut self.slab, (member as usize, client), part, mistaken);
        self.stats.stages[stage as usize].waiting.up(client, self.now_ns);
        self.todo.push_back(Todo::Dispatch(queue));
    }

    pub(super) fn client_of(&self, part: u32) -> usize {
        let request = self.slab.parts[part as usize].request;
        self.slab.requests[request as usize].client as usize
    }

    fn dispatch(&mut self, queue: u32) {
        loop {
            self.permit(queue);
            let permits = self.controls.permits();
            let instances = &self.instances;
            let entry = &mut self.queues[queue as usize];
            let members = std::mem::take(&mut entry.members);
            let found = entry.next(&mut self.slab, |member, client, list| {
                let instance = &instances[members[member] as usize];
                instance.busy < instance.limit
                    && permits.get(member).is_none_or(|permit| permit.allows(client, list))
            });
            entry.members = members;
            let Some((_, part)) = found else { break };
            self.start(queue, part);
        }
        self.speculate(queue);
    }

    /// A thread takes a part.
    fn start(&mut self, queue: u32, part: u32) {
        let (_, load, step) = self.step_of(part);
        let client = self.client_of(part);
        let place = self.slab.parts[part as usize].place;
        let planned = &self.plan.loads[load].steps[step];
        let entry = &mut self.queues[queue as usize];
        entry.in_service += 1;
        // What comes after the wait was charged before it.
        if !self.slab.parts[part as usize].submitted {
            entry.charge_known(client, &planned.known_ns);
        }
        let alone = entry.only(client);
        let instance = &mut self.instances[place as usize];
        instance.busy += 1;
        if alone && self.clients > 1 {
            let stage = &mut self.stats.stages[instance.stage as usize];
            stage.forced_ns[client] += planned.known_ns.iter().sum::<u64>();
        }
        self.slab.parts[part as usize].threaded = true;
        self.controls.started(place, client);
        self.charge_thread(place, client, self.controls.thread_ns(place, client));
        self.stats.stages[planned.stage as usize].waiting.down(client, self.now_ns);
        self.begin(part, place);
    }

    /// Threads that are shared are one more resource: all of them together are the whole of it. What
    /// a part will need is charged when it starts, or else the stage would be full of parts of a
    /// client before the first of them is done.
    pub(super) fn charge_thread(&mut self, place: u32, client: usize, ns: Option<u64>) {
        let Some(ns) = ns else { return };
        let instance = &self.instances[place as usize];
        let cost_ns = ns / u64::from(instance.limit.max(1));
        self.queues[instance.queue as usize].charge_threads(client, cost_ns);
    }

    pub(super) fn begin(&mut self, part: u32, place: u32) {
        let client = self.client_of(part);
        self.slab.parts[part as usize].phase = Phase::Running;
        self.slab.parts[part as usize].begun_ns = self.now_ns;
        let instance = &mut self.instances[place as usize];
        instance.serving[client] += 1;
        let stage = instance.stage as usize;
        self.stats.stages[stage].serving.up(client, self.now_ns);
        self.todo.push_back(Todo::Advance(part));
    }

    /// The thread of a part, if it has one, goes on to something else.
    pub(super) fn release(&mut self, part: u32) {
        let client = self.client_of(part);
        let entry = &mut self.slab.parts[part as usize];
        let place = entry.place;
        let threaded = std::mem::take(&mut entry.threaded);
        let instance = &mut self.instances[place as usize];
        instance.serving[client] -= 1;
        self.stats.stages[instance.stage as usize].serving.down(client, self.now_ns);
        if threaded {
            let queue = instance.queue;
            let held_ns = self.now_ns - self.slab.parts[part as usize].begun_ns;
            let more_ns = self.controls.thread_held(place, client, held_ns);
            self.charge_thread(place, client, more_ns);
            if std::mem::take(&mut self.slab.parts[part as usize].speculative) {
                self.controls.speculation_ended(place);
            } else {
                self.instances[place as usize].busy -= 1;
                self.queues[queue as usize].in_service -= 1;
            }
            self.todo.push_back(Todo::Dispatch(queue));
        }
    }

    pub(super) fn advance(&mut self, part: u32) {
        let plan = self.plan;
        let (_, load, step) = self.step_of(part);
        let planned = &plan.loads[load].steps[step];
        let entry = self.slab.parts[part as usize];
        if !entry.submitted {
            if entry.at < planned.after {
                return self.consume(part, load, step);
            }
            self.slab.parts[part as usize].submitted = true;
            let node = self.instances[entry.place as usize].node;
            let base = part - step as u32;
            for submitted in &planned.submits {
                self.todo.push_back(Todo::Submit(base + submitted, node));
            }
            if self.slab.parts[part as usize].waits > 0 {
                self.slab.parts[part as usize].phase = Phase::Blocked;
                if plan.stages[planned.stage as usize].asynchronous {
                    self.release(part);
                } else if entry.threaded && !entry.speculative {
                    // Stages that share a queue bound what is worked on, not what waits for it.
                    let queue = self.instances[entry.place as usize].queue;
                    self.queues[queue as usize].in_service -= 1;
                    self.todo.push_back(Todo::Dispatch(queue));
                }
                return;
            }
        }
        if (entry.at as usize) < planned.uses.len() {
            return self.consume(part, load, step);
        }
        self.done(part, load, step);
    }

    /// A part that blocked need not wait any longer.
    fn resume(&mut self, part: u32) {
        let (_, load, step) = self.step_of(part);
        let planned = &self.plan.loads[load].steps[step];
        let place = self.slab.parts[part as usize].place;
        let bounded = self.instances[place as usize].queue != NONE;
        if !self.plan.stages[planned.stage as usize].asynchronous {
            let entry = &mut self.slab.parts[part as usize];
            entry.phase = Phase::Running;
            if entry.threaded && !entry.speculative {
                let queue = self.instances[place as usize].queue;
                self.queues[queue as usize].in_service += 1;
            }
            self.todo.push_back(Todo::Advance(part));
        } else if bounded && planned.uses.len() > planned.after as usize {
            // There is work left, and a thread to be found for it.
            self.enqueue(part, place);
        } else {
            self.begin(part, place);
        }
    }

    fn done(&mut self, part: u32, load: usize, step: usize) {
        let plan = self.plan;
        let planned = &plan.loads[load].steps[step];
        let entry = self.slab.parts[part as usize];
        let base = part - step as u32;
        self.stats.parts += 1;
        self.release(part);
        self.slab.parts[part as usize].phase = Phase::Done;
        let instance = &mut self.instances[entry.place as usize];
        instance.present -= 1;
        let node = instance.node;
        for next in &planned.then {
            self.todo.push_back(Todo::Submit(base + next, node));
        }
        for waiting in &planned.waited_by {
            let other = &mut self.slab.parts[(base + waiting) as usize];
            other.waits -= 1;
            if other.waits == 0 && other.phase == Phase::Blocked {
                self.resume(base + waiting);
            }
        }
        self.left(entry.place);
        let header = &mut self.slab.requests[entry.request as usize];
        header.live -= 1;
        let over = header.live == 0;
        if planned.answers {
            header.answers -= 1;
            if header.answers == 0 {
                let latency_ns = self.now_ns - header.issued_ns;
                self.stats.answered(header.load, latency_ns, self.now_ns);
                self.todo.push_back(Todo::Proceed(header.load));
            }
        }
        if over {
            self.slab.free(entry.request, plan.loads[load].steps.len());
        }
    }
}

impl Engine<'_> {
    /// The system, for controllers.
    pub(super) fn tad(&self) -> &Tad {
        self.tad
    }
}
