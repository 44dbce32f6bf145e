//! The pool's interface to a write-ahead log.

use crate::error::WalError;
use crate::ids::Lsn;

/// A write-ahead log. The pool writes a page only after the log is durable up to the page's LSN.
pub trait Wal: Send + Sync {
    /// The position after the last record that was appended.
    fn end_lsn(&self) -> Lsn;

    /// The log is durable up to here.
    fn flushed_lsn(&self) -> Lsn;

    /// Makes the log durable at least up to `lsn` before it returns.
    ///
    /// # Errors
    /// If that failed; the pool then keeps the pages that need it in memory.
    fn flush_to(&self, lsn: Lsn) -> Result<(), WalError>;
}

/// For users without a log: everything counts as durable.
#[derive(Debug, Default, Clone, Copy)]
pub struct NoWal;

impl Wal for NoWal {
    fn end_lsn(&self) -> Lsn {
        Lsn(1)
    }

    fn flushed_lsn(&self) -> Lsn {
        Lsn::MAX
    }

    fn flush_to(&self, _lsn: Lsn) -> Result<(), WalError> {
        Ok(())
    }
}
