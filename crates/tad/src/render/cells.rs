//! Items as tables of empty cells for `dot`, of the size of the drawing, with a cell for every line
//! that meets them.

use super::items::{name, size};
use super::lines::{Anchor, Item, Side, Wire};
use super::shape::{QUEUE_H, QUEUE_TOP, SHARED_SPACE, SMALL_STEP, Shapes, StageShape};
use std::collections::BTreeMap;

pub(super) fn table(rows: &str) -> String {
    format!(
        "<TABLE BORDER=\"0\" CELLBORDER=\"0\" CELLSPACING=\"0\" CELLPADDING=\"0\">{rows}</TABLE>"
    )
}

pub(super) fn row(cells: &str) -> String {
    format!("<TR>{cells}</TR>")
}

pub(super) fn cell(w: f64, h: f64, port: &str) -> String {
    let port = if port.is_empty() { String::new() } else { format!(" PORT=\"{port}\"") };
    format!("<TD FIXEDSIZE=\"TRUE\" WIDTH=\"{w}\" HEIGHT=\"{h}\"{port}></TD>")
}

/// Attributes of a node: its size, and the cells at which lines meet it.
pub(super) fn cells(
    item: Item,
    wires: &[Wire],
    shapes: &Shapes,
    heights: &BTreeMap<String, f64>,
) -> String {
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
    let empty = String::new();
    let mut rows = String::new();
    let edge = |index: usize| (h * index as f64 / count as f64).round();
    for index in 0..count {
        let port = ports.get(index).unwrap_or(&empty);
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
