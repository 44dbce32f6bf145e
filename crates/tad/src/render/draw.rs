//! Assembles the picture.

use super::graph::node_title;
use super::lines::{Anchor, Item, Line, Side, Wire, spoken};
use super::scene::Scene;
use super::shape::{QUEUE_W, SMALL, SMALL_STEP};
use super::svg::{Align, Point, Rect, Svg, number};
use super::text::{escape, one_line, wrap};
use super::{edges, legend, stages, theme};
use crate::model::{StageId, Tad, Threads};

const MARGIN: f64 = 26.0;
/// A narrower picture would have a legend taller than itself.
const WIDTH_MIN: f64 = 860.0;

/// The picture as SVG.
pub(super) fn picture(scene: &Scene<'_>) -> String {
    let tad = scene.tad;
    let width = (scene.layout.width + 2.0 * MARGIN).max(WIDTH_MIN).ceil();
    let room = width - 2.0 * MARGIN;
    let mut svg = Svg::default();
    let name = one_line(&format!("{} {}", tad.name, tad.version));
    let mut y = MARGIN + 18.0;
    svg.text("heading", Point::new(MARGIN, y), Align::Start, &name);
    y += 8.0;
    let about = match (scene.path, scene.options.highlight) {
        (Some(path), Some(request)) => {
            format!("The path of {}: {}", path.name, tad.requests[request].about)
        }
        _ => tad.about.clone(),
    };
    if !one_line(&about).is_empty() {
        for line in wrap(&about, SMALL, room, 2) {
            y += SMALL_STEP;
            svg.text("faint", Point::new(MARGIN, y), Align::Start, &line);
        }
    }
    y += 16.0;
    // A diagram that is narrower than the legend is centred.
    let origin = Point::new(((width - scene.layout.width) / 2.0).round(), y);
    diagram(&mut svg, scene, origin);
    y += scene.layout.height + 22.0;
    y = legend::legend(&mut svg, scene, MARGIN, y, room);
    if !one_line(&tad.source).is_empty() {
        y += 4.0;
        for line in wrap(&format!("Source: {}", tad.source), SMALL, room, 2) {
            y += SMALL_STEP;
            svg.text("faint source", Point::new(MARGIN, y), Align::Start, &line);
        }
    }
    let height = (y + MARGIN).ceil();
    let (w, h) = (number(width), number(height));
    // Not role="img": that would hide the texts inside from screen readers.
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"{class}\" width=\"{w}\" height=\"{h}\" \
         viewBox=\"0 0 {w} {h}\" role=\"graphics-document\" aria-roledescription=\"diagram\">\n\
         <title>Thread architecture of {title}</title>\n<desc>{desc}</desc>\n\
         <style>\n{style}</style>\n<rect class=\"page\" width=\"{w}\" height=\"{h}\"/>\n{body}</svg>\n",
        class = theme::class(scene.options.theme),
        title = escape(&name),
        desc = escape(&description(scene)),
        style = theme::style(scene.options.theme),
        body = svg.into_string(),
    )
}

fn diagram(svg: &mut Svg, scene: &Scene<'_>, origin: Point) {
    let tad = scene.tad;
    let shift = |at: Rect| Rect { x: at.x + origin.x, y: at.y + origin.y, ..at };
    for (index, at) in scene.layout.nodes.iter().enumerate() {
        if let Some(at) = at.map(shift) {
            svg.rect("node", at, 10.0);
            let title = Point::new(at.x + 12.0, at.y + 21.0);
            svg.text("node-title", title, Align::Start, &node_title(tad, index));
        }
    }
    for (index, at) in scene.layout.processes.iter().enumerate() {
        if let Some(at) = at.map(shift) {
            svg.rect("process", at, 7.0);
            let title = Point::new(at.x + 10.0, at.y + 19.0);
            svg.text("process-title", title, Align::Start, &one_line(&tad.processes[index].title));
        }
    }
    // Elements on the path come last, and so lie on top.
    for strong in [false, true] {
        lines(svg, scene, origin, strong);
    }
    let corner = |anchor: Anchor| {
        let at = scene.layout.corner(Item::Anchor(anchor))?;
        Some(Point::new(at.x + origin.x, at.y + origin.y))
    };
    if let Some(at) = corner(Anchor::Clients) {
        stages::clients(svg, &scene.shapes.clients, at);
    }
    for (index, shape) in scene.shapes.shared.iter().enumerate() {
        if let Some(at) = corner(Anchor::Shared(index)) {
            faded(svg, scene.path.is_some(), |svg| stages::shared(svg, shape, at));
        }
    }
    for (index, shape) in scene.shapes.notes.iter().enumerate() {
        if let Some(at) = corner(Anchor::Note(index)) {
            faded(svg, scene.path.is_some(), |svg| stages::note(svg, shape, at));
        }
    }
    for (index, shape) in scene.shapes.stages.iter().enumerate() {
        let Some(at) = corner(Anchor::Stage(index)) else { continue };
        let numbers = scene.path.and_then(|path| path.steps.get(&index));
        let class = match (scene.path, numbers) {
            (None, _) => "a-stage",
            (Some(_), Some(_)) => "a-stage strong",
            (Some(_), None) => "a-stage dim",
        };
        svg.group(class, &stage_title(tad, index));
        let numbers = numbers.map_or(&[][..], Vec::as_slice);
        stages::stage(svg, &tad.stages[index], shape, at, numbers);
        svg.end();
    }
}

