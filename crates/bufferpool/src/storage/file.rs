//! Pages in a file or on a block device.

use super::label::{self, Found};
use super::threads::work_through;
use super::uring::{Rings, Taken};
use super::{IoTag, PageRead, PageWrite, Storage, check_range};
use crate::error::StorageError;
use crate::ids::PageId;
use crate::memory::AlignedBuffer;
use parking_lot::Mutex;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// Threads of the fallback.
const THREADS: usize = 16;

/// How batches reach the kernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum AsyncIo {
    /// io_uring where the kernel allows it, else threads.
    Auto,
    /// io_uring or an error.
    Uring,
    /// Threads that block.
    Threads,
}

/// How a file is opened.
#[derive(Clone, Copy, Debug)]
pub struct FileOptions {
    /// Bytes of a page.
    pub page_size: usize,
    /// Bypass the kernel's page cache (O_DIRECT). File systems without O_DIRECT are used without
    /// it.
    pub direct: bool,
    /// How batches are read and written.
    pub async_io: AsyncIo,
    /// Most requests of a batch in flight.
    pub depth: u32,
    /// [`FileStorage::create`] may empty an existing page file.
    pub replace: bool,
}

impl Default for FileOptions {
    fn default() -> Self {
        Self {
            page_size: 16 * 1024,
            direct: true,
            async_io: AsyncIo::Auto,
            depth: 128,
            replace: false,
        }
    }
}

/// Pages in a file or on a block device.
///
/// The first page-sized block is a label (magic, version, page size, pages); page 0 follows it.
pub struct FileStorage {
    path: PathBuf,
    file: File,
    /// Holds the lock that excludes other opens.
    lock: File,
    page_size: usize,
    /// Written under `growing`.
    pages: AtomicU64,
    growing: Mutex<()>,
    direct: bool,
    rings: Option<Rings>,
    depth: u32,
}

impl FileStorage {
    /// Creates a file for `pages` pages, or labels a block device. Reserves no space: on a full
    /// disk, later writes of pages fail.
    ///
    /// With [`FileOptions::replace`] an existing page file is emptied first. On a device, the range
    /// for the pages is read and zeroed where needed, which may take a while: old data must not be
    /// taken for pages.
    ///
    /// # Errors
    /// [`StorageError::Open`] if a device is too small, or if there are data: a page file that may
    /// not be replaced, or other data (the whole file is checked, and a MiB at both ends of a
    /// device). [`StorageError::InUse`], and the errors of a write.
    pub fn create(path: &Path, pages: u64, options: FileOptions) -> Result<Self, StorageError> {
        let page_size = options.page_size;
        if !page_size.is_power_of_two() || page_size < 512 {
            let what = format!("pages of {page_size} bytes: a power of two from 512 on is needed");
            return Err(label::wrong(path, what));
        }
        let file = label::open_alone(path, true)?;
        match label::look(&file).map_err(|error| label::wrong(path, error))? {
            Found::Nothing => {}
            Found::Ours if options.replace => {}
            Found::Ours => {
                let what =
                    "there is a page file already: open it, or say that it is to be replaced";
                return Err(label::wrong(path, what));
            }
            Found::Foreign => {
                let what = "it holds something that is no page file: if it is not needed, remove the file, or wipe \
                            the device (`wipefs --all`, then zeroes over its first and last MiB)";
                return Err(label::wrong(path, what));
            }
        }
        label::make_room(path, &file, (page_size, pages), None)?;
        label::write(&file, page_size, pages)?;
        label::sync_name(path, &file)?;
        Self::open_locked(path, file, options)
    }

    /// Opens what [`FileStorage::create`] made.
    ///
    /// # Errors
    /// [`StorageError::Foreign`] if the label is not ours or the page size differs.
    /// [`StorageError::Short`] if the file or device is shorter than its label requires.
    /// [`StorageError::InUse`] if it is open already.
    pub fn open(path: &Path, options: FileOptions) -> Result<Self, StorageError> {
        Self::open_locked(path, label::open_alone(path, false)?, options)
    }

