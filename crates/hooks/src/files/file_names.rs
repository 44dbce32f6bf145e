//! Names of files: what a call that makes, moves or removes one means for what is known of the
//! file.

use super::{region, status};
use libc::{c_char, c_int};

/// A regular file, found by one of its names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Named {
    device: u64,
    inode: u64,
    is_last: bool,
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
    match unsafe { status::at(dir, path, 0) } {
        Some(file) => file.is_regular() && flags & libc::O_TRUNC != 0 && file.size > 0,
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
    let file = unsafe { status::at(dir, path, libc::AT_SYMLINK_NOFOLLOW)? };
    file.is_regular().then_some(Named {
        device: file.device,
        inode: file.inode,
        is_last: file.links == 1,
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
