//! Drawing a stage with its symbols, and the other boxes of the picture.

use super::shape::{
    BRACKET, CARD, CARDS_BEHIND, QUEUE_H, QUEUE_TOP, QUEUE_W, SHARED_SPACE, SMALL, SMALL_STEP,
    SQUARE, SQUARE_GAP, SQUARE_SPACE, StageShape, TITLE_STEP, TextShape, square_w,
};
use super::svg::{Align, Point, Rect, Svg, number};
use super::symbols;
use super::text::width;
use crate::model::{Confidence, Queue, ResourceKind, Stage, Threads};
use crate::remedy::Problem;

/// Size of the plug and of the lock at a queue.
const SIGN: f64 = 17.0;

/// A stage with its top left corner here. `numbers` are those of the highlighted path.
pub(super) fn stage(
    svg: &mut Svg,
    stage: &Stage,
    shape: &StageShape,
    at: Point,
    numbers: &[usize],
) {
    let frame = Rect { x: at.x + shape.west, y: at.y + shape.top, w: shape.box_w, h: shape.box_h };
    if shape.queue {
        queue(svg, &stage.queue, Point::new(at.x, frame.y));
    }
    let bounded = matches!(stage.threads, Threads::Bounded(_));
    body(svg, bounded, shape.stacked, frame);
    let lines = shape.title.len() as f64 * TITLE_STEP + shape.threads.len() as f64 * SMALL_STEP;
    let mut y = frame.y + (frame.h - lines) / 2.0;
    for line in &shape.title {
        y += TITLE_STEP;
        svg.text("title", Point::new(frame.x + frame.w / 2.0, y - 4.0), Align::Middle, line);
    }
    for line in &shape.threads {
        y += SMALL_STEP;
        svg.text("threads", Point::new(frame.x + frame.w / 2.0, y - 3.0), Align::Middle, line);
    }
    let mut x = frame.x;
    for (kind, may, title) in &shape.resources {
        resource(svg, *kind, *may, title, Point::new(x, at.y));
        x += square_w(*may) + SQUARE_GAP;
    }
    let resources_end = x;
    let mut x = frame.x;
    for mark in &shape.marks {
        let y = frame.y + frame.h + SQUARE_SPACE;
        problem(svg, mark.problem, mark.mitigated, Point::new(x, y));
        x += SQUARE + SQUARE_GAP;
    }
    if !numbers.is_empty() {
        let text: Vec<String> = numbers.iter().map(usize::to_string).collect();
        badge(svg, &text.join(", "), Point::new(frame.x + frame.w, frame.y), resources_end);
    }
}

/// The box of a stage; several cards behind each other if it is one of several.
pub(super) fn body(svg: &mut Svg, bounded: bool, stacked: bool, frame: Rect) {
    let class = if bounded { "stage bounded" } else { "stage on-demand" };
    if stacked {
        let mut back = CARDS_BEHIND;
        while back > 0.0 {
            let card = Rect {
                x: frame.x + back * CARD,
                y: frame.y - back * CARD,
                w: frame.w - 2.0 * back * CARD,
                h: frame.h,
            };
            svg.rect(&format!("{class} card"), card, 3.0);
            back -= 1.0;
        }
    }
    svg.rect(class, frame, 3.0);
}

/// The queue left of a stage, with the plug and the lock above it.
pub(super) fn queue(svg: &mut Svg, queue: &Queue, at: Point) {
    let what = if queue.explicit { "explicit" } else { "implicit" };
    svg.group(
        &format!("queue-symbol {what}-queue"),
        &format!("{what} queue, policy {}", queue.policy.name()),
    );
    lane(svg, what, Rect { x: at.x + 1.0, y: at.y + QUEUE_TOP, w: QUEUE_W - 2.0, h: QUEUE_H });
    svg.end();
    if queue.pluggable {
        svg.symbol(
            "symbol plug",
            "pluggable: another policy may be put in",
            Point::new(at.x, at.y + 1.0),
            SIGN,
            symbols::PLUG,
        );
    }
    if queue.ordered {
        let (class, title, data) = if queue.ordered_per_client {
            ("symbol order client-order", "ordered within each client", PERSONAL_LOCK)
        } else {
            ("symbol order", "ordered: served as they came", symbols::LOCK)
        };
        let title = match queue.order_confidence {
            Confidence::Certain => title.to_owned(),
            unsure => format!("{title} ({})", unsure.name()),
        };
        svg.symbol(class, &title, Point::new(at.x + QUEUE_W - SIGN - 2.0, at.y + 1.0), SIGN, data);
    }
}