    /// Opens what [`FileStorage::create`] made, and extends it to `pages` pages if it has fewer.
    /// New pages of a device are zeroed, as an older page file may have been there.
    ///
    /// # Errors
    /// As [`FileStorage::open`]; [`StorageError::Open`] if a device is too small; the errors of a
    /// write. Existing pages stay in any case.
    pub fn grow(path: &Path, pages: u64, options: FileOptions) -> Result<Self, StorageError> {
        let file = label::open_alone(path, false)?;
        let there = label::check(path, &file, options.page_size)?;
        if there < pages {
            label::make_room(path, &file, (options.page_size, pages), Some(there))?;
            // The label must not promise pages that a power cut takes back.
            file.sync_all().map_err(|error| label::wrong(path, error))?;
            label::write(&file, options.page_size, pages)?;
        }
        Self::open_locked(path, file, options)
    }

    fn open_locked(path: &Path, locked: File, options: FileOptions) -> Result<Self, StorageError> {
        let pages = label::check(path, &locked, options.page_size)?;
        if options.depth == 0 {
            return Err(label::wrong(path, "a depth of 0: no request could ever go"));
        }
        // Another open file than the locked one: I/O that the kernel still has in flight for a
        // killed process would keep the lock.
        let with = |flags| OpenOptions::new().read(true).write(true).custom_flags(flags).open(path);
        let direct = options.direct.then(|| with(libc::O_DIRECT).ok()).flatten();
        let rings = match options.async_io {
            AsyncIo::Threads => None,
            AsyncIo::Auto => Rings::new(options.depth).ok(),
            AsyncIo::Uring => {
                Some(Rings::new(options.depth).map_err(|error| label::wrong(path, error))?)
            }
        };
        Ok(Self {
            path: path.into(),
            direct: direct.is_some(),
            file: direct.map_or_else(|| with(0), Ok).map_err(|error| label::wrong(path, error))?,
            lock: locked,
            page_size: options.page_size,
            pages: AtomicU64::new(pages),
            growing: Mutex::new(()),
            rings,
            depth: options.depth,
        })
    }

    /// Extends the storage to `pages` pages while it is in use, if it has fewer. The new pages can
    /// be created when the call returns.
    ///
    /// # Errors
    /// As [`FileStorage::grow`]; the pages that there are stay usable.
    pub fn extend(&self, pages: u64) -> Result<(), StorageError> {
        let _alone = self.growing.lock();
        let there = self.pages.load(Ordering::Acquire);
        if there < pages {
            label::make_room(&self.path, &self.lock, (self.page_size, pages), Some(there))?;
            // The label must not promise pages that a power cut takes back.
            self.lock.sync_all().map_err(|error| label::wrong(&self.path, error))?;
            label::write(&self.lock, self.page_size, pages)?;
            self.pages.store(pages, Ordering::Release);
        }
        Ok(())
    }

    /// Whether the file bypasses the kernel's page cache.
    #[must_use]
    pub fn is_direct(&self) -> bool {
        self.direct
    }

    /// Whether batches go through io_uring.
    #[must_use]
    pub fn uses_uring(&self) -> bool {
        self.rings.is_some()
    }

