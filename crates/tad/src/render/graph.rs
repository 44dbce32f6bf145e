//! The graph that `dot` lays out, and its answer in terms of the system.
//!
//! Names never go to `dot`: stages are called `s0`, `s1`, … and texts are boxes of their size. So
//! no name needs escaping for it, and its fonts do not matter.
//!
//! A stage is a table of empty cells, so that lines meet it at its queue or at its box and not at
//! the symbols above and below. A label is a node in the middle of its line: lines run around
//! nodes, so nothing crosses a label, and it is plain to which line it belongs.

use super::RenderError;
use super::dot::{Positions, positions};
use super::lines::{Anchor, Item, Kind, Line, Side, Wire, wires};
use super::score::{Track, score};
use super::shape::{QUEUE_H, QUEUE_TOP, SHARED_SPACE, SMALL_STEP, Shapes, StageShape};
use super::svg::{Point, Rect};
use super::text::{one_line, width};
use crate::model::{ProcessId, StageId, Tad};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Where everything is. What `dot` does not know is not in here.
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
    for variant in Variant::ALL {
        match refined(tad, lines, &wires, shapes, variant) {
            Ok(found) => {
                let score = score(&found, &tracks);
                if best.as_ref().is_none_or(|(least, _)| score < *least) {
                    best = Some((score, found));
                }
            }
            // `dot` has bugs that strike some graphs only in one way of laying them out.
            Err(error @ RenderError::Failed { .. }) => problem = Some(error),
            Err(error) => return Err(error),
        }
    }
    match (best, problem) {
        (Some((_, found)), _) => gather(tad, shapes, wires, found),
        (None, Some(error)) => Err(error),
        (None, None) => Err(RenderError::Unreadable("there is none".to_owned())),
    }
}

