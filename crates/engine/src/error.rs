//! Errors of the engine.

use crate::repair::LogDamage;
use headworks_bufferpool::{PageId, PoolError, StorageError, WalError};

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
    /// The transaction asked to end without effect.
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
        "too few pages are left of {pages}: make the storage larger (FileStorage::grow), and open the engine again"
    )]
    Full {
        /// Pages of the storage.
        pages: u64,
    },
    /// The commit is durable in the log, but not all of its pages could be changed.
    #[error(
        "the commit took place, but could not be carried out in full ({0}): see to the storage, then open the engine \
         again: recovery completes it"
    )]
    Unfinished(String),
    /// A page is unusable. The transaction that needs it has no effect.
    #[error(
        "page {page} is out of service ({reason}): its rows can be neither read nor changed, all others can. Put the \
         page back from a mirror or a backup of the same time and open the engine again: the log keeps the changes \
         that it lacks. Or copy the other rows into a new database"
    )]
    OutOfService {
        /// The page.
        page: PageId,
        /// Why.
        reason: String,
    },
    /// A database exists where one was to be made.
    #[error("there is a database already: open it, or remove its files")]
    Exists,
    /// The process that made the database was killed before it finished.
    #[error("the creation of the database was interrupted: repeat `Engine::create`")]
    NotMade,
    /// The log's files.
    #[error("the log: {0}")]
    LogFiles(#[from] std::io::Error),
    /// The log is damaged, and not at its end.
    #[error(
        "the log is damaged at {}; nothing was cut off. Restore the log from a backup, or give up the damaged \
         bytes: `cargo run -p headworks-engine --example repair -- DIRECTORY_OF_THE_LOG` lists them",
        LogDamage::list(.0)
    )]
    LogDamaged(Vec<LogDamage>),
    /// An earlier commit could not be applied or made durable, so this one had no effect.
    #[error(
        "an earlier commit could not be carried out or made durable, so nothing is changed any more: see to the \
         storage, open the engine again"
    )]
    Poisoned,
    /// Stored data differ from what was written.
    #[error("{what} is damaged: restore it from a backup")]
    Damaged {
        /// What.
        what: String,
    },
}

impl EngineError {
    /// An error of the pool: [`EngineError::OutOfService`] if it concerns only this page.
    pub(crate) fn of_page(page: PageId, error: PoolError) -> Self {
        match error {
            PoolError::Checksum { .. }
            | PoolError::Misplaced { .. }
            | PoolError::NeverWritten { .. }
            | PoolError::Storage(
                StorageError::Io { operation: "read", .. }
                | StorageError::Short { .. }
                | StorageError::OutOfRange { .. },
            ) => Self::OutOfService { page, reason: error.to_string() },
            other => Self::Pool(other),
        }
    }
}