    /// The file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn offset(&self, page: PageId) -> u64 {
        (page.0 + 1) * self.page_size as u64
    }

    /// Whether the kernel accepts the buffer directly.
    fn fits(&self, bytes: &[u8]) -> bool {
        !self.direct || (bytes.as_ptr() as usize).is_multiple_of(crate::memory::ALIGNMENT)
    }

    fn write_at(&self, page: PageId, bytes: &[u8]) -> Result<(), StorageError> {
        let failed = |error: std::io::Error| StorageError::from_io("write", page, &error);
        if self.fits(bytes) {
            return self.file.write_all_at(bytes, self.offset(page)).map_err(failed);
        }
        let mut aligned = AlignedBuffer::new(bytes.len());
        aligned.copy_from_slice(bytes);
        self.file.write_all_at(&aligned, self.offset(page)).map_err(failed)
    }

    fn read_at(&self, page: PageId, bytes: &mut [u8]) -> Result<(), StorageError> {
        let want = bytes.len();
        let mut got = 0;
        while got < want {
            match self.file.read_at(&mut bytes[got..], self.offset(page) + got as u64) {
                Ok(0) => return Err(StorageError::Short { page, got, want }),
                Ok(count) => got += count,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return Err(StorageError::from_io("read", page, &error)),
            }
        }
        Ok(())
    }

    /// A ring, if the kernel accepts every request of a batch directly. Otherwise threads do it.
    fn ring_for(&self, mut batch: impl Iterator<Item = (PageId, bool)>) -> Option<Taken<'_>> {
        let rings = self.rings.as_ref()?;
        let plain = batch.all(|(page, fits)| fits && check_range(self, page, 1).is_ok());
        if plain { rings.take() } else { None }
    }

    fn threads(&self) -> usize {
        THREADS.min(self.depth as usize)
    }
}

impl Drop for FileStorage {
    fn drop(&mut self) {
        // A process that another thread is starting may have the file for a moment too.
        let _ = self.lock.unlock();
    }
}

impl Storage for FileStorage {
    fn page_size(&self) -> usize {
        self.page_size
    }

    fn pages(&self) -> u64 {
        self.pages.load(Ordering::Acquire)
    }

    fn read(&self, page: PageId, bytes: &mut [u8], _tag: IoTag) -> Result<(), StorageError> {
        check_range(self, page, 1)?;
        if self.fits(bytes) {
            return self.read_at(page, bytes);
        }
        let mut aligned = AlignedBuffer::new(bytes.len());
        self.read_at(page, &mut aligned)?;
        bytes.copy_from_slice(&aligned);
        Ok(())
    }

    fn write(&self, page: PageId, bytes: &[u8], _tag: IoTag) -> Result<(), StorageError> {
        check_range(self, page, 1)?;
        self.write_at(page, bytes)
    }

    fn write_run(&self, first: PageId, bytes: &[u8], _tag: IoTag) -> Result<(), StorageError> {
        check_range(self, first, (bytes.len() / self.page_size) as u64)?;
        self.write_at(first, bytes)
    }

    fn read_batch(
        &self,
        reads: &mut [PageRead<'_>],
        done: &mut dyn FnMut(usize, Result<(), StorageError>),
    ) {
        let work = |read: &mut PageRead<'_>| self.read(read.page, read.bytes, read.tag);
        match self.ring_for(reads.iter().map(|it| (it.page, self.fits(it.bytes)))) {
            Some(ring) => {
                let whole = ring.read_batch(&self.file, &|page| self.offset(page), reads);
                for (at, (read, whole)) in reads.iter_mut().zip(whole).enumerate() {
                    // A short or failed read is repeated on its own, for its error.
                    done(at, if whole { Ok(()) } else { self.read_at(read.page, read.bytes) });
                }
            }
            None => work_through(self.threads(), reads.iter_mut(), &work, done),
        }
    }

    fn write_batch(
        &self,
        writes: &[PageWrite<'_>],
        done: &mut dyn FnMut(usize, Result<(), StorageError>),
    ) {
        let work = |write: &PageWrite<'_>| self.write(write.page, write.bytes, write.tag);
        match self.ring_for(writes.iter().map(|it| (it.page, self.fits(it.bytes)))) {
            Some(ring) => ring.write_batch(&self.file, &|page| self.offset(page), writes, done),
            None => work_through(self.threads(), writes.iter(), &work, done),
        }
    }

    fn sync(&self) -> Result<(), StorageError> {
        self.file.sync_data().map_err(|error| StorageError::from_io("sync", PageId::NONE, &error))
    }
}
