//! What can go wrong in the engine.

use headworks_bufferpool::{PoolError, WalError};

/// A failed operation of the engine.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// The buffer pool failed.
    #[error(transparent)]
    Pool(#[from] PoolError),
    /// The log failed.
    #[error(transparent)]
    Wal(#[from] WalError),
    /// A row stayed locked for too long: a deadlock or a very long transaction.
    #[error("a row of table {table} stayed locked for {waited_ms} ms: run the transaction again")]
    LockTimeout {
        /// The table's number.
        table: u32,
        /// How long the transaction waited.
        waited_ms: u64,
    },
    /// The transaction wants to end without effect.
    #[error("the transaction was rolled back: {0}")]
    Rollback(&'static str),
    /// A key or value is too long for a page.
    #[error("a row of {bytes} bytes does not fit: at most {limit} are possible")]
    TooLong {
        /// Length of key or value.
        bytes: usize,
        /// The limit.
        limit: usize,
    },
    /// The storage is used up.
    #[error(
        "too few pages are left of {pages}: make the storage larger (FileStorage::grow), open the engine anew"
    )]
    Full {
        /// Pages of the storage.
        pages: u64,
    },
    /// This commit is durable in the log, but its pages could not be changed.
    #[error(
        "the commit took place, but could not be carried out ({0}): open the engine anew, recovery completes it"
    )]
    Unfinished(String),
    /// An earlier commit could not be carried out or made durable, so this one did not take place.
    #[error(
        "an earlier commit could not be carried out or made durable, so nothing is changed any more: see to the \
         storage, open the engine anew"
    )]
    Poisoned,
    /// Something stored is not what was put there.
    #[error("{what} is damaged: restore it from a backup")]
    Damaged {
        /// What.
        what: String,
    },
}
