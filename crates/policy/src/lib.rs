//! Schedulers, controllers and metrics of Headworks.
//!
//! Everything here is *pure*: no clock, no thread, no I/O, no lock, no allocation on a call. Time
//! is an argument, and a decision is the result. So the same code runs in a unit test, in a
//! simulation and inside the shared-memory region of a live database. For the region every state is
//! `repr(C)`, of fixed capacity, position independent (indices, never pointers) and valid when all
//! its bytes are zero.
#![forbid(unsafe_code)]

pub mod aimd;
pub mod block;
pub mod bucket;
pub mod cluster;
pub mod counterfactual;
pub mod cpu_weight;
pub mod drr;
pub mod fair;
pub mod gate;
pub mod heap;
pub mod histogram;
pub mod layout;
pub mod learn;
pub mod matching;
pub mod metrics;
mod named;
pub mod permit;
pub mod quota;
pub mod ramp;
pub mod random;
pub mod slo;
pub mod split;
pub mod stall;
pub mod stride;
pub mod tuner;
pub mod units;
pub mod wrr;

pub use units::Nanos;

/// Sessions (client connections) that one gate can have at a time. A connection beyond this passes
/// and is counted.
pub const SESSIONS: usize = 16_384;

/// Classes (groups of sessions that share a weight) that one gate can have.
pub const CLASSES: usize = 64;
