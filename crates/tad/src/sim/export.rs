//! Exports a system and a scenario as plain tables, for another simulator to run the same.
//!
//! Everything is resolved: amounts are numbers, and stages, resources and steps are indices into
//! the lists. Features that only this simulator has (control logic beside the queues, disks with an
//! arm, preemptive resources) are refused, not left out silently.

use super::error::SimError;
use super::plan::{KeyPlan, Plan, StepPlan};
use crate::model::{Device, Discipline, Place, Policy, Tad};
use crate::scenario::{Arrivals, Entry, Scenario};
use serde_json::{Value, json};

/// Why something cannot be exported.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ExportError {
    /// It cannot even be simulated.
    #[error(transparent)]
    Sim(#[from] SimError),
    /// The exported form does not support it.
    #[error("the exported form has no {0}")]
    Missing(&'static str),
}

/// See the module.
pub fn export(tad: &Tad, scenario: &Scenario) -> Result<Value, ExportError> {
    let plan = Plan::new(tad, scenario)?;
    refuse(&[
        (!tad.controls.is_empty(), "control logic"),
        (!scenario.changes.is_empty(), "changes on the way"),
        (scenario.jitter > 0.0, "random amounts"),
    ])?;
    let resources = resources(tad, &plan)?;
    let stages = stages(tad, scenario, &plan)?;
    let mut steps = tad.requests.iter().flat_map(|request| &request.steps);
    refuse(&[
        (!plan.caches.is_empty(), "caches"),
        (!plan.laws.is_empty(), "amounts that are drawn"),
        (plan.stages.iter().any(|stage| stage.batch.is_some()), "batches"),
        (plan.loads.iter().any(|load| load.patience.is_some()), "time-outs"),
        (steps.any(|step| step.enough.is_some()), "waits for some of several steps"),
    ])?;
    let shared: Vec<u32> = tad.shared_queues.iter().map(|q| q.concurrency.max(1)).collect();
    let clients: Vec<Value> =
        scenario.clients.iter().map(|c| json!({ "name": c.name, "weight": c.weight })).collect();
    Ok(json!({
        "system": tad.name,
        "scenario": scenario.name,
        "duration_ns": scenario.duration_ns,
        "warmup_ns": scenario.warmup_ns,
        "resources": resources,
        "stages": stages,
        "shared_concurrency": shared,
        "clients": clients,
        "loads": loads(&plan)?,
    }))
}

/// Fails with the first feature that is there and cannot be exported.
fn refuse(features: &[(bool, &'static str)]) -> Result<(), ExportError> {
    match features.iter().find(|(there, _)| *there) {
        Some((_, feature)) => Err(ExportError::Missing(feature)),
        None => Ok(()),
    }
}

fn resources(tad: &Tad, plan: &Plan) -> Result<Vec<Value>, ExportError> {
    let resources = tad.resources.iter().zip(&plan.resources);
    let resources = resources.map(|(resource, planned)| {
        if resource.discipline != Discipline::Fifo || resource.device != Device::Plain {
            return Err(ExportError::Missing("preemption or seeks"));
        }
        Ok(json!({
            "name": resource.name,
            "nodes": planned.nodes,
            "rate_per_s": resource.rate_per_s,
            "parallelism": resource.parallelism.max(1),
        }))
    });
    resources.collect()
}

fn stages(tad: &Tad, scenario: &Scenario, plan: &Plan) -> Result<Vec<Value>, ExportError> {
    let stages = tad.stages.iter().zip(&plan.stages).enumerate();
    let stages = stages.map(|(id, (stage, planned))| {
        let shared = tad.shared_queues.iter().position(|queue| queue.stages.contains(&id));
        let policy = match shared {
            Some(shared) => scenario.policy.unwrap_or(tad.shared_queues[shared].policy),
            None => stage.queue.policy_with(scenario.policy),
        };
        let policy = match policy {
            Policy::Fifo => "fifo",
            Policy::Drf => "drf",
            _ => return Err(ExportError::Missing("policy other than fifo and drf")),
        };
        Ok(json!({
            "name": stage.name,
            "nodes": planned.nodes,
            "instances": planned.instances,
            "threads": (planned.threads > 0).then_some(planned.threads),
            "policy": policy,
            "asynchronous": planned.asynchronous,
            "shared": shared,
        }))
    });
    stages.collect()
}

fn loads(plan: &Plan) -> Result<Vec<Value>, ExportError> {
    let loads = plan.loads.iter().map(|load| {
        let Arrivals::Closed { threads, think_ns } = load.arrivals else {
            return Err(ExportError::Missing("open loops and bursts"));
        };
        Ok(json!({
            "name": load.name,
            "client": load.client,
            "threads": threads,
            "think_ns": think_ns,
            "entry": match load.entry {
                Entry::Any => json!("any"),
                Entry::Fixed(node) => json!(node),
                Entry::Partition => json!("partition"),
                Entry::Each => json!("each"),
            },
            "keys": match &load.keys {
                KeyPlan::Uniform => json!("uniform"),
                KeyPlan::Fixed(partition) => json!(partition),
                KeyPlan::Zipf(_) => return Err(ExportError::Missing("Zipf's law")),
            },
            "first": load.first,
            "answers": load.answers,
            "steps": plan.steps[load.steps.clone()].iter().map(step).collect::<Vec<_>>(),
        }))
    });
    loads.collect()
}

fn step(step: &StepPlan) -> Value {
    let uses = |range: std::ops::Range<usize>| -> Vec<Value> {
        let each = step.uses[range].iter();
        each.map(|u| json!([u.resource, u.amount, u.unknown])).collect()
    };
    let after = usize::from(step.after);
    json!({
        "stage": step.stage,
        "place": match step.place {
            Place::Same => json!("same"),
            Place::Any => json!("any"),
            Place::Other => json!("other"),
            Place::Partition => json!("partition"),
            Place::Origin => json!("origin"),
            Place::Fixed(node) => json!(node),
        },
        "uses": uses(0..after),
        "uses_after": uses(after..step.uses.len()),
        "submits": step.submits,
        "waited_by": step.waited_by,
        "waits": step.waits,
        "then": step.then,
        "answers": step.answers,
    })
}
