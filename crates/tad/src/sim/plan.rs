//! A system and a scenario, compiled into the engine's tables.

use super::cache::{CachePlan, LookupPlan};
use super::draw::Draw;
use super::slab::NONE;
use super::{CLIENTS, RESOURCES};
use crate::model::{Batch, Device, Discipline, Place, ResourceKind, Tad, Threads};
use crate::remedy::Remedy;
use crate::scenario::{Arrivals, Change, Entry, Keys, Load, Patience, Scenario};
use crate::sim::rng::Zipf;
use std::ops::Range;

/// Why something cannot be simulated.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SimError {
    /// More clients than the schedulers support.
    #[error("{0} clients: at most {CLIENTS} can be simulated")]
    Clients(usize),
    /// More resources on a kind of node than the schedulers support.
    #[error("node \"{node}\" has {resources} resources: at most {RESOURCES} can be simulated")]
    Resources {
        /// Kind of node.
        node: String,
        /// How many.
        resources: usize,
    },
    /// A control or remedy does not fit.
    #[error(transparent)]
    Remedy(#[from] crate::remedy::RemedyError),
    /// The scenario has no client or no time.
    #[error("the scenario has no {0}")]
    Empty(&'static str),
    /// A load names a request or parameters that the system does not have.
    #[error("load \"{0}\" does not fit the system's request types")]
    Load(String),
    /// A closed loop whose requests take no time: simulated time would stand still.
    #[error(
        "requests of load \"{0}\" consume nothing, and their threads do not think: they would be issued and \
         answered for ever at one instant; give the load a `think`, or a step something to consume"
    )]
    Timeless(String),
    /// More requests in flight than can be numbered.
    #[error("more than {0} parts of requests are in flight: the system is flooded")]
    Flooded(u32),
}

/// Consumption at a step, in units of its resource.
#[derive(Clone, Copy, Debug)]
pub(super) struct UsePlan {
    pub(super) resource: u32,
    pub(super) amount: u64,
    /// Index in [`Plan::laws`], if the amount is a mean and each request's is drawn; or [`NONE`].
    pub(super) law: u32,
    /// The queue did not know of this use.
    pub(super) unknown: bool,
}

/// A step, for one load.
#[derive(Clone, Debug)]
pub(super) struct StepPlan {
    pub(super) load: u32,
    pub(super) client: u32,
    /// Number within the request.
    pub(super) index: u32,
    pub(super) stage: u32,
    pub(super) place: Place,
    pub(super) uses: Vec<UsePlan>,
    /// Index in `uses` of the consumption after the wait.
    pub(super) after: u16,
    pub(super) submits: Vec<u32>,
    pub(super) lookup: Option<LookupPlan>,
    pub(super) waits: u16,
    /// Steps that wait for this one.
    pub(super) waited_by: Vec<u32>,
    pub(super) then: Vec<u32>,
    pub(super) answers: bool,
    /// Of its stage: the longest turn, and whether it serves batches.
    pub(super) turn_ns: u64,
    pub(super) batched: bool,
    /// The cost known to the queue: nanoseconds of each of the node's resources.
    pub(super) known_ns: [u64; RESOURCES],
    /// The sum of that.
    pub(super) known_sum_ns: u64,
}

/// What a client issues.
#[derive(Clone, Debug)]
pub(super) struct LoadPlan {
    pub(super) client: u32,
    pub(super) name: String,
    /// Its steps in [`Plan::steps`].
    pub(super) steps: Range<usize>,
    pub(super) first: u32,
    pub(super) answers: u16,
    pub(super) arrivals: Arrivals,
    pub(super) entry: Entry,
    pub(super) keys: KeyPlan,
    pub(super) patience: Option<Patience>,
    /// Loads whose requests its threads issue, each with its part.
    pub(super) parts: Vec<(u32, f64)>,
    /// Of such a load: the load that has the threads.
    pub(super) threads_of: Option<u32>,
    /// Issued from the start, not after a change.
    pub(super) initial: bool,
}

/// How a partition is drawn.
#[derive(Clone, Debug)]
pub(super) enum KeyPlan {
    Uniform,
    Zipf(Zipf),
    Fixed(u32),
}

#[derive(Clone, Debug)]
pub(super) struct StagePlan {
    /// First of its instances.
    pub(super) base: u32,
    pub(super) nodes: u32,
    pub(super) instances: u32,
    /// Zero for a stage on demand.
    pub(super) threads: u32,
    pub(super) asynchronous: bool,
    /// Longest time for which a thread works for a part while others wait.
    pub(super) turn_ns: u64,
    pub(super) batch: Option<Batch>,
}

/// No turn: a part is served to its end.
pub(super) const TO_THE_END: u64 = u64::MAX;

