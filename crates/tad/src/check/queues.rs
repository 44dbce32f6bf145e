//! Queues, what may be in service from each of them at a time, and for how long.

use crate::model::{
    End, FlowKind, RequestType, ResourceId, ResourceKind, SharedQueue, StageId, Step, Tad, Threads,
};
use crate::remedy::Remedy;

/// A queue: one stage's, or one of several stages.
#[derive(Debug)]
pub(super) struct Source<'a> {
    /// Stages that take requests from it.
    pub stages: Vec<StageId>,
    /// Set if it was declared as a queue of several stages, even if it has only one.
    pub shared: Option<&'a SharedQueue>,
}

/// All queues of a system.
pub(super) fn sources(tad: &Tad) -> Vec<Source<'_>> {
    let shared =
        tad.shared_queues.iter().map(|q| Source { stages: q.stages.clone(), shared: Some(q) });
    let own = (0..tad.stages.len()).filter(|&id| {
        tad.stages[id].threads != Threads::OnDemand
            && tad.shared_queues.iter().all(|queue| !queue.stages.contains(&id))
    });
    shared.chain(own.map(|id| Source { stages: vec![id], shared: None })).collect()
}

impl Source<'_> {
    /// The resources for which its stages contend, each once.
    pub fn resources(&self, tad: &Tad) -> Vec<ResourceId> {
        let mut resources: Vec<ResourceId> =
            self.stages.iter().flat_map(|&id| limited(tad, id)).collect();
        resources.sort_unstable();
        resources.dedup();
        resources
    }

    /// Requests of it that may be in service at a resource, or wait there, at a time.
    pub fn bound(&self, tad: &Tad, resource: ResourceId) -> u32 {
        let users = || self.stages.iter().copied().filter(|&id| uses(tad, id, resource));
        let of = |id| threads(tad, id).saturating_mul(as_one(tad, id, resource));
        let most = users().map(|id| as_one(tad, id, resource)).max().unwrap_or(1);
        let all = users().map(of).fold(0, u32::saturating_add);
        all.min(self.shared.map_or(u32::MAX, |queue| queue.concurrency.saturating_mul(most)))
    }

    /// Those of its stages that use more than one resource.
    pub fn mixed(&self, tad: &Tad) -> Vec<StageId> {
        self.stages.iter().copied().filter(|&id| limited(tad, id).len() > 1).collect()
    }

    /// Whether more of its requests may be at a resource than that serves at a time.
    pub fn surplus(&self, tad: &Tad) -> bool {
        let servers = |id: ResourceId| tad.resources[id].parallelism.max(1);
        self.resources(tad).into_iter().any(|id| self.bound(tad, id) > servers(id))
    }
}

/// The resources of a stage that have a limit, in its order.
pub(super) fn limited(tad: &Tad, stage: StageId) -> Vec<ResourceId> {
    let uses = tad.stages[stage].uses.iter().map(|u| u.resource);
    let waits = |id: ResourceId| {
        tad.resources[id].kind != ResourceKind::Delay && tad.resources[id].limited()
    };
    uses.filter(|&id| waits(id)).collect()
}

/// Requests for which a thread of a stage uses a resource at a time: those of a batch, unless that
/// costs as much as one.
pub(super) fn as_one(tad: &Tad, stage: StageId, resource: ResourceId) -> u32 {
    let batch = tad.stages[stage].batch.as_ref();
    batch.filter(|batch| !batch.once.contains(&resource)).map_or(1, |batch| batch.most.max(1))
}

/// Whether a stage uses a resource.
pub(super) fn uses(tad: &Tad, stage: StageId, resource: ResourceId) -> bool {
    tad.stages[stage].uses.iter().any(|u| u.resource == resource)
}

/// Threads of a stage on a node, all its instances together.
pub(super) fn threads(tad: &Tad, stage: StageId) -> u32 {
    match tad.stages[stage].threads {
        Threads::Bounded(threads) => threads.saturating_mul(tad.stages[stage].instances),
        Threads::OnDemand => 0,
    }
}

/// Whether threads of a stage are held while requests of it wait for another stage.
pub(super) fn holds(tad: &Tad, stage: StageId) -> bool {
    let drawn = |flow: &crate::model::Flow| {
        flow.kind == FlowKind::Blocking && flow.from == End::Stage(stage)
    };
    let mut steps = steps(tad, stage).peekable();
    let waits = match steps.peek() {
        Some(_) => steps.any(|(_, step)| !step.waits.is_empty()),
        None => tad.flows.iter().any(drawn),
    };
    waits && tad.stages[stage].threads != Threads::OnDemand && !tad.stages[stage].asynchronous
}

/// The steps of a stage, each with its request.
pub(super) fn steps(tad: &Tad, stage: StageId) -> impl Iterator<Item = (&RequestType, &Step)> {
    let all = tad.requests.iter().flat_map(|kind| kind.steps.iter().map(move |step| (kind, step)));
    all.filter(move |(_, step)| step.stage == stage)
}

/// For how long a step keeps a thread busy on the mean, and whether that differs from request to
/// request: its client sets it, or chance does. Zero if it uses nothing.
pub(super) fn busy_ns(tad: &Tad, kind: &RequestType, step: &Step) -> (u64, Vary) {
    let defaults: Vec<u64> = kind.parameters.iter().map(|known| known.default).collect();
    let mut sum = 0.0;
    let mut vary = Vary::default();
    for each in step.uses.iter().chain(&step.uses_after) {
        vary.set_by_client |= each.amount.parameter().is_some();
        vary.by_chance |= each.amount.random();
        let amount = each.amount.mean(&defaults) as f64;
        sum += amount * 1e9 / tad.resources[each.resource].rate_per_s;
    }
    (sum as u64, vary)
}

/// Why one kind of request takes longer at one time than at another.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Vary {
    pub set_by_client: bool,
    pub by_chance: bool,
}

/// The turn of a stage, if it serves in turns.
pub(super) fn turn_ns(tad: &Tad, stage: &str) -> Option<u64> {
    tad.controls.iter().find_map(|control| match control {
        Remedy::ServeInTurns { stage: at, turn_ns } if at == stage => Some(*turn_ns),
        _ => None,
    })
}
