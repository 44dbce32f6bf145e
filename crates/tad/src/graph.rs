//! The order of events within a request and between pools of threads.
//!
//! Each step has two events: it *starts* (a thread of its stage takes it) and it is *done*. A step
//! is done after its start, and after all steps that it waits for are done. It starts after the
//! step that submits it has started (`submits`) or is done (`then`). A cycle of such events never
//! happens.
//!
//! A thread of a bounded, synchronous stage is held from start to done. If the request meanwhile
//! needs a thread of another such stage, it needs that one *while holding* the first. A cycle of
//! such needs is a deadlock once there are enough requests.

use crate::model::{End, FlowKind, RequestId, RequestType, StageId, StepId, Tad, Threads};
use std::collections::BTreeSet;

/// Whether a thread of the stage is held while its request waits.
fn holds(tad: &Tad, stage: StageId) -> bool {
    let stage = &tad.stages[stage];
    matches!(stage.threads, Threads::Bounded(_)) && !stage.asynchronous
}

/// The submitter of each step, and whether it submits at its end. Every step but the first has
/// exactly one.
fn submitters(kind: &RequestType) -> Vec<Option<(StepId, bool)>> {
    let mut of = vec![None; kind.steps.len()];
    for (id, step) in kind.steps.iter().enumerate() {
        for &next in &step.submits {
            of[next] = Some((id, false));
        }
        for &next in &step.then {
            of[next] = Some((id, true));
        }
    }
    of
}

/// Events are numbered: `2 * step` is its start, `2 * step + 1` its end.
fn before(kind: &RequestType) -> Vec<Vec<usize>> {
    let submitters = submitters(kind);
    let mut before = Vec::with_capacity(2 * kind.steps.len());
    for (id, step) in kind.steps.iter().enumerate() {
        before.push(match submitters[id] {
            Some((by, at_end)) => vec![2 * by + usize::from(at_end)],
            None => Vec::new(),
        });
        let mut end = vec![2 * id];
        end.extend(step.waits.iter().map(|&step| 2 * step + 1));
        before.push(end);
    }
    before
}

/// Steps of a request that wait for one another, if any.
pub(crate) fn request_cycle(kind: &RequestType) -> Option<Vec<StepId>> {
    let cycle = cycle(&before(kind))?;
    let mut steps: Vec<StepId> = cycle.into_iter().map(|event| event / 2).collect();
    steps.dedup();
    if steps.len() > 1 && steps.first() == steps.last() {
        steps.pop();
    }
    Some(steps)
}

/// Which stages' threads a request needs while it holds a thread of another.
#[derive(Debug)]
pub(crate) struct Needs(BTreeSet<(StageId, StageId)>);

impl Needs {
    /// Whether a thread of `holder` is held while one of `needed` is needed.
    pub fn contains(&self, holder: StageId, needed: StageId) -> bool {
        self.0.contains(&(holder, needed))
    }

    /// The needs of a request without a cycle.
    pub fn of(tad: &Tad, request: RequestId) -> Needs {
        let kind = &tad.requests[request];
        let before = before(kind);
        let mut needs = BTreeSet::new();
        for (id, step) in kind.steps.iter().enumerate() {
            if step.waits.is_empty() || !holds(tad, step.stage) {
                continue;
            }
            // Steps before its start have their threads already.
            let mut seen = reach(&before, vec![2 * id], BTreeSet::new());
            let started = seen.clone();
            seen = reach(&before, step.waits.iter().map(|&w| 2 * w + 1).collect(), seen);
            for event in seen.difference(&started).filter(|&event| event % 2 == 0) {
                let stage = kind.steps[event / 2].stage;
                if holds(tad, stage) {
                    needs.insert((step.stage, stage));
                }
            }
        }
        Needs(needs)
    }
}

/// All events that lead to these, and those already seen.
fn reach(
    before: &[Vec<usize>],
    mut todo: Vec<usize>,
    mut seen: BTreeSet<usize>,
) -> BTreeSet<usize> {
    while let Some(event) = todo.pop() {
        if seen.insert(event) {
            todo.extend(&before[event]);
        }
    }
    seen
}

/// Stages that hold threads while they need one another's, if any.
pub(crate) fn pool_cycle(tad: &Tad, needs: &[Needs]) -> Option<Vec<StageId>> {
    let mut next = vec![Vec::new(); tad.stages.len()];
    for &(from, to) in needs.iter().flat_map(|needs| &needs.0) {
        next[from].push(to);
    }
    cycle(&next)
}

/// A cycle in a graph. Without recursion, as a file's path may be of any length.
fn cycle(next: &[Vec<usize>]) -> Option<Vec<usize>> {
    #[derive(Clone, Copy, PartialEq)]
    enum Seen {
        No,
        OnPath,
        Yes,
    }
    let mut seen = vec![Seen::No; next.len()];
    for root in 0..next.len() {
        if seen[root] != Seen::No {
            continue;
        }
        let mut path = vec![(root, 0)];
        seen[root] = Seen::OnPath;
        while let Some((node, turn)) = path.last_mut() {
            let Some(&to) = next[*node].get(*turn) else {
                seen[*node] = Seen::Yes;
                path.pop();
                continue;
            };
            *turn += 1;
            match seen[to] {
                Seen::OnPath => {
                    let start = path.iter().position(|(node, _)| *node == to).unwrap_or(0);
                    return Some(path[start..].iter().map(|(node, _)| *node).collect());
                }
                Seen::No => {
                    seen[to] = Seen::OnPath;
                    path.push((to, 0));
                }
                Seen::Yes => {}
            }
        }
    }
    None
}

/// Stages that a stage passes requests to: its data flows, and the successors of its steps.
pub(crate) fn successors(tad: &Tad) -> Vec<BTreeSet<StageId>> {
    let mut next = vec![BTreeSet::new(); tad.stages.len()];
    for flow in &tad.flows {
        if let (FlowKind::Data, End::Stage(from), End::Stage(to)) = (flow.kind, flow.from, flow.to)
        {
            next[from].insert(to);
        }
    }
    for kind in &tad.requests {
        for step in &kind.steps {
            let steps = step.submits.iter().chain(&step.then);
            next[step.stage].extend(steps.map(|&step| kind.steps[step].stage));
        }
    }
    next
}

/// Stages where requests enter.
pub(crate) fn entries(tad: &Tad) -> BTreeSet<StageId> {
    let flows = tad.flows.iter().filter_map(|flow| match (flow.kind, flow.from, flow.to) {
        (FlowKind::Data, End::Clients, End::Stage(to)) => Some(to),
        _ => None,
    });
    flows.chain(tad.requests.iter().map(|kind| kind.steps[kind.first].stage)).collect()
}

/// Stages that requests reach from these, including these, without passing `closed` ones.
pub(crate) fn downstream(
    next: &[BTreeSet<StageId>],
    from: impl IntoIterator<Item = StageId>,
    closed: &BTreeSet<StageId>,
) -> BTreeSet<StageId> {
    let mut todo: Vec<StageId> = from.into_iter().collect();
    let mut seen = BTreeSet::new();
    while let Some(stage) = todo.pop() {
        if !closed.contains(&stage) && seen.insert(stage) {
            todo.extend(&next[stage]);
        }
    }
    seen
}
