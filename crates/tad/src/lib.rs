//! Thread architecture diagrams (TADs): a system's threads, queues and resources, which of them can
//! be scheduled, and the effect of schedulers.
//!
//! A diagram is data ([`model::Tad`], one TOML file for each system). It is drawn, checked for
//! problems that prevent scheduling, changed by remedies, and executed by a discrete-event
//! simulator that runs the schedulers of `headworks-policy`.
//!
//! Source: the Split and Maat dissertation, chapters 3 (diagrams) and 4 (the Maat principle).
#![forbid(unsafe_code)]

pub mod check;
pub mod complete;
pub mod explain;
pub mod file;
pub mod fix;
mod graph;
pub mod maat;
pub mod model;
pub mod remedy;
pub mod render;
pub mod scenario;
pub mod scenarios;
pub mod sim;
pub mod spread;
pub mod sweep;
pub mod systems;
pub mod units;
