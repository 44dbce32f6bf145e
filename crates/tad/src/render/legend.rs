//! The legend: the meanings of the symbols in the picture, and of no others.

use super::edges;
use super::lines::Kind;
use super::scene::Scene;
use super::shape::{SMALL, SQUARE, square_w};
use super::stages;
use super::svg::{Align, Point, Rect, Svg};
use super::symbols;
use super::text::width;
use crate::model::{Queue, ResourceKind, Threads};
use crate::remedy::Problem;
use std::collections::BTreeSet;

/// Room for a symbol, left of its text.
const SYMBOL_W: f64 = 50.0;
const ROW_H: f64 = 29.0;
const COLUMN_GAP: f64 = 26.0;

/// A symbol of the legend.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Entry {
    Bounded,
    OnDemand,
    Stack,
    Queue { explicit: bool },
    Plug,
    Order,
    ClientOrder,
    Resource(ResourceKind),
    May,
    Line(Kind),
    Shared,
    Control,
    Node,
    Process,
    Problem(Problem),
    Mitigated(Problem),
    Path,
    Away,
}

fn entries(scene: &Scene<'_>) -> Vec<(Entry, String)> {
    let tad = scene.tad;
    let mut out: Vec<(Entry, String)> = Vec::new();
    let mut add = |used: bool, entry: Entry, text: &str| {
        if used {
            out.push((entry, text.to_owned()));
        }
    };
    if let Some(path) = scene.path {
        let text = format!("path of {}, in the order of its steps", path.name);
        add(true, Entry::Path, &text);
    }
    let bounded = tad.stages.iter().filter(|stage| matches!(stage.threads, Threads::Bounded(_)));
    add(bounded.clone().count() > 0, Entry::Bounded, "stage with a pool of (n) threads");
    let on_demand = bounded.clone().count() < tad.stages.len();
    add(on_demand, Entry::OnDemand, "stage with a thread per request");
    let stacked = scene.shapes.stages.iter().any(|shape| shape.stacked);
    add(stacked, Entry::Stack, "several such stages on each node");
    let queues: Vec<Queue> = tad
        .stages
        .iter()
        .zip(&scene.shapes.stages)
        .filter(|(_, shape)| shape.queue)
        .map(|(stage, _)| stage.queue)
        .collect();
    let any = |test: fn(&Queue) -> bool| queues.iter().any(test);
    add(any(|q| q.explicit), Entry::Queue { explicit: true }, "queue of its own (explicit)");
    add(any(|q| !q.explicit), Entry::Queue { explicit: false }, "queue of the pool (implicit)");
    add(any(|q| q.pluggable), Entry::Plug, "scheduler can be exchanged");
    add(any(|q| q.ordered && !q.ordered_per_client), Entry::Order, "must be served in order");
    add(any(|q| q.ordered && q.ordered_per_client), Entry::ClientOrder, "in order for each client");
    add(!tad.shared_queues.is_empty(), Entry::Shared, "one queue for several stages");
    let kinds: BTreeSet<ResourceKind> = scene
        .shapes
        .stages
        .iter()
        .flat_map(|shape| shape.resources.iter().map(|(kind, _, _)| *kind))
        .collect();
    for kind in kinds {
        add(true, Entry::Resource(kind), use_of(kind));
    }
    let may = tad.stages.iter().any(|stage| stage.uses.iter().any(|used| used.may));
    add(may, Entry::May, "[ ]: may or may not use it");
    let drawn = |kind: Kind| scene.lines.iter().any(|line| line.kind == kind);
    add(drawn(Kind::Data), Entry::Line(Kind::Data), "requests go to");
    add(drawn(Kind::Blocking), Entry::Line(Kind::Blocking), "the stage pointed at waits");
    add(drawn(Kind::Information), Entry::Line(Kind::Information), "information goes to");
    add(drawn(Kind::Pull), Entry::Line(Kind::Pull), "pulls from the shared queue");
    let away = scene.lines.iter().any(|line| line.leaves);
    add(away, Entry::Away, "on another node of the kind");
    add(!tad.controls.is_empty(), Entry::Control, "control logic that was added");
    let any_cluster = |clusters: &[Option<Rect>]| clusters.iter().any(Option::is_some);
    add(any_cluster(&scene.layout.processes), Entry::Process, "process (one address space)");
    add(any_cluster(&scene.layout.nodes), Entry::Node, "node (n ×: so many machines)");
    let marks = || scene.shapes.stages.iter().flat_map(|shape| &shape.marks);
    for problem in Problem::ALL {
        let used = marks().any(|mark| mark.problem == problem);
        add(used, Entry::Problem(problem), &format!("problem: {}", problem.title()));
    }
    let mitigated = marks().find(|mark| mark.mitigated).map(|mark| mark.problem);
    if let Some(problem) = mitigated {
        add(true, Entry::Mitigated(problem), "problem that is worked around");
    }
    out
}

