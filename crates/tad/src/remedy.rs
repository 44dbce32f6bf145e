//! Remedies: how they change a system, and how a system file writes them.

mod apply;
mod text;

pub use crate::model::{Problem, Remedy};
pub use apply::{RemedyError, apply};
