//! The OLTP workloads of sysbench 1.0 (Kopytov), which most measurements of MySQL and its kin use:
//! many small rows in equal tables, read and changed by their ids.
//!
//! * [`Tables`] says how many there are and how large; [`load`] makes them, and [`check`] looks
//!   whether all rows are there.
//! * [`Oltp`] is a workload: which [operations](Operation) a request consists of.
//! * [`Inputs`] draws one user's requests, the same ones from the same seed; [`Popularity`] says
//!   which rows they are of.
//! * [`User`] is a client for the [driver](crate::driver).
//!
//! Tables, statements, their numbers and their order, and the distribution of rows are sysbench's,
//! so that numbers can be compared. What is different: rows are loaded with their ids instead of
//! counted by the server; a request that fails for a reason that passes is tried again as it was,
//! where sysbench draws another; and statements travel as the [`Database`](crate::db::Database)
//! says, as text unless told otherwise, where sysbench prepares them.

mod check;
mod inputs;
mod load;
mod oltp;
mod popularity;
mod statements;
mod tables;
mod user;

pub use crate::condition::Condition;
pub use check::check;
pub use inputs::{Action, Inputs, RANGE, Step};
pub use load::{LoadOptions, load};
pub use oltp::{Oltp, Operation};
pub use popularity::Popularity;
pub use tables::Tables;
pub use user::{User, UserOptions};
