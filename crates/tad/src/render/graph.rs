//! The graph for `dot`, and its answer in terms of the system.
//!
//! Names never go to `dot`: stages are called `s0`, `s1`, … and texts are boxes of their size. So
//! no name needs escaping, and the fonts of `dot` do not matter.
//!
//! A stage is a table of empty cells, so that lines meet its queue or its box, and not the symbols
//! above and below. A label is a node in the middle of its line. Lines run around nodes, so nothing
//! crosses a label, and its line is clear.

use super::cells::{cell, cells, row, table};
use super::dot::{Positions, deadline, positions};
use super::error::RenderError;
use super::grow::grown;
use super::items::{items, name, size};
use super::lines::{Anchor, Item, Kind, Line, Side, Wire, wires};
use super::score::{Track, score};
use super::shape::Shapes;
use super::svg::{Point, Rect};
use super::text::{one_line, width};
use crate::model::{ProcessId, StageId, Tad};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Instant;

/// The layout: positions of everything that `dot` has placed.
#[derive(Debug, PartialEq)]
pub(super) struct Layout {
    pub width: f64,
    pub height: f64,
    pub wires: Vec<Wire>,
    /// By wire, from its tail to its head.
    pub curves: Vec<Vec<Point>>,
    /// Top left corners.
    corners: BTreeMap<String, Point>,
    pub nodes: Vec<Option<Rect>>,
    pub processes: Vec<Option<Rect>>,
}

impl Layout {
    /// The top left corner of an item.
    pub fn corner(&self, item: Item) -> Option<Point> {
        self.corners.get(&name(item)).copied()
    }
}

/// Above this number of wires, one layout takes so long that it has to do.
const MANY_WIRES: usize = 240;

/// Sizes of cluster titles.
pub(super) const NODE_TITLE: f64 = 16.0;
pub(super) const PROCESS_TITLE: f64 = 14.0;

/// Lays a system out.
pub(super) fn layout(tad: &Tad, lines: &[Line], shapes: &Shapes) -> Result<Layout, RenderError> {
    let wires = wires(tad, lines);
    let tracks: Vec<Track> =
        wires.iter().enumerate().map(|(index, wire)| track(tad, lines, index, wire)).collect();
    let mut best: Option<(f64, Positions)> = None;
    let mut problem = None;
    let end = deadline();
    // By size, not time: a system must have the same picture on a slow machine.
    let tried = if wires.len() > MANY_WIRES { 1 } else { Variant::ALL.len() };
    for variant in Variant::ALL.into_iter().take(tried) {
        match refined(tad, lines, &wires, shapes, variant, end) {
            Ok(found) => {
                let score = score(&found, &tracks);
                if best.as_ref().is_none_or(|(least, _)| score < *least) {
                    best = Some((score, found));
                }
            }
            // Some bugs of `dot` affect a graph in only one variant.
            Err(error @ RenderError::Failed { .. }) => problem = Some(error),
            Err(error) => return Err(error),
        }
    }
    match (best, problem) {
        (Some((_, found)), _) => gather(tad, lines, shapes, wires, found),
        (None, Some(error)) => Err(error),
        (None, None) => Err(RenderError::Unreadable("there is none".to_owned())),
    }
}

/// A variant of the same graph for `dot`. Its heuristics depend on the order of the boxes and on
/// how it assigns columns, and no variant is best for every system. A layout takes milliseconds, so
/// all are tried.
#[derive(Clone, Copy, Debug)]
struct Variant {
    /// Columns for the whole picture at once, instead of for each boundary.
    columns_at_once: bool,
    /// Contents of a boundary are named from last to first.
    backwards: bool,
    /// Weight of short lines for waiting and information; requests have 4.
    other_weight: u32,
}

impl Variant {
    const ALL: [Variant; 8] = {
        let mut all = [Variant { columns_at_once: false, backwards: false, other_weight: 1 }; 8];
        let mut index = 0;
        while index < 8 {
            all[index].columns_at_once = index & 1 == 0;
            all[index].backwards = index & 2 != 0;
            all[index].other_weight = if index & 4 == 0 { 1 } else { 3 };
            index += 1;
        }
        all
    };
}

/// Lays out twice. The first layout shows the directions of the lines; in the second they meet
/// their stages in that order, so that they do not cross right before them.
fn refined(
    tad: &Tad,
    lines: &[Line],
    wires: &[Wire],
    shapes: &Shapes,
    variant: Variant,
    end: Instant,
) -> Result<Positions, RenderError> {
    let first = positions(&graph(tad, lines, wires, shapes, variant, &BTreeMap::new()), end)?;
    let heights = first.nodes.into_iter().map(|(name, at)| (name, at.y)).collect();
    positions(&graph(tad, lines, wires, shapes, variant, &heights), end)
}

