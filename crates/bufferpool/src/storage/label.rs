//! Label and lock of a page file or block device.

use crate::error::StorageError;
use crate::ids::PageId;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{ErrorKind, Read, Seek, SeekFrom};
use std::os::unix::fs::{FileExt, FileTypeExt, OpenOptionsExt};
use std::path::Path;
use std::thread;
use std::time::Duration;

const MAGIC: &[u8; 16] = b"headworks-pages\0";
const VERSION: u32 = 1;
/// Time between two attempts to lock a device, and their number.
const LOCK_AGAIN: Duration = Duration::from_millis(50);
const LOCK_TRIES: usize = 20;
/// Bytes of a block device, at both ends, that must be zero before it is labelled. File systems,
/// volume managers, arrays and swap have data there.
const ZEROED_BYTES: u64 = 1 << 20;

/// The contents where a label would be.
pub(super) enum Found {
    /// Nothing: no data would be lost.
    Nothing,
    /// A label of ours.
    Ours,
    /// Something else.
    Foreign,
}

/// An error of opening a file or of preparing it.
pub(super) fn wrong(path: &Path, message: impl ToString) -> StorageError {
    StorageError::Open { path: path.into(), message: message.to_string() }
}

/// Opens a file or a device exclusively. The lock ends with the file, however its process ends.
pub(super) fn open_alone(path: &Path, create: bool) -> Result<File, StorageError> {
    let is_device = path.metadata().is_ok_and(|it| it.file_type().is_block_device());
    // udev also opens and locks a device for a moment, to inspect it.
    let mut tries = if is_device { LOCK_TRIES } else { 1 };
    loop {
        match try_open(path, create, is_device) {
            Err(StorageError::InUse { .. }) if tries > 1 => thread::sleep(LOCK_AGAIN),
            other => return other,
        }
        tries -= 1;
    }
}

fn try_open(path: &Path, create: bool, is_device: bool) -> Result<File, StorageError> {
    let opened = OpenOptions::new()
        .read(true)
        .write(true)
        .create(create && !is_device)
        .truncate(false)
        // For a block device: neither mounted, nor part of an array, nor opened exclusively
        // elsewhere.
        .custom_flags(if is_device { libc::O_EXCL } else { 0 })
        .open(path);
    let in_use = || StorageError::InUse { path: path.into() };
    let file = match opened {
        Err(error) if error.kind() == ErrorKind::ResourceBusy => return Err(in_use()),
        other => other.map_err(|error| wrong(path, error))?,
    };
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(in_use()),
        // A file system without locks is used without one.
        Err(TryLockError::Error(error)) if error.kind() == ErrorKind::Unsupported => Ok(file),
        Err(TryLockError::Error(error)) => {
            Err(wrong(path, format!("it cannot be locked: {error}")))
        }
    }
}

/// The contents: reads the whole file, or both ends of a device.
pub(super) fn look(mut file: &File) -> std::io::Result<Found> {
    let mut first = [0; MAGIC.len()];
    let there = length(file)?;
    if there >= first.len() as u64 {
        file.read_exact_at(&mut first, 0)?;
        if &first == MAGIC {
            return Ok(Found::Ours);
        }
    }
    let is_device = file.metadata()?.file_type().is_block_device();
    let parts = if is_device && there > 2 * ZEROED_BYTES {
        [(0, ZEROED_BYTES), (there - ZEROED_BYTES, ZEROED_BYTES)]
    } else {
        [(0, there), (there, 0)]
    };
    let mut piece = vec![0; 1 << 16];
    for (from, length) in parts {
        file.seek(SeekFrom::Start(from))?;
        let mut part = file.take(length);
        loop {
            let got = part.read(&mut piece)?;
            if got == 0 {
                break;
            }
            if piece[..got].iter().any(|&byte| byte != 0) {
                return Ok(Found::Foreign);
            }
        }
    }
    Ok(Found::Nothing)
}

