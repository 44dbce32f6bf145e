//! The recorder: the thread architecture of a running system, without annotations.
//!
//! [`capture`] watches processes and makes a [`trace::Trace`]: a file of sums by group of threads,
//! without data of requests. [`infer`] finds stages, arrows, waits and locks in it, by pure rules,
//! and [`draw`] makes of these a diagram that `headworks tad` checks, draws and simulates.
//!
//! Source: the Split and Maat dissertation, section 3.2 (TADalyzer), which needs stages that a
//! person annotates. Here threads' names, their loop functions and what they wait on take their
//! place.

pub mod capture;
mod compiled;
pub mod diff;
pub mod draw;
pub mod flame;
pub mod hints;
pub mod infer;
pub mod limits;
pub mod planted;
pub mod report;
pub mod trace;
pub mod truth;
mod unwind;
pub mod verdict;
