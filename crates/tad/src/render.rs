//! The picture of a system, in the notation of Table 3.1.
//!
//! Graphviz's `dot` decides where everything goes and how arrows run. Symbols, fonts and colours
//! are drawn here, so that they are the same everywhere. The steps of a picture:
//!
//! 1. `lines`: every arrow, and its direction of growth in the picture;
//! 2. `shape`: the size of each stage with its symbols;
//! 3. `graph` and `dot`: a graph of boxes without names goes to `dot` in several variants, and the
//!    layout with the best `score` is taken;
//! 4. `draw`: boxes, arrows, stages and a legend of the symbols used, as SVG.
//!
//! The same input gives the same bytes.

mod cells;
mod dot;
mod draw;
mod edges;
mod graph;
mod grow;
mod legend;
mod lines;
mod path;
mod score;
mod shape;
mod stages;
mod svg;
mod symbols;
mod text;
mod theme;

#[cfg(test)]
#[path = "../tests/fixtures/render.rs"]
mod fixtures;
#[cfg(test)]
mod tests;

use crate::model::{RequestId, StageId, Tad};
use crate::remedy::Problem;

/// A finding of the checker in the picture: a letter below the stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mark {
    /// Where.
    pub stage: StageId,
    /// What.
    pub problem: Problem,
    /// Control logic works around it: the letter is struck through.
    pub mitigated: bool,
}

/// Colours of a picture.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Theme {
    /// Dark on white.
    Light,
    /// Light on near black.
    Dark,
    /// What the reader prefers (the media query `prefers-color-scheme`).
    #[default]
    Auto,
}

impl Theme {
    /// The theme with this name on the command line.
    pub fn from_name(name: &str) -> Option<Theme> {
        match name {
            "light" => Some(Theme::Light),
            "dark" => Some(Theme::Dark),
            "auto" => Some(Theme::Auto),
            _ => None,
        }
    }
}

/// Options of a picture.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Colours.
    pub theme: Theme,
    /// The path of this request type is drawn strong and its stages are numbered in the order of
    /// its steps; the rest is faded.
    pub highlight: Option<RequestId>,
}

/// Why there is no picture.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RenderError {
    /// Graphviz is not installed, or not in the search path.
    #[error(
        "the picture needs the program `dot` of Graphviz for its layout, and it could not be \
         started ({0}); install it with:  apt-get install graphviz"
    )]
    NoDot(String),
    /// It did not finish.
    #[error(
        "`dot` was still at the layout after {seconds} s and was stopped; check with  dot -V  \
         that this machine's Graphviz works, or draw a system with fewer stages and flows"
    )]
    Slow {
        /// How long it was given.
        seconds: u64,
    },
    /// It finished with an error.
    #[error(
        "`dot` failed with {status}: {message}; if  dot -V  fails as well, install it again with:  \
         apt-get install --reinstall graphviz"
    )]
    Failed {
        /// Exit status.
        status: String,
        /// Its message, shortened.
        message: String,
    },
    /// Its output is not as expected.
    #[error(
        "the layout that `dot` gave cannot be read ({0}); Graphviz 2.43 or later is needed, \
         dot -V  says which one this is"
    )]
    Unreadable(String),
    /// There is no such request type to highlight.
    #[error("request type number {index} is to be highlighted, but the system has {known}")]
    NoRequest {
        /// Index that was asked for.
        index: RequestId,
        /// Number of request types.
        known: usize,
    },
    /// A mark's stage does not exist.
    #[error("a mark is for stage number {index}, but the system has {known}")]
    NoStage {
        /// Index that was asked for.
        index: StageId,
        /// Number of stages.
        known: usize,
    },
}

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
    Ok(draw::picture(&draw::Scene { tad, options, path: path.as_ref(), lines, shapes, layout }))
}
