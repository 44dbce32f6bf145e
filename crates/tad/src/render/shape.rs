//! The sizes of all items in the layout.
//!
//! Sizes are whole pixels: `dot` accepts only these for the cells of a stage.

use super::lines::{Anchor, Item, Line, Side, wires};
use super::options::Mark;
use super::text::{one_line, width, wrap};
use super::words::{doubt, note};
use crate::model::{ResourceKind, Tad, Threads};

/// Font sizes.
pub(super) const TITLE: f64 = 15.0;
pub(super) const SMALL: f64 = 13.0;
/// Distances from line to line.
pub(super) const TITLE_STEP: f64 = 18.0;
pub(super) const SMALL_STEP: f64 = 16.0;
/// Sides of the squares for resources and for problems, and the gap between two.
pub(super) const SQUARE: f64 = 22.0;
pub(super) const SQUARE_GAP: f64 = 4.0;
/// Space for square brackets on each side.
pub(super) const BRACKET: f64 = 6.0;
/// From the squares to the box of the stage.
pub(super) const SQUARE_SPACE: f64 = 4.0;
/// The queue symbol, and its distance from the top of its stage: below the plug and the lock.
pub(super) const QUEUE_W: f64 = 34.0;
pub(super) const QUEUE_H: f64 = 22.0;
pub(super) const QUEUE_TOP: f64 = 20.0;
/// How far each further card of a stack shows above the one in front.
pub(super) const CARD: f64 = 5.0;
pub(super) const CARDS_BEHIND: f64 = 2.0;
/// The least distance between two lines on one side of a box.
const LINE_GAP: f64 = 13.0;
const BOX_W_MIN: f64 = 84.0;
const BOX_W_TEXT_MAX: f64 = 118.0;
const BOX_H_MIN: f64 = 60.0;
/// Space right of the resources, for the number of a path. It is kept free in every picture:
/// highlighting a path should not change the layout.
const BADGE_ROOM: f64 = 10.0;
const NOTE_TEXT_W: f64 = 190.0;
/// Text below the label of a line to another node of the same kind.
pub(super) const OTHER_NODE: &str = "other node";

/// A stage with everything around it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct StageShape {
    /// Size of the whole.
    pub w: f64,
    pub h: f64,
    /// Above the box: resources and the edges of further cards.
    pub top: f64,
    /// Left of the box: the queue.
    pub west: f64,
    /// Size of the box.
    pub box_w: f64,
    pub box_h: f64,
    pub title: Vec<String>,
    pub threads: Vec<String>,
    /// Kind, square brackets, title.
    pub resources: Vec<(ResourceKind, bool, String)>,
    pub marks: Vec<Mark>,
    /// It has its own queue (and does not pull from a shared one).
    pub queue: bool,
    /// It is one of several.
    pub stacked: bool,
}

/// A box with some text: a label, a note, a shared queue, the clients.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct TextShape {
    pub w: f64,
    pub h: f64,
    pub lines: Vec<String>,
}

/// All sizes of a picture.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Shapes {
    pub stages: Vec<StageShape>,
    pub clients: TextShape,
    pub notes: Vec<TextShape>,
    pub shared: Vec<TextShape>,
    /// By line; empty for lines without labels.
    pub labels: Vec<TextShape>,
}

/// Measures everything.
pub(super) fn shapes(tad: &Tad, marks: &[Mark], lines: &[Line]) -> Shapes {
    let wires = wires(tad, lines);
    let count = |anchor: Anchor, side: Side| {
        let here = |item: Item, at: Side| item == Item::Anchor(anchor) && at == side;
        wires
            .iter()
            .map(|wire| {
                usize::from(here(wire.tail, wire.tail_side))
                    + usize::from(here(wire.head, wire.head_side))
            })
            .sum::<usize>() as f64
    };
    let tall = |anchor: Anchor, least: f64| least.max(count(anchor, Side::East) * LINE_GAP).ceil();
    let stages = (0..tad.stages.len())
        .map(|index| {
            let anchor = Anchor::Stage(index);
            let west = QUEUE_TOP + QUEUE_H + count(anchor, Side::West) * LINE_GAP;
            let mut marks: Vec<Mark> =
                marks.iter().filter(|mark| mark.stage == index).copied().collect();
            marks.sort();
            marks.dedup();
            stage(tad, index, marks, west.max(count(anchor, Side::East) * LINE_GAP))
        })
        .collect();
    let notes = tad.controls.iter().enumerate().map(|(index, control)| {
        let lines = wrap(&note(control).text, SMALL, NOTE_TEXT_W, 6);
        let h = lines.len() as f64 * SMALL_STEP + 14.0;
        boxed(lines, SMALL, 26.0, tall(Anchor::Note(index), h))
    });
    let shared = tad.shared_queues.iter().enumerate().map(|(index, queue)| {
        let mut text = wrap(&queue.name, TITLE, BOX_W_TEXT_MAX, 2);
        text.push(format!("{}, {} at a time", queue.policy.name(), queue.concurrency));
        let below = text.len() as f64 * SMALL_STEP + SHARED_SPACE;
        boxed(text, SMALL, 12.0, tall(Anchor::Shared(index), SHARED_H) + below)
    });
    Shapes {
        stages,
        clients: TextShape {
            w: 76.0,
            h: tall(Anchor::Clients, 66.0),
            lines: vec!["Clients".to_owned()],
        },
        notes: notes.collect(),
        shared: shared.collect(),
        labels: lines.iter().map(label).collect(),
    }
}