/// A lock with a person instead of a keyhole: the order is kept for each client.
pub(super) const PERSONAL_LOCK: &str = "M2.2 6.8h11.6v8.2h-11.6zM5 6.8V4.6a3 3 0 0 1 6 0v2.2M6.8 9.4a1.2 1.2 0 1 0 2.4 0a1.2 1.2 0 1 0-2.4 0M5.2 13.2c0-3.2 5.6-3.2 5.6 0";

/// A lane that is open on the left, with three requests in it.
fn lane(svg: &mut Svg, what: &str, at: Rect) {
    let (left, right, top, low) = (at.x, at.x + at.w, at.y, at.y + at.h);
    svg.path(
        &format!("queue {what}"),
        &format!(
            "M{} {}H{}V{}H{}",
            number(left),
            number(top),
            number(right),
            number(low),
            number(left)
        ),
    );
    for index in 1..=3 {
        let x = right - 8.0 * f64::from(index);
        let slab = Rect { x, y: top + 4.0, w: 4.5, h: at.h - 8.0 };
        svg.rect(if what == "explicit" { "slab" } else { "queue" }, slab, 0.0);
    }
}

/// The square of a resource.
pub(super) fn resource(svg: &mut Svg, kind: ResourceKind, may: bool, title: &str, at: Point) {
    let (data, class) = symbols::resource(kind);
    let said = if may { format!("may use {title}") } else { format!("uses {title}") };
    svg.group(&format!("resource {class}{}", if may { " may" } else { "" }), &said);
    let x = if may { at.x + BRACKET } else { at.x };
    svg.rect("square", Rect { x, y: at.y, w: SQUARE, h: SQUARE }, 3.0);
    svg.symbol("symbol", "", Point::new(x + 3.0, at.y + 3.0), SQUARE - 6.0, data);
    if may {
        brackets(svg, Rect { x: at.x, y: at.y - 1.0, w: square_w(true), h: SQUARE + 2.0 });
    }
    svg.end();
}

/// Square brackets around a square.
fn brackets(svg: &mut Svg, at: Rect) {
    let side = |x: f64, inwards: f64| {
        format!(
            "M{} {}H{}V{}H{}",
            number(x + inwards),
            number(at.y),
            number(x),
            number(at.y + at.h),
            number(x + inwards)
        )
    };
    svg.path("bracket", &format!("{}{}", side(at.x + 1.0, 4.0), side(at.x + at.w - 1.0, -4.0)));
}

/// The letter of a problem.
pub(super) fn problem(svg: &mut Svg, problem: Problem, mitigated: bool, at: Point) {
    let class =
        format!("problem problem-{}{}", problem.name(), if mitigated { " mitigated" } else { "" });
    let said = problem.name().replace('-', " ");
    svg.group(&class, &if mitigated { format!("{said}, worked around") } else { said });
    let letter = problem.letter().to_string();
    svg.rect("letter-box", Rect { x: at.x, y: at.y, w: SQUARE, h: SQUARE }, 3.0);
    svg.text(
        "letter",
        Point::new(at.x + SQUARE / 2.0, at.y + SQUARE / 2.0 + 5.0),
        Align::Middle,
        &letter,
    );
    if mitigated {
        let (low, high) = (at.y + SQUARE - 3.0, at.y + 3.0);
        let data = format!(
            "M{} {}L{} {}",
            number(at.x + 3.0),
            number(low),
            number(at.x + SQUARE - 3.0),
            number(high)
        );
        svg.path("strike", &data);
    }
    svg.end();
}

