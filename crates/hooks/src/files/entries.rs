//! Names of files: what a call that makes, moves or removes one means for what is known of the
//! file.

use super::region;
use libc::{c_char, c_int};

/// A regular file, found by one of its names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Named {
    device: u64,
    inode: u64,
    is_last: bool,
}

/// # Safety
/// `path` is null or a C string.
unsafe fn status(dir: c_int, path: *const c_char, flags: c_int) -> Option<libc::stat> {
    if path.is_null() {
        return None;
    }
    // SAFETY: all zero bytes are a valid buffer; the call only writes to it.
    unsafe {
        let mut stat: libc::stat = core::mem::zeroed();
        (libc::fstatat(dir, path, &raw mut stat, flags) == 0).then_some(stat)
    }
}

/// Whether opening this path with these flags changes anything on a device: it makes a file, or
/// truncates one.
///
/// # Safety
/// `path` is null or a C string.
pub unsafe fn opening_changes(dir: c_int, path: *const c_char, flags: c_int) -> bool {
    if region().is_none_or(|region| !region.control.is_on()) {
        return false;
    }
    // SAFETY: the caller's duty.
    match unsafe { status(dir, path, 0) } {
        Some(stat) => {
            let regular = stat.st_mode & libc::S_IFMT == libc::S_IFREG;
            regular && flags & libc::O_TRUNC != 0 && stat.st_size > 0
        }
        None => flags & libc::O_CREAT != 0,
    }
}

/// The file of this name, before a call that may take the name away.
///
/// # Safety
/// `path` is null or a C string.
pub unsafe fn named(dir: c_int, path: *const c_char) -> Option<Named> {
    region().filter(|region| region.control.is_on())?;
    // SAFETY: the caller's duty.
    let stat = unsafe { status(dir, path, libc::AT_SYMLINK_NOFOLLOW)? };
    let regular = stat.st_mode & libc::S_IFMT == libc::S_IFREG;
    regular.then_some(Named {
        device: stat.st_dev,
        inode: stat.st_ino,
        is_last: stat.st_nlink == 1,
    })
}

/// The name is gone.
pub fn removed(file: Named) {
    if let Some(region) = region().filter(|_| file.is_last) {
        region.removed(file.device, file.inode);
    }
}

/// The file has moved, perhaps to the name of another one.
pub fn renamed(file: Named, over: Option<Named>) {
    if let Some(region) = region() {
        region.renamed(file.device, file.inode);
    }
    if let Some(over) = over.filter(|over| over.inode != file.inode) {
        removed(over);
    }
}
