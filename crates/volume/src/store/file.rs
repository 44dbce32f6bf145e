//! A volume in a file or on a block device.
//!
//! Requests bypass the page cache (`O_DIRECT`) where the file system allows that for the volume's
//! sectors, and use it otherwise: [`File::is_direct`]. Either way a write is durable after
//! `fdatasync`, and with `fua` by `RWF_DSYNC`.
//!
//! # In the page cache
//! [`File::open_cached`] uses the cache on purpose. Reads of what is there are done at once, on the
//! thread that asks ([`Store::try_read`]). So are writes, as long as the kernel takes them without
//! delay: once one took longer than [`DELAYED`], others go the slower way for [`AFTER_DELAY`].

use super::{Extent, Store, push_extent};
use crate::buffer::{ALIGN_BYTES, Buffer};
use crate::clock;
use headworks_policy::Nanos;
use headworks_policy::block::SECTOR_BYTES;
use std::fs::OpenOptions;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, UNIX_EPOCH};

#[cfg(test)]
mod tests;

/// Zeros written at a time where the file system cannot zero.
const ZEROS_BYTES: usize = 1 << 20;

/// A write into the page cache that took so long was held up: too much waits for the disk.
const DELAYED: Duration = Duration::from_millis(2);

/// How long writes then do not hold up the thread that asks.
const AFTER_DELAY: Duration = Duration::from_secs(1);

/// Most extents of one call.
const EXTENTS_MAX: usize = 1024;

/// Why a file or device cannot hold a volume.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// It cannot be opened.
    #[error("cannot open {path}: {source}\n  {}", hint(source, path))]
    Open {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It is neither a file nor a block device.
    #[error("{path} is neither a file nor a block device")]
    Kind {
        /// What it is called.
        path: PathBuf,
    },
    /// Another process uses it.
    #[error(
        "{path} is in use by another volume or program\n  \
         find it: headworks volume list; fuser -v {path}"
    )]
    Busy {
        /// The file.
        path: PathBuf,
    },
    /// The kernel refuses writes.
    #[error(
        "{path} is set read-only, and a volume is written to\n  make it writable: blockdev --setrw {path}"
    )]
    ReadOnly {
        /// The device.
        path: PathBuf,
    },
    /// The volume does not fit.
    #[error(
        "{path} has {has} bytes, the volume needs {needs}\n  \
         make it larger (a file: truncate -s {needs} {path}) or the volume smaller"
    )]
    Small {
        /// The file.
        path: PathBuf,
        /// Its size.
        has: u64,
        /// The volume's.
        needs: u64,
    },
}

fn hint(error: &io::Error, path: &Path) -> String {
    match error.raw_os_error() {
        Some(libc::EACCES | libc::EPERM) => {
            format!("it must be writable for you: ls -l {}, or run as root", path.display())
        }
        Some(libc::EROFS) => {
            "it lies on a read-only file system: choose another place, or remount it".to_owned()
        }
        Some(libc::EBUSY) => {
            format!("it is mounted or in use: lsblk {}", path.display())
        }
        Some(libc::ENOENT) => {
            format!("make it first: truncate -s SIZE {}", path.display())
        }
        Some(libc::ETXTBSY | libc::EISDIR) => "name a file or a block device".to_owned(),
        _ => "see the error above".to_owned(),
    }
}

/// A store in a file or on a block device, locked against other volumes.
#[derive(Debug)]
pub struct File {
    file: std::fs::File,
    size: u64,
    direct: bool,
    device: bool,
    /// The page cache is used on purpose.
    cached: bool,
    /// When the last write was held up, in nanoseconds.
    held_up_ns: AtomicU64,
}

impl File {
    /// Opens `path` for a volume of `size` bytes, a multiple of the sector.
    ///
    /// # Errors
    /// If it cannot be written, is in use, or is smaller than the volume.
    pub fn open(path: &Path, size: u64) -> Result<File, OpenError> {
        File::open_either(path, size, false)
    }

    /// The same, with requests in the page cache.
    ///
    /// # Errors
    /// As [`File::open`].
    pub fn open_cached(path: &Path, size: u64) -> Result<File, OpenError> {
        File::open_either(path, size, true)
    }