/// The numbers of a highlighted path, hanging on this corner. They extend to the left up to `free`,
/// where the resources end, and beyond the corner if that is not enough.
pub(super) fn badge(svg: &mut Svg, text: &str, corner: Point, free: f64) {
    let w = (width(text, 14.0) + 12.0).max(20.0);
    let x = (corner.x + 8.0 - w).max(free).min(corner.x - 12.0);
    svg.group("steps", &format!("steps {text} of the path"));
    svg.rect("badge", Rect { x, y: corner.y - 10.0, w, h: 20.0 }, 10.0);
    svg.text("number", Point::new(x + w / 2.0, corner.y + 5.0), Align::Middle, text);
    svg.end();
}

/// The clients: three people above their name.
pub(super) fn clients(svg: &mut Svg, shape: &TextShape, at: Point) {
    svg.group("clients", "");
    let top = at.y + (shape.h - 58.0) / 2.0;
    let middle = at.x + shape.w / 2.0;
    for (dx, dy, size) in [(-32.0, 4.0, 26.0), (6.0, 4.0, 26.0), (-18.0, 0.0, 36.0)] {
        svg.symbol("symbol person", "", Point::new(middle + dx, top + dy), size, symbols::PERSON);
    }
    for line in &shape.lines {
        svg.text("title", Point::new(middle, top + 54.0), Align::Middle, line);
    }
    svg.end();
}

/// A queue from which several stages pull.
pub(super) fn shared(svg: &mut Svg, shape: &TextShape, at: Point) {
    svg.group("shared-queue", "");
    let text_h = (shape.lines.len() as f64) * SMALL_STEP;
    let symbol_h = shape.h - text_h - SHARED_SPACE;
    shared_symbol(svg, Rect { x: at.x, y: at.y, w: shape.w, h: symbol_h });
    for (index, line) in shape.lines.iter().enumerate() {
        let y = at.y + symbol_h + SMALL_STEP * (index as f64 + 1.0);
        let class = if index + 1 == shape.lines.len() { "threads" } else { "title" };
        svg.text(class, Point::new(at.x + shape.w / 2.0, y), Align::Middle, line);
    }
    svg.end();
}

/// The symbol of a shared queue.
pub(super) fn shared_symbol(svg: &mut Svg, at: Rect) {
    svg.rect("shared", at, 4.0);
    let count = ((at.w - 10.0) / 12.0).floor().max(1.0);
    for index in 0..count as u32 {
        let x = at.x + at.w - 14.0 - 12.0 * f64::from(index);
        svg.rect("shared-slab", Rect { x, y: at.y + 6.0, w: 6.0, h: at.h - 12.0 }, 0.0);
    }
}

/// A control: a note with a turned corner.
pub(super) fn note(svg: &mut Svg, shape: &TextShape, at: Point) {
    svg.group("control", "");
    note_outline(svg, Rect { x: at.x, y: at.y, w: shape.w, h: shape.h });
    let text_h = shape.lines.len() as f64 * SMALL_STEP;
    let mut y = at.y + (shape.h - text_h) / 2.0;
    for line in &shape.lines {
        y += SMALL_STEP;
        svg.text("note-text", Point::new(at.x + 9.0, y - 4.0), Align::Start, line);
    }
    svg.end();
}

/// The outline of a note.
pub(super) fn note_outline(svg: &mut Svg, at: Rect) {
    let fold = 9.0_f64.min(at.h / 2.0);
    let data = format!(
        "M{x} {y}h{w}l{fold} {fold}v{h}H{x}zm{w} 0v{fold}h{fold}",
        x = number(at.x),
        y = number(at.y),
        w = number(at.w - fold),
        h = number(at.h - fold),
        fold = number(fold),
    );
    svg.path("note", &data);
}

/// The label in the middle of a line. `away`: it stands for another node of the same kind, and has
/// a node's outline.
pub(super) fn label(svg: &mut Svg, shape: &TextShape, away: bool, at: Point) {
    let class = if away { "tag away" } else { "tag" };
    svg.rect(class, Rect { x: at.x, y: at.y, w: shape.w, h: shape.h }, 8.0);
    for (index, line) in shape.lines.iter().enumerate() {
        let y = at.y + SMALL_STEP * (index as f64 + 1.0) - 1.0;
        debug_assert!(width(line, SMALL) <= shape.w + 1.0, "{line} is wider than its tag");
        let class = if index == 0 { "label" } else { "threads" };
        svg.text(class, Point::new(at.x + shape.w / 2.0, y), Align::Middle, line);
    }
}
