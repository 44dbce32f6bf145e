//! The picture of a system, in the notation of Table 3.1.
//!
//! Graphviz's `dot` decides where everything goes and how arrows run. Symbols, fonts and colours
//! are drawn here, so that they are the same everywhere. The steps of a picture:
//!
//! 1. `lines`: every arrow, and its direction of growth in the picture;
//! 2. `shape`: the size of each stage with its symbols;
//! 3. `graph` and `dot`: a graph of boxes without names goes to `dot` in several variants, and the
//!    layout with the best `score` is taken;
//! 4. `draw`: boxes, arrows, stages and a legend of the symbols used, as SVG, from all of that
//!    together (a `scene`).
//!
//! The same input gives the same bytes.

mod cells;
mod dot;
mod draw;
mod edges;
mod error;
mod graph;
mod grow;
mod items;
mod legend;
mod lines;
mod options;
mod path;
mod scene;
mod score;
mod shape;
mod stages;
mod svg;
mod symbols;
mod text;
mod theme;
mod words;

#[cfg(test)]
#[path = "../tests/fixtures/render.rs"]
mod fixtures;
#[cfg(test)]
mod tests;

pub use error::RenderError;
pub use options::{Mark, Options, Theme};

use crate::model::Tad;

/// Draws a system as SVG, with the letters of its scheduling problems.
pub fn render(tad: &Tad, findings: &[Mark], options: &Options) -> Result<String, RenderError> {
    if let Some(index) = options.highlight.filter(|index| *index >= tad.requests.len()) {
        return Err(RenderError::NoRequest { index, known: tad.requests.len() });
    }
    if let Some(mark) = findings.iter().find(|mark| mark.stage >= tad.stages.len()) {
        return Err(RenderError::NoStage { index: mark.stage, known: tad.stages.len() });
    }
    let path = options.highlight.map(|request| path::path(tad, request));
    let lines = lines::lines(tad);
    let shapes = shape::shapes(tad, findings, &lines);
    let layout = graph::layout(tad, &lines, &shapes)?;
    Ok(draw::picture(&scene::Scene { tad, options, path: path.as_ref(), lines, shapes, layout }))
}
