//! Works the engine's tables out.

use super::draw::Draw;
use super::error::SimError;
use super::plan::{
    CachePlan, KeyPlan, LoadPlan, LookupPlan, Plan, ResourcePlan, StagePlan, StepPlan, TO_THE_END,
    UsePlan,
};
use super::rng::Zipf;
use super::slab::NONE;
use super::{CLIENTS, RESOURCES};
use crate::model::{
    Device, Discipline, Lookup, Place, Quantity, RequestType, ResourceKind, Step, Tad, Threads,
};
use crate::remedy::Remedy;
use crate::scenario::{Arrivals, Change, Keys, Load, Scenario};

impl Plan {
    pub(super) fn new(tad: &Tad, scenario: &Scenario) -> Result<Plan, SimError> {
        if scenario.clients.len() > CLIENTS {
            return Err(SimError::Clients(scenario.clients.len()));
        }
        if scenario.clients.is_empty() {
            return Err(SimError::Empty("clients"));
        }
        if scenario.duration_ns <= scenario.warmup_ns || scenario.sample_ns == 0 {
            return Err(SimError::Empty("time after the warm-up"));
        }
        let mut plan = Plan {
            stages: Vec::new(),
            resources: Vec::new(),
            steps: Vec::new(),
            loads: Vec::new(),
            change_loads: vec![Vec::new(); scenario.changes.len()],
            stage_instances: 0,
            resource_instances: 0,
            caches: Vec::new(),
            laws: Vec::new(),
        };
        plan.add_stages(tad);
        plan.add_resources(tad)?;
        plan.add_caches(tad);
        for (client, each) in scenario.clients.iter().enumerate() {
            let first = plan.loads.len();
            for load in &each.loads {
                plan.add_load(tad, scenario, client, load, true)?;
            }
            plan.divide(first)?;
        }
        for (at, (_, change)) in scenario.changes.iter().enumerate() {
            let Change::Loads { client, loads } = change else { continue };
            let first = plan.loads.len();
            for load in loads {
                let number = plan.add_load(tad, scenario, *client, load, false)?;
                plan.change_loads[at].push(number);
            }
            plan.divide(first)?;
        }
        Ok(plan)
    }

    /// Gives loads that are a part of others' requests to the first closed loop of these.
    fn divide(&mut self, first: usize) -> Result<(), SimError> {
        let own = first..self.loads.len();
        let closed = |load: &LoadPlan| matches!(load.arrivals, Arrivals::Closed { .. });
        let threads = own.clone().find(|&load| closed(&self.loads[load]));
        for load in own {
            let Arrivals::Part { part } = self.loads[load].arrivals else { continue };
            let Some(threads) = threads else {
                return Err(SimError::Load(self.loads[load].name.clone()));
            };
            self.loads[load].threads_of = Some(threads as u32);
            self.loads[threads].parts.push((load as u32, part));
        }
        Ok(())
    }

    fn add_stages(&mut self, tad: &Tad) {
        for (id, stage) in tad.stages.iter().enumerate() {
            let node = tad.node_of(id);
            let nodes = tad.nodes[node].count.max(1);
            self.stages.push(StagePlan {
                base: self.stage_instances,
                nodes,
                instances: stage.instances.max(1),
                threads: match stage.threads {
                    Threads::Bounded(threads) => threads.max(1),
                    Threads::OnDemand => 0,
                },
                asynchronous: stage.asynchronous,
                // A batch is served as one.
                turn_ns: match stage.batch {
                    Some(_) => TO_THE_END,
                    None => turn_ns(tad, &stage.name),
                },
                batch: stage.batch.clone(),
            });
            self.stage_instances += nodes * stage.instances.max(1);
        }
    }

    fn add_resources(&mut self, tad: &Tad) -> Result<(), SimError> {
        let mut used = vec![0; tad.nodes.len()];
        for resource in &tad.resources {
            let nodes = tad.nodes[resource.node].count.max(1);
            let quantum_ns = match resource.discipline {
                Discipline::Fifo => TO_THE_END,
                Discipline::RoundRobin { quantum_ns } => quantum_ns.max(1),
            };
            self.resources.push(ResourcePlan {
                base: self.resource_instances,
                nodes,
                local: used[resource.node],
                quantum_ns,
            });
            used[resource.node] += 1;
            // One number is reserved for a stage's threads, which may be shared like a resource.
            if used[resource.node] as usize >= RESOURCES {
                return Err(SimError::Resources {
                    node: tad.nodes[resource.node].name.clone(),
                    resources: used[resource.node] as usize,
                });
            }
            self.resource_instances += nodes;
        }
        Ok(())
    }

