//! Blocking (section 4.2.4): threads of a bounded stage wait for a stage downstream, and not all
//! its requests take the same path. Once all threads wait, other requests find no thread, although
//! they would not wait, or not for that stage.

use super::advice::Advice;
use super::finding::{Finding, controls, finding};
use super::words::{join, plural};
use crate::model::{End, FlowKind, StageId, Tad, Threads};
use crate::remedy::{Problem, Remedy};
use std::collections::{BTreeMap, BTreeSet};

const PROBLEM: Problem = Problem::Blocking;

/// Sets of stages that requests wait for, with the names of these requests.
type Paths<'a> = BTreeMap<BTreeSet<StageId>, Vec<&'a str>>;

pub(super) fn find(tad: &Tad) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (id, stage) in tad.stages.iter().enumerate() {
        if stage.threads == Threads::OnDemand || stage.asynchronous {
            continue; // A waiting thread is missing for no request.
        }
        let paths = paths(tad, id);
        if several(tad, &paths) {
            findings.push(judge(tad, id, &paths));
        }
    }
    findings
}

/// Whether requests of a stage take several paths.
pub(super) fn has(tad: &Tad, id: StageId) -> bool {
    several(tad, &paths(tad, id))
}

/// The stages that requests of a stage wait for.
pub(super) fn downstream(tad: &Tad, id: StageId) -> BTreeSet<StageId> {
    paths(tad, id).keys().flatten().copied().collect()
}

fn several(tad: &Tad, paths: &Paths) -> bool {
    // Requests that wait for one of several instances do not all wait for the same one (section
    // 4.5.4).
    let parts = |waits: &BTreeSet<StageId>| waits.iter().any(|&to| tad.stages[to].instances > 1);
    paths.len() > 1 || paths.keys().any(parts)
}

/// From the requests; from the arrows if the stage has no request.
fn paths(tad: &Tad, id: StageId) -> Paths<'_> {
    let mut paths = Paths::new();
    for kind in &tad.requests {
        for step in kind.steps.iter().filter(|step| step.stage == id) {
            let waits = step.waits.iter().map(|&step| kind.steps[step].stage).collect();
            let names = paths.entry(waits).or_default();
            if !names.contains(&kind.name.as_str()) {
                names.push(&kind.name);
            }
        }
    }
    if paths.is_empty() {
        // Two dashed arrows are two paths.
        for flow in &tad.flows {
            if let (FlowKind::Blocking, End::Stage(from), End::Stage(to)) =
                (flow.kind, flow.from, flow.to)
                && from == id
            {
                paths.entry(BTreeSet::from([to])).or_default();
            }
        }
    }
    paths
}

fn judge(tad: &Tad, id: StageId, paths: &Paths) -> Finding {
    let stage = &tad.stages[id];
    let name = |&id: &StageId| tad.stages[id].name.clone();
    let described: Vec<String> = paths
        .iter()
        .rev()
        .map(|(waits, requests)| {
            let who = if requests.is_empty() { "some requests".to_owned() } else { join(requests) };
            let many = if requests.is_empty() { 2 } else { requests.len() };
            if waits.is_empty() {
                format!("{who} {} not wait", plural(many, "does", "do"))
            } else {
                let waits: Vec<String> = waits
                    .iter()
                    .map(|id| match tad.stages[*id].instances {
                        1 => name(id),
                        count => format!("one of {count} instances of {}", name(id)),
                    })
                    .collect();
                format!("{who} {} for {}", plural(many, "waits", "wait"), join(&waits))
            }
        })
        .collect();
    let threads = match stage.threads {
        Threads::Bounded(1) => "the one thread".to_owned(),
        Threads::Bounded(threads) => format!("all {threads} threads"),
        Threads::OnDemand => "the threads".to_owned(),
    };
    let reason = format!(
        "{threads} of {} may wait at the same time and leave none for the others: {}",
        stage.name,
        described.join("; ")
    );
    let downstream: BTreeSet<StageId> = paths.keys().flatten().copied().collect();
    let mut remedies =
        vec![Advice::direct(PROBLEM, &[Remedy::Unblock { stage: stage.name.clone() }])];
    let feedback: Vec<Remedy> = downstream
        .iter()
        .map(|downstream| Remedy::CongestionFeedback {
            stage: stage.name.clone(),
            downstream: name(downstream),
            backlog: 10,
            wrong_per_mille: 0,
        })
        .collect();
    remedies.push(Advice::indirect(PROBLEM, &feedback));
    remedies
        .push(Advice::indirect(PROBLEM, &[Remedy::ScheduleThreads { stage: stage.name.clone() }]));
    let mitigated = controls(tad, |control| match control {
        Remedy::ScheduleThreads { stage: at } => *at == stage.name,
        Remedy::CongestionFeedback { stage: at, downstream: to, .. } => {
            *at == stage.name && downstream.iter().any(|id| name(id) == *to)
        }
        _ => false,
    });
    finding(tad, PROBLEM, &[id], Vec::new(), reason, remedies, mitigated)
}