fn faded(svg: &mut Svg, dim: bool, draw: impl FnOnce(&mut Svg)) {
    svg.group(if dim { "dim" } else { "plain" }, "");
    draw(svg);
    svg.end();
}

/// The lines that are on the highlighted path, or those that are not.
fn lines(svg: &mut Svg, scene: &Scene<'_>, origin: Point, strong: bool) {
    for (index, line) in scene.lines.iter().enumerate() {
        let taken = match (scene.path, line.flow) {
            (Some(path), Some(flow)) => path.flows.contains(&flow),
            _ => false,
        };
        if taken != strong {
            continue;
        }
        let class = match (taken, scene.path) {
            (true, _) => "flow strong",
            (false, Some(_)) => "flow dim",
            (false, None) => "flow",
        };
        svg.group(class, &line_title(scene.tad, line));
        let wires = scene.layout.wires.iter().zip(&scene.layout.curves);
        for (wire, curve) in wires.filter(|(wire, _)| wire.line == index) {
            let mut points = ends(scene, wire, curve);
            if !wire.forward {
                points.reverse();
            }
            for point in &mut points {
                *point = Point::new(point.x + origin.x, point.y + origin.y);
            }
            edges::curve(svg, line.kind, &points, wire.arrow);
        }
        if let Some(at) = scene.layout.corner(Item::Label(index)) {
            let at = Point::new(at.x + origin.x, at.y + origin.y);
            stages::label(svg, &scene.shapes.labels[index], line.leaves, at);
        }
        svg.end();
    }
}

/// The curve of a wire up to the box of the stage. The layout ends lines in front of the queue;
/// lines that do not enter the queue continue below it.
fn ends(scene: &Scene<'_>, wire: &Wire, curve: &[Point]) -> Vec<Point> {
    let mut points = curve.to_vec();
    let (Item::Anchor(Anchor::Stage(stage)), Some(last)) = (wire.head, curve.last().copied())
    else {
        return points;
    };
    let shape = &scene.shapes.stages[stage];
    if wire.head_side == Side::West || !shape.queue {
        let end = Point::new(last.x + shape.west.min(QUEUE_W), last.y);
        points.extend([last.towards(end, 4.0), end.towards(last, 4.0), end]);
    }
    points
}

fn stage_title(tad: &Tad, index: StageId) -> String {
    let stage = &tad.stages[index];
    let threads = match (&stage.threads_label, stage.threads) {
        (Some(label), _) => one_line(label),
        (None, Threads::Bounded(1)) => "1 thread".to_owned(),
        (None, Threads::Bounded(count)) => format!("{count} threads"),
        (None, Threads::OnDemand) => "threads on demand".to_owned(),
    };
    let waits = if stage.asynchronous { ", which do not wait" } else { "" };
    format!("{}: {threads}{waits}", one_line(&stage.title))
}

fn line_title(tad: &Tad, line: &Line) -> String {
    let end = |anchor: Anchor| match anchor {
        Anchor::Clients => "clients".to_owned(),
        Anchor::Stage(stage) => one_line(&tad.stages[stage].title),
        Anchor::Shared(index) => one_line(&tad.shared_queues[index].name),
        Anchor::Note(_) => "control".to_owned(),
    };
    let label = if line.label.is_empty() { String::new() } else { format!("{}: ", line.label) };
    let other = if line.leaves { " of another node" } else { "" };
    format!("{label}{} {} {}{other}", end(line.from), spoken(line.kind), end(line.to))
}

/// The picture in words.
fn description(scene: &Scene<'_>) -> String {
    let tad = scene.tad;
    let mut parts = vec![one_line(&tad.about)];
    for (index, shape) in scene.shapes.stages.iter().enumerate() {
        let process = &tad.processes[tad.stages[index].process];
        let mut text = format!("{}, in {}", stage_title(tad, index), one_line(&process.title));
        for (_, may, title) in &shape.resources {
            text.push_str(if *may { "; may use " } else { "; uses " });
            text.push_str(title);
        }
        for mark in &shape.marks {
            text.push_str(&format!("; problem: {}", mark.problem.name().replace('-', " ")));
            text.push_str(if mark.mitigated { " (worked around)" } else { "" });
        }
        parts.push(text);
    }
    parts.extend(scene.lines.iter().map(|line| line_title(tad, line)));
    parts.retain(|part| !part.is_empty());
    parts
        .iter()
        .map(|part| format!("{}.", part.trim_end_matches('.')))
        .collect::<Vec<_>>()
        .join(" ")
}