    /// All caches that steps name, with the largest capacity that one of them gives.
    fn add_caches(&mut self, tad: &Tad) {
        let mut instances = 0;
        for step in tad.requests.iter().flat_map(|request| &request.steps) {
            let Some(lookup) = &step.cache else { continue };
            let node = tad.node_of(step.stage);
            let known = self.caches.iter_mut().find(|c| c.name == lookup.name && c.node == node);
            match known {
                Some(cache) => cache.entries = cache.entries.max(lookup.entries),
                None => {
                    let name = lookup.name.clone();
                    let entries = lookup.entries;
                    self.caches.push(CachePlan { name, node, base: instances, entries });
                    instances += tad.nodes[node].count.max(1);
                }
            }
        }
    }

    fn add_load(
        &mut self,
        tad: &Tad,
        scenario: &Scenario,
        client: usize,
        load: &Load,
        initial: bool,
    ) -> Result<u32, SimError> {
        let misfit = || SimError::Load(load.name.clone());
        let request = tad.requests.get(load.request).ok_or_else(misfit)?;
        if client >= scenario.clients.len() || load.parameters.len() != request.parameters.len() {
            return Err(misfit());
        }
        let mut steps: Vec<StepPlan> = Vec::with_capacity(request.steps.len());
        for step in 0..request.steps.len() {
            steps.push(self.step(tad, (request, step), (client, load), scenario.switch_ns)?);
        }
        let timeless = steps.iter().flat_map(|step| &step.uses).all(|each| {
            let resource = &tad.resources[each.resource as usize];
            resource.device == Device::Plain && each.amount as f64 * 1e9 < resource.rate_per_s
        });
        if timeless && matches!(load.arrivals, Arrivals::Closed { think_ns: 0, .. }) {
            return Err(SimError::Timeless(load.name.clone()));
        }
        for (id, step) in request.steps.iter().enumerate() {
            for waited in &step.waits {
                steps[*waited].waited_by.push(id as u32);
            }
        }
        let partitions = self.partitions(request.steps.iter().map(|s| (s.stage, s.place)));
        let first = self.steps.len();
        self.steps.extend(steps);
        self.loads.push(LoadPlan {
            client: client as u32,
            name: load.name.clone(),
            steps: first..self.steps.len(),
            first: request.first as u32,
            answers: request.answered_by.len() as u16,
            arrivals: load.arrivals,
            entry: load.entry,
            keys: key_plan(load.keys, partitions),
            patience: load.patience,
            parts: Vec::new(),
            threads_of: None,
            initial,
        });
        Ok(self.loads.len() as u32 - 1)
    }

    /// A step of a request, for one load.
    fn step(
        &mut self,
        tad: &Tad,
        (request, index): (&RequestType, usize),
        (client, load): (usize, &Load),
        switch_ns: u64,
    ) -> Result<StepPlan, SimError> {
        let step = &request.steps[index];
        let uses = self.uses(tad, step, load, switch_ns);
        if uses.all.len() > usize::from(u16::MAX) {
            return Err(SimError::Load(load.name.clone()));
        }
        let lookup = match (&step.cache, uses.saves) {
            (Some(lookup), Some(saves)) => {
                let wanted = key_plan(load.keys, lookup.keys);
                self.lookup(tad.node_of(step.stage), lookup, saves, wanted)
            }
            _ => None,
        };
        let turn_ns = self.stages[step.stage].turn_ns;
        Ok(StepPlan {
            load: self.loads.len() as u32,
            client: client as u32,
            index: index as u32,
            stage: step.stage as u32,
            place: step.place,
            uses: uses.all,
            after: uses.after,
            submits: step.submits.iter().map(|s| *s as u32).collect(),
            lookup,
            waits: step.enough.map_or(step.waits.len() as u16, |enough| {
                enough.min(step.waits.len() as u32) as u16
            }),
            waited_by: Vec::new(),
            then: step.then.iter().map(|s| *s as u32).collect(),
            answers: request.answered_by.contains(&index),
            turn_ns,
            batched: tad.stages[step.stage].batch.is_some(),
            // Turns are charged one by one, as they are given.
            known_ns: if turn_ns == TO_THE_END { uses.known_ns } else { [0; RESOURCES] },
            known_sum_ns: uses.known_ns.iter().sum(),
        })
    }