#[derive(Clone, Debug)]
pub(super) struct ResourcePlan {
    pub(super) base: u32,
    pub(super) nodes: u32,
    /// Number among the resources of its node.
    pub(super) local: u32,
    /// Longest service before the next part takes its turn.
    pub(super) quantum_ns: u64,
}

/// See the module.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) stages: Vec<StagePlan>,
    pub(super) resources: Vec<ResourcePlan>,
    /// Steps of all loads, so that a part of a request can refer to its own by one number.
    pub(super) steps: Vec<StepPlan>,
    pub(super) loads: Vec<LoadPlan>,
    /// Loads of each change that has some, by index of the change.
    pub(super) change_loads: Vec<Vec<u32>>,
    pub(super) stage_instances: u32,
    pub(super) resource_instances: u32,
    pub(super) caches: Vec<CachePlan>,
    pub(super) laws: Vec<Draw>,
}

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
        let mut steps: Vec<StepPlan> = Vec::new();
        for (id, step) in request.steps.iter().enumerate() {
            let stage = &tad.stages[step.stage];
            let switch = self.switch(tad, step.stage, scenario.switch_ns);
            let mut uses = Vec::new();
            let mut known_ns = [0; RESOURCES];
            // The first consumption that a hit saves, and how many.
            let mut saves: Option<(u16, u16)> = None;
            for (part, list) in [&step.uses, &step.uses_after].into_iter().enumerate() {
                if part == 0 || !step.waits.is_empty() {
                    uses.extend(switch);
                }
                for each in list {
                    let amount = each.amount.mean(&load.parameters);
                    let law = match Draw::of(&each.amount) {
                        Some(law) => {
                            self.laws.push(law);
                            self.laws.len() as u32 - 1
                        }
                        None => NONE,
                    };
                    let saved = part == 0
                        && step.cache.as_ref().is_some_and(|c| c.skips.contains(&each.resource));
                    if saved {
                        let (_, count) = saves.get_or_insert((uses.len() as u16, 0));
                        *count += 1;
                    }
                    // What a hit may save is unknown before the look-up.
                    let unknown =
                        saved || stage.uses.iter().any(|u| u.resource == each.resource && u.may);
                    let resource = &tad.resources[each.resource];
                    let once =
                        stage.batch.as_ref().is_some_and(|b| b.once.contains(&each.resource));
                    if !unknown && !once {
                        let rate = resource.rate_per_s * f64::from(resource.parallelism.max(1));
                        let cost = amount as f64 * 1e9 / rate;
                        known_ns[self.resources[each.resource].local as usize] += cost as u64;
                    }
                    uses.push(UsePlan { resource: each.resource as u32, amount, law, unknown });
                }
                if part == 0 {
                    steps.push(StepPlan {
                        load: self.loads.len() as u32,
                        client: client as u32,
                        index: id as u32,
                        stage: step.stage as u32,
                        place: step.place,
                        uses: Vec::new(),
                        after: uses.len() as u16,
                        submits: step.submits.iter().map(|s| *s as u32).collect(),
                        lookup: None,
                        waits: step.enough.map_or(step.waits.len() as u16, |enough| {
                            enough.min(step.waits.len() as u32) as u16
                        }),
                        waited_by: Vec::new(),
                        then: step.then.iter().map(|s| *s as u32).collect(),
                        answers: request.answered_by.contains(&id),
                        turn_ns: self.stages[step.stage].turn_ns,
                        batched: stage.batch.is_some(),
                        known_ns: [0; RESOURCES],
                        known_sum_ns: 0,
                    });
                }
            }
            if uses.len() > usize::from(u16::MAX) {
                return Err(misfit());
            }
            if let (Some(lookup), Some(saves)) = (&step.cache, saves) {
                let wanted = key_plan(load.keys, lookup.keys);
                steps[id].lookup = self.lookup(tad.node_of(step.stage), lookup, saves, wanted);
            }
            steps[id].uses = uses;
            steps[id].known_sum_ns = known_ns.iter().sum();
            // Turns are charged one by one, as they are given.
            let in_turns = self.stages[step.stage].turn_ns != TO_THE_END;
            steps[id].known_ns = if in_turns { [0; RESOURCES] } else { known_ns };
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

    /// CPU time of a switch to a thread of this stage, if it costs any.
    fn switch(&self, tad: &Tad, stage: usize, switch_ns: u64) -> Option<UsePlan> {
        let node = tad.node_of(stage);
        let cpu = tad.resources.iter().position(|r| r.node == node && r.kind == ResourceKind::Cpu);
        let cpu = cpu.filter(|_| switch_ns > 0)?;
        Some(UsePlan { resource: cpu as u32, amount: switch_ns, law: NONE, unknown: false })
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
