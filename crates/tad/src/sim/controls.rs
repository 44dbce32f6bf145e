//! Indirect remedies: control logic beside the queues.
//!
//! Two kinds. *Guards* at a stage's queue decide for each client whether a part of it may be
//! started, at each decision. *Controllers* run once in a period, evaluate the use since the last
//! run, and set the parameters of guards and schedulers.

mod controller;
mod controllers;
mod guards;
mod kinds;

use super::CLIENTS;
use super::error::SimError;
use super::plan::Plan;
use super::queue::Queue;
use super::resource::ResourceInstance;
use super::slab::NONE;
use super::stage::StageInstance;
use crate::model::{StageId, Tad};
use crate::remedy::{Remedy, RemedyError};
use crate::scenario::Scenario;
use controller::Controller;
use headworks_policy::Nanos;
use headworks_policy::bucket::Bucket;
use kinds::{Bound, Congestion, Guard, Held, Limit, Permit, Speculation};

/// See the module.
#[derive(Debug)]
pub(super) struct Controls {
    /// Number of the guard of each stage instance.
    guard_of: Vec<u32>,
    guards: Vec<Guard>,
    controllers: Vec<Controller>,
    /// See [`Held`].
    pub(super) held: Vec<Held>,
    /// Weight of each client.
    weights: [f64; CLIENTS],
    /// For each queue: whether any of its members has a guard.
    scratch: Vec<Permit>,
    /// Queues that will be woken.
    waking: Vec<u32>,
    /// Stage instances that check again when a part leaves a stage.
    watchers: Vec<Vec<u32>>,
    /// Stage instances that check again when a resource instance becomes idle.
    idlers: Vec<Vec<u32>>,
}

impl Controls {
    pub(super) fn new(tad: &Tad, scenario: &Scenario, plan: &Plan) -> Result<Controls, SimError> {
        let mut weights = [1.0; CLIENTS];
        for (weight, client) in weights.iter_mut().zip(&scenario.clients) {
            *weight = client.weight.max(1e-3);
        }
        let mut controls = Controls {
            guard_of: vec![NONE; plan.stage_instances as usize],
            guards: Vec::new(),
            controllers: Vec::new(),
            held: Vec::new(),
            weights,
            scratch: Vec::new(),
            waking: Vec::new(),
            watchers: vec![Vec::new(); plan.stages.len()],
            idlers: vec![Vec::new(); plan.resource_instances as usize],
        };
        for control in &tad.controls {
            controls.add(tad, plan, control)?;
        }
        Ok(controls)
    }

    fn add(&mut self, tad: &Tad, plan: &Plan, control: &Remedy) -> Result<(), SimError> {
        match control {
            Remedy::Speculate { stage, idle, threads } => {
                let id = stage_of(tad, stage)?;
                let resource = resource_of(tad, id, idle)?;
                self.each(plan, id, |guard, node| {
                    let resource = plan.resources[resource].base + node;
                    guard.speculation = Some(Speculation { resource, threads: *threads, busy: 0 });
                });
                for place in plan.places(id) {
                    let node = (place - plan.stages[id].base) / plan.stages[id].instances;
                    self.idlers[(plan.resources[resource].base + node) as usize].push(place);
                }
            }
            Remedy::CongestionFeedback { stage, downstream, backlog, wrong_per_mille } => {
                let id = stage_of(tad, stage)?;
                let downstream = stage_of(tad, downstream)?;
                let below = &plan.stages[downstream];
                let congestion = Congestion {
                    downstream,
                    backlog: backlog * below.nodes * below.instances,
                    wrong_per_mille: u64::from(*wrong_per_mille),
                };
                self.each(plan, id, |guard, _| guard.congestion = Some(congestion.clone()));
                self.watchers[downstream].extend(plan.places(id));
            }
            Remedy::BoundDownstream { stage, downstream, limit } => {
                let id = stage_of(tad, stage)?;
                let downstream = stage_of(tad, downstream)?;
                let bound = Bound { downstream, limit: *limit };
                self.each(plan, id, |guard, _| guard.bound = Some(bound.clone()));
                self.watchers[downstream].extend(plan.places(id));
            }
            Remedy::ScheduleThreads { stage } => {
                let id = stage_of(tad, stage)?;
                self.each(plan, id, |guard, _| guard.thread_ns = Some([0; CLIENTS]));
            }
            _ => self.add_controller(tad, plan, control)?,
        }
        Ok(())
    }

    /// Adds a control that runs once in a period.
    fn add_controller(&mut self, tad: &Tad, plan: &Plan, control: &Remedy) -> Result<(), SimError> {
        match control {
            Remedy::RateLimit { stage, resource, period_ns } => {
                let id = stage_of(tad, stage)?;
                let limit = Limit {
                    buckets: [Bucket::new(1e12, 1, Nanos(0)); CLIENTS],
                    cost_ns: [0; CLIENTS],
                    started: [0; CLIENTS],
                };
                self.each(plan, id, |guard, _| guard.limit = Some(limit.clone()));
                let resource = anywhere(tad, id, resource)?;
                self.controllers.push(Controller::rate(id, resource, *period_ns, plan));
            }
            Remedy::CoordinateWeights { stages, resource, period_ns } => {
                let ids = stages.iter().map(|s| stage_of(tad, s)).collect::<Result<Vec<_>, _>>()?;
                let Some(&first) = ids.first() else { return Ok(()) };
                let resource = resource_of(tad, first, resource)?;
                let mut known = self.controllers.iter_mut();
                if !known.any(|known| known.join(&ids, resource, *period_ns, (tad, plan))) {
                    self.controllers.push(Controller::weights(ids, resource, *period_ns, plan));
                }
            }
            Remedy::BackOff { stages, resource, period_ns } => {
                let ids = stages.iter().map(|s| stage_of(tad, s)).collect::<Result<Vec<_>, _>>()?;
                let Some(&first) = ids.first() else { return Ok(()) };
                let resource = resource_of(tad, first, resource)?;
                let number = self.held.len();
                for &id in &ids {
                    self.each(plan, id, |guard, _| guard.back_off = Some(number));
                }
                let by_node = vec![0; plan.resources[resource].nodes as usize];
                self.held.push(Held { stages: ids, by_node });
                self.controllers.push(Controller::threads(number, resource, *period_ns, plan));
            }
            // Changes of the architecture are in the diagram itself.
            _ => {}
        }
        Ok(())
    }