/// A way of putting the same graph to `dot`. Its heuristics depend on the order in which boxes are
/// named and on how it assigns columns, and no choice is best for every system; a layout takes
/// milliseconds, so all are tried.
#[derive(Clone, Copy, Debug)]
struct Variant {
    /// Columns of the whole picture at once, instead of each boundary by itself.
    columns_at_once: bool,
    /// What is inside of a boundary is named from last to first.
    backwards: bool,
    /// How much waiting and information want short lines, compared with requests' 4.
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

/// Lays out twice: the first layout tells from where lines come, the second lets them meet their
/// stages in that order, so that they do not cross right in front of them.
fn refined(
    tad: &Tad,
    lines: &[Line],
    wires: &[Wire],
    shapes: &Shapes,
    variant: Variant,
) -> Result<Positions, RenderError> {
    let first = positions(&graph(tad, lines, wires, shapes, variant, &BTreeMap::new()))?;
    let heights = first.nodes.into_iter().map(|(name, at)| (name, at.y)).collect();
    positions(&graph(tad, lines, wires, shapes, variant, &heights))
}

fn track(tad: &Tad, lines: &[Line], index: usize, wire: &Wire) -> Track {
    let homes = [home(tad, lines, wire.tail), home(tad, lines, wire.head)];
    let shared = match homes {
        [Home::Process(a), Home::Process(b)] if a == b => Some(format!("cluster_p{a}")),
        [Home::Outside, _] | [_, Home::Outside] => None,
        [a, b] => {
            let node = |home| match home {
                Home::Process(process) => tad.processes[process].node,
                Home::Node(node) => node,
                Home::Outside => usize::MAX,
            };
            (node(a) == node(b)).then(|| format!("cluster_n{}", node(a)))
        }
    };
    Track { id: format!("w{index}"), ends: [name(wire.tail), name(wire.head)], home: shared }
}

fn gather(
    tad: &Tad,
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
    Ok(Layout {
        width: found.width,
        height: found.height,
        wires,
        curves,
        corners,
        nodes,
        processes,
    })
}

fn name(item: Item) -> String {
    match item {
        Item::Anchor(Anchor::Clients) => "clients".to_owned(),
        Item::Anchor(Anchor::Note(index)) => format!("note{index}"),
        Item::Anchor(Anchor::Shared(index)) => format!("shared{index}"),
        Item::Anchor(Anchor::Stage(index)) => format!("s{index}"),
        Item::Label(index) => format!("l{index}"),
    }
}

fn size(item: Item, shapes: &Shapes) -> (f64, f64) {
    let text = match item {
        Item::Anchor(Anchor::Stage(index)) => {
            return (shapes.stages[index].w, shapes.stages[index].h);
        }
        Item::Anchor(Anchor::Clients) => &shapes.clients,
        Item::Anchor(Anchor::Note(index)) => &shapes.notes[index],
        Item::Anchor(Anchor::Shared(index)) => &shapes.shared[index],
        Item::Label(index) => &shapes.labels[index],
    };
    (text.w, text.h)
}

fn items(tad: &Tad, shapes: &Shapes) -> Vec<Item> {
    let labels = shapes.labels.iter().enumerate().filter(|(_, shape)| !shape.lines.is_empty());
    let mut items: Vec<Item> =
        (0..tad.stages.len()).map(|i| Item::Anchor(Anchor::Stage(i))).collect();
    items.extend((0..shapes.shared.len()).map(|i| Item::Anchor(Anchor::Shared(i))));
    items.extend((0..shapes.notes.len()).map(|i| Item::Anchor(Anchor::Note(i))));
    items.extend(labels.map(|(i, _)| Item::Label(i)));
    if tad.flows.iter().any(|flow| [flow.from, flow.to].contains(&crate::model::End::Clients)) {
        items.push(Item::Anchor(Anchor::Clients));
    }
    items
}

/// The innermost boundary around an item: the process or kind of node that it shares with
/// everything that it is tied to.
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
        "digraph tad {{\nrankdir=LR; newrank={}; nodesep=0.18; ranksep=0.23; remincross=true;\n\
         node [shape=plain, label=\"\"]; edge [dir=none];\n",
        variant.columns_at_once
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

/// How a kind of node is called in the picture.
pub(super) fn node_title(tad: &Tad, node: usize) -> String {
    let node = &tad.nodes[node];
    let title = one_line(&node.title);
    if node.count == 1 { title } else { format!("{} × {title}", node.count) }
}

fn cluster(title_w: f64) -> String {
    format!("margin=11; label=<{}>;", table(&row(&cell(title_w.ceil(), 20.0, ""))))
}

fn table(rows: &str) -> String {
    format!(
        "<TABLE BORDER=\"0\" CELLBORDER=\"0\" CELLSPACING=\"0\" CELLPADDING=\"0\">{rows}</TABLE>"
    )
}

fn row(cells: &str) -> String {
    format!("<TR>{cells}</TR>")
}

fn cell(w: f64, h: f64, port: &str) -> String {
    let port = if port.is_empty() { String::new() } else { format!(" PORT=\"{port}\"") };
    format!("<TD FIXEDSIZE=\"TRUE\" WIDTH=\"{w}\" HEIGHT=\"{h}\"{port}></TD>")
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

/// Attributes of a node: its size, and the cells at which lines meet it.
fn cells(item: Item, wires: &[Wire], shapes: &Shapes, heights: &BTreeMap<String, f64>) -> String {
    let (w, h) = size(item, shapes);
    if let Item::Label(_) = item {
        let inches = |pixels: f64| pixels / 72.0;
        return format!(
            "shape=box, fixedsize=true, width={:.4}, height={:.4}",
            inches(w),
            inches(h)
        );
    }
    let east = ports(item, Side::East, wires, heights, "o");
    let label = match item {
        Item::Anchor(Anchor::Stage(index)) => {
            let west = ports(item, Side::West, wires, heights, "i");
            stage_cells(&shapes.stages[index], &west, &east)
        }
        Item::Anchor(Anchor::Shared(index)) => {
            // Stages pull from the symbol, not from the text below.
            let text_h = shapes.shared[index].lines.len() as f64 * SMALL_STEP + SHARED_SPACE;
            table(&format!(
                "{}{}",
                row(&inside(beside(w, h - text_h, &east))),
                row(&cell(w, text_h, ""))
            ))
        }
        _ => beside(w, h, &east),
    };
    format!("label=<{label}>")
}

fn stage_cells(shape: &StageShape, west: &[String], east: &[String]) -> String {
    let across = |h: f64| {
        let cell = cell(shape.w, h, "").replacen("<TD", "<TD COLSPAN=\"3\"", 1);
        if h > 0.0 { row(&cell) } else { String::new() }
    };
    let above = if shape.queue { QUEUE_TOP } else { 0.0 };
    let entrance = if shape.queue { QUEUE_H } else { (shape.box_h / 2.0).floor() };
    let rest = shape.box_h - above - entrance;
    let mut left = across(0.0);
    if above > 0.0 {
        left.push_str(&row(&cell(shape.west, above, "")));
    }
    left.push_str(&row(&cell(shape.west, entrance, "q")));
    left.push_str(&row(&format!("<TD>{}</TD>", column(shape.west, rest, west))));
    let middle = cell(shape.box_w - 1.0, shape.box_h, "");
    let right = column(1.0, shape.box_h, east);
    let body = row(&format!("<TD>{}</TD>{middle}<TD>{right}</TD>", table(&left)));
    table(&format!("{}{body}{}", across(shape.top), across(shape.h - shape.top - shape.box_h)))
}

/// A box with its ports on the right.
fn beside(w: f64, h: f64, ports: &[String]) -> String {
    table(&row(&format!("{}{}", cell(w - 1.0, h, ""), inside(column(1.0, h, ports)))))
}

fn inside(table: String) -> String {
    format!("<TD>{table}</TD>")
}

/// A column of cells of this height together, one for each port.
fn column(w: f64, h: f64, ports: &[String]) -> String {
    let count = ports.len().max(1);
    let nobody = String::new();
    let mut rows = String::new();
    let edge = |index: usize| (h * index as f64 / count as f64).round();
    for index in 0..count {
        let port = ports.get(index).unwrap_or(&nobody);
        rows.push_str(&row(&cell(w, edge(index + 1) - edge(index), port)));
    }
    table(&rows)
}

/// The wires at a side of an item, from top to bottom.
fn ports(
    item: Item,
    side: Side,
    wires: &[Wire],
    heights: &BTreeMap<String, f64>,
    prefix: &str,
) -> Vec<String> {
    let mut found: Vec<(f64, usize)> = Vec::new();
    for (index, wire) in wires.iter().enumerate() {
        let other = match (wire.tail == item, wire.head == item) {
            (true, _) if wire.tail_side == side => wire.head,
            (_, true) if wire.head_side == side => wire.tail,
            _ => continue,
        };
        found.push((heights.get(&name(other)).copied().unwrap_or(0.0), index));
    }
    found.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    found.into_iter().map(|(_, index)| format!("{prefix}{index}")).collect()
}
