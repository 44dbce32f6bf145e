//! A small storage engine on the buffer manager: B+-trees with latch coupling, heap files, a
//! write-ahead log with group commit, and recovery by redo.
//!
//! How a transaction gets to disk:
//! 1. It collects its writes and takes a lock for each row. Pages are not changed.
//! 2. [`Transaction::commit`] reserves the pages and the frames that it could need, and appends one
//!    *commit record* with all its writes to the log.
//! 3. Each write is applied to its page by a *mini-transaction*, whose record tells which write of
//!    which commit it is, and what it does to the pages.
//! 4. The locks are released, and the caller waits until the log is durable.
//!
//! So pages never contain anything of a transaction whose commit record is not in the log, and
//! recovery needs no undo. It repeats the mini-transactions whose effect a page lacks, and applies
//! the remaining writes of interrupted commits.

#![forbid(unsafe_code)]

mod apply;
pub mod btree;
mod checkpointer;
mod directory;
mod engine;
mod error;
mod filelog;
mod frames;
mod health;
mod heap;
pub mod linkbench;
mod lock;
mod log;
mod logdev;
mod mtr;
mod node;
mod random;
mod record;
mod recovery;
mod repair;
mod row;
mod scan;
mod store;
pub mod tpcc;
mod txn;

pub use engine::{Engine, EngineConfig};
pub use error::EngineError;
pub use filelog::FileLog;
pub use logdev::{LogDevice, MemLog, QueuedLog};
pub use recovery::RecoveryReport;
pub use repair::{LogDamage, examine_log, repair_log};
pub use store::{TableId, TreeLatch};
pub use txn::Transaction;
