//! One set of tenants, weights, limits and targets for many nodes, and the commands about HBase.
//!
//! The decision is pure: `policy::cluster`. No request needs a controller. While it is away, each
//! node goes on with the weights that it heard last.
//!
//! ```text
//!  region servers, DataNodes (plugins/hbase) --+   uses
//!  gates (attach) -----------------------------+--------> desk -> policy::cluster
//!                                              |<--------  weights, limits: pushed
//!  stores <- their etcd: targets <- keeper ----+
//! ```
//!
//! [`wire`] has the lines that nodes and controller say. [`desk`] knows who is there and what each
//! must be told. [`keeper`] keeps what operators have set ([`tenant`]), and knows which controller
//! is in office. [`server`] has the threads. [`hbase`] edits and checks a stock HBase.
#![forbid(unsafe_code)]

pub mod attach;
pub mod config;
pub mod desk;
pub mod hbase;
pub mod keeper;
pub mod server;
pub mod tenant;
pub mod wire;
