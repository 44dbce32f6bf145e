//! Held threads: a thread of a bounded stage is held for longer than its queue accounts for. Either
//! all requests of the stage wait for the same stages, so that it is no blocking problem, or they
//! use several resources one after the other. Clients whose requests hold threads for longer get
//! more of them, and the others fall to their rate.
//!
//! Found by the search of `complete`. Section 4.2.4 asks for different paths, and so dismisses Mem
//! Flush and LOG Sync of HBase.

use super::advice::Advice;
use super::finding::{Finding, controls, finding};
use super::queues::{Source, holds, sources};
use super::words::join;
use super::{blocking, surplus_threads};
use crate::model::{ResourceId, StageId, Tad};
use crate::remedy::{Problem, Remedy};

const PROBLEM: Problem = Problem::HeldThreads;

pub(super) fn find(tad: &Tad) -> Vec<Finding> {
    let waiting = (0..tad.stages.len()).filter(|&id| holds(tad, id) && !blocking::has(tad, id));
    let mut findings: Vec<Finding> = waiting.map(|id| over_a_wait(tad, id)).collect();
    findings.extend(sources(tad).iter().filter_map(|source| over_resources(tad, source)));
    findings
}

fn over_a_wait(tad: &Tad, id: StageId) -> Finding {
    let name = tad.stages[id].name.clone();
    let on = blocking::downstream(tad, id);
    let on: Vec<&str> = on.iter().map(|&id| tad.stages[id].name.as_str()).collect();
    let reason = format!(
        "threads of {name} are held while their requests wait for {}, some for longer than others, and its queue knows only what they use: a client whose requests wait for long holds most of the threads",
        join(&on),
    );
    let remedies = vec![
        Advice::direct(PROBLEM, &[Remedy::Unblock { stage: name.clone() }]),
        Advice::indirect(PROBLEM, &[Remedy::ScheduleThreads { stage: name.clone() }]),
    ];
    let mitigated = controls(tad, |control| match control {
        Remedy::ScheduleThreads { stage } => *stage == name,
        Remedy::CongestionFeedback { stage, downstream, .. } => {
            *stage == name && on.contains(&downstream.as_str())
        }
        _ => false,
    });
    finding(tad, PROBLEM, &[id], Vec::new(), reason, remedies, mitigated)
}

/// Threads, or places in a shared queue, are fewer than what they could keep busy, so that they are
/// what clients contend for.
fn over_resources(tad: &Tad, source: &Source) -> Option<Finding> {
    let resources = source.resources(tad);
    if resources.len() < 2 || source.surplus(tad) {
        return None; // With more threads than servers, the resources are what is scarce.
    }
    let mixed = source.mixed(tad);
    let servers: u32 = resources.iter().map(|&id| tad.resources[id].parallelism.max(1)).sum();
    let scarce = source.shared.is_some_and(|queue| queue.concurrency < servers);
    if mixed.is_empty() && !scarce {
        return None;
    }
    let stages = if mixed.is_empty() { source.stages.clone() } else { mixed };
    let names: Vec<String> = stages.iter().map(|&id| tad.stages[id].name.clone()).collect();
    let used: Vec<String> =
        resources.iter().map(|&id: &ResourceId| tad.resources[id].name.clone()).collect();
    let reason = format!(
        "requests of {} keep a thread while they use {} one after the other: the thread is what is scarce, and its queue counts only what they use most",
        join(&names),
        join(&used),
    );
    let schedule: Vec<Remedy> =
        names.iter().map(|name| Remedy::ScheduleThreads { stage: name.clone() }).collect();
    let remedies = vec![
        Advice::direct(PROBLEM, &surplus_threads::apart(tad, source)),
        Advice::indirect(PROBLEM, &schedule),
    ];
    let scheduled = |stage: &String| {
        let this = Remedy::ScheduleThreads { stage: stage.clone() };
        tad.controls.contains(&this)
    };
    let mitigated = if names.iter().all(scheduled) {
        controls(
            tad,
            |control| matches!(control, Remedy::ScheduleThreads { stage } if names.contains(stage)),
        )
    } else {
        Vec::new()
    };
    Some(finding(tad, PROBLEM, &stages, used, reason, remedies, mitigated))
}