/// Writes a label, durably.
pub(super) fn write(file: &File, page_size: usize, pages: u64) -> Result<(), StorageError> {
    let mut label = vec![0; page_size];
    label[..16].copy_from_slice(MAGIC);
    label[16..20].copy_from_slice(&VERSION.to_le_bytes());
    // A page is at most a few MiB long.
    label[20..24].copy_from_slice(&(page_size as u32).to_le_bytes());
    label[24..32].copy_from_slice(&pages.to_le_bytes());
    let written = file.write_all_at(&label, 0).and_then(|()| file.sync_all());
    written.map_err(|error| StorageError::from_io("write", PageId::NONE, &error))
}

/// Makes the name of a new file durable.
pub(super) fn sync_name(path: &Path, file: &File) -> Result<(), StorageError> {
    let kind = file.metadata().map_err(|error| wrong(path, error))?.file_type();
    if kind.is_block_device() {
        return Ok(());
    }
    let directory = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    File::open(directory).and_then(|it| it.sync_all()).map_err(|error| wrong(path, error))
}

/// Checks the label. Returns its number of pages, all of which exist.
pub(super) fn check(path: &Path, file: &File, page_size: usize) -> Result<u64, StorageError> {
    let foreign = |reason: String| StorageError::Foreign { path: path.into(), reason };
    let mut label = [0u8; 32];
    file.read_exact_at(&mut label, 0)
        .map_err(|error| foreign(format!("its label cannot be read ({error})")))?;
    if &label[..16] != MAGIC {
        return Err(foreign("it does not begin with the label of page files".into()));
    }
    let number =
        |at: usize| u32::from_le_bytes([label[at], label[at + 1], label[at + 2], label[at + 3]]);
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
    let Some(want) = bytes_of(pages, page_size) else {
        return Err(foreign(format!("its label has {pages} pages, more than a file can have")));
    };
    let there = length(file).map_err(|error| foreign(error.to_string()))?;
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

/// Makes room for this many pages and a label: a file gets the length, a device must have it. Data
/// after the first `keep` pages and the label are removed; without `keep`, the label too.
pub(super) fn make_room(
    path: &Path,
    file: &File,
    (page_size, pages): (usize, u64),
    keep: Option<u64>,
) -> Result<(), StorageError> {
    let Some(bytes) = bytes_of(pages, page_size) else {
        return Err(wrong(path, format!("{pages} pages are more than a file can have")));
    };
    let kept = keep.and_then(|pages| bytes_of(pages, page_size)).unwrap_or(0);
    let kind = file.metadata().map_err(|error| wrong(path, error))?.file_type();
    if !kind.is_block_device() {
        // Never beyond the end: a file that is too short was detected before.
        return file
            .set_len(kept)
            .and_then(|()| file.set_len(bytes))
            .map_err(|error| wrong(path, error));
    }
    let there = length(file).map_err(|error| wrong(path, error))?;
    if there < bytes {
        let what = format!("the device has {there} bytes, {pages} pages and a label need {bytes}");
        return Err(wrong(path, what));
    }
    clear(file, kept, bytes).map_err(|error| wrong(path, error))
}

/// Zeroes the bytes of a device from `at` to `bytes`, where they are not zero.
fn clear(file: &File, mut at: u64, bytes: u64) -> std::io::Result<()> {
    let mut piece = vec![0; ZEROED_BYTES as usize];
    let zeroes = vec![0; ZEROED_BYTES as usize];
    while at < bytes {
        let length = (bytes - at).min(ZEROED_BYTES) as usize;
        file.read_exact_at(&mut piece[..length], at)?;
        if piece[..length] != zeroes[..length] {
            file.write_all_at(&zeroes[..length], at)?;
        }
        at += length as u64;
    }
    Ok(())
}

/// Bytes of a file with this many pages and its label; `None` beyond the largest offset.
fn bytes_of(pages: u64, page_size: usize) -> Option<u64> {
    let bytes = pages.checked_add(1)?.checked_mul(page_size as u64)?;
    i64::try_from(bytes).is_ok().then_some(bytes)
}

/// Bytes of a file, or of a block device, whose metadata do not have the size.
fn length(mut file: &File) -> std::io::Result<u64> {
    file.seek(SeekFrom::End(0))
}
