//! Arrows and steps that contradict each other: an arrow that no step takes, a step without its
//! arrow, and waits that are drawn or taken alone. These are warnings: a diagram may show more than
//! its requests do.
//!
//! A stage of which no step is described says nothing, and neither does a system without arrows.
//! What a program recorded and is not certain is left alone.

use super::error::{Report, Span};
use super::marks::Marks;
use crate::model::{Confidence, End, FlowKind, StageId, Tad, Threads};
use std::collections::BTreeSet;

/// Pairs of ends, by what leads from one to the other.
#[derive(Debug, Default)]
struct Taken {
    data: BTreeSet<(End, End)>,
    waits: BTreeSet<(End, End)>,
    back: BTreeSet<(End, End)>,
}

/// Warns of all of it.
pub(super) fn check(tad: &Tad, marks: &Marks, report: &mut Report) {
    if tad.flows.is_empty() || tad.requests.is_empty() {
        return;
    }
    let taken = taken(tad);
    let described: BTreeSet<StageId> =
        tad.requests.iter().flat_map(|kind| &kind.steps).map(|step| step.stage).collect();
    let known = |end: End| match end {
        End::Clients => true,
        End::Stage(stage) => described.contains(&stage),
    };
    for (flow, at) in tad.flows.iter().zip(&marks.flows) {
        let certain = flow.confidence == Confidence::Certain;
        if !certain || !known(flow.from) || !known(flow.to) {
            continue;
        }
        let (from, to) = (name(tad, flow.from), name(tad, flow.to));
        let ends = (flow.from, flow.to);
        match flow.kind {
            FlowKind::Data if !taken.data.contains(&ends) && !taken.back.contains(&ends) => report
                .warn(
                    at,
                    format!("an arrow leads from {from} to {to}, and no step takes it"),
                    "Remove the arrow, or describe a request that goes this way.",
                ),
            FlowKind::Blocking if !taken.waits.contains(&ends) => report.warn(
                at,
                format!(
                    "{from} is drawn as blocked by {to}, and none of its steps waits for one there"
                ),
                "Remove the arrow, or name the step in `waits` or `calls`.",
            ),
            _ => {}
        }
    }
    let drawn = |kind: FlowKind, ends: &(End, End)| {
        tad.flows.iter().any(|flow| flow.kind == kind && (flow.from, flow.to) == *ends)
    };
    // Answers need not be drawn, nor what goes to the same stage of another node.
    let onward = taken.data.iter().filter(|ends| ends.1 != End::Clients && ends.0 != ends.1);
    for ends in onward.filter(|ends| !drawn(FlowKind::Data, ends)) {
        report.warn(
            &place(marks, ends),
            format!(
                "a request goes from {} to {}, and no arrow of kind \"data\" shows it",
                name(tad, ends.0),
                name(tad, ends.1)
            ),
            "Add the [[flow]].",
        );
    }
    for ends in taken.waits.iter().filter(|ends| !drawn(FlowKind::Blocking, ends)) {
        // Only a thread of a pool is missed while it waits.
        let held = matches!(ends.0, End::Stage(stage)
            if tad.stages[stage].threads != Threads::OnDemand && !tad.stages[stage].asynchronous);
        if held {
            report.warn(
                &place(marks, ends),
                format!(
                    "threads of {} wait for {}, and no arrow of kind \"blocking\" shows it",
                    name(tad, ends.0),
                    name(tad, ends.1)
                ),
                "Add the [[flow]] with `kind = \"blocking\"`.",
            );
        }
    }
}

fn taken(tad: &Tad) -> Taken {
    let mut taken = Taken::default();
    for kind in &tad.requests {
        taken.data.insert((End::Clients, End::Stage(kind.steps[kind.first].stage)));
        for &answer in &kind.answered_by {
            taken.data.insert((End::Stage(kind.steps[answer].stage), End::Clients));
        }
        for step in &kind.steps {
            let here = End::Stage(step.stage);
            let there = |&step: &usize| (here, End::Stage(kind.steps[step].stage));
            taken.data.extend(step.submits.iter().chain(&step.then).map(there));
            taken.waits.extend(step.waits.iter().map(there));
            // What is waited for may come back by an arrow of requests, as an acknowledgement does.
            let back = |&step: &usize| (End::Stage(kind.steps[step].stage), here);
            taken.back.extend(step.waits.iter().map(back));
        }
    }
    taken
}

fn name(tad: &Tad, end: End) -> String {
    match end {
        End::Clients => "the clients".to_owned(),
        End::Stage(stage) => format!("stage \"{}\"", tad.stages[stage].name),
    }
}

/// Where the first stage of a pair is.
fn place(marks: &Marks, (from, to): &(End, End)) -> Span {
    match (from, to) {
        (End::Stage(stage), _) | (End::Clients, End::Stage(stage)) => marks.stages[*stage].clone(),
        _ => 0..0,
    }
}