    /// What a step consumes, before and after its wait.
    fn uses(&mut self, tad: &Tad, step: &Step, load: &Load, switch_ns: u64) -> Uses {
        let stage = &tad.stages[step.stage];
        let switch = self.switch(tad, step.stage, switch_ns);
        let mut uses = Uses { all: Vec::new(), after: 0, known_ns: [0; RESOURCES], saves: None };
        for (part, list) in [&step.uses, &step.uses_after].into_iter().enumerate() {
            if part == 0 || !step.waits.is_empty() {
                uses.all.extend(switch);
            }
            for each in list {
                let amount = each.amount.mean(&load.parameters);
                let saved = part == 0
                    && step.cache.as_ref().is_some_and(|c| c.skips.contains(&each.resource));
                if saved {
                    let (_, count) = uses.saves.get_or_insert((uses.all.len() as u16, 0));
                    *count += 1;
                }
                // What a hit may save is unknown before the look-up.
                let unknown =
                    saved || stage.uses.iter().any(|u| u.resource == each.resource && u.may);
                let resource = &tad.resources[each.resource];
                let once = stage.batch.as_ref().is_some_and(|b| b.once.contains(&each.resource));
                if !unknown && !once {
                    let rate = resource.rate_per_s * f64::from(resource.parallelism.max(1));
                    let cost = amount as f64 * 1e9 / rate;
                    uses.known_ns[self.resources[each.resource].local as usize] += cost as u64;
                }
                let law = self.law(&each.amount);
                uses.all.push(UsePlan { resource: each.resource as u32, amount, law, unknown });
            }
            if part == 0 {
                uses.after = uses.all.len() as u16;
            }
        }
        uses
    }

    /// The number of an amount's law; [`NONE`] if the amount is fixed.
    fn law(&mut self, amount: &Quantity) -> u32 {
        let Some(law) = Draw::of(amount) else { return NONE };
        self.laws.push(law);
        self.laws.len() as u32 - 1
    }

    /// CPU time of a switch to a thread of this stage, if it costs any.
    fn switch(&self, tad: &Tad, stage: usize, switch_ns: u64) -> Option<UsePlan> {
        let node = tad.node_of(stage);
        let cpu = tad.resources.iter().position(|r| r.node == node && r.kind == ResourceKind::Cpu);
        let cpu = cpu.filter(|_| switch_ns > 0)?;
        Some(UsePlan { resource: cpu as u32, amount: switch_ns, law: NONE, unknown: false })
    }

    /// What a look-up is for a load that wants its keys like this.
    fn lookup(
        &self,
        node: usize,
        lookup: &Lookup,
        (before, saves): (u16, u16),
        wanted: KeyPlan,
    ) -> Option<LookupPlan> {
        let cache = self.caches.iter().find(|c| c.name == lookup.name && c.node == node)?;
        Some(LookupPlan { base: cache.base, before, saves, keys: lookup.keys.max(1), wanted })
    }

    /// Partitions of a request: the instances of the stages that it reaches by partition.
    fn partitions(&self, steps: impl Iterator<Item = (usize, Place)>) -> u32 {
        steps
            .filter(|(_, place)| *place == Place::Partition)
            .map(|(stage, _)| self.stages[stage].nodes * self.stages[stage].instances)
            .max()
            .unwrap_or_else(|| self.stages.iter().map(|s| s.nodes).max().unwrap_or(1))
    }
}

/// What a step consumes, for one load.
struct Uses {
    all: Vec<UsePlan>,
    /// Index of the first consumption after the wait.
    after: u16,
    /// See [`StepPlan::known_ns`].
    known_ns: [u64; RESOURCES],
    /// The first consumption that a hit saves, and how many.
    saves: Option<(u16, u16)>,
}

/// The turn of a stage, if a control sets one.
fn turn_ns(tad: &Tad, stage: &str) -> u64 {
    let turn = |control: &Remedy| match control {
        Remedy::ServeInTurns { stage: at, turn_ns } if at == stage => Some((*turn_ns).max(1)),
        _ => None,
    };
    tad.controls.iter().find_map(turn).unwrap_or(TO_THE_END)
}

/// The distribution of a load's partitions, or keys.
fn key_plan(keys: Keys, count: u32) -> KeyPlan {
    match keys {
        Keys::Uniform => KeyPlan::Uniform,
        Keys::Zipf(exponent) => KeyPlan::Zipf(Zipf::new(count, exponent)),
        Keys::Fixed(one) => KeyPlan::Fixed(one),
    }
}
