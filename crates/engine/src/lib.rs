//! A small storage engine on the buffer manager: B+-trees with latch coupling, heap files, a
//! write-ahead log with group commit, and recovery by redo.
//!
//! How a transaction gets to disk:
//! 1. It collects its writes and takes a lock for each row. Pages see nothing of it.
//! 2. [`Transaction::commit`] appends one *commit record* with all its writes to the log.
//! 3. Each write is carried out on its page by a *mini-transaction*, whose record says which write
//!    of which commit it is, and what it does to the pages.
//! 4. The locks are given back, and the caller waits until the log is durable.
//!
//! So pages never hold anything of a transaction whose commit record is not in the log, and
//! recovery needs no undo: it repeats the mini-transactions whose effect a page lacks, and carries
//! out the writes of commits that were cut short.

#![forbid(unsafe_code)]

mod apply;
pub mod btree;
mod checkpointer;
mod directory;
mod engine;
mod error;
mod filelog;
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
