//! Shrinks a failing system, as a property test shrinks its input. It drops or simplifies one thing
//! and keeps the change if the system still fails, until no cut works.

use super::case::Case;
use crate::model::{RequestType, Tad, Threads};
use crate::scenario::Arrivals;

/// A change that makes a case smaller; `None` if it does not apply.
type Cut = Box<dyn Fn(&Case) -> Option<Case>>;

/// The smallest failing case that single cuts reach.
pub(super) fn shrink(mut case: Case, fails: impl Fn(&Case) -> bool) -> Case {
    loop {
        let smaller = cuts(&case).into_iter().find_map(|cut| {
            let mut smaller = cut(&case)?;
            compact(&mut smaller);
            (smaller != case && fails(&smaller)).then_some(smaller)
        });
        match smaller {
            Some(smaller) => case = smaller,
            None => return case,
        }
    }
}

/// All cuts, the largest first.
fn cuts(case: &Case) -> Vec<Cut> {
    let mut cuts: Vec<Cut> = Vec::new();
    cuts.push(Box::new(one_request));
    for request in 0..case.tad.requests.len() {
        cuts.push(Box::new(move |case| without_first(case, request)));
        for step in 1..case.tad.requests[request].steps.len() {
            cuts.push(Box::new(move |case| without_leaf(case, request, step)));
        }
    }
    for node in 0..case.tad.nodes.len() {
        cuts.push(edit(move |tad| tad.nodes[node].count = 1));
    }
    for queue in 0..case.tad.shared_queues.len() {
        cuts.push(edit(move |tad| drop(tad.shared_queues.remove(queue))));
    }
    for request in 0..case.tad.requests.len() {
        for step in 0..case.tad.requests[request].steps.len() {
            for at in 0..case.tad.requests[request].steps[step].uses.len() {
                cuts.push(edit(move |tad| {
                    let _gone = tad.requests[request].steps[step].uses.remove(at);
                }));
            }
            cuts.push(edit(move |tad| {
                let step = &mut tad.requests[request].steps[step];
                let submits = std::mem::take(&mut step.submits);
                step.waits.clear();
                step.then.extend(submits);
            }));
        }
    }
    for stage in 0..case.tad.stages.len() {
        cuts.push(edit(move |tad| tad.stages[stage].asynchronous = false));
        cuts.push(edit(move |tad| tad.stages[stage].batch = None));
        for fewer in [|_| 1, |threads: u32| (threads / 2).max(1)] {
            cuts.push(edit(move |tad| {
                if let Threads::Bounded(threads) = &mut tad.stages[stage].threads {
                    *threads = fewer(*threads);
                }
            }));
        }
    }
    for resource in 0..case.tad.resources.len() {
        cuts.push(edit(move |tad| tad.resources[resource].parallelism = 1));
    }
    for fewer in [|_| 1, |threads: u32| (threads / 2).max(1)] {
        cuts.push(Box::new(move |case: &Case| {
            let mut smaller = case.clone();
            for load in smaller.base.clients.iter_mut().flat_map(|client| &mut client.loads) {
                if let Arrivals::Closed { threads, .. } = &mut load.arrivals {
                    *threads = fewer(*threads);
                }
            }
            Some(smaller)
        }));
    }
    cuts
}

fn edit(change: impl Fn(&mut Tad) + 'static) -> Cut {
    Box::new(move |case| {
        let mut smaller = case.clone();
        change(&mut smaller.tad);
        Some(smaller)
    })
}

/// C2 issues what C1 issues.
fn one_request(case: &Case) -> Option<Case> {
    let first = &case.base.clients[0].loads[0];
    if case.base.clients[1].loads[0].request == first.request {
        return None;
    }
    let mut smaller = case.clone();
    smaller.base.clients[1].loads[0] = first.clone();
    Some(smaller)
}

/// Drops the first step, if a single one follows it.
fn without_first(case: &Case, request: usize) -> Option<Case> {
    let first = &case.tad.requests[request].steps[0];
    let followers = first.submits.len() + first.then.len();
    if followers != 1 || case.tad.requests[request].first != 0 {
        return None;
    }
    let next = first.submits.iter().chain(&first.then).copied().next()?;
    let mut smaller = case.clone();
    let kind = &mut smaller.tad.requests[request];
    remove_step(kind, 0);
    kind.first = next - 1;
    // Files begin with the first step; so do later cuts.
    (kind.first == 0).then_some(smaller)
}

/// Drops a step without successors.
fn without_leaf(case: &Case, request: usize, step: usize) -> Option<Case> {
    let kind = &case.tad.requests[request];
    if !kind.steps[step].submits.is_empty() || !kind.steps[step].then.is_empty() {
        return None;
    }
    let mut smaller = case.clone();
    remove_step(&mut smaller.tad.requests[request], step);
    Some(smaller)
}

