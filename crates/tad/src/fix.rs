//! Searching for the cheapest remedies with which a goal holds.
//!
//! The dissertation chooses by hand: it solves "the largest problems first", simulates, looks what
//! comes to light, and weighs engineering effort against performance (section 4.3); how to reason
//! about that effort systematically it leaves open (section 4.5.4). Here it is a search:
//!
//! 1. *Choices* are the remedies of the system's file and those that the checks advise.
//! 2. *Sets* of them come in order of what they cost to build ([`cost`]). A set holds at most one
//!    letter for each problem. One that changes nothing, or nothing new, is not tried.
//! 3. A set is *tried* with several workloads, the hardest first, and many seeds. It is dropped at
//!    the first run that misses a goal. That a set fails says nothing about larger ones: one problem
//!    may hide another.
//! 4. When one holds, those that cost a little more are tried too, as they may perform better. What
//!    holds is reported with its measured cost; what nothing else beats in every respect is the
//!    *front*.
//!
//! The result depends on the arguments alone: sets of one cost are tried side by side, but taken in
//! order.

mod candidate;
mod cost;
mod goal;
mod search;
mod trial;
mod workload;

pub use candidate::Candidate;
pub use cost::Costs;
pub use goal::{Floor, Goal, GoalError, Miss, fraction};
pub use search::{FixError, Found, Options, SetReport, search};
pub use trial::{Measured, Verdict};
pub use workload::{Workload, workloads};

pub(crate) use workload::{entitled, times};
