//! Any storage behind a queue that a scheduler orders.

use super::queue::{IoQueue, IoRequest};
use super::threads::work_through;
use super::{IoTag, PageRead, PageWrite, Storage};
use crate::error::StorageError;
use crate::ids::PageId;
use std::sync::Arc;

/// Any storage whose requests wait for their turn in an [`IoQueue`]. Several storages of one device
/// share a queue.
///
/// The requests of a batch enter one by one, from a few more threads than the queue has places. So
/// the scheduler has a choice, and other requests can go in between. A storage that submits whole
/// batches (io_uring) loses that. A sync goes straight through: the writes that it covers have
/// ended.
pub struct QueuedStorage {
    inner: Arc<dyn Storage>,
    queue: Arc<IoQueue>,
}

/// Requests of a batch that wait in the queue, beside those in progress.
const AHEAD: usize = 16;

impl QueuedStorage {
    /// Puts `inner` behind `queue`.
    #[must_use]
    pub fn new(inner: Arc<dyn Storage>, queue: Arc<IoQueue>) -> Self {
        Self { inner, queue }
    }
}

impl Storage for QueuedStorage {
    fn page_size(&self) -> usize {
        self.inner.page_size()
    }

    fn pages(&self) -> u64 {
        self.inner.pages()
    }

    fn read(&self, page: PageId, bytes: &mut [u8], tag: IoTag) -> Result<(), StorageError> {
        let _turn = self.queue.enter(IoRequest { write: false, first: page, pages: 1, tag });
        self.inner.read(page, bytes, tag)
    }

    fn write(&self, page: PageId, bytes: &[u8], tag: IoTag) -> Result<(), StorageError> {
        let _turn = self.queue.enter(IoRequest { write: true, first: page, pages: 1, tag });
        self.inner.write(page, bytes, tag)
    }

    fn write_run(&self, first: PageId, bytes: &[u8], tag: IoTag) -> Result<(), StorageError> {
        // A run is far below 2^32 pages.
        let pages = (bytes.len() / self.page_size()) as u32;
        let _turn = self.queue.enter(IoRequest { write: true, first, pages, tag });
        self.inner.write_run(first, bytes, tag)
    }

    fn read_batch(
        &self,
        reads: &mut [PageRead<'_>],
        done: &mut dyn FnMut(usize, Result<(), StorageError>),
    ) {
        let work = |read: &mut PageRead<'_>| self.read(read.page, read.bytes, read.tag);
        work_through(self.queue.places() + AHEAD, reads.iter_mut(), &work, done);
    }

    fn write_batch(
        &self,
        writes: &[PageWrite<'_>],
        done: &mut dyn FnMut(usize, Result<(), StorageError>),
    ) {
        let work = |write: &PageWrite<'_>| self.write(write.page, write.bytes, write.tag);
        work_through(self.queue.places() + AHEAD, writes.iter(), &work, done);
    }

    fn sync(&self) -> Result<(), StorageError> {
        self.inner.sync()
    }
}
