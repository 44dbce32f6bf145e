//! Executes a diagram: requests flow through stages and consume resources, in simulated time.
//!
//! The abstractions are those of the dissertation (section 4.1.1, Table 4.1). A *request* has
//! parts, one for each stage on its path. A *stage* is a set of threads that pick parts from its
//! queue, consume *resources* for them, submit the following parts and wait for those that must be
//! done first. A *scheduler* picks the next part, by a *cost*.
//!
//! A run is a pure function of system, scenario and seed: one thread, integer nanoseconds, and one
//! generator of random numbers. Events of the same instant happen in the order in which they were
//! made.

mod batch;
mod cache;
mod calendar;
mod clients;
mod controls;
mod draw;
mod error;
mod export;
mod gauge;
mod lru;
mod outcome;
mod parts;
mod plan;
mod queue;
mod resource;
pub(crate) mod rng;
mod run;
mod slab;
mod stage;
mod state;
mod stats;
#[cfg(test)]
mod tests;
mod work;
mod work_out;

pub use error::SimError;
pub use export::{ExportError, export};
pub use outcome::{
    CacheOutcome, ClientOutcome, LoadOutcome, Outcome, ResourceOutcome, StageOutcome,
};
pub use run::run;

/// Most clients of one simulation.
pub const CLIENTS: usize = 16;

/// Most resources of one kind of node.
pub const RESOURCES: usize = 12;
