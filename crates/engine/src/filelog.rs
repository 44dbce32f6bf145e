//! A log in files: a directory of segments, and a small file with the start of recovery.
//!
//! A segment is named after the offset of its first byte (16 hexadecimal digits, `.log`) and holds
//! only the log's bytes. It is synced before the next is made, so only the last can lack appended
//! bytes. Segments before the start are deleted. The start is replaced by a rename, which is
//! atomic.

use crate::logdev::LogDevice;
use parking_lot::Mutex;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{Error, ErrorKind, Result};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const START: &str = "start";
const LOCK: &str = "lock";
const TITLE: &str = "headworks-log 2";

/// A [`LogDevice`] in a directory.
pub struct FileLog {
    directory: PathBuf,
    segment_bytes: u64,
    last: Mutex<Segment>,
    /// Holds the lock that excludes other opens.
    lock: File,
}

/// The segment that grows.
#[derive(Clone)]
struct Segment {
    base: u64,
    len: u64,
    file: Arc<File>,
}

impl Segment {
    fn open(directory: &Path, base: u64) -> Result<Self> {
        let path = directory.join(format!("{base:016x}.log"));
        let mut options = OpenOptions::new();
        let file = options.read(true).write(true).create(true).truncate(false).open(path)?;
        let len = file.metadata()?.len();
        Ok(Self { base, len, file: Arc::new(file) })
    }
}

fn damaged(path: &Path, what: String) -> Error {
    Error::new(ErrorKind::InvalidData, format!("{}: {what}", path.display()))
}

impl FileLog {
    /// Usual size at which a segment ends.
    pub const SEGMENT_BYTES: u64 = 64 << 20;

    /// Makes an empty log in `directory`, which it also makes. A segment ends with the append that
    /// makes it `segment_bytes` or longer: smaller segments free space sooner, larger ones need
    /// fewer syncs.
    ///
    /// # Errors
    /// `AlreadyExists` if there is a log, `ResourceBusy` if another process is making one, and the
    /// system's.
    pub fn create(directory: &Path, segment_bytes: u64) -> Result<Self> {
        fs::create_dir_all(directory)?;
        let lock = Self::lock(directory)?;
        if directory.join(START).exists() {
            let what = format!("{}: there is a log already, open it", directory.display());
            return Err(Error::new(ErrorKind::AlreadyExists, what));
        }
        if Self::segments(directory)?.iter().any(|&(_, len)| len > 0) {
            let what = "there are segments, and nothing says where the log begins: it is damaged";
            return Err(damaged(directory, what.into()));
        }
        let last = Mutex::new(Segment::open(directory, 0)?);
        let log = Self { directory: directory.into(), segment_bytes, last, lock };
        log.write_start(0)?;
        Ok(log)
    }

    /// Opens what [`FileLog::create`] made.
    ///
    /// # Errors
    /// `InvalidData` if the directory has no log, or a segment is missing; `ResourceBusy` if it is
    /// open already; the system's.
    pub fn open(directory: &Path, segment_bytes: u64) -> Result<Self> {
        // A lock file is only made where there is a log.
        Self::read_start(directory)?;
        let lock = Self::lock(directory)?;
        let start = Self::read_start(directory)?;
        let segments = Self::segments(directory)?;
        let missing = |offset: u64| damaged(directory, format!("the log lacks offset {offset}"));
        let Some(&(first, _)) = segments.first().filter(|&&(first, _)| first <= start) else {
            return Err(missing(start));
        };
        let mut end = first;
        for &(base, len) in &segments {
            if base != end {
                return Err(missing(end));
            }
            end += len;
        }
        if start > end {
            return Err(missing(end));
        }
        let (base, _) = segments[segments.len() - 1];
        let last = Mutex::new(Segment::open(directory, base)?);
        Ok(Self { directory: directory.into(), segment_bytes, last, lock })
    }

    /// Keeps other processes from appending to the same log; the lock ends with the process.
    fn lock(directory: &Path) -> Result<File> {
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(false);
        let lock = options.open(directory.join(LOCK))?;
        match lock.try_lock() {
            Ok(()) => Ok(lock),
            Err(TryLockError::WouldBlock) => {
                let what = format!(
                    "{}: the log is in use (`fuser -v {0}/{LOCK}` names the process)",
                    directory.display()
                );
                Err(Error::new(ErrorKind::ResourceBusy, what))
            }
            // A file system without locks is used without one.
            Err(TryLockError::Error(error)) if error.kind() == ErrorKind::Unsupported => Ok(lock),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }

    /// Base and length of each segment, in order.
    fn segments(directory: &Path) -> Result<Vec<(u64, u64)>> {
        let mut segments = Vec::new();
        for entry in fs::read_dir(directory)? {
            let entry = entry?;
            let name = entry.file_name();
            let digits = name.to_str().and_then(|name| name.strip_suffix(".log"));
            if let Some(base) = digits.and_then(|digits| u64::from_str_radix(digits, 16).ok()) {
                segments.push((base, entry.metadata()?.len()));
            }
        }
        segments.sort_unstable();
        Ok(segments)
    }

    fn path_of(&self, base: u64) -> PathBuf {
        self.directory.join(format!("{base:016x}.log"))
    }

    /// Makes new, changed and removed names durable.
    fn sync_names(&self) -> Result<()> {
        File::open(&self.directory)?.sync_all()
    }

    fn read_start(directory: &Path) -> Result<u64> {
        let path = directory.join(START);
        let text = match fs::read_to_string(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                return Err(damaged(directory, "there is no log in it".into()));
            }
            other => other?,
        };
        let mut lines = text.lines();
        let (title, digits) = (lines.next(), lines.next().unwrap_or_default());
        let sum = lines.next().and_then(|sum| u32::from_str_radix(sum, 16).ok());
        if title.is_some_and(|title| title != TITLE && title.starts_with("headworks-log ")) {
            let what = format!(
                "another version made this log, ours is \"{TITLE}\": copy the rows with that version"
            );
            return Err(damaged(&path, what));
        }
        let whole = title == Some(TITLE) && sum == Some(crc32c::crc32c(digits.as_bytes()));
        let start = u64::from_str_radix(digits, 16).ok().filter(|_| whole);
        start.ok_or_else(|| damaged(&path, "it does not say where the log begins".into()))
    }

