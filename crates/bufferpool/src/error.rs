//! Errors, and their consequences for the pool.
//!
//! After every error listed here the pool stays usable. A page whose write failed stays dirty and
//! in memory, and the next round tries again. A page whose read failed is not in the pool.
//!
//! One error is remembered: a failed sync. The system reports it once, and may have dropped the
//! writes before it; a later successful sync does not restore them. So from then on no checkpoint
//! is taken, and `close` fails: the log from the last checkpoint on is needed.
//!
//! With a doublewrite area no page is written any more either, as copies may be all that is left of
//! torn pages. Reads and changes go on while there are clean frames, and then fail with that error.
//! Open the storage again and recover.

use crate::ids::{Lsn, PageId};
use std::path::PathBuf;

/// A failed operation on storage.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum StorageError {
    /// The device or the kernel refused the operation (EIO and its like).
    #[error("{operation}{} failed: {message}; {}", of_page(*page), advice(operation))]
    Io {
        /// `"read"`, `"write"` or `"sync"`.
        operation: &'static str,
        /// The page, [`PageId::NONE`] for a sync.
        page: PageId,
        /// The system's error number, if it was a system error.
        errno: Option<i32>,
        /// The system's words.
        message: String,
    },
    /// No space for the page.
    #[error(
        "no space left for page {page}: free some space or enlarge the volume; the page stays in \
         memory and is written again later"
    )]
    NoSpace {
        /// The page for which there was no space.
        page: PageId,
    },
    /// The page lies beyond the end of the storage.
    #[error(
        "page {page} lies beyond the end of the storage ({pages} pages): a truncated file, or a \
         page number that does not belong to it"
    )]
    OutOfRange {
        /// The page asked for.
        page: PageId,
        /// Pages that the storage has.
        pages: u64,
    },
    /// Fewer bytes were read than a page has.
    #[error("page {page} is cut short, {got} of {want} bytes: the file was truncated")]
    Short {
        /// The page asked for.
        page: PageId,
        /// Bytes that came.
        got: usize,
        /// Bytes of a page.
        want: usize,
    },
    /// The file is not a page file.
    #[error("{path} is not a page file: {reason}; create one with FileStorage::create")]
    Foreign {
        /// The file.
        path: PathBuf,
        /// What does not fit.
        reason: String,
    },
    /// Another process has it open.
    #[error(
        "{path} is in use, by another process or by this one: close it there (`fuser -v {path}` names the process)"
    )]
    InUse {
        /// The file.
        path: PathBuf,
    },
    /// The file could not be opened, created or sized.
    #[error("{path}: {message}")]
    Open {
        /// The file.
        path: PathBuf,
        /// The system's words.
        message: String,
    },
}

fn of_page(page: PageId) -> String {
    if page == PageId::NONE { String::new() } else { format!(" of page {page}") }
}

fn advice(operation: &str) -> &'static str {
    if operation == "sync" {
        "what was written since the last checkpoint may be lost: check `dmesg`, open the storage again, and recover \
         from the log"
    } else {
        "the device may be failing: check `dmesg`"
    }
}

impl StorageError {
    /// Sorts a system error: ENOSPC and EDQUOT are [`StorageError::NoSpace`], the rest `Io`.
    pub fn from_io(operation: &'static str, page: PageId, error: &std::io::Error) -> Self {
        match error.raw_os_error() {
            Some(libc::ENOSPC | libc::EDQUOT) => Self::NoSpace { page },
            errno => Self::Io { operation, page, errno, message: error.to_string() },
        }
    }
}

/// The log could not be made durable; no page that depends on it is written.
#[derive(Debug, Clone, thiserror::Error)]
#[error("the log is not durable up to {wanted}: {message}; pages that need it stay in memory")]
pub struct WalError {
    /// The position that had to be durable.
    pub wanted: Lsn,
    /// Why it is not.
    pub message: String,
}

impl PoolError {
    /// Whether the bytes of a page are not those that were written.
    pub(crate) fn is_bad_page(&self) -> bool {
        matches!(self, Self::Checksum { .. } | Self::Misplaced { .. } | Self::NeverWritten { .. })
    }
}

/// A failed operation of the pool.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum PoolError {
    /// Storage failed.
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// The write-ahead log failed.
    #[error(transparent)]
    Wal(#[from] WalError),
    /// The page's bytes differ from those that were written.
    #[error(
        "page {page} fails its checksum (stored {stored:#010x}, computed {computed:#010x}): a torn \
         or damaged page; recover it from the doublewrite area or a backup"
    )]
    Checksum {
        /// The page.
        page: PageId,
        /// The checksum in its header.
        stored: u32,
        /// The checksum of its bytes.
        computed: u32,
    },
    /// The page is intact, but is another one, or not a page of ours.
    #[error(
        "page {page} carries another identity ({reason}): a foreign file or a misdirected write"
    )]
    Misplaced {
        /// The page asked for.
        page: PageId,
        /// What was found.
        reason: String,
    },
    /// Nothing was ever written there (all bytes zero).
    #[error("page {page} was never written: create it before it is read")]
    NeverWritten {
        /// The page.
        page: PageId,
    },
    /// For the configured time, every frame was pinned or being written.
    #[error(
        "no frame came free within {waited_ms} ms for page {page}: {pinned} of {frames} frames are \
         pinned; pin fewer pages at once or give the pool more frames"
    )]
    Exhausted {
        /// The page that needed a frame.
        page: PageId,
        /// How long it waited.
        waited_ms: u64,
        /// Pinned frames of the instance.
        pinned: usize,
        /// Frames of the instance.
        frames: usize,
    },
    /// For the configured time no frame came free, because dirty pages cannot be written.
    #[error(
        "no frame came free within {waited_ms} ms for page {page}, because dirty pages cannot be \
         written: {cause}"
    )]
    Unwritable {
        /// The page that needed a frame.
        page: PageId,
        /// How long it waited.
        waited_ms: u64,
        /// The last error of a write.
        #[source]
        cause: Box<PoolError>,
    },
    /// The pool does not fit in memory.
    #[error(
        "a pool of {wanted_bytes} bytes does not fit in memory ({limit_bytes} bytes): give it fewer frames"
    )]
    TooLarge {
        /// Bytes of all frames, and of WAR's buffers.
        wanted_bytes: u64,
        /// The machine's memory, or the control group's limit.
        limit_bytes: u64,
    },
    /// A setting is out of its range.
    #[error("{setting}: {reason}")]
    Config {
        /// The setting's name.
        setting: &'static str,
        /// What is wrong, and which values are right.
        reason: String,
    },
    /// Frames that the pool should give up are still pinned.
    #[error("{left} frames are still in use: the pool has shrunk in part; try again")]
    ShrinkIncomplete {
        /// Frames that could not be given up.
        left: usize,
    },
}
