//! Pages in a file or on a block device.

use super::uring::Rings;
use super::{IoTag, PageWrite, Storage, check_range};
use crate::error::StorageError;
use crate::ids::PageId;
use crate::memory::AlignedBuffer;
use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

const MAGIC: &[u8; 16] = b"headworks-pages\0";
const VERSION: u32 = 1;
/// Writers of the thread-pool fallback.
const THREADS: usize = 16;

/// How batches reach the kernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
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
    /// Past the kernel's page cache (O_DIRECT). File systems without it are used without it.
    pub direct: bool,
    /// How batches are written.
    pub async_io: AsyncIo,
    /// Most writes of a batch under way at once.
    pub depth: u32,
}

impl Default for FileOptions {
    fn default() -> Self {
        Self { page_size: 16 * 1024, direct: true, async_io: AsyncIo::Auto, depth: 128 }
    }
}

/// Pages in a file or on a block device.
///
/// The first page-sized block is a label (magic, version, page size, pages); page 0 follows it.
pub struct FileStorage {
    path: PathBuf,
    file: File,
    page_size: usize,
    pages: u64,
    direct: bool,
    rings: Option<Rings>,
    depth: u32,
}

impl FileStorage {
    /// Creates (or empties) a file for `pages` pages, or labels a block device. Reserves no space:
    /// a full disk shows when pages are written.
    ///
    /// # Errors
    /// [`StorageError::Open`], also if a device is too small, or if file or device begin with something that
    /// is neither zeroes nor a label of ours; and the errors of a write.
    pub fn create(path: &Path, pages: u64, options: FileOptions) -> Result<Self, StorageError> {
        let page_size = options.page_size;
        if !page_size.is_power_of_two() || page_size < 512 {
            let message =
                format!("pages of {page_size} bytes: a power of two from 512 on is needed");
            return Err(StorageError::Open { path: path.into(), message });
        }
        let open_error = |error: std::io::Error| StorageError::Open {
            path: path.into(),
            message: error.to_string(),
        };
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)
            .map_err(open_error)?;
        let wrong = |message: String| StorageError::Open { path: path.into(), message };
        let Some(bytes) = Self::bytes_of(pages, page_size) else {
            return Err(wrong(format!("{pages} pages are more than a file can have")));
        };
        if !Self::is_free(&file).map_err(open_error)? {
            let what = "it holds something that is no page file: if nobody needs that, remove the file, or wipe \
                        the device (`wipefs --all`, then zeroes over its first 512 bytes)";
            return Err(wrong(what.into()));
        }
        if file.metadata().map_err(open_error)?.file_type().is_block_device() {
            let there = Self::length(&file).map_err(open_error)?;
            if there < bytes {
                return Err(wrong(format!(
                    "the device has {there} bytes, {pages} pages and a label need {bytes}"
                )));
            }
        } else {
            file.set_len(0).map_err(open_error)?;
            file.set_len(bytes).map_err(open_error)?;
        }
        let mut label = vec![0; page_size];
        label[..16].copy_from_slice(MAGIC);
        label[16..20].copy_from_slice(&VERSION.to_le_bytes());
        // A page is at most a few MiB long.
        label[20..24].copy_from_slice(&(page_size as u32).to_le_bytes());
        label[24..32].copy_from_slice(&pages.to_le_bytes());
        let write = file.write_all_at(&label, 0).and_then(|()| file.sync_all());
        write.map_err(|error| StorageError::from_io("write", PageId::NONE, &error))?;
        drop(file);
        Self::open(path, options)
    }

    /// Opens what [`FileStorage::create`] made.
    ///
    /// # Errors
    /// [`StorageError::Foreign`] if the label is not ours or the page size differs,
    /// [`StorageError::Short`] if file or device is shorter than its label says.
    pub fn open(path: &Path, options: FileOptions) -> Result<Self, StorageError> {
        let open_error = |error: std::io::Error| StorageError::Open {
            path: path.into(),
            message: error.to_string(),
        };
        let plain = OpenOptions::new().read(true).write(true).open(path).map_err(open_error)?;
        let pages = Self::check_label(path, &plain, options.page_size)?;
        let mut direct = None;
        if options.direct {
            direct = OpenOptions::new()
                .read(true)
                .write(true)
                .custom_flags(libc::O_DIRECT)
                .open(path)
                .ok();
        }
        let rings = match options.async_io {
            AsyncIo::Threads => None,
            AsyncIo::Auto => Rings::new(options.depth).ok(),
            AsyncIo::Uring => Some(Rings::new(options.depth).map_err(open_error)?),
        };
        Ok(Self {
            path: path.into(),
            direct: direct.is_some(),
            file: direct.unwrap_or(plain),
            page_size: options.page_size,
            pages,
            rings,
            depth: options.depth,
        })
    }

    fn check_label(path: &Path, file: &File, page_size: usize) -> Result<u64, StorageError> {
        let foreign = |reason: String| StorageError::Foreign { path: path.into(), reason };
        let mut label = [0u8; 32];
        file.read_exact_at(&mut label, 0)
            .map_err(|error| foreign(format!("its label cannot be read ({error})")))?;
        if &label[..16] != MAGIC {
            return Err(foreign("it does not begin with the label of page files".into()));
        }
        let number = |at: usize| {
            u32::from_le_bytes([label[at], label[at + 1], label[at + 2], label[at + 3]])
        };
        if number(16) != VERSION {
            return Err(foreign(format!("its version is {}, ours {VERSION}", number(16))));
        }
        if number(20) as usize != page_size {
            return Err(foreign(format!(
                "its pages have {} bytes, {page_size} were asked for",
                number(20)
            )));
        }
        let pages = u64::from(number(24)) | u64::from(number(28)) << 32;
        let Some(want) = Self::bytes_of(pages, page_size) else {
            return Err(foreign(format!(
                "its label says {pages} pages, more than a file can have"
            )));
        };
        let there = Self::length(file).map_err(|error| foreign(error.to_string()))?;
        if there < want {
            let whole = there / page_size as u64;
            return Err(StorageError::Short {
                page: PageId(whole.saturating_sub(1)),
                // Less than a page.
                got: (there % page_size as u64) as usize,
                want: page_size,
            });
        }
        Ok(pages)
    }

    /// Whether nobody else's data can be lost by a label: nothing is there, or a label of ours.
    fn is_free(file: &File) -> std::io::Result<bool> {
        let mut first = Vec::new();
        file.take(512).read_to_end(&mut first)?;
        Ok(first.starts_with(MAGIC) || first.iter().all(|&byte| byte == 0))
    }

    /// Bytes of a file of so many pages, with its label: at most what an offset can say.
    fn bytes_of(pages: u64, page_size: usize) -> Option<u64> {
        let bytes = pages.checked_add(1)?.checked_mul(page_size as u64)?;
        i64::try_from(bytes).is_ok().then_some(bytes)
    }

    /// Bytes of a file or a block device, whose metadata do not tell.
    fn length(mut file: &File) -> std::io::Result<u64> {
        file.seek(SeekFrom::End(0))
    }

    /// Whether the file is used past the kernel's page cache.
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

    /// Whether the kernel takes the buffer as it is.
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

    fn write_with_threads(
        &self,
        writes: &[PageWrite<'_>],
        done: &mut dyn FnMut(usize, Result<(), StorageError>),
    ) {
        let next = AtomicUsize::new(0);
        let (sender, ended) = std::sync::mpsc::channel();
        std::thread::scope(|scope| {
            for _ in 0..THREADS.min(self.depth as usize).min(writes.len()) {
                let (next, sender) = (&next, sender.clone());
                scope.spawn(move || {
                    while let at = next.fetch_add(1, Ordering::Relaxed)
                        && let Some(write) = writes.get(at)
                    {
                        let result = self.write(write.page, write.bytes, write.tag);
                        if sender.send((at, result)).is_err() {
                            return;
                        }
                    }
                });
            }
            drop(sender);
            for (at, result) in ended {
                done(at, result);
            }
        });
    }
}

impl Storage for FileStorage {
    fn page_size(&self) -> usize {
        self.page_size
    }

    fn pages(&self) -> u64 {
        self.pages
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

    fn write_batch(
        &self,
        writes: &[PageWrite<'_>],
        done: &mut dyn FnMut(usize, Result<(), StorageError>),
    ) {
        let plain = |write: &PageWrite<'_>| {
            check_range(self, write.page, 1).is_ok() && self.fits(write.bytes)
        };
        match &self.rings {
            Some(rings) if writes.iter().all(plain) => {
                let offset = |page| self.offset(page);
                rings.write_batch(self.file.as_raw_fd(), &offset, writes, done);
            }
            _ => self.write_with_threads(writes, done),
        }
    }

    fn sync(&self) -> Result<(), StorageError> {
        self.file.sync_data().map_err(|error| StorageError::from_io("sync", PageId::NONE, &error))
    }
}
