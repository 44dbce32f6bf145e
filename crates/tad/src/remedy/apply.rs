//! Applies a remedy: a changed copy of the system.

use crate::model::{
    Confidence, End, Flow, FlowKind, Policy, Queue, Remedy, ResourceId, SharedQueue, Stage,
    StageId, Step, StepId, Tad, Threads, Use,
};

/// Why a remedy does not fit a system.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RemedyError {
    /// It names a stage that the system does not have.
    #[error("there is no stage \"{0}\"")]
    NoStage(String),
    /// It names a resource that the stage's kind of node does not have.
    #[error("stage \"{stage}\" has no resource \"{resource}\" on its node")]
    NoResource {
        /// Stage.
        stage: String,
        /// Resource.
        resource: String,
    },
    /// The remedy is not for this kind of stage.
    #[error("stage \"{stage}\" {why}")]
    Misfit {
        /// Stage.
        stage: String,
        /// Why it does not fit.
        why: &'static str,
    },
}

/// Applies a remedy. Control logic is only noted ([`Tad::controls`]); the simulator executes it.
pub fn apply(tad: &mut Tad, remedy: &Remedy) -> Result<(), RemedyError> {
    match remedy {
        Remedy::AddSchedulingPoint { stage, threads } => {
            let stage = on_demand(tad, stage)?;
            tad.stages[stage].threads = Threads::Bounded((*threads).max(1));
            tad.stages[stage].threads_label = None;
            tad.stages[stage].queue = Queue::SCHEDULED;
        }
        Remedy::MakePluggable { stage } => {
            let stage = bounded(tad, stage)?;
            tad.stages[stage].queue.pluggable = true;
            tad.stages[stage].queue.explicit = true;
        }
        Remedy::Split { stage, resource, into, threads } => {
            split(tad, stage, resource, into, *threads)?;
        }
        Remedy::ShareScheduler { name, stages, concurrency } => {
            share(tad, name, stages, *concurrency)?;
        }
        Remedy::Unblock { stage } => {
            let stage = bounded(tad, stage)?;
            tad.stages[stage].asynchronous = true;
            tad.flows
                .retain(|flow| flow.kind != FlowKind::Blocking || flow.from != End::Stage(stage));
        }
        Remedy::SeparateStreams { stage } => {
            let stage = bounded(tad, stage)?;
            tad.stages[stage].queue.ordered_per_client = true;
            tad.stages[stage].queue.pluggable = true;
            if tad.stages[stage].queue.policy == Policy::Fifo {
                tad.stages[stage].queue.policy = Policy::Drf;
            }
        }
        Remedy::SetThreads { stage, threads } => {
            let stage = bounded(tad, stage)?;
            tad.stages[stage].threads = Threads::Bounded((*threads).max(1));
            tad.stages[stage].threads_label = None;
        }
        Remedy::SetBatch { stage, most } => set_batch(tad, stage, *most)?,
        Remedy::SetPolicy { stage, policy } => set_policy(tad, stage, *policy)?,
        Remedy::RateLimit { .. }
        | Remedy::Speculate { .. }
        | Remedy::CoordinateWeights { .. }
        | Remedy::BackOff { .. }
        | Remedy::CongestionFeedback { .. }
        | Remedy::ScheduleThreads { .. }
        | Remedy::BoundDownstream { .. }
        | Remedy::ServeInTurns { .. } => note(tad, remedy)?,
    }
    Ok(())
}

fn share(
    tad: &mut Tad,
    name: &str,
    stages: &[String],
    concurrency: u32,
) -> Result<(), RemedyError> {
    let stages = stages.iter().map(|s| bounded(tad, s)).collect::<Result<Vec<_>, _>>()?;
    let node = stages.first().map(|stage| tad.node_of(*stage));
    if let Some(other) = stages.iter().find(|stage| Some(tad.node_of(**stage)) != node) {
        return Err(RemedyError::Misfit {
            stage: tad.stages[*other].name.clone(),
            why: "is on another kind of node than the stages it would share with",
        });
    }
    for shared in &mut tad.shared_queues {
        shared.stages.retain(|stage| !stages.contains(stage));
    }
    tad.shared_queues.retain(|shared| !shared.stages.is_empty());
    tad.shared_queues.push(SharedQueue {
        name: name.to_owned(),
        stages,
        concurrency: concurrency.max(1),
        policy: Policy::Drf,
    });
    Ok(())
}