    fn write_start(&self, start: u64) -> Result<()> {
        let digits = format!("{start:016x}");
        let sum = crc32c::crc32c(digits.as_bytes());
        let fresh = self.directory.join("start.new");
        fs::write(&fresh, format!("{TITLE}\n{digits}\n{sum:08x}\n"))?;
        File::open(&fresh)?.sync_all()?;
        fs::rename(&fresh, self.directory.join(START))?;
        self.sync_names()
    }
}

impl Drop for FileLog {
    fn drop(&mut self) {
        // A process that another thread is starting may have the file for a moment too.
        let _ = self.lock.unlock();
    }
}

impl LogDevice for FileLog {
    fn append(&self, bytes: &[u8]) -> Result<()> {
        let mut last = self.last.lock();
        if last.len >= self.segment_bytes {
            last.file.sync_all()?;
            *last = Segment::open(&self.directory, last.base + last.len)?;
            self.sync_names()?;
        }
        last.file.write_all_at(bytes, last.len)?;
        last.len += bytes.len() as u64;
        Ok(())
    }

    fn sync(&self) -> Result<()> {
        // Appends go on meanwhile.
        let file = Arc::clone(&self.last.lock().file);
        file.sync_data()
    }

    fn read_from(&self, offset: u64) -> Result<Vec<u8>> {
        let _last = self.last.lock();
        let mut bytes = Vec::new();
        let mut end = None;
        for (base, len) in Self::segments(&self.directory)? {
            if base + len <= offset && len > 0 {
                continue;
            }
            if base > end.unwrap_or(offset) {
                let what = format!("the log lacks offset {}", end.unwrap_or(offset));
                return Err(damaged(&self.directory, what));
            }
            let segment = fs::read(self.path_of(base))?;
            // Less than the segment, which is in memory.
            let from = offset.saturating_sub(base) as usize;
            bytes.extend_from_slice(segment.get(from..).unwrap_or_default());
            end = Some(base + segment.len() as u64);
        }
        Ok(bytes)
    }

    fn truncate(&self, offset: u64) -> Result<()> {
        let mut last = self.last.lock();
        let segments = Self::segments(&self.directory)?;
        let keeps = |&&(base, _): &&(u64, u64)| base <= offset;
        let Some(&(base, len)) = segments.iter().rfind(keeps) else {
            return Err(damaged(&self.directory, format!("the log lacks offset {offset}")));
        };
        for &(later, _) in segments.iter().filter(|segment| segment.0 > base) {
            fs::remove_file(self.path_of(later))?;
        }
        *last = Segment::open(&self.directory, base)?;
        if base + len > offset {
            last.file.set_len(offset - base)?;
            last.len = offset - base;
        }
        last.file.sync_all()?;
        self.sync_names()
    }

    fn set_start(&self, offset: u64) -> Result<()> {
        // Appends go on meanwhile: this segment stays in any case.
        let last = self.last.lock().base;
        self.write_start(offset)?;
        for (base, len) in Self::segments(&self.directory)? {
            if base + len <= offset && base < last {
                fs::remove_file(self.path_of(base))?;
            }
        }
        Ok(())
    }

    fn start(&self) -> Result<u64> {
        Self::read_start(&self.directory)
    }

    fn overwrite(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        let _last = self.last.lock();
        let end = offset + bytes.len() as u64;
        let segments = Self::segments(&self.directory)?;
        let holds = |&&(base, len): &&(u64, u64)| base <= offset && end <= base + len;
        let &(base, _) = segments.iter().find(holds).ok_or(ErrorKind::InvalidInput)?;
        let file = OpenOptions::new().write(true).open(self.path_of(base))?;
        file.write_all_at(bytes, offset - base)?;
        file.sync_all()
    }

    fn place(&self, offset: u64) -> String {
        let segments = Self::segments(&self.directory).unwrap_or_default();
        let base = segments.iter().map(|&(base, _)| base).rfind(|&base| base <= offset);
        let base = base.unwrap_or_default();
        format!("{}, offset {}", self.path_of(base).display(), offset - base)
    }

    /// The segments before the last were synced.
    fn sealed(&self) -> Result<u64> {
        Ok(self.last.lock().base)
    }
}
