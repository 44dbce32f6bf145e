//! Searches for the cheapest remedies that reach a goal.
//!
//! The dissertation chooses by hand: it solves "the largest problems first", simulates, looks for
//! new problems, and weighs engineering effort against performance (section 4.3). A systematic
//! treatment of that effort is left open (section 4.5.4). Here it is a search:
//!
//! 1. *Choices* are the remedies of the system's file and those that the checks advise.
//! 2. *Sets* of choices come in order of their building cost ([`cost`]). A set has at most one
//!    letter for each problem. Sets that change nothing, or nothing new, are skipped.
//! 3. A set is *tried* with several workloads, the hardest first, and many seeds. It is dropped at
//!    the first run that misses a goal. Its failure says nothing about larger sets: one problem may
//!    hide another.
//! 4. The reference is the unchanged system. Isolation requires what *it* gives at base load. A set
//!    is no solution if a client of the goals is worse off, in any workload or in the scenario as
//!    written. Worse is less throughput on the whole, less in the worst interval, or a longer tail
//!    on the mean of the seeds.
//! 5. When a set holds, slightly more expensive ones are tried too, as they may perform better.
//!    They are dropped after the first seed if they do not. Sets that hold are reported with their
//!    measured cost. Those that no other set beats in every respect are the *front*, and the
//!    cheapest of these is the answer.
//!
//! The result depends only on the arguments: sets of equal cost, and the runs of a set, are made in
//! parallel, and evaluated in order.

mod candidate;
mod cost;
mod goal;
mod parallel;
mod search;
mod service;
#[cfg(test)]
mod tests;
mod trial;
mod untouched;
mod workload;

pub use candidate::Candidate;
pub use cost::Costs;
pub(crate) use cost::stages;
pub use goal::{Goal, GoalError, Miss, fraction};
pub use search::{FixError, Found, Options, SetReport, Watch, recheck, search};
pub use trial::{Measured, Verdict};
pub use workload::{Workload, without_policy, workloads};

pub(crate) use workload::{entitled, times};
