//! Syncs of storage; a failed sync is remembered.
//!
//! A system that cannot write cached data reports that to the next caller that syncs, and to none
//! after it. On Linux, `fsync` reports a failed writeback once per open file and clears the pages'
//! dirty marks (Rebello et al., *Can Applications Recover from fsync Failures?*, USENIX ATC 2020).
//! So a later successful sync does not make up for an earlier failure.

use crate::error::StorageError;
use crate::storage::Storage;
use parking_lot::{Mutex, RwLock};

/// Whether a sync has failed; shared by all code that syncs.
#[derive(Default)]
pub(crate) struct SyncState {
    /// Held shared by syncs on which nothing depends, exclusively by those of checkpoints. A
    /// checkpoint's sync must not succeed beside one that has failed but is not recorded yet.
    gate: RwLock<()>,
    /// The first that failed.
    failed: Mutex<Option<StorageError>>,
}

impl SyncState {
    /// Syncs `storage` for a page that stays dirty if that fails.
    pub(crate) fn of_page(&self, storage: &dyn Storage) -> Result<(), StorageError> {
        let _gate = self.gate.read();
        self.note(storage.sync())
    }

    /// Syncs `storage` for a checkpoint. Fails if this sync fails, or if any has failed before.
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
