//! The items of the layout: their names and their sizes.

use super::lines::{Anchor, Item};
use super::shape::Shapes;
use crate::model::Tad;

/// Its name for `dot`.
pub(super) fn name(item: Item) -> String {
    match item {
        Item::Anchor(Anchor::Clients) => "clients".to_owned(),
        Item::Anchor(Anchor::Note(index)) => format!("note{index}"),
        Item::Anchor(Anchor::Shared(index)) => format!("shared{index}"),
        Item::Anchor(Anchor::Stage(index)) => format!("s{index}"),
        Item::Label(index) => format!("l{index}"),
    }
}

/// Its width and height.
pub(super) fn size(item: Item, shapes: &Shapes) -> (f64, f64) {
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

/// Everything that has a place in the layout.
pub(super) fn items(tad: &Tad, shapes: &Shapes) -> Vec<Item> {
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