fn remove_step(kind: &mut RequestType, gone: usize) {
    kind.steps.remove(gone);
    let renumber = |steps: &mut Vec<usize>| {
        steps.retain(|&step| step != gone);
        steps.iter_mut().filter(|step| **step > gone).for_each(|step| *step -= 1);
    };
    for step in &mut kind.steps {
        renumber(&mut step.submits);
        renumber(&mut step.waits);
        renumber(&mut step.then);
    }
    renumber(&mut kind.answered_by);
}

/// Removes unused requests, stages, resources, machines and parameters.
pub(super) fn compact(case: &mut Case) {
    let Case { tad, base, .. } = case;
    let loads = || base.clients.iter().flat_map(|client| &client.loads);
    let requests = keep(&mut tad.requests, |id, _| loads().any(|load| load.request == id));
    for load in base.clients.iter_mut().flat_map(|client| &mut client.loads) {
        load.request = requests[load.request];
    }
    for id in 0..tad.requests.len() {
        let kind = &mut tad.requests[id];
        let used = |parameter: usize| {
            let uses = kind.steps.iter().flat_map(|step| step.uses.iter().chain(&step.uses_after));
            uses.into_iter().any(|each| each.amount.parameter() == Some(parameter))
        };
        let used: Vec<bool> = (0..kind.parameters.len()).map(used).collect();
        let parameters = keep(&mut kind.parameters, |id, _| used[id]);
        for step in &mut kind.steps {
            for each in step.uses.iter_mut().chain(&mut step.uses_after) {
                if let Some(index) = each.amount.parameter_mut() {
                    *index = parameters[*index];
                }
            }
        }
        for load in base.clients.iter_mut().flat_map(|client| &mut client.loads) {
            if load.request == id {
                keep(&mut load.parameters, |id, _| used[id]);
            }
        }
    }
    compact_system(tad);
}

fn compact_system(tad: &mut Tad) {
    let used: Vec<usize> =
        tad.requests.iter().flat_map(|kind| &kind.steps).map(|step| step.stage).collect();
    let named = |name: &&str| used.iter().any(|&stage| tad.stages[stage].name == **name);
    tad.controls.retain(|control| crate::fix::stages(control).iter().all(named));
    let steps = || tad.requests.iter().flat_map(|kind| &kind.steps);
    let stages = keep(&mut tad.stages, |id, _| steps().any(|step| step.stage == id));
    for step in tad.requests.iter_mut().flat_map(|kind| &mut kind.steps) {
        step.stage = stages[step.stage];
    }
    for queue in &mut tad.shared_queues {
        queue.stages.retain(|&stage| stages[stage] != GONE);
        queue.stages.iter_mut().for_each(|stage| *stage = stages[*stage]);
    }
    tad.shared_queues.retain(|queue| queue.stages.len() > 1);
    for (id, stage) in tad.stages.iter_mut().enumerate() {
        let steps = tad.requests.iter().flat_map(|kind| &kind.steps);
        let steps: Vec<_> = steps.filter(|step| step.stage == id).collect();
        stage.uses.retain(|each| {
            steps.iter().any(|step| {
                step.uses.iter().chain(&step.uses_after).any(|used| used.resource == each.resource)
            })
        });
    }
    let processes = keep(&mut tad.processes, |id, _| tad.stages.iter().any(|s| s.process == id));
    for stage in &mut tad.stages {
        stage.process = processes[stage.process];
    }
    let nodes = keep(&mut tad.nodes, |id, _| tad.processes.iter().any(|p| p.node == id));
    for process in &mut tad.processes {
        process.node = nodes[process.node];
    }
    let resources = keep(&mut tad.resources, |id, _| {
        tad.stages.iter().any(|stage| stage.uses.iter().any(|each| each.resource == id))
    });
    for resource in &mut tad.resources {
        resource.node = nodes[resource.node];
    }
    for stage in &mut tad.stages {
        stage.uses.iter_mut().for_each(|each| each.resource = resources[each.resource]);
        if let Some(batch) = &mut stage.batch {
            batch.once.iter_mut().for_each(|each| *each = resources[*each]);
            batch.once.retain(|once| stage.uses.iter().any(|each| each.resource == *once));
        }
    }
    for step in tad.requests.iter_mut().flat_map(|kind| &mut kind.steps) {
        for each in step.uses.iter_mut().chain(&mut step.uses_after) {
            each.resource = resources[each.resource];
        }
    }
}

/// The number of a removed entry.
const GONE: usize = usize::MAX;

/// Keeps some entries of a list. Returns the new number of each.
fn keep<T>(list: &mut Vec<T>, wanted: impl Fn(usize, &T) -> bool) -> Vec<usize> {
    let mut numbers = Vec::with_capacity(list.len());
    let mut kept = 0;
    let mut id = 0;
    list.retain(|item| {
        let stays = wanted(id, item);
        numbers.push(if stays { kept } else { GONE });
        kept += usize::from(stays);
        id += 1;
        stays
    });
    numbers
}