    fn each(&mut self, plan: &Plan, stage: StageId, mut set: impl FnMut(&mut Guard, u32)) {
        for place in plan.places(stage) {
            let slot = &mut self.guard_of[place as usize];
            if *slot == NONE {
                *slot = self.guards.len() as u32;
                self.guards.push(Guard::default());
            }
            let planned = &plan.stages[stage];
            set(&mut self.guards[*slot as usize], (place - planned.base) / planned.instances);
        }
    }

    /// Marks the queues and resources that it uses, so that all others skip the check.
    pub(super) fn mark(
        &self,
        instances: &[StageInstance],
        queues: &mut [Queue],
        resources: &mut [ResourceInstance],
    ) {
        for (place, instance) in instances.iter().enumerate() {
            let queue = queues.get_mut(instance.queue as usize);
            if let (Some(guard), Some(queue)) = (self.guard(place as u32), queue) {
                queue.guarded |= guard.holds();
                queue.speculates |= guard.speculation.is_some();
                queue.shares_threads |= guard.thread_ns.is_some();
            }
        }
        for (resource, idlers) in resources.iter_mut().zip(&self.idlers) {
            resource.watched = !idlers.is_empty();
        }
    }

    fn guard(&self, place: u32) -> Option<&Guard> {
        self.guards.get(self.guard_of[place as usize] as usize)
    }

    fn guard_mut(&mut self, place: u32) -> Option<&mut Guard> {
        self.guards.get_mut(self.guard_of[place as usize] as usize)
    }

    /// What the guards of a queue said last: for each member of the queue the clients that it may
    /// work for. Empty without a guard.
    pub(super) fn permits(&self) -> &[Permit] {
        &self.scratch
    }

    /// A part was started.
    pub(super) fn started(&mut self, place: u32, client: usize) {
        if let Some(limit) = self.guard_mut(place).and_then(|guard| guard.limit.as_mut()) {
            limit.started[client] += 1;
            limit.buckets[client].take(limit.cost_ns[client]);
        }
    }

    /// Expected time for which a part of a client will have its thread, for a stage whose threads
    /// are shared.
    pub(super) fn thread_ns(&self, place: u32, client: usize) -> Option<u64> {
        Some(self.guard(place)?.thread_ns.as_ref()?[client])
    }

    /// A part of a client had its thread for this long. Returns the unexpected part of that time.
    pub(super) fn thread_held(&mut self, place: u32, client: usize, ns: u64) -> Option<u64> {
        let known = &mut self.guard_mut(place)?.thread_ns.as_mut()?[client];
        let more = ns.saturating_sub(*known);
        *known = if *known == 0 { ns } else { (*known * 3 + ns) / 4 };
        Some(more)
    }

    /// Whether a part is wrongly predicted not to block at a stage instance. It is a property of
    /// the part: the prediction is not repeated until it fails.
    pub(super) fn mistakes(&self, place: u32, order: u64) -> bool {
        let congestion = self.guard(place).and_then(|guard| guard.congestion.as_ref());
        congestion.is_some_and(|congestion| {
            let drawn = order.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
            drawn % 1000 < congestion.wrong_per_mille
        })
    }

    /// A queue was woken.
    pub(super) fn woke(&mut self, queue: u32) {
        self.waking.retain(|other| *other != queue);
    }

    /// The resource instance whose idleness allows one more part on speculation.
    pub(super) fn may_speculate(&self, place: u32) -> Option<u32> {
        let speculation = self.guard(place)?.speculation.as_ref()?;
        (speculation.busy < speculation.threads).then_some(speculation.resource)
    }

    /// A part was started on speculation.
    pub(super) fn speculation_began(&mut self, place: u32) {
        if let Some(speculation) = self.guard_mut(place).and_then(|g| g.speculation.as_mut()) {
            speculation.busy += 1;
        }
    }

    /// The speculation has ended, with or without success.
    pub(super) fn speculation_ended(&mut self, place: u32) {
        if let Some(speculation) = self.guard_mut(place).and_then(|g| g.speculation.as_mut()) {
            speculation.busy -= 1;
        }
    }
}

fn stage_of(tad: &Tad, name: &str) -> Result<StageId, RemedyError> {
    tad.stage(name).ok_or_else(|| RemedyError::NoStage(name.to_owned()))
}

fn resource_of(tad: &Tad, stage: StageId, name: &str) -> Result<usize, RemedyError> {
    tad.resource(tad.node_of(stage), name).ok_or_else(|| RemedyError::NoResource {
        stage: tad.stages[stage].name.clone(),
        resource: name.to_owned(),
    })
}

/// A resource of the stage's node, or else of any kind of node.
fn anywhere(tad: &Tad, stage: StageId, name: &str) -> Result<usize, RemedyError> {
    resource_of(tad, stage, name).or_else(|error| {
        tad.resources.iter().position(|resource| resource.name == name).ok_or(error)
    })
}
