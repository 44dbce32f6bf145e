//! Storage of pages: the trait and its implementations.
//!
//! | type | is |
//! | --- | --- |
//! | [`FileStorage`] | a file or block device, O_DIRECT, io_uring or threads for batches |
//! | [`MemStorage`] | memory; for tests and below simulated devices |
//! | [`SimDevice`] | any storage behind a modelled device: parallel units, service times |
//! | [`PowerCutStorage`] | any storage behind a volatile write cache that a power cut loses or tears |
//! | [`FaultStorage`] | any storage with errors on demand |
//! | [`SubStorage`] | a stretch of another storage |
//! | [`QueuedStorage`] | any storage behind a queue that an [`IoScheduler`] orders |

mod fault;
mod file;
mod label;
mod mem;
mod model;
mod powercut;
mod queue;
mod queued;
mod sim;
mod sub_range;
mod threads;
mod uring;

pub use fault::{Fault, FaultStorage};
pub use file::{AsyncIo, FileOptions, FileStorage};
pub use mem::MemStorage;
pub use model::{Command, CommandKind, DeviceModel, HostQueue, Timing};
pub use powercut::PowerCutStorage;
pub use queue::{Fifo, IoId, IoNext, IoQueue, IoRequest, IoScheduler, IoTurn};
pub use queued::QueuedStorage;
pub use sim::{SimDevice, SimStats};
pub use sub_range::SubStorage;

use crate::error::StorageError;
use crate::ids::PageId;

/// Why a page is read or written: the queue to which the request belongs.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum IoKind {
    /// A foreground thread waits for the page.
    Miss,
    /// The page is expected to be needed.
    Prefetch,
    /// A foreground thread waits for the frame: a read stall.
    StallFlush,
    /// The flusher frees frames.
    LruFlush,
    /// The checkpointer lets the log be cut.
    CheckpointFlush,
    /// A copy into the doublewrite area.
    Doublewrite,
    /// Not the pool's own: recovery, tools.
    Other,
    /// A write-ahead log's write. The pool makes none; a log that enters an [`IoQueue`] does.
    Log,
}

impl IoKind {
    /// Every kind, in the order of [`IoKind::index`].
    pub const ALL: [IoKind; Self::COUNT] = [
        IoKind::Miss,
        IoKind::Prefetch,
        IoKind::StallFlush,
        IoKind::LruFlush,
        IoKind::CheckpointFlush,
        IoKind::Doublewrite,
        IoKind::Other,
        IoKind::Log,
    ];

    /// How many there are.
    pub const COUNT: usize = 8;

    /// The kind's place in tables.
    #[must_use]
    pub fn index(self) -> usize {
        match self {
            IoKind::Miss => 0,
            IoKind::Prefetch => 1,
            IoKind::StallFlush => 2,
            IoKind::LruFlush => 3,
            IoKind::CheckpointFlush => 4,
            IoKind::Doublewrite => 5,
            IoKind::Other => 6,
            IoKind::Log => 7,
        }
    }
}

/// What a storage may use, beside the page, to order requests.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct IoTag {
    /// Why.
    pub kind: IoKind,
    /// The cause: the caller of a read, or the user that changed a written page most. 0 means none,
    /// also for a batch of doublewrite copies, which serve all causes of its pages. See
    /// [`crate::cause`].
    pub cause: u32,
}

impl IoTag {
    /// A request without a cause.
    #[must_use]
    pub fn of(kind: IoKind) -> Self {
        Self { kind, cause: 0 }
    }
}

/// A page to write.
#[derive(Clone, Copy)]
pub struct PageWrite<'a> {
    /// Where to.
    pub page: PageId,
    /// One page of bytes.
    pub bytes: &'a [u8],
    /// Its cause and purpose.
    pub tag: IoTag,
}

/// A page to read.
pub struct PageRead<'a> {
    /// Where from.
    pub page: PageId,
    /// One page of bytes.
    pub bytes: &'a mut [u8],
    /// Its cause and purpose.
    pub tag: IoTag,
}

/// Page I/O.
///
/// Calls block until the request is done; for several requests in flight, use several threads or a
/// batch. A write is *done* when a later read sees it, and *durable* when a
/// [`Storage::sync`] that began after it was done has returned. Buffers of the pool start at
/// multiples of 4096 bytes.
pub trait Storage: Send + Sync {
    /// Bytes of a page: a power of two, at least 512.
    fn page_size(&self) -> usize;

    /// Number of pages; they are numbered from 0.
    fn pages(&self) -> u64;

    /// Reads one page into `bytes` (one page long).
    ///
    /// # Errors
    /// Those of the storage; `bytes` is then unspecified.
    fn read(&self, page: PageId, bytes: &mut [u8], tag: IoTag) -> Result<(), StorageError>;

    /// Writes one page.
    ///
    /// # Errors
    /// Those of the storage; the page's content there is then unspecified.
    fn write(&self, page: PageId, bytes: &[u8], tag: IoTag) -> Result<(), StorageError>;

    /// Writes `bytes`, a whole number of pages, to consecutive pages from `first`, as one request.
    ///
    /// # Errors
    /// As [`Storage::write`], for all of them.
    fn write_run(&self, first: PageId, bytes: &[u8], tag: IoTag) -> Result<(), StorageError> {
        for (at, page) in bytes.chunks(self.page_size()).enumerate() {
            self.write(PageId(first.0 + at as u64), page, tag)?;
        }
        Ok(())
    }

    /// Reads many pages, as many at once as the storage can, in any order.
    ///
    /// `done` is called once for each, with its index in `reads` and its result, as soon as that is
    /// known. All have ended when the call returns.
    fn read_batch(
        &self,
        reads: &mut [PageRead<'_>],
        done: &mut dyn FnMut(usize, Result<(), StorageError>),
    ) {
        for (at, read) in reads.iter_mut().enumerate() {
            done(at, self.read(read.page, read.bytes, read.tag));
        }
    }

    /// Writes many pages, as many at once as the storage can, in any order.
    ///
    /// `done` is called once for each, with its index in `writes` and its result, as soon as that
    /// is known. All have ended when the call returns.
    fn write_batch(
        &self,
        writes: &[PageWrite<'_>],
        done: &mut dyn FnMut(usize, Result<(), StorageError>),
    ) {
        for (at, write) in writes.iter().enumerate() {
            done(at, self.write(write.page, write.bytes, write.tag));
        }
    }

    /// Makes every write durable that was done when the call began.
    ///
    /// # Errors
    /// Those of the storage; none of those writes may then be taken for durable.
    fn sync(&self) -> Result<(), StorageError>;
}

/// Refuses pages beyond the end.
pub(crate) fn check_range(
    storage: &dyn Storage,
    page: PageId,
    count: u64,
) -> Result<(), StorageError> {
    let pages = storage.pages();
    match page.0.checked_add(count) {
        Some(end) if end <= pages => Ok(()),
        _ => Err(StorageError::OutOfRange { page, pages }),
    }
}
