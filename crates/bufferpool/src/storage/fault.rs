//! Errors on demand.

use super::{IoTag, PageWrite, Storage};
use crate::error::StorageError;
use crate::ids::PageId;
use crate::memory::AlignedBuffer;
use parking_lot::Mutex;
use std::sync::Arc;

/// What goes wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// Reads of the page fail with EIO.
    ReadError(PageId),
    /// Writes of the page fail with EIO.
    WriteError(PageId),
    /// Writes of the page fail with EIO after half of it was written.
    TornWrite(PageId),
    /// Every write fails with EIO.
    AllWrites,
    /// Every write fails with ENOSPC.
    Full,
    /// Syncs end with EIO.
    SyncError,
    /// Reads of the page see one bit changed.
    FlippedBit(PageId),
    /// Reads of the page see the content of another page.
    Misdirected(PageId, PageId),
}

/// A storage with faults on demand.
pub struct FaultStorage {
    inner: Arc<dyn Storage>,
    faults: Mutex<Vec<Fault>>,
}

impl FaultStorage {
    /// Without faults at first.
    #[must_use]
    pub fn new(inner: Arc<dyn Storage>) -> Self {
        Self { inner, faults: Mutex::new(Vec::new()) }
    }

    /// From here on `fault` happens.
    pub fn inject(&self, fault: Fault) {
        self.faults.lock().push(fault);
    }

    /// No more faults.
    pub fn heal(&self) {
        self.faults.lock().clear();
    }

    fn has(&self, fault: Fault) -> bool {
        self.faults.lock().contains(&fault)
    }

    fn eio(operation: &'static str, page: PageId) -> StorageError {
        let error = std::io::Error::from_raw_os_error(libc::EIO);
        StorageError::from_io(operation, page, &error)
    }

    fn refuse_write(&self, page: PageId) -> Result<(), StorageError> {
        if self.has(Fault::Full) {
            return Err(StorageError::NoSpace { page });
        }
        if self.has(Fault::AllWrites) || self.has(Fault::WriteError(page)) {
            return Err(Self::eio("write", page));
        }
        Ok(())
    }

    fn tear_write(&self, page: PageId, bytes: &[u8], tag: IoTag) -> Result<(), StorageError> {
        if !self.has(Fault::TornWrite(page)) {
            return Ok(());
        }
        let mut torn = AlignedBuffer::new(bytes.len());
        self.inner.read(page, &mut torn, tag)?;
        torn[..bytes.len() / 2].copy_from_slice(&bytes[..bytes.len() / 2]);
        self.inner.write(page, &torn, tag)?;
        Err(Self::eio("write", page))
    }
}

impl Storage for FaultStorage {
    fn page_size(&self) -> usize {
        self.inner.page_size()
    }

    fn pages(&self) -> u64 {
        self.inner.pages()
    }

    fn read(&self, page: PageId, bytes: &mut [u8], tag: IoTag) -> Result<(), StorageError> {
        if self.has(Fault::ReadError(page)) {
            return Err(Self::eio("read", page));
        }
        let misdirected = self.faults.lock().iter().find_map(|fault| match *fault {
            Fault::Misdirected(from, to) if from == page => Some(to),
            _ => None,
        });
        self.inner.read(misdirected.unwrap_or(page), bytes, tag)?;
        if self.has(Fault::FlippedBit(page)) {
            let middle = bytes.len() / 2;
            bytes[middle] ^= 4;
        }
        Ok(())
    }

    fn write(&self, page: PageId, bytes: &[u8], tag: IoTag) -> Result<(), StorageError> {
        self.refuse_write(page)?;
        self.tear_write(page, bytes, tag)?;
        self.inner.write(page, bytes, tag)
    }

    fn write_run(&self, first: PageId, bytes: &[u8], tag: IoTag) -> Result<(), StorageError> {
        for at in 0..(bytes.len() / self.page_size()) as u64 {
            self.refuse_write(PageId(first.0 + at))?;
        }
        self.inner.write_run(first, bytes, tag)
    }

    fn write_batch(
        &self,
        writes: &[PageWrite<'_>],
        done: &mut dyn FnMut(usize, Result<(), StorageError>),
    ) {
        let mut sound = Vec::with_capacity(writes.len());
        let mut index = Vec::with_capacity(writes.len());
        for (at, write) in writes.iter().enumerate() {
            let refused = self.refuse_write(write.page);
            match refused.and_then(|()| self.tear_write(write.page, write.bytes, write.tag)) {
                Ok(()) => {
                    sound.push(*write);
                    index.push(at);
                }
                Err(error) => done(at, Err(error)),
            }
        }
        self.inner.write_batch(&sound, &mut |at, result| done(index[at], result));
    }

    fn sync(&self) -> Result<(), StorageError> {
        if self.has(Fault::SyncError) {
            return Err(Self::eio("sync", PageId::NONE));
        }
        self.inner.sync()
    }
}
