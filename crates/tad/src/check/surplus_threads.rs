//! More threads than servers: a stage lets more requests through to a resource than that serves at
//! a time. The rest waits in the resource's own order, where no policy holds. A client with one
//! request under way stands behind all of them, however fair the queue before is. A thread that
//! serves a batch lets all of it through.
//!
//! Found by the search of `complete`. Section 4.3.4 says in passing that "more threads lead to less
//! scheduling control".

use super::advice::Advice;
use super::finding::{Finding, finding};
use super::queues::{Source, as_one, holds, limited, sources, threads, uses};
use super::words::join;
use crate::model::{ResourceId, StageId, Tad};
use crate::remedy::{Problem, Remedy};

const PROBLEM: Problem = Problem::SurplusThreads;

pub(super) fn find(tad: &Tad) -> Vec<Finding> {
    sources(tad).iter().filter_map(|source| judge(tad, source)).collect()
}

fn servers(tad: &Tad, resource: ResourceId) -> u32 {
    tad.resources[resource].parallelism.max(1)
}

fn judge(tad: &Tad, source: &Source) -> Option<Finding> {
    let crowded: Vec<ResourceId> = source
        .resources(tad)
        .into_iter()
        .filter(|&id| source.bound(tad, id) > servers(tad, id))
        .collect();
    if crowded.is_empty() {
        return None;
    }
    let stages: Vec<StageId> = source
        .stages
        .iter()
        .copied()
        .filter(|&stage| crowded.iter().any(|&resource| uses(tad, stage, resource)))
        .collect();
    let names: Vec<&str> = stages.iter().map(|&id| tad.stages[id].name.as_str()).collect();
    let described: Vec<String> = crowded
        .iter()
        .map(|&id| {
            let (most, few) = (source.bound(tad, id), servers(tad, id));
            format!("up to {most} at {}, which serves {few} at a time", tad.resources[id].name)
        })
        .collect();
    let behind = crowded
        .iter()
        .map(|&id| source.bound(tad, id).div_ceil(servers(tad, id)))
        .max()
        .unwrap_or(1);
    let reason = format!(
        "{} let requests through to a resource before it can serve them ({}): there they wait in its own order, and a client with one request under way may stand behind {behind} times as many as it would alone",
        join(&names),
        join(&described),
    );
    let resources = crowded.iter().map(|&id| tad.resources[id].name.clone()).collect();
    Some(finding(tad, PROBLEM, &stages, resources, reason, remedies(tad, source), Vec::new()))
}

fn remedies(tad: &Tad, source: &Source) -> Vec<Advice> {
    let resources = source.resources(tad);
    // Few threads are no help while each lets many requests through as one.
    let batches = |id: &&StageId| resources.iter().any(|&used| as_one(tad, **id, used) > 1);
    let few = |id: &StageId| Remedy::SetBatch { stage: tad.stages[*id].name.clone(), most: 1 };
    let single: Vec<Remedy> = source.stages.iter().filter(batches).map(few).collect();
    if !single.is_empty() {
        return vec![Advice::direct(PROBLEM, &single)];
    }
    if let [one] = resources.as_slice() {
        return vec![Advice::direct(PROBLEM, &bounded(tad, source, servers(tad, *one)))];
    }
    let least = resources.iter().map(|&id| servers(tad, id)).min().unwrap_or(1);
    vec![
        Advice::direct(PROBLEM, &apart(tad, source)),
        Advice::indirect(PROBLEM, &bounded(tad, source, least)),
    ]
}

/// So many requests in service: by the number of threads, unless these also wait or others pull
/// from the same queue.
fn bounded(tad: &Tad, source: &Source, most: u32) -> Vec<Remedy> {
    let names: Vec<String> = source.stages.iter().map(|&id| tad.stages[id].name.clone()).collect();
    match (source.stages.as_slice(), source.shared) {
        (&[stage], None) if !holds(tad, stage) && tad.stages[stage].instances == 1 => {
            vec![Remedy::SetThreads { stage: names[0].clone(), threads: most }]
        }
        (_, shared) => {
            let own = || format!("{}-queue", names[0]);
            let name = shared.map_or_else(own, |queue| queue.name.clone());
            vec![Remedy::ShareScheduler { name, stages: names, concurrency: most }]
        }
    }
}

/// A stage and a queue for each resource, with as many requests in service as it has servers.
pub(super) fn apart(tad: &Tad, source: &Source) -> Vec<Remedy> {
    let mut remedies = Vec::new();
    let mixed = source.mixed(tad);
    for &stage in &mixed {
        let uses = limited(tad, stage);
        let Some((first, others)) = uses.split_first() else { continue };
        let name = &tad.stages[stage].name;
        // The last one first: what comes after the cut moves, too.
        for other in others.iter().rev() {
            let resource = &tad.resources[*other];
            remedies.push(Remedy::Split {
                stage: name.clone(),
                resource: resource.name.clone(),
                into: format!("{name}-{}", resource.name),
                threads: resource.parallelism.max(1),
            });
        }
        let few = servers(tad, *first);
        if source.shared.is_none() && !holds(tad, stage) && threads(tad, stage) > few {
            remedies.push(Remedy::SetThreads { stage: name.clone(), threads: few });
        }
    }
    if mixed.is_empty() {
        let shared = source.shared.map_or("queue", |queue| queue.name.as_str());
        for resource in source.resources(tad) {
            let users = source.stages.iter().filter(|&&id| uses(tad, id, resource));
            remedies.push(Remedy::ShareScheduler {
                name: format!("{shared}-{}", tad.resources[resource].name),
                stages: users.map(|&id| tad.stages[id].name.clone()).collect(),
                concurrency: servers(tad, resource),
            });
        }
    }
    remedies
}