    fn open_either(path: &Path, size: u64, cached: bool) -> Result<File, OpenError> {
        let failed = |source| OpenError::Open { path: path.to_owned(), source };
        let meta = std::fs::metadata(path).map_err(failed)?;
        let device = meta.file_type().is_block_device();
        if !device && !meta.is_file() {
            return Err(OpenError::Kind { path: path.to_owned() });
        }
        // For a block device: it is neither mounted nor opened exclusively elsewhere.
        let exclusive = if device { libc::O_EXCL } else { 0 };
        let open = |flags| {
            OpenOptions::new().read(true).write(true).custom_flags(flags | exclusive).open(path)
        };
        let file = open(0).map_err(failed)?;
        // SAFETY: locks an open descriptor; no memory is involved.
        if unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } != 0 {
            return Err(OpenError::Busy { path: path.to_owned() });
        }
        if device && is_read_only(&file) {
            return Err(OpenError::ReadOnly { path: path.to_owned() });
        }
        let has = if device { device_size(&file).map_err(failed)? } else { meta.size() };
        if has < size {
            return Err(OpenError::Small { path: path.to_owned(), has, needs: size });
        }
        let direct = !cached && make_direct(&file);
        Ok(File { file, size, direct, device, cached, held_up_ns: AtomicU64::new(0) })
    }

    fn with_size(&self, size: u64) -> Result<File, OpenError> {
        let path = std::fs::read_link(format!("/proc/self/fd/{}", self.file.as_raw_fd()));
        let path = path.unwrap_or_default();
        let failed = |source| OpenError::Open { path: path.clone(), source };
        let has = device_size(&self.file).map_err(failed)?;
        if has < size {
            return Err(OpenError::Small { path, has, needs: size });
        }
        let file = self.file.try_clone().map_err(failed)?;
        let &File { direct, device, cached, .. } = self;
        Ok(File { file, size, direct, device, cached, held_up_ns: AtomicU64::new(0) })
    }

    /// Requests bypass the page cache.
    pub fn is_direct(&self) -> bool {
        self.direct
    }

    fn check(&self, offset: u64, len: u64) -> io::Result<()> {
        match offset.checked_add(len) {
            Some(end) if end <= self.size => Ok(()),
            _ => Err(io::Error::from_raw_os_error(libc::EINVAL)),
        }
    }

    fn fallocate(&self, mode: i32, offset: u64, len: u64) -> io::Result<()> {
        loop {
            // SAFETY: an open descriptor and numbers. Offsets are below the file's size, which is
            // an off_t.
            let done = unsafe {
                libc::fallocate(
                    self.file.as_raw_fd(),
                    mode,
                    offset as libc::off_t,
                    len as libc::off_t,
                )
            };
            if done == 0 {
                return Ok(());
            }
            let error = io::Error::last_os_error();
            if error.kind() != io::ErrorKind::Interrupted {
                return Err(error);
            }
        }
    }

    fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    fn write_durably(&self, offset: u64, from: &[u8]) -> io::Result<()> {
        let mut done = 0;
        while done < from.len() {
            let rest = &from[done..];
            let part =
                libc::iovec { iov_base: rest.as_ptr().cast_mut().cast(), iov_len: rest.len() };
            // SAFETY: one vector, which names memory of `rest` that is only read.
            let count = unsafe {
                libc::pwritev2(
                    self.file.as_raw_fd(),
                    &raw const part,
                    1,
                    (offset + done as u64) as libc::off_t,
                    libc::RWF_DSYNC,
                )
            };
            match count {
                0 => return Err(io::Error::from_raw_os_error(libc::EIO)),
                1.. => done += count as usize,
                _ => {
                    let error = io::Error::last_os_error();
                    if error.kind() != io::ErrorKind::Interrupted {
                        return Err(error);
                    }
                }
            }
        }
        Ok(())
    }

    fn is_fit(&self, bytes: &[u8]) -> bool {
        !self.direct || (bytes.as_ptr() as usize).is_multiple_of(ALIGN_BYTES)
    }

    fn write_zeros(&self, offset: u64, len: u64) -> io::Result<()> {
        let zeros = Buffer::zeroed(ZEROS_BYTES.min(usize::try_from(len).unwrap_or(ZEROS_BYTES)));
        let mut done = 0;
        while done < len {
            let part = (len - done).min(zeros.len() as u64);
            // At most the buffer's length.
            self.file.write_all_at(&zeros[..part as usize], offset + done)?;
            done += part;
        }
        Ok(())
    }
}

