//! The picture of a figure.

use super::figure::{Arm, Figure, Kind, Panel};
use crate::sweep::panel;

/// The panels of a figure.
pub(super) fn panels(figure: &'static Figure) -> Vec<panel::Panel> {
    figure.panels.iter().flat_map(|panel| drawn(figure, panel)).collect()
}

fn drawn(figure: &'static Figure, panel: &Panel) -> Vec<panel::Panel> {
    let wanted = |arm: &Arm| panel.arms.is_empty() || panel.arms.contains(&arm.name);
    let arms = figure.arms.iter().enumerate().filter(|(_, arm)| wanted(arm));
    let first = panel.at.or(figure.axis.points.first().copied()).unwrap_or_default();
    if panel.each {
        return arms.map(|(_, arm)| of_arm(panel, arm, first)).collect();
    }
    let mut drawn = empty(panel, &panel.title);
    for (number, arm) in arms {
        let label = arm.label();
        if let Some(key) = &panel.key {
            drawn = drawn.at(label, label, first, key).colour(arm.colour.unwrap_or(number));
        }
        for line in &panel.lines {
            drawn = drawn.bar(&line.label, label, label, first, &line.key);
        }
    }
    vec![drawn]
}

fn of_arm(panel: &Panel, arm: &'static Arm, first: f64) -> panel::Panel {
    let empty = empty(panel, &panel.title.replace("{arm}", arm.label()));
    panel.lines.iter().fold(empty, |drawn, line| {
        let at = line.at.unwrap_or(first);
        drawn.at(&line.label, arm.label(), at, &line.key).last(|drawn| {
            drawn.colour = line.colour.unwrap_or(drawn.colour);
            drawn.dashed = line.dashed;
            drawn.band.clone_from(&line.band);
        })
    })
}

fn empty(panel: &Panel, title: &str) -> panel::Panel {
    let empty = match panel.kind {
        Kind::Sweep => panel::Panel::sweep(title, &panel.unit),
        Kind::Time => panel::Panel::time(title, &panel.unit),
        Kind::Bars => panel::Panel::bars(title, &panel.unit),
    };
    empty.up_to(panel.up_to)
}