fn track(tad: &Tad, lines: &[Line], index: usize, wire: &Wire) -> Track {
    let shared = match wire_home(tad, [wire.tail, wire.head].map(|item| home(tad, lines, item))) {
        Home::Process(process) => Some(format!("cluster_p{process}")),
        Home::Node(node) => Some(format!("cluster_n{node}")),
        Home::Outside => None,
    };
    Track { id: format!("w{index}"), ends: [name(wire.tail), name(wire.head)], home: shared }
}

fn gather(
    tad: &Tad,
    lines: &[Line],
    shapes: &Shapes,
    wires: Vec<Wire>,
    mut found: Positions,
) -> Result<Layout, RenderError> {
    let lost = |what: &str| RenderError::Unreadable(format!("{what} is missing"));
    let mut curves = Vec::new();
    for index in 0..wires.len() {
        let curve = found.edges.remove(&format!("w{index}"));
        curves.push(curve.ok_or_else(|| lost("an edge"))?);
    }
    let mut corners = BTreeMap::new();
    for item in items(tad, shapes) {
        let (w, h) = size(item, shapes);
        let middle = found.nodes.get(&name(item)).ok_or_else(|| lost("a node"))?;
        corners.insert(name(item), Point::new(middle.x - w / 2.0, middle.y - h / 2.0));
    }
    let mut cluster = |prefix: &str, count: usize| -> Vec<Option<Rect>> {
        (0..count).map(|i| found.clusters.remove(&format!("cluster_{prefix}{i}"))).collect()
    };
    let nodes = cluster("n", tad.nodes.len());
    let processes = cluster("p", tad.processes.len());
    let mut layout = Layout {
        width: found.width,
        height: found.height,
        wires,
        curves,
        corners,
        nodes,
        processes,
    };
    grow(tad, lines, shapes, &mut layout);
    Ok(layout)
}

/// Extends boundaries around their own lines, and the picture's edges with them.
fn grow(tad: &Tad, lines: &[Line], shapes: &Shapes, layout: &mut Layout) {
    let homes: Vec<Home> = layout
        .wires
        .iter()
        .map(|wire| wire_home(tad, [wire.tail, wire.head].map(|item| home(tad, lines, item))))
        .collect();
    let boxes: Vec<(Home, Rect)> = items(tad, shapes)
        .into_iter()
        .filter_map(|item| {
            let (at, (w, h)) = (layout.corner(item)?, size(item, shapes));
            Some((home(tad, lines, item), Rect { x: at.x, y: at.y, w, h }))
        })
        .collect();
    let curves_of = |home: Home| -> Vec<&[Point]> {
        let own = layout.curves.iter().zip(&homes).filter(|(_, at)| **at == home);
        own.map(|(curve, _)| curve.as_slice()).collect()
    };
    let mut processes = layout.processes.clone();
    for index in 0..processes.len() {
        let Some(at) = processes[index] else { continue };
        let neighbours = processes.iter().enumerate().filter(|(other, _)| *other != index);
        let mut others: Vec<Rect> = neighbours.filter_map(|(_, rect)| *rect).collect();
        others.extend(boxes.iter().filter(|(home, _)| *home != Home::Process(index)).map(|b| b.1));
        // Kinds of nodes that the process is not on.
        let foreign = layout.nodes.iter().enumerate();
        others.extend(
            foreign
                .filter(|(node, _)| *node != tad.processes[index].node)
                .filter_map(|(_, rect)| *rect),
        );
        processes[index] = Some(grown(at, &curves_of(Home::Process(index)), &[], &others));
    }
    let mut nodes = layout.nodes.clone();
    for index in 0..nodes.len() {
        let Some(at) = nodes[index] else { continue };
        let neighbours = nodes.iter().enumerate().filter(|(other, _)| *other != index);
        let mut others: Vec<Rect> = neighbours.filter_map(|(_, rect)| *rect).collect();
        others.extend(boxes.iter().filter(|(home, _)| *home == Home::Outside).map(|b| b.1));
        let inside = processes.iter().enumerate();
        let inner: Vec<Rect> = inside
            .filter(|(process, _)| tad.processes[*process].node == index)
            .filter_map(|(_, rect)| *rect)
            .collect();
        nodes[index] = Some(grown(at, &curves_of(Home::Node(index)), &inner, &others));
    }
    let rects = || nodes.iter().chain(&processes).flatten();
    layout.width = rects().map(|r| r.x + r.w).fold(layout.width, f64::max);
    layout.height = rects().map(|r| r.y + r.h).fold(layout.height, f64::max);
    (layout.nodes, layout.processes) = (nodes, processes);
}

/// The innermost boundary around an item: the process or kind of node that it shares with all items
/// it is connected to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Home {
    Process(ProcessId),
    Node(usize),
    Outside,
}

