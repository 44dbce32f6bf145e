//! A range of another storage.

use super::{IoTag, PageRead, PageWrite, Storage, check_range};
use crate::error::StorageError;
use crate::ids::PageId;
use std::sync::Arc;

/// The pages `first..first + pages` of another storage, numbered from 0.
///
/// Puts the doublewrite area on the device of the pages, for realistic cost.
pub struct SubStorage {
    inner: Arc<dyn Storage>,
    first: u64,
    pages: u64,
}

impl SubStorage {
    /// # Errors
    /// [`StorageError::OutOfRange`] if the range is not within `inner`.
    pub fn new(inner: Arc<dyn Storage>, first: PageId, pages: u64) -> Result<Self, StorageError> {
        check_range(&*inner, first, pages)?;
        Ok(Self { inner, first: first.0, pages })
    }

    fn outer(&self, page: PageId, count: u64) -> Result<PageId, StorageError> {
        check_range(self, page, count)?;
        Ok(PageId(self.first + page.0))
    }
}

impl Storage for SubStorage {
    fn page_size(&self) -> usize {
        self.inner.page_size()
    }

    fn pages(&self) -> u64 {
        self.pages
    }

    fn read(&self, page: PageId, bytes: &mut [u8], tag: IoTag) -> Result<(), StorageError> {
        self.inner.read(self.outer(page, 1)?, bytes, tag)
    }

    fn write(&self, page: PageId, bytes: &[u8], tag: IoTag) -> Result<(), StorageError> {
        self.inner.write(self.outer(page, 1)?, bytes, tag)
    }

    fn write_run(&self, first: PageId, bytes: &[u8], tag: IoTag) -> Result<(), StorageError> {
        let count = (bytes.len() / self.page_size()) as u64;
        self.inner.write_run(self.outer(first, count)?, bytes, tag)
    }

    fn read_batch(
        &self,
        reads: &mut [PageRead<'_>],
        done: &mut dyn FnMut(usize, Result<(), StorageError>),
    ) {
        let mut inside = Vec::with_capacity(reads.len());
        let mut index = Vec::with_capacity(reads.len());
        for (at, read) in reads.iter_mut().enumerate() {
            match self.outer(read.page, 1) {
                Ok(page) => {
                    inside.push(PageRead { page, bytes: read.bytes, tag: read.tag });
                    index.push(at);
                }
                Err(error) => done(at, Err(error)),
            }
        }
        self.inner.read_batch(&mut inside, &mut |at, result| done(index[at], result));
    }

    fn write_batch(
        &self,
        writes: &[PageWrite<'_>],
        done: &mut dyn FnMut(usize, Result<(), StorageError>),
    ) {
        let mut inside = Vec::with_capacity(writes.len());
        let mut index = Vec::with_capacity(writes.len());
        for (at, write) in writes.iter().enumerate() {
            match self.outer(write.page, 1) {
                Ok(page) => {
                    inside.push(PageWrite { page, ..*write });
                    index.push(at);
                }
                Err(error) => done(at, Err(error)),
            }
        }
        self.inner.write_batch(&inside, &mut |at, result| done(index[at], result));
    }

    fn sync(&self) -> Result<(), StorageError> {
        self.inner.sync()
    }
}