fn use_of(kind: ResourceKind) -> &'static str {
    match kind {
        ResourceKind::Cpu => "uses CPU",
        ResourceKind::Io => "uses I/O (disk)",
        ResourceKind::Network => "uses the network",
        ResourceKind::Lock => "holds a lock",
        ResourceKind::Custom => "uses another resource",
        ResourceKind::Delay => "takes time that passes",
    }
}

/// Draws the legend with its top at `y`, and returns where it ends.
pub(super) fn legend(svg: &mut Svg, scene: &Scene<'_>, x: f64, y: f64, room: f64) -> f64 {
    let entries = entries(scene);
    if entries.is_empty() {
        return y;
    }
    // As few rows as fit: each column is as wide as its widest text.
    let widths = |rows: usize| -> Vec<f64> {
        let widest = |column: &[(Entry, String)]| {
            column.iter().map(|(_, text)| width(text, SMALL)).fold(0.0, f64::max)
        };
        entries.chunks(rows).map(|column| SYMBOL_W + widest(column) + COLUMN_GAP).collect()
    };
    let fits = |rows: &usize| widths(*rows).iter().sum::<f64>() <= room + COLUMN_GAP;
    let rows = (1..=entries.len()).find(fits).unwrap_or(entries.len());
    let widths = widths(rows);
    svg.group("legend", "Legend");
    for (index, (entry, text)) in entries.iter().enumerate() {
        // Column by column, so that related symbols are one below the other.
        let at = Point::new(
            x + widths.iter().take(index / rows).sum::<f64>(),
            y + (index % rows) as f64 * ROW_H,
        );
        svg.group("entry", "");
        draw(svg, *entry, Rect { x: at.x, y: at.y, w: SYMBOL_W - 10.0, h: ROW_H - 5.0 });
        svg.text("legend-text", Point::new(at.x + SYMBOL_W, at.y + 16.5), Align::Start, text);
        svg.end();
    }
    svg.end();
    y + rows as f64 * ROW_H
}

fn draw(svg: &mut Svg, entry: Entry, at: Rect) {
    let centred = |w: f64, h: f64| Point::new(at.x + (at.w - w) / 2.0, at.y + (at.h - h) / 2.0);
    let square = centred(SQUARE, SQUARE);
    let frame = Rect { x: at.x + 2.0, y: at.y + 3.0, w: at.w - 4.0, h: at.h - 6.0 };
    let queue = |explicit| Queue { explicit, ..Queue::IMPLICIT };
    match entry {
        Entry::Bounded => stages::body(svg, true, false, frame),
        Entry::OnDemand => stages::body(svg, false, false, frame),
        Entry::Stack => {
            let frame = Rect { y: frame.y + 6.0, h: frame.h - 4.0, ..frame };
            stages::body(svg, true, true, frame);
        }
        Entry::Queue { explicit } => {
            let corner = centred(super::shape::QUEUE_W, super::shape::QUEUE_H);
            let at = Point::new(corner.x, corner.y - super::shape::QUEUE_TOP);
            stages::queue(svg, &queue(explicit), at);
        }
        Entry::Plug => svg.symbol("symbol plug", "", square, SQUARE, symbols::PLUG),
        Entry::Order => svg.symbol("symbol order", "", square, SQUARE, symbols::LOCK),
        Entry::ClientOrder => {
            svg.symbol("symbol client-order", "", square, SQUARE, stages::PERSONAL_LOCK);
        }
        Entry::Resource(kind) => stages::resource(svg, kind, false, kind.name(), square),
        Entry::May => {
            let corner = centred(square_w(true), SQUARE);
            stages::resource(svg, ResourceKind::Io, true, "it", corner);
        }
        Entry::Line(kind) => {
            let y = at.y + at.h / 2.0;
            let point = |part: f64| Point::new(at.x + at.w * part, y);
            let third = 1.0 / 3.0;
            edges::curve(
                svg,
                kind,
                &[point(0.0), point(third), point(2.0 * third), point(1.0)],
                true,
            );
        }
        Entry::Shared => stages::shared_symbol(svg, frame),
        Entry::Control => stages::note_outline(svg, frame),
        Entry::Process => svg.rect("process", frame, 5.0),
        Entry::Node => svg.rect("node", frame, 8.0),
        Entry::Problem(problem) => stages::problem(svg, problem, false, square),
        Entry::Mitigated(problem) => stages::problem(svg, problem, true, square),
        Entry::Away => {
            svg.rect("tag away", frame, 8.0);
            let middle = Point::new(frame.x + frame.w / 2.0, frame.y + frame.h / 2.0 + 4.0);
            svg.text("label", middle, Align::Middle, "w");
        }
        Entry::Path => {
            svg.group("strong", "");
            let y = at.y + at.h / 2.0;
            let points: Vec<Point> =
                (0..4).map(|i| Point::new(at.x + at.w * f64::from(i) / 3.0, y)).collect();
            edges::curve(svg, Kind::Data, &points, true);
            svg.end();
            let middle = Point::new(at.x + at.w / 2.0 + 2.0, y);
            stages::badge(svg, "1", middle, at.x);
        }
    }
}
