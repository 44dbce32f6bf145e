//! Syncs of storage; a sync that failed is remembered.
//!
//! A system that cannot write what it caches reports that to the next caller that syncs, and to
//! none after it (on Linux `fsync` reports a failed writeback once per open file and drops the
//! pages' dirty marks; Rebello et al., *Can Applications Recover from fsync Failures?*, USENIX ATC
//! 2020). A later sync that succeeds therefore does not make good an earlier one.

use crate::error::StorageError;
use crate::storage::Storage;
use parking_lot::{Mutex, RwLock};

/// Whether a sync has failed, shared by all that sync.
#[derive(Default)]
pub(crate) struct SyncState {
    /// Held shared by syncs on whose success nothing is given up, exclusively by those of
    /// checkpoints: they must not end well beside one that failed and has not said so yet.
    gate: RwLock<()>,
    /// The first that failed.
    failed: Mutex<Option<StorageError>>,
}

impl SyncState {
    /// SyncState `storage` for a page that stays dirty if that fails.
    pub(crate) fn of_page(&self, storage: &dyn Storage) -> Result<(), StorageError> {
        let _gate = self.gate.read();
        self.note(storage.sync())
    }

    /// SyncState `storage` for a checkpoint: an error if this one fails, or any did before.
    pub(crate) fn of_checkpoint(&self, storage: &dyn Storage) -> Result<(), StorageError> {
        let _gate = self.gate.write();
        self.check()?;
        self.note(storage.sync())
    }

    /// The first error, if there was one.
    pub(crate) fn check(&self) -> Result<(), StorageError> {
        self.failed.lock().clone().map_or(Ok(()), Err)
    }

    fn note(&self, synced: Result<(), StorageError>) -> Result<(), StorageError> {
        if let Err(error) = &synced {
            self.failed.lock().get_or_insert_with(|| error.clone());
        }
        synced
    }
}
