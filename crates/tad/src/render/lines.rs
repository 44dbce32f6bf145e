//! Every line of the picture, and its direction of growth.
//!
//! The layout puts the tail of an edge left of its head. Answers and acknowledgements run against
//! requests, so edges in the direction of their arrows would stretch the picture into one long
//! chain, with processes torn apart. So all stages have one order: processes as the requests reach
//! them, and within them stages as the requests reach them. Every edge goes to the layout in that
//! order, and its arrow is drawn at the right end.

use super::text::one_line;
use super::words::{doubt, note};
use crate::model::{End, FlowKind, StageId, Tad};
use std::collections::VecDeque;

/// An end of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Anchor {
    Clients,
    /// Index of a control.
    Note(usize),
    /// Index of a shared queue.
    Shared(usize),
    Stage(StageId),
}

/// How a line looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    Data,
    Blocking,
    Information,
    /// A stage takes its requests from a shared queue.
    Pull,
}

/// A line of this kind in words, for screen readers.
pub(super) fn spoken(kind: Kind) -> &'static str {
    match kind {
        Kind::Data => "issues requests to",
        Kind::Blocking => "is awaited by",
        Kind::Information => "informs",
        Kind::Pull => "is the queue of",
    }
}

/// A line, in the direction of its arrow.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Line {
    pub kind: Kind,
    pub from: Anchor,
    pub to: Anchor,
    pub label: String,
    /// It goes to another machine of the same kind; the label stands for that machine.
    pub leaves: bool,
    /// The flow that it shows.
    pub flow: Option<usize>,
}

/// What a wire is tied to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Item {
    Anchor(Anchor),
    /// The label of the line of this index.
    Label(usize),
}

/// Where a wire meets an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Side {
    /// At the queue, where requests come in.
    Queue,
    /// On the left below the queue: lines that are not incoming requests.
    West,
    East,
}

/// A line, or its half up to or from its label. `tail` is left of `head`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Wire {
    pub line: usize,
    pub tail: Item,
    pub tail_side: Side,
    pub head: Item,
    pub head_side: Side,
    /// The arrow points from tail to head.
    pub forward: bool,
    /// The arrow's head is at an end of this half.
    pub arrow: bool,
}

/// The lines of a system: flows, then pulls of stages, then what controls observe and set.
pub(super) fn lines(tad: &Tad) -> Vec<Line> {
    let anchor = |end: End| match end {
        End::Clients => Anchor::Clients,
        End::Stage(stage) => Anchor::Stage(stage),
    };
    let mut lines: Vec<Line> = Vec::new();
    for (index, flow) in tad.flows.iter().enumerate() {
        let (from, to) = (anchor(flow.from), anchor(flow.to));
        let leaves = match (flow.from, flow.to) {
            (End::Stage(a), End::Stage(b)) => flow.remote && tad.node_of(a) == tad.node_of(b),
            _ => false,
        };
        let label = one_line(&flow.label) + doubt(flow.confidence);
        let (kind, from, to) = match flow.kind {
            FlowKind::Data => (Kind::Data, from, to),
            FlowKind::Information => (Kind::Information, from, to),
            // A flow names the blocked stage first; the picture points at it.
            FlowKind::Blocking => (Kind::Blocking, to, from),
        };
        lines.push(Line { kind, from, to, label, leaves, flow: Some(index) });
    }
    let mut add = |kind, from, to| {
        lines.push(Line { kind, from, to, label: String::new(), leaves: false, flow: None });
    };
    for (index, shared) in tad.shared_queues.iter().enumerate() {
        for stage in &shared.stages {
            add(Kind::Pull, Anchor::Shared(index), Anchor::Stage(*stage));
        }
    }
    for (index, control) in tad.controls.iter().enumerate() {
        let note = note(control);
        let stages = |names: &[String]| -> Vec<StageId> {
            names.iter().filter_map(|name| tad.stage(name)).collect()
        };
        for stage in stages(&note.observes) {
            add(Kind::Information, Anchor::Stage(stage), Anchor::Note(index));
        }
        for stage in stages(&note.sets) {
            add(Kind::Information, Anchor::Note(index), Anchor::Stage(stage));
        }
    }
    lines
}

/// The position of every stage in the order of growth: smaller is further left.
fn order(tad: &Tad) -> Vec<(usize, usize, StageId)> {
    const UNREACHED: usize = usize::MAX;
    let mut level = vec![UNREACHED; tad.stages.len()];
    let mut process_rank = vec![UNREACHED; tad.processes.len()];
    let mut ranked = 0;
    // Stages that no request reaches start their own search, in the order of the file.
    let entries = std::iter::once(End::Clients).chain((0..tad.stages.len()).map(End::Stage));
    for entry in entries {
        let mut queue = VecDeque::from([(entry, 0)]);
        while let Some((end, depth)) = queue.pop_front() {
            if let End::Stage(stage) = end {
                if level[stage] != UNREACHED {
                    continue;
                }
                level[stage] = depth;
                let rank = &mut process_rank[tad.stages[stage].process];
                if *rank == UNREACHED {
                    *rank = ranked;
                    ranked += 1;
                }
            }
            for flow in tad.flows.iter().filter(|flow| flow.kind == FlowKind::Data) {
                if flow.from == end && flow.to != End::Clients {
                    queue.push_back((flow.to, depth + 1));
                }
            }
        }
    }
    let key = |stage: StageId| (process_rank[tad.stages[stage].process], level[stage], stage);
    (0..tad.stages.len()).map(key).collect()
}

/// The lines for the layout: cut in two at their labels, and from left to right.
pub(super) fn wires(tad: &Tad, lines: &[Line]) -> Vec<Wire> {
    let order = order(tad);
    let left_of = |a: Anchor, b: Anchor| match (a, b) {
        (Anchor::Stage(a), Anchor::Stage(b)) => order[a] < order[b],
        _ => a < b,
    };
    let mut wires = Vec::new();
    for (line_index, line) in lines.iter().enumerate() {
        let label = Item::Label(line_index);
        let wire = |tail, tail_side, head, head_side, forward, arrow| Wire {
            line: line_index,
            tail,
            tail_side,
            head,
            head_side,
            forward,
            arrow,
        };
        let (from, to) = (Item::Anchor(line.from), Item::Anchor(line.to));
        if line.from == line.to {
            // Out on the right and back: a loop around its label.
            wires.push(wire(from, Side::East, label, Side::West, true, false));
            wires.push(wire(to, Side::East, label, Side::West, false, true));
            continue;
        }
        let forward = left_of(line.from, line.to);
        let (left, right) = if forward { (from, to) } else { (to, from) };
        let arrives = if forward && line.kind == Kind::Data { Side::Queue } else { Side::West };
        if line.label.is_empty() && !line.leaves {
            wires.push(wire(left, Side::East, right, arrives, forward, true));
        } else {
            wires.push(wire(left, Side::East, label, Side::West, forward, !forward));
            wires.push(wire(label, Side::East, right, arrives, forward, forward));
        }
    }
    wires
}
