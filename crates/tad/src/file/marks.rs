//! Where things of a system file are, for mistakes that show only in the whole.

use super::error::Span;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Marks {
    /// Of each stage.
    pub stages: Vec<Span>,
    /// Of each item of `uses`, of each stage.
    pub uses: Vec<Vec<Span>>,
    /// Of each arrow.
    pub flows: Vec<Span>,
    /// Of each request.
    pub requests: Vec<Span>,
    /// Of each step, of each request.
    pub steps: Vec<Vec<Span>>,
}
