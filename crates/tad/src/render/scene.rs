//! Everything that a picture is drawn from.

use super::graph::Layout;
use super::lines::Line;
use super::options::Options;
use super::path::Path;
use super::shape::Shapes;
use crate::model::Tad;

/// See the module.
pub(super) struct Scene<'a> {
    pub tad: &'a Tad,
    pub options: &'a Options,
    pub path: Option<&'a Path>,
    pub lines: Vec<Line>,
    pub shapes: Shapes,
    pub layout: Layout,
}
