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
//!    the first run that misses a goal. That a set fails says nothing about larger ones: one
//!    problem may hide another.
//! 4. The measure is the system as it is. What isolation asks for is what *it* gives at base load,
//!    and a set that makes worse off whom a goal is for, in any workload or in the scenario as it
//!    is written, is no solution. Worse is less throughput on the whole, less in the worst
//!    interval, or a longer tail.
//! 5. When one holds, those that cost a little more are tried too, as they may perform better. They
//!    are dropped after the first seed if they do not. What holds is reported with its measured
//!    cost; what nothing else beats in every respect is the *front*, and its cheapest set is the
//!    answer.
//!
//! The result depends on the arguments alone: sets of one cost are tried side by side, but taken in
//! order.

mod candidate;
mod cost;
mod goal;
mod search;
mod service;
#[cfg(test)]
mod tests;
mod trial;
mod untouched;
mod workload;

pub use candidate::Candidate;
pub use cost::Costs;
pub use goal::{Goal, GoalError, Miss, fraction};
pub use search::{FixError, Found, Options, SetReport, Watch, search};
pub use trial::{Measured, Verdict};
pub use workload::{Workload, workloads};

pub(crate) use workload::{entitled, times};
