//! No scheduling points (section 4.2.1): a stage makes a thread for each request, and that thread
//! uses a resource. Without a queue the order is not scheduled, so a client that sends more
//! requests gets more of the resource.

use super::advice::Advice;
use super::finding::{Finding, controls, finding};
use super::queues::limited;
use super::words::join;
use crate::graph;
use crate::model::{ResourceKind, StageId, Tad, Threads};
use crate::remedy::{Problem, Remedy};
use std::collections::BTreeSet;

const PROBLEM: Problem = Problem::NoScheduling;

pub(super) fn find(tad: &Tad) -> Vec<Finding> {
    let next = graph::successors(tad);
    let unscheduled = tad
        .stages
        .iter()
        .enumerate()
        .filter(|(_, stage)| stage.threads == Threads::OnDemand)
        .filter(|(id, _)| !limited(tad, *id).is_empty());
    unscheduled.map(|(id, _)| judge(tad, id, &next)).collect()
}

fn judge(tad: &Tad, id: StageId, next: &[BTreeSet<StageId>]) -> Finding {
    let stage = &tad.stages[id];
    let resources: Vec<String> =
        limited(tad, id).into_iter().map(|id| tad.resources[id].name.clone()).collect();
    let upstream: Vec<&str> = (0..tad.stages.len())
        .filter(|&other| other != id && next[other].contains(&id))
        .map(|other| tad.stages[other].name.as_str())
        .collect();
    let from = if upstream.is_empty() { "clients".to_owned() } else { join(&upstream) };
    let reason = format!(
        "{} starts a thread for each request from {from}, and these threads use {} at once: there is no queue where one request could be put before another",
        stage.name,
        join(&resources),
    );
    let mut remedies = vec![Advice::direct(
        PROBLEM,
        &[Remedy::AddSchedulingPoint { stage: stage.name.clone(), threads: 10 }],
    )];
    let limits: Vec<Remedy> = queues_upstream(tad, id, next)
        .into_iter()
        .map(|queue| Remedy::RateLimit {
            stage: tad.stages[queue].name.clone(),
            resource: slowest(tad, id),
            period_ns: 1_000_000_000,
        })
        .collect();
    if !limits.is_empty() {
        remedies.push(Advice::indirect(PROBLEM, &limits));
    }
    finding(tad, PROBLEM, &[id], resources, reason, remedies, mitigation(tad, id, next))
}

/// The resource that its requests will wait for, in the usual order.
fn slowest(tad: &Tad, id: StageId) -> String {
    const ORDER: [ResourceKind; 5] = [
        ResourceKind::Io,
        ResourceKind::Lock,
        ResourceKind::Network,
        ResourceKind::Custom,
        ResourceKind::Cpu,
    ];
    let uses = tad.stages[id].uses.iter().map(|u| &tad.resources[u.resource]);
    let rank = |kind| ORDER.iter().position(|&other| other == kind);
    uses.min_by_key(|resource| rank(resource.kind))
        .map(|resource| resource.name.clone())
        .unwrap_or_default()
}

/// On each way to a stage, the nearest queue in which requests can be held back.
fn queues_upstream(tad: &Tad, id: StageId, next: &[BTreeSet<StageId>]) -> Vec<StageId> {
    let mut queues = Vec::new();
    let mut seen = BTreeSet::from([id]);
    let mut todo = vec![id];
    while let Some(stage) = todo.pop() {
        for before in (0..tad.stages.len()).filter(|&before| next[before].contains(&stage)) {
            if !seen.insert(before) {
                continue;
            }
            // An ordered queue can hold back only all clients at once.
            if tad.stages[before].threads != Threads::OnDemand && !tad.stages[before].queue.ordered
            {
                queues.push(before);
            } else {
                todo.push(before);
            }
        }
    }
    queues.sort_unstable();
    queues
}

/// Rate limits that every request passes on its way here. They follow the use of a resource that
/// these requests use here or further on.
fn mitigation(tad: &Tad, id: StageId, next: &[BTreeSet<StageId>]) -> Vec<String> {
    let open = BTreeSet::new();
    let used: BTreeSet<&str> = graph::downstream(next, [id], &open)
        .into_iter()
        .flat_map(|stage| &tad.stages[stage].uses)
        .map(|u| tad.resources[u.resource].name.as_str())
        .collect();
    let limited: BTreeSet<StageId> = tad
        .controls
        .iter()
        .filter_map(|control| match control {
            Remedy::RateLimit { stage, resource, .. } if used.contains(resource.as_str()) => {
                tad.stage(stage)
            }
            _ => None,
        })
        .collect();
    if graph::downstream(next, graph::entries(tad), &limited).contains(&id) {
        return Vec::new(); // Some requests come here past all limits.
    }
    controls(tad, |control| match control {
        Remedy::RateLimit { stage, .. } => tad.stage(stage).is_some_and(|s| {
            limited.contains(&s) && graph::downstream(next, [s], &open).contains(&id)
        }),
        _ => false,
    })
}