fn set_batch(tad: &mut Tad, stage: &str, most: u32) -> Result<(), RemedyError> {
    let stage = bounded(tad, stage)?;
    let Some(batch) = &mut tad.stages[stage].batch else {
        return Err(RemedyError::Misfit {
            stage: tad.stages[stage].name.clone(),
            why: "serves no batches",
        });
    };
    batch.most = most.max(1);
    if batch.most == 1 {
        tad.stages[stage].batch = None;
    }
    Ok(())
}

fn set_policy(tad: &mut Tad, stage: &str, policy: Policy) -> Result<(), RemedyError> {
    let stage = bounded(tad, stage)?;
    if !tad.stages[stage].queue.pluggable {
        return Err(RemedyError::Misfit {
            stage: tad.stages[stage].name.clone(),
            why: "has a queue that takes no other policy (make-pluggable comes first)",
        });
    }
    tad.stages[stage].queue.policy = policy;
    Ok(())
}

/// Notes control logic, if it fits its stages.
fn note(tad: &mut Tad, control: &Remedy) -> Result<(), RemedyError> {
    match control {
        Remedy::RateLimit { stage, .. }
        | Remedy::Speculate { stage, .. }
        | Remedy::ScheduleThreads { stage } => {
            bounded(tad, stage)?;
        }
        Remedy::CoordinateWeights { stages, .. } | Remedy::BackOff { stages, .. } => {
            for stage in stages {
                bounded(tad, stage)?;
            }
        }
        Remedy::ServeInTurns { stage, .. } => {
            let id = bounded(tad, stage)?;
            let queue = &tad.stages[id].queue;
            if queue.ordered && !queue.ordered_per_client {
                return Err(RemedyError::Misfit {
                    stage: stage.clone(),
                    why: "must serve in order of arrival, so no request may overtake another",
                });
            }
            // Another turn replaces the first.
            tad.controls.retain(
                |known| !matches!(known, Remedy::ServeInTurns { stage: at, .. } if at == stage),
            );
        }
        Remedy::CongestionFeedback { stage, downstream, .. }
        | Remedy::BoundDownstream { stage, downstream, .. } => {
            let from = find(tad, downstream)?;
            let to = bounded(tad, stage)?;
            tad.flows.push(arrow(from, to, FlowKind::Information));
        }
        // The others change the architecture.
        _ => return Ok(()),
    }
    tad.controls.push(control.clone());
    Ok(())
}

fn arrow(from: StageId, to: StageId, kind: FlowKind) -> Flow {
    Flow {
        from: End::Stage(from),
        to: End::Stage(to),
        kind,
        label: String::new(),
        remote: false,
        confidence: Confidence::Certain,
    }
}

fn find(tad: &Tad, name: &str) -> Result<StageId, RemedyError> {
    tad.stage(name).ok_or_else(|| RemedyError::NoStage(name.to_owned()))
}

fn bounded(tad: &Tad, name: &str) -> Result<StageId, RemedyError> {
    let stage = find(tad, name)?;
    match tad.stages[stage].threads {
        Threads::Bounded(_) => Ok(stage),
        Threads::OnDemand => Err(RemedyError::Misfit {
            stage: name.to_owned(),
            why: "makes a thread for each request: it needs a scheduling point first",
        }),
    }
}

fn on_demand(tad: &Tad, name: &str) -> Result<StageId, RemedyError> {
    let stage = find(tad, name)?;
    match tad.stages[stage].threads {
        Threads::OnDemand => Ok(stage),
        Threads::Bounded(_) => {
            Err(RemedyError::Misfit { stage: name.to_owned(), why: "has a queue already" })
        }
    }
}