/// Whether a block device is set read-only. The kernel still lets it be opened for writing.
fn is_read_only(file: &std::fs::File) -> bool {
    /// `BLKROGET` of linux/fs.h.
    const BLKROGET: libc::c_ulong = 0x125E;
    let mut read_only: libc::c_int = 0;
    // SAFETY: the ioctl writes one int, which lives here.
    let done = unsafe { libc::ioctl(file.as_raw_fd(), BLKROGET, &raw mut read_only) };
    done == 0 && read_only != 0
}

/// Bytes of a file or of a block device.
///
/// # Errors
/// It is not there, or may not be read.
pub fn size(path: &Path) -> io::Result<u64> {
    device_size(&std::fs::File::open(path)?)
}

fn device_size(file: &std::fs::File) -> io::Result<u64> {
    use std::io::{Seek, SeekFrom};
    let mut file = file;
    file.seek(SeekFrom::End(0))
}

/// Of a file: its file system, its inode, and when that was made, as inodes are used again.
fn file_identity(found: &std::fs::Metadata) -> String {
    let born = found.created().ok().and_then(|born| born.duration_since(UNIX_EPOCH).ok());
    let born_ns = born.unwrap_or_default().as_nanos();
    format!("{:x}-{:x}-{born_ns:x}", found.dev(), found.ino())
}

/// Of a block device: what its maker or its mapper calls it. Numbers may change at a boot.
fn device_identity(number: u64) -> String {
    let sys = format!("/sys/dev/block/{}:{}", libc::major(number), libc::minor(number));
    let read = |name: &str| {
        let text = std::fs::read_to_string(format!("{sys}/{name}")).ok()?;
        let text = text.trim().replace(|c: char| !c.is_ascii_alphanumeric(), "-");
        (!text.is_empty()).then_some(text)
    };
    let beneath = std::fs::read_to_string(format!("{sys}/loop/backing_file"));
    if let Ok(found) = beneath.and_then(|path| std::fs::metadata(path.trim_end())) {
        return file_identity(&found);
    }
    let names = ["dm/uuid", "wwid", "device/wwid", "../wwid", "../device/wwid"];
    let name = names.into_iter().find_map(read).unwrap_or_else(|| format!("{number:x}"));
    format!("{name}-{}", read("partition").unwrap_or_default())
}

/// The identity of what a path leads to now; see [`Store::identity`].
pub fn identity(path: &Path) -> Option<String> {
    Some(identity_of(&std::fs::metadata(path).ok()?))
}

fn identity_of(found: &std::fs::Metadata) -> String {
    if found.file_type().is_block_device() {
        device_identity(found.rdev())
    } else {
        file_identity(found)
    }
}

/// Turns direct I/O on if single sectors work with it; returns whether it did.
fn make_direct(file: &std::fs::File) -> bool {
    let set = |on: bool| {
        // SAFETY: reads and sets the flags of an open descriptor.
        unsafe {
            let flags = libc::fcntl(file.as_raw_fd(), libc::F_GETFL);
            let flags = if on { flags | libc::O_DIRECT } else { flags & !libc::O_DIRECT };
            libc::fcntl(file.as_raw_fd(), libc::F_SETFL, flags) == 0
        }
    };
    let mut sector = Buffer::new(SECTOR_BYTES as usize);
    // Any contents will do; a file shorter than a sector holds no volume.
    let works = set(true) && file.read_at(&mut sector, SECTOR_BYTES).is_ok();
    if !works {
        set(false);
    }
    works
}

fn unsupported(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EOPNOTSUPP | libc::ENOSYS | libc::ENODEV))
}

impl Store for File {
    fn size_bytes(&self) -> u64 {
        self.size
    }

    fn read(&self, offset: u64, into: &mut [u8]) -> io::Result<()> {
        self.check(offset, into.len() as u64)?;
        if self.is_fit(into) {
            return self.file.read_exact_at(into, offset);
        }
        let mut buffer = Buffer::new(into.len());
        self.file.read_exact_at(&mut buffer, offset)?;
        into.copy_from_slice(&buffer);
        Ok(())
    }

    fn write(&self, offset: u64, from: &[u8], fua: bool) -> io::Result<()> {
        self.check(offset, from.len() as u64)?;
        if !self.is_fit(from) {
            return self.write(offset, &Buffer::copy_of(from), fua);
        }
        if fua { self.write_durably(offset, from) } else { self.file.write_all_at(from, offset) }
    }

