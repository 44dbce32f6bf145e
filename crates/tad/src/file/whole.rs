//! What is wrong only in the whole: a stage that nothing feeds, a step that no other submits, a
//! request that waits for itself, a pool whose threads all wait for one another.

use super::error::Report;
use super::marks::Marks;
use crate::graph::{Needs, pool_cycle, request_cycle};
use crate::model::{End, FlowKind, RequestId, ResourceId, StageId, Tad, Threads};

/// Reports all of it.
pub(super) fn check(tad: &Tad, marks: &Marks, report: &mut Report) {
    for request in 0..tad.requests.len() {
        submitted_once(tad, marks, report, request);
    }
    fed(tad, marks, report);
    // Whether something waits for itself can be told only when each step has one submitter.
    if !report.clean() {
        return;
    }
    let mut needs = Vec::new();
    for (request, kind) in tad.requests.iter().enumerate() {
        match request_cycle(kind) {
            Some(cycle) => {
                let names: Vec<&str> =
                    cycle.iter().map(|&step| kind.steps[step].name.as_str()).collect();
                report.error(
                    &marks.steps[request][cycle[0]],
                    format!(
                        "request \"{}\" never ends: {} wait for one another in a circle",
                        kind.name,
                        names.join(", ")
                    ),
                    "Remove one of the `waits`, or submit the step before the wait (`submits` instead of `then`).",
                );
            }
            None => needs.push(Needs::of(tad, request)),
        }
    }
    if let Some(cycle) = pool_cycle(tad, &needs) {
        let names: Vec<&str> = cycle.iter().map(|&s| tad.stages[s].name.as_str()).collect();
        report.error(
            &marks.stages[cycle[0]],
            format!(
                "a deadlock by construction: threads of {} are held while their requests need a thread of {}; once all are held, none comes free",
                names.join(" and of "),
                if names.len() == 1 { "the same stage" } else { "the next of these stages" },
            ),
            "Make one of the stages asynchronous or on-demand, or do the inner step in a separate stage.",
        );
    }
    brackets(tad, marks, report);
    batches(tad, marks, report);
    super::arrows::check(tad, marks, report);
}

/// Requests that are served as one must be alike.
fn batches(tad: &Tad, marks: &Marks, report: &mut Report) {
    for (id, stage) in tad.stages.iter().enumerate() {
        if stage.batch.is_none() {
            continue;
        }
        let steps = || tad.requests.iter().flat_map(|kind| &kind.steps).filter(|s| s.stage == id);
        let used = |step: &crate::model::Step| -> Vec<ResourceId> {
            step.uses.iter().map(|each| each.resource).collect()
        };
        let alike = steps().all(|step| Some(used(step)) == steps().next().map(used));
        let plain = steps().all(|step| {
            step.waits.is_empty() && step.uses_after.is_empty() && step.cache.is_none()
        });
        let whole = !(stage.queue.ordered_per_client || stage.threads == Threads::OnDemand);
        if !(alike && plain && whole) {
            report.error(
                &marks.stages[id],
                format!("requests of stage \"{}\" cannot be served as one batch", stage.name),
                "A stage with `batch` has a pool; its steps use the same resources in the same order, and neither wait nor look into a cache.",
            );
        }
    }
}

fn submitted_once(tad: &Tad, marks: &Marks, report: &mut Report, request: RequestId) {
    let kind = &tad.requests[request];
    let mut count = vec![0u32; kind.steps.len()];
    for step in &kind.steps {
        for &next in step.submits.iter().chain(&step.then) {
            count[next] += 1;
        }
    }
    for (id, step) in kind.steps.iter().enumerate() {
        let at = &marks.steps[request][id];
        let name = &step.name;
        if id == kind.first {
            if count[id] > 0 {
                report.error(
                    at,
                    format!("step \"{name}\" is the first, which the client submits, and a step submits it again"),
                    "Remove it from `submits`, `calls` or `then`: each step is done once for a request.",
                );
            }
            continue;
        }
        let waiting: Vec<&str> = kind
            .steps
            .iter()
            .filter(|other| other.waits.contains(&id))
            .map(|other| other.name.as_str())
            .collect();
        match count[id] {
            0 if waiting.is_empty() => report.error(
                at,
                format!("no step submits \"{name}\", so it is never done"),
                "Name it in `submits`, `calls` or `then` of the step that leads to it, or remove it.",
            ),
            0 => report.error(
                at,
                format!(
                    "no step submits \"{name}\", and \"{}\" waits for it for ever",
                    waiting.join("\", \"")
                ),
                "Name it in `submits` or `calls` of a step that comes before.",
            ),
            1 => {}
            more => report.error(
                at,
                format!("step \"{name}\" is submitted {more} times"),
                "Each step is done once for a request: add a step of another name for the second time.",
            ),
        }
    }
}

fn fed(tad: &Tad, marks: &Marks, report: &mut Report) {
    let fed = |stage: StageId| {
        tad.flows.iter().any(|flow| flow.kind == FlowKind::Data && flow.to == End::Stage(stage))
            || tad.requests.iter().any(|kind| kind.steps.iter().any(|step| step.stage == stage))
    };
    for (id, stage) in tad.stages.iter().enumerate() {
        if !fed(id) {
            report.error(
                &marks.stages[id],
                format!(
                    "nothing feeds stage \"{}\": no step is done there and no data flow ends there",
                    stage.name
                ),
                "Add a [[flow]] of kind \"data\" to it, a [[request.step]], or remove the stage.",
            );
        }
    }
}

/// Brackets that the requests do not bear out.
fn brackets(tad: &Tad, marks: &Marks, report: &mut Report) {
    for (id, stage) in tad.stages.iter().enumerate() {
        let steps: Vec<_> = tad
            .requests
            .iter()
            .flat_map(|kind| &kind.steps)
            .filter(|step| step.stage == id)
            .collect();
        if steps.is_empty() {
            continue; // Its requests are not described, so nothing is known about them.
        }
        for (item, at) in stage.uses.iter().zip(&marks.uses[id]) {
            let using = steps
                .iter()
                .filter(|step| {
                    step.uses.iter().chain(&step.uses_after).any(|c| c.resource == item.resource)
                })
                .count();
            let name = &tad.resources[item.resource].name;
            // A hit in a cache makes one step both.
            let cached = |step: &&crate::model::Step| {
                step.cache.as_ref().is_some_and(|cache| cache.skips.contains(&item.resource))
            };
            if steps.iter().any(cached) {
                continue;
            }
            if item.may && (using == 0 || using == steps.len()) {
                let who = if using == 0 { "none" } else { "every one" };
                report.warn(
                    at,
                    format!("\"{name}?\" says that some requests of stage \"{}\" use it and some do not, but {who} of its steps does", stage.name),
                    "Remove the \"?\", or describe the other requests too.",
                );
            } else if !item.may && using > 0 && using < steps.len() {
                report.warn(
                    at,
                    format!("stage \"{}\" declares \"{name}\" for all its requests, but {} of its {} steps do not use it", stage.name, steps.len() - using, steps.len()),
                    format!("Write \"{name}?\" if the queue cannot tell which ones; leave it if it can."),
                );
            }
        }
    }
}
