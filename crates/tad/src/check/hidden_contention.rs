//! Hidden contention (section 4.2.3): stages of one node use the same resource, each with its own
//! scheduler or none. Each may be fair although the node is not. One stage uses up the resource for
//! one client, and the other stage never sees that client's rival.

use super::advice::Advice;
use super::finding::{Finding, controls, finding};
use super::words::join;
use crate::model::{ResourceId, ResourceKind, StageId, Tad, Threads};
use crate::remedy::{Problem, Remedy};

const PROBLEM: Problem = Problem::HiddenContention;

/// Stages that take requests from one queue, or one stage with its own queue or none.
type Group = Vec<StageId>;

pub(super) fn find(tad: &Tad) -> Vec<Finding> {
    let limited = (0..tad.resources.len()).filter(|&id| tad.resources[id].limited());
    limited.filter_map(|resource| judge(tad, resource)).collect()
}

fn judge(tad: &Tad, resource: ResourceId) -> Option<Finding> {
    if tad.resources[resource].kind == ResourceKind::Delay {
        return None; // Time passes for all at once.
    }
    let users: Vec<StageId> = (0..tad.stages.len())
        .filter(|&id| tad.stages[id].uses.iter().any(|u| u.resource == resource))
        .collect();
    let groups = groups(tad, &users);
    // Instances of one stage contend as stages do, unless they share a queue.
    let alone = |group: &Group| tad.stages[group[0]].instances > 1 && !shared(tad, group[0]);
    if groups.len() < 2 && !groups.iter().any(alone) {
        return None;
    }
    let name = &tad.resources[resource].name;
    let node = &tad.nodes[tad.resources[resource].node];
    let queued: Vec<StageId> =
        users.iter().copied().filter(|&id| tad.stages[id].threads != Threads::OnDemand).collect();
    let described: Vec<String> = groups.iter().map(|group| describe(tad, group)).collect();
    let reason = format!(
        "{} use {name} of the same node ({}), and {}: none of them sees what the others take",
        join(&described),
        node.title,
        if queued.is_empty() {
            "none has a queue"
        } else {
            "none shares its queue with the others"
        }
    );
    let mut remedies = Vec::new();
    let names = |ids: &[StageId]| ids.iter().map(|&id| tad.stages[id].name.clone()).collect();
    let several = queued.len() > 1 || queued.iter().any(|&id| tad.stages[id].instances > 1);
    if several {
        // Stages without a queue need one first, and have their own finding for it.
        let share = Remedy::ShareScheduler {
            name: format!("{}-{name}", node.name),
            stages: names(&queued),
            concurrency: concurrency(tad, &queued),
        };
        remedies.push(Advice::direct(PROBLEM, &[share]));
    }
    let period_ns = 1_000_000_000;
    remedies.push(Advice::indirect(
        PROBLEM,
        &[Remedy::CoordinateWeights { stages: names(&users), resource: name.clone(), period_ns }],
    ));
    if several {
        remedies.push(Advice::indirect(
            PROBLEM,
            &[Remedy::BackOff { stages: names(&queued), resource: name.clone(), period_ns }],
        ));
    }
    let mitigated = mitigation(tad, &groups, name);
    Some(finding(tad, PROBLEM, &users, vec![name.clone()], reason, remedies, mitigated))
}

fn shared(tad: &Tad, stage: StageId) -> bool {
    tad.shared_queues.iter().any(|queue| queue.stages.contains(&stage))
}

fn groups(tad: &Tad, users: &[StageId]) -> Vec<Group> {
    let mut groups: Vec<(Option<usize>, Group)> = Vec::new();
    for &id in users {
        let queue = tad.shared_queues.iter().position(|queue| queue.stages.contains(&id));
        match groups.iter_mut().find(|(key, _)| queue.is_some() && *key == queue) {
            Some((_, group)) => group.push(id),
            None => groups.push((queue, vec![id])),
        }
    }
    groups.into_iter().map(|(_, group)| group).collect()
}

fn describe(tad: &Tad, group: &Group) -> String {
    let first = &tad.stages[group[0]];
    let names: Vec<&str> = group.iter().map(|&id| tad.stages[id].name.as_str()).collect();
    if group.len() > 1 {
        format!("({}: one queue)", names.join(", "))
    } else if first.threads == Threads::OnDemand {
        format!("{} (no queue)", first.name)
    } else if first.instances > 1 && !shared(tad, group[0]) {
        format!("{} instances of {}", first.instances, first.name)
    } else {
        first.name.clone()
    }
}

/// More than the threads that may wait for others of the queue, so that these are served.
fn concurrency(tad: &Tad, stages: &[StageId]) -> u32 {
    let waiting = stages.iter().filter(|&&id| {
        let waits = |kind: &crate::model::RequestType| {
            kind.steps.iter().any(|step| step.stage == id && !step.waits.is_empty())
        };
        tad.requests.iter().any(waits)
    });
    // One more for each, so that all of them can run.
    let beside = stages.iter().map(|&id| tad.stages[id].instances).fold(0, u32::saturating_add);
    let threads = |&id: &StageId| match tad.stages[id].threads {
        Threads::Bounded(threads) => threads.saturating_mul(tad.stages[id].instances),
        Threads::OnDemand => 0,
    };
    waiting.map(threads).fold(beside, u32::saturating_add)
}

/// Controllers that reach every one of the groups.
fn mitigation(tad: &Tad, groups: &[Group], name: &str) -> Vec<String> {
    controls(tad, |control| match control {
        Remedy::CoordinateWeights { stages, resource, .. }
        | Remedy::BackOff { stages, resource, .. } => {
            let reaches = |group: &Group| {
                group.iter().any(|&id| stages.iter().any(|stage| *stage == tad.stages[id].name))
            };
            resource == name && groups.iter().all(reaches)
        }
        _ => false,
    })
}
