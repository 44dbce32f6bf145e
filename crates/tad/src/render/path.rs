//! The path of a request: the order of its stages, and its flows.

use crate::model::{End, Flow, FlowKind, RequestId, StageId, Tad};
use std::collections::{BTreeMap, BTreeSet};

/// The path of a request type.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Path {
    /// The request type's name.
    pub name: String,
    /// For each stage on the path, the numbers of its steps. Steps are numbered from 1, each before
    /// those that it submits.
    pub steps: BTreeMap<StageId, Vec<usize>>,
    /// Indices of the flows that it takes.
    pub flows: BTreeSet<usize>,
}

/// The path of a request type.
pub(super) fn path(tad: &Tad, request: RequestId) -> Path {
    let request = &tad.requests[request];
    let mut path = Path { name: request.name.clone(), ..Path::default() };
    let steps = &request.steps;
    let mut visited = vec![false; steps.len()];
    // The step submitted first gets the lower number: a stack takes them in reverse.
    let mut stack = vec![(request.first, End::Clients)];
    let mut number = 0;
    while let Some((index, submitter)) = stack.pop() {
        let Some(step) = steps.get(index) else { continue };
        take(tad, &mut path.flows, FlowKind::Data, submitter, End::Stage(step.stage), &step.name);
        if std::mem::replace(&mut visited[index], true) {
            continue;
        }
        number += 1;
        path.steps.entry(step.stage).or_default().push(number);
        let here = End::Stage(step.stage);
        for awaited in step.waits.iter().filter_map(|index| steps.get(*index)) {
            let there = End::Stage(awaited.stage);
            take(tad, &mut path.flows, FlowKind::Blocking, here, there, &awaited.name);
        }
        let next = step.submits.iter().chain(&step.then);
        stack.extend(next.rev().map(|index| (*index, here)));
    }
    for step in request.answered_by.iter().filter_map(|index| steps.get(*index)) {
        let answers = End::Stage(step.stage);
        take(tad, &mut path.flows, FlowKind::Data, answers, End::Clients, &step.name);
    }
    path
}

/// Takes the flows between two ends: the one labelled like the step if there is one, otherwise all
/// of them, as they cannot be distinguished.
fn take(tad: &Tad, taken: &mut BTreeSet<usize>, kind: FlowKind, from: End, to: End, step: &str) {
    let fits = |flow: &Flow| flow.kind == kind && flow.from == from && flow.to == to;
    let between: Vec<usize> = (0..tad.flows.len()).filter(|i| fits(&tad.flows[*i])).collect();
    let named = between.iter().find(|index| tad.flows[**index].label == step);
    match named {
        Some(index) => {
            taken.insert(*index);
        }
        None => taken.extend(between),
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixtures;
    use super::*;

    #[test]
    fn steps_are_numbered_as_they_are_submitted() {
        let tad = fixtures::small();
        let path = path(&tad, 0);
        // Client -> reader (1) -> handler (2) -> reader again for the answer (3).
        assert_eq!(path.steps[&0], [1, 3]);
        assert_eq!(path.steps[&1], [2]);
    }

    #[test]
    fn flows_are_taken_in_the_direction_of_the_request() {
        let tad = fixtures::small();
        let labels: Vec<&str> =
            path(&tad, 0).flows.iter().map(|index| tad.flows[*index].label.as_str()).collect();
        assert!(labels.contains(&"1") && labels.contains(&"2"), "{labels:?}");
    }
}