    fn try_read(&self, offset: u64, into: &mut [u8]) -> io::Result<bool> {
        if !self.cached {
            return Ok(false);
        }
        self.check(offset, into.len() as u64)?;
        let part = libc::iovec { iov_base: into.as_mut_ptr().cast(), iov_len: into.len() };
        // SAFETY: one vector, which names memory of `into` that nothing else uses meanwhile.
        let count = unsafe {
            let (fd, at) = (self.file.as_raw_fd(), offset as libc::off_t);
            libc::preadv2(fd, &raw const part, 1, at, libc::RWF_NOWAIT)
        };
        // A part, or an error: the other way finds out.
        Ok(usize::try_from(count) == Ok(into.len()))
    }

    fn try_write(&self, offset: u64, from: &[u8]) -> io::Result<bool> {
        let begun = clock::now();
        let held_up = Nanos(self.held_up_ns.load(Ordering::Relaxed));
        let lately = held_up > Nanos(0) && begun.since(held_up).0 < AFTER_DELAY.as_nanos() as u64;
        if !self.cached || lately {
            return Ok(false);
        }
        self.write(offset, from, false)?;
        let now = clock::now();
        if now.since(begun).0 > DELAYED.as_nanos() as u64 {
            self.held_up_ns.store(now.0, Ordering::Relaxed);
        }
        Ok(true)
    }

    fn flush(&self) -> io::Result<()> {
        self.sync()
    }

    fn discard(&self, offset: u64, len: u64) -> io::Result<()> {
        self.check(offset, len)?;
        if len == 0 {
            return Ok(());
        }
        match self.fallocate(libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE, offset, len) {
            // Advice that the kernel cannot follow is not an error.
            Err(error) if unsupported(&error) => Ok(()),
            other => other,
        }
    }

    fn write_zeroes(&self, offset: u64, len: u64, fua: bool, unmap: bool) -> io::Result<()> {
        self.check(offset, len)?;
        if len == 0 {
            return Ok(());
        }
        let mode = if unmap { libc::FALLOC_FL_PUNCH_HOLE } else { libc::FALLOC_FL_ZERO_RANGE };
        match self.fallocate(mode | libc::FALLOC_FL_KEEP_SIZE, offset, len) {
            Err(error) if unsupported(&error) => self.write_zeros(offset, len)?,
            other => other?,
        }
        if fua { self.sync() } else { Ok(()) }
    }

    fn extents(&self, offset: u64, len: u64) -> io::Result<Vec<Extent>> {
        self.check(offset, len)?;
        if self.device || len == 0 {
            return Ok(vec![Extent { offset, len, allocated: true }]);
        }
        // SAFETY: moves the position of our descriptor, which nothing else uses.
        let seek = |at: u64, whence| unsafe {
            libc::lseek(self.file.as_raw_fd(), at as libc::off_t, whence)
        };
        let (mut at, end) = (offset, offset + len);
        let mut list = Vec::new();
        while at < end && list.len() < EXTENTS_MAX {
            let data = match seek(at, libc::SEEK_DATA) {
                // Nothing but a hole up to the end.
                -1 if io::Error::last_os_error().raw_os_error() == Some(libc::ENXIO) => end,
                -1 => return Ok(vec![Extent { offset, len, allocated: true }]),
                data => (data as u64).min(end),
            };
            if data > at {
                push_extent(&mut list, Extent { offset: at, len: data - at, allocated: false });
            }
            if data < end {
                let hole = match seek(data, libc::SEEK_HOLE) {
                    -1 => end,
                    hole => (hole as u64).min(end),
                };
                push_extent(&mut list, Extent { offset: data, len: hole - data, allocated: true });
                at = hole;
            } else {
                at = end;
            }
        }
        Ok(list)
    }

    fn resized(&self, size: u64) -> Option<Result<Arc<dyn Store>, OpenError>> {
        // Of the same opening, and so with its lock.
        Some(self.with_size(size).map(|file| Arc::new(file) as Arc<dyn Store>))
    }

    fn identity(&self) -> Option<String> {
        Some(identity_of(&self.file.metadata().ok()?))
    }

    fn allocated_bytes(&self) -> Option<u64> {
        if self.device {
            return None;
        }
        self.file.metadata().ok().map(|meta| meta.blocks() * 512)
    }
}
