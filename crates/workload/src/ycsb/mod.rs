//! The Yahoo! Cloud Serving Benchmark (Cooper and others 2010): the six standard workloads, A to F.
//!
//! * [`Core`] is a workload: shares of five operations, and which records they use.
//! * [`Inputs`] draws one user's requests, the same ones for the same seed.
//! * [`Records`] knows, for all users of a run, which records exist.
//! * [`load`] fills a store, and [`User`] is a client for the [driver](crate::driver). [`Address`]
//!   names the store: a Redis, a memcached or a server of MongoDB's protocol.
//! * [`Record`] is a stored record: ten fields of 100 bytes under a [`Key`].

mod core;
mod inputs;
mod load;
mod memcached;
mod mongodb;
mod record;
mod records;
mod redis;
mod store;
mod user;
mod zipf;

pub use core::{Core, Operation, Popularity};
pub use inputs::{Change, Input, Inputs, SCAN_MAX};
pub use load::load;
pub use record::{FIELD_BYTES, FIELD_NAMES, FIELDS, Key, Record, value};
pub use records::Records;
pub use store::{Address, Store};
pub use user::{User, UserOptions};
pub use zipf::Zipf;