/// Least height of the symbol of a shared queue, and the space from there to its text.
const SHARED_H: f64 = 30.0;
pub(super) const SHARED_SPACE: f64 = 6.0;

fn boxed(lines: Vec<String>, size: f64, padding: f64, h: f64) -> TextShape {
    let w = lines.iter().map(|line| width(line, size)).fold(0.0, f64::max);
    TextShape { w: (w + padding).ceil(), h: h.ceil(), lines }
}

fn label(line: &Line) -> TextShape {
    let mut text = Vec::new();
    if !line.label.is_empty() {
        text.extend(wrap(&line.label, SMALL, 130.0, 2));
    }
    if line.leaves {
        text.push(OTHER_NODE.to_owned());
    } else if line.from == line.to && text.is_empty() {
        text.push("again".to_owned());
    }
    if text.is_empty() {
        return TextShape::default();
    }
    // Labels are bold, and bold letters are wider: the padding has room for that.
    let h = text.len() as f64 * SMALL_STEP + 5.0;
    boxed(text, SMALL, 18.0, h)
}

fn stage(tad: &Tad, index: usize, marks: Vec<Mark>, h_min: f64) -> StageShape {
    let stage = &tad.stages[index];
    let titled = stage.title.clone() + doubt(stage.confidence);
    let title = wrap(&titled, TITLE, BOX_W_TEXT_MAX, 3);
    let count = match (&stage.threads_label, stage.threads) {
        (Some(label), _) => format!("({})", one_line(label)),
        (None, Threads::Bounded(count)) => format!("({count})"),
        (None, Threads::OnDemand) => "(on demand)".to_owned(),
    };
    let stacked = stage.instances > 1;
    let count = if stacked { format!("{} × {count}", stage.instances) } else { count };
    let threads = wrap(&count, SMALL, BOX_W_TEXT_MAX, 2);
    let resources: Vec<(ResourceKind, bool, String)> = stage
        .uses
        .iter()
        .map(|used| (used, &tad.resources[used.resource]))
        .filter(|(_, resource)| resource.limited())
        .map(|(used, resource)| (resource.kind, used.may, one_line(&resource.title)))
        .collect();
    let squares: f64 = resources.iter().map(|(_, may, _)| square_w(*may) + SQUARE_GAP).sum();
    let letters = marks.len() as f64 * (SQUARE + SQUARE_GAP);
    let text = title.iter().map(|line| width(line, TITLE));
    let text = text.chain(threads.iter().map(|line| width(line, SMALL))).fold(0.0, f64::max);
    let box_w = (text + 18.0).max(BOX_W_MIN).max(squares + BADGE_ROOM).max(letters).ceil();
    let lines = title.len() as f64 * TITLE_STEP + threads.len() as f64 * SMALL_STEP;
    let box_h = (lines + 14.0).max(BOX_H_MIN).max(h_min).ceil();
    let queue = matches!(stage.threads, Threads::Bounded(_))
        && !tad.shared_queues.iter().any(|shared| shared.stages.contains(&index));
    let west = if queue { QUEUE_W } else { 2.0 };
    let row = |any: bool| if any { SQUARE + SQUARE_SPACE } else { 0.0 };
    let cards = if stacked { CARD * CARDS_BEHIND } else { 0.0 };
    let top = row(!resources.is_empty()) + cards;
    let bottom = row(!marks.is_empty());
    StageShape {
        w: west + box_w,
        h: top + box_h + bottom,
        top,
        west,
        box_w,
        box_h,
        title,
        threads,
        resources,
        marks,
        queue,
        stacked,
    }
}

/// Width of the square of a resource with its brackets.
pub(super) fn square_w(may: bool) -> f64 {
    if may { SQUARE + 2.0 * BRACKET } else { SQUARE }
}