fn home(tad: &Tad, lines: &[Line], item: Item) -> Home {
    let tied: Vec<Anchor> = match item {
        Item::Anchor(Anchor::Stage(stage)) => vec![Anchor::Stage(stage)],
        Item::Anchor(Anchor::Clients) => vec![],
        Item::Label(index) => vec![lines[index].from, lines[index].to],
        Item::Anchor(anchor) => lines
            .iter()
            .filter(|line| line.from == anchor || line.to == anchor)
            .map(|line| if line.from == anchor { line.to } else { line.from })
            .collect(),
    };
    let stages: Option<Vec<StageId>> = tied
        .iter()
        .map(|anchor| if let Anchor::Stage(stage) = anchor { Some(*stage) } else { None })
        .collect();
    let Some((stages, first)) =
        stages.and_then(|stages| stages.first().copied().map(|first| (stages, first)))
    else {
        return Home::Outside;
    };
    let (process, node) = (tad.stages[first].process, tad.node_of(first));
    if stages.iter().all(|stage| tad.stages[*stage].process == process) {
        Home::Process(process)
    } else if stages.iter().all(|stage| tad.node_of(*stage) == node) {
        Home::Node(node)
    } else {
        Home::Outside
    }
}

/// The innermost boundary around both ends of a wire.
fn wire_home(tad: &Tad, ends: [Home; 2]) -> Home {
    let node = |home| match home {
        Home::Process(process) => Some(tad.processes[process].node),
        Home::Node(node) => Some(node),
        Home::Outside => None,
    };
    match ends {
        [Home::Process(a), Home::Process(b)] if a == b => Home::Process(a),
        [a, b] if node(a) == node(b) => node(a).map_or(Home::Outside, Home::Node),
        _ => Home::Outside,
    }
}

/// The graph in the language of `dot`. `heights` are those of an earlier layout, if there was one.
fn graph(
    tad: &Tad,
    lines: &[Line],
    wires: &[Wire],
    shapes: &Shapes,
    variant: Variant,
    heights: &BTreeMap<String, f64>,
) -> String {
    let mut out = format!(
        "digraph tad {{\nrankdir=LR; {}nodesep=0.18; ranksep=0.23; remincross=true;\n\
         node [shape=plain, label=\"\"]; edge [dir=none];\n",
        if variant.columns_at_once { "newrank=true; " } else { "" }
    );
    let mut items: Vec<(Item, Home)> =
        items(tad, shapes).into_iter().map(|item| (item, home(tad, lines, item))).collect();
    if variant.backwards {
        items.reverse();
    }
    let members = |out: &mut String, wanted: Home| {
        for (item, _) in items.iter().filter(|(_, home)| *home == wanted) {
            let _ = writeln!(out, "{} [{}];", name(*item), cells(*item, wires, shapes, heights));
        }
    };
    for node_index in 0..tad.nodes.len() {
        let inside = |process: ProcessId| tad.processes[process].node == node_index;
        let title = width(&node_title(tad, node_index), NODE_TITLE) + 16.0;
        let _ = writeln!(out, "subgraph cluster_n{node_index} {{ {}", cluster(title));
        for process in (0..tad.processes.len()).filter(|process| inside(*process)) {
            let wide = width(&one_line(&tad.processes[process].title), PROCESS_TITLE) + 12.0;
            let _ = writeln!(out, "subgraph cluster_p{process} {{ {}", cluster(wide));
            members(&mut out, Home::Process(process));
            out.push_str("}\n");
        }
        members(&mut out, Home::Node(node_index));
        out.push_str("}\n");
    }
    members(&mut out, Home::Outside);
    for (index, wire) in wires.iter().enumerate() {
        let weight = match lines[wire.line].kind {
            Kind::Data => 4,
            Kind::Pull => 2,
            Kind::Blocking | Kind::Information => variant.other_weight,
        };
        let _ = writeln!(
            out,
            "{} -> {} [id=\"w{index}\", weight={weight}];",
            end(wire.tail, wire.tail_side, index),
            end(wire.head, wire.head_side, index)
        );
    }
    out.push_str("}\n");
    out
}

/// The title of a kind of node in the picture.
pub(super) fn node_title(tad: &Tad, node: usize) -> String {
    let node = &tad.nodes[node];
    let title = one_line(&node.title);
    if node.count == 1 { title } else { format!("{} × {title}", node.count) }
}

fn cluster(title_w: f64) -> String {
    format!("margin=11; label=<{}>;", table(&row(&cell(title_w.ceil(), 20.0, ""))))
}

/// The end of an edge.
fn end(item: Item, side: Side, wire: usize) -> String {
    let name = name(item);
    match (item, side) {
        (Item::Label(_), Side::East) => format!("{name}:e"),
        (Item::Label(_), _) => format!("{name}:w"),
        (_, Side::Queue) => format!("{name}:q:w"),
        (_, Side::West) => format!("{name}:i{wire}:w"),
        (_, Side::East) => format!("{name}:o{wire}:e"),
    }
}