/// Moves the consumption of `resource` at `stage`, and everything after it, to a new stage: each
/// such step becomes two.
fn split(
    tad: &mut Tad,
    stage: &str,
    resource: &str,
    into: &str,
    threads: u32,
) -> Result<(), RemedyError> {
    let from = find(tad, stage)?;
    let moved = tad.resource(tad.node_of(from), resource).ok_or_else(|| {
        RemedyError::NoResource { stage: stage.to_owned(), resource: resource.to_owned() }
    })?;
    let target = match tad.stage(into) {
        Some(target) => target,
        None => {
            let template = &tad.stages[from];
            tad.stages.push(Stage {
                name: into.to_owned(),
                title: into.to_owned(),
                process: template.process,
                threads: Threads::Bounded(threads.max(1)),
                threads_label: None,
                queue: Queue::SCHEDULED,
                uses: Vec::new(),
                instances: template.instances,
                asynchronous: false,
                confidence: Confidence::Certain,
                batch: None,
            });
            tad.stages.len() - 1
        }
    };
    for request in &mut tad.requests {
        let mut answered_by = std::mem::take(&mut request.answered_by);
        for id in 0..request.steps.len() {
            let step = &request.steps[id];
            if step.stage != from {
                continue;
            }
            let Some(cut) = step.uses.iter().position(|each| each.resource == moved) else {
                continue;
            };
            let fresh = request.steps.len();
            divide(&mut request.steps, id, cut, target);
            for answer in &mut answered_by {
                if *answer == id {
                    *answer = fresh;
                }
            }
        }
        request.answered_by = answered_by;
    }
    settle_uses(tad, from, target, moved);
    tad.flows.push(arrow(from, target, FlowKind::Data));
    Ok(())
}

/// Cuts a step before its use number `cut`; the rest is done at `target`.
fn divide(steps: &mut Vec<Step>, id: StepId, cut: usize, target: StageId) {
    let fresh = steps.len();
    let step = &mut steps[id];
    let mut second = Step {
        name: format!("{} (2)", step.name),
        stage: target,
        place: crate::model::Place::Same,
        uses: step.uses.split_off(cut),
        // The look-up stays before the part that it may save.
        cache: None,
        submits: std::mem::take(&mut step.submits),
        waits: std::mem::take(&mut step.waits),
        enough: step.enough.take(),
        uses_after: std::mem::take(&mut step.uses_after),
        then: std::mem::replace(&mut step.then, vec![fresh]),
    };
    if let Some(cache) = &step.cache
        && second.uses.iter().any(|each| cache.skips.contains(&each.resource))
    {
        second.cache = step.cache.take();
    }
    for other in steps.iter_mut() {
        for waited in &mut other.waits {
            if *waited == id {
                *waited = fresh;
            }
        }
    }
    steps.push(second);
}

/// Sets the declared uses of both stages of a split from their steps.
fn settle_uses(tad: &mut Tad, from: StageId, target: StageId, moved: ResourceId) {
    let used_at = |tad: &Tad, stage: StageId| -> Vec<ResourceId> {
        let steps = tad.requests.iter().flat_map(|request| &request.steps);
        let steps = steps.filter(|step| step.stage == stage);
        let uses = steps.flat_map(|step| step.uses.iter().chain(&step.uses_after));
        uses.map(|each| each.resource).collect()
    };
    // What came after the moved resource in every step is not used here either.
    let left = used_at(tad, from);
    tad.stages[from].uses.retain(|each| each.resource != moved && left.contains(&each.resource));
    if let Some(batch) = &mut tad.stages[from].batch {
        batch.once.retain(|once| *once != moved && left.contains(once));
    }
    for resource in used_at(tad, target) {
        if tad.stages[target].uses.iter().all(|each| each.resource != resource) {
            tad.stages[target].uses.push(Use { resource, may: false });
        }
    }
}
