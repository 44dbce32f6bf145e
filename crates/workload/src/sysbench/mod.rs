//! The OLTP workloads of sysbench 1.0 (Kopytov), which most measurements of MySQL and its kin use:
//! many small rows in equal tables, read and changed by id.
//!
//! * [`Tables`] has their number and size; [`load`] makes them, and [`check`] checks that all rows
//!   exist.
//! * [`Oltp`] is a workload: the [operations](Operation) of a request.
//! * [`Inputs`] draws one user's requests, the same ones for the same seed; [`Popularity`] chooses
//!   their rows.
//! * [`User`] is a client for the [driver](crate::driver).
//!
//! Tables, statements, their numbers and order, and the distribution of rows are sysbench's, so
//! that numbers can be compared. There are three differences. Rows are loaded with their ids, and
//! not numbered by the server. A request that fails for a temporary reason is repeated unchanged,
//! where sysbench draws another. And statements are sent as the [`Database`](crate::db::Database)
//! is set, by default as text, where sysbench prepares them.

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
