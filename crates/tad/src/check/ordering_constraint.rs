//! Ordering constraint (section 4.2.5): a queue must be served in order of arrival (the lock
//! symbol), whatever the policy wants.

use super::advice::Advice;
use super::finding::{Finding, controls, finding};
use crate::graph::{self, Needs};
use crate::model::{StageId, Tad, Threads};
use crate::remedy::{Problem, Remedy};

const PROBLEM: Problem = Problem::OrderingConstraint;

pub(super) fn find(tad: &Tad) -> Vec<Finding> {
    let ordered = tad.stages.iter().enumerate().filter(|(_, stage)| {
        stage.threads != Threads::OnDemand && stage.queue.ordered && !stage.queue.ordered_per_client
    });
    ordered.map(|(id, _)| judge(tad, id)).collect()
}

fn judge(tad: &Tad, id: StageId) -> Finding {
    let stage = &tad.stages[id];
    let next = graph::successors(tad);
    let upstream = (0..tad.stages.len()).find(|&other| {
        other != id && next[other].contains(&id) && tad.stages[other].threads != Threads::OnDemand
    });
    let reason = format!(
        "{} must serve all clients in the order in which their requests came{}: a request that got in first cannot be overtaken by a more important one",
        stage.name,
        upstream.map_or_else(String::new, |up| format!(" from {}", tad.stages[up].name)),
    );
    let mut remedies =
        vec![Advice::direct(PROBLEM, &[Remedy::SeparateStreams { stage: stage.name.clone() }])];
    if let Some(up) = upstream {
        let bound = Remedy::BoundDownstream {
            stage: tad.stages[up].name.clone(),
            downstream: stage.name.clone(),
            limit: 10,
        };
        remedies.push(Advice::indirect(PROBLEM, &[bound]));
    }
    let mitigated = controls(tad, |control| match control {
        Remedy::BoundDownstream { downstream, .. } => *downstream == stage.name,
        // Threads that wait until the ordered stage is done bound its queue. A scheduler of these
        // threads decides which requests are in it (section 4.3.5).
        Remedy::ScheduleThreads { stage: at } => {
            tad.stage(at).is_some_and(|holder| bounds(tad, holder, id))
        }
        _ => false,
    });
    finding(tad, PROBLEM, &[id], Vec::new(), reason, remedies, mitigated)
}

/// Whether every request at `ordered` holds a thread of `holder` meanwhile.
fn bounds(tad: &Tad, holder: StageId, ordered: StageId) -> bool {
    let mut through = (0..tad.requests.len())
        .filter(|&request| tad.requests[request].steps.iter().any(|step| step.stage == ordered))
        .peekable();
    through.peek().is_some()
        && through.all(|request| Needs::of(tad, request).contains(holder, ordered))
}
