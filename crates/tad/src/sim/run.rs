//! A simulation from its begin to its end: the passing of time.

use super::calendar::{Calendar, Event};
use super::controls::Controls;
use super::error::SimError;
use super::lru::Lru;
use super::outcome::Outcome;
use super::plan::{CachePlan, Plan};
use super::resource::ResourceInstance;
use super::rng::Rng;
use super::slab::Slab;
use super::stage::stages;
use super::state::{Engine, LoadState, Todo};
use super::stats::Stats;
use crate::model::Tad;
use crate::scenario::{Change, Scenario};
use std::collections::{HashMap, VecDeque};

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
            caches: caches(tad, plan),
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

/// The caches of all nodes.
fn caches(tad: &Tad, plan: &Plan) -> Vec<Lru> {
    let of = |cache: &CachePlan| {
        let entries = cache.entries;
        (0..tad.nodes[cache.node].count.max(1)).map(move |_| Lru::new(entries))
    };
    plan.caches.iter().flat_map(of).collect()
}
