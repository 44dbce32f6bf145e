//! TPC-C (revision 5.11 of the specification): a wholesale supplier's order entry.
//!
//! Clause numbers in these pages are the specification's. As in tpcc-mysql, terminals send the
//! statements of a transaction one by one and wait for each answer. By default they neither key nor
//! think. What is measured that way is *a workload after TPC-C*, not a TPC-C result, and never
//! `tpmC` in the sense of the specification.

mod check;
mod deck;
mod input;
mod load;
mod names;
mod population;
mod rows;
mod schema;
mod terminal;
mod transactions;

pub use crate::condition::Condition;
pub use check::check;
pub use deck::{Deck, Mix, MixHandle, Transaction};
pub use input::{Home, Input, Inputs, OrderLine, Selector};
pub use load::{LoadOptions, load};
pub use names::{NuRand, last_name, run_constant};
pub use population::Population;
pub use terminal::{Pace, Terminal, TerminalOptions};
