//! Hosts, a store and controllers in simulated time. The same seed gives the same figures.
//!
//! Two plants: [`fluid`], whose rates follow from shares at once, a microsecond for a second; and
//! [`request`], event by event, with the schedulers and device models that a real store runs. A run
//! ([`run`]) puts a controller beside a plant, with late or lost dfts and with events; a trace is
//! judged ([`judge`]); cases are the paper's figures ([`figure`]), changes and faults
//! ([`scenario`]), requests ([`stack`]) and many hosts ([`scale`]). [`product`] comes before all of
//! them: if fractions of two levels do not multiply, no controller can learn.
//!
//! # Honesty
//! Parameters are those of the feasibility study. Cases are judged on [`HELD_OUT`] seeds, which
//! were not looked at while the code was changed. [`DEVELOPMENT`] seeds are for that.

pub mod app;
pub mod array;
pub mod figure;
pub mod fluid;
pub mod judge;
pub mod level;
pub mod product;
pub mod report;
pub mod request;
pub mod run;
pub mod scale;
pub mod scenario;
pub mod stack;

use std::ops::Range;

/// Seeds to look at while code is changed.
pub const DEVELOPMENT: Range<u64> = 0..30;

/// Seeds by which results are judged.
pub const HELD_OUT: Range<u64> = 1_000..1_030;
