//! Where on the device a file's pages lie: the kernel is asked for its extents.

use super::descriptors::File;
use super::status;
use core::ffi::c_int;
use headworks_policy::split::Account;
use headworks_region::clock;
use headworks_region::io::places::Owner;
use headworks_region::thread::keeping_errno;

/// `FS_IOC_FIEMAP` (linux/fs.h), the same on all architectures with a GNU C library.
const FS_IOC_FIEMAP: libc::c_ulong = 0xC020_660B;

/// Extents with one of these flags have no place yet, or it says nothing: unknown, delayed
/// allocation, encoded, in the inode.
const NO_PLACE: u32 = 0x2 | 0x4 | 0x8 | 0x80 | 0x200;

/// Extents that are asked for at a time. A write that lies in more of them is marked in part.
const EXTENTS: usize = 8;

/// `struct fiemap_extent` (linux/fiemap.h).
#[derive(Clone, Copy, Default)]
#[repr(C)]
struct Extent {
    logical: u64,
    physical: u64,
    length: u64,
    reserved: [u64; 2],
    flags: u32,
    reserved_words: [u32; 3],
}

/// `struct fiemap`.
#[derive(Default)]
#[repr(C)]
struct Map {
    start: u64,
    length: u64,
    flags: u32,
    mapped: u32,
    count: u32,
    reserved: u32,
    extents: [Extent; EXTENTS],
}

/// A range of a file is this account's: it has dirty pages there, or is about to read them from the
/// device. Marks where they lie, if a volume wants to know.
#[inline]
pub(super) fn note(file: File, account: Account, fd: c_int, offset: u64, bytes: u64) {
    if let Some(device) = file.region.places.watched(clock::now) {
        keeping_errno(|| mark(file, account, device, fd, offset, bytes));
    }
}

#[cold]
fn mark(file: File, account: Account, device: u64, fd: c_int, offset: u64, bytes: u64) {
    if status::of(fd).is_none_or(|file| file.device != device) {
        return;
    }
    let mut map = Map::default();
    (map.start, map.length, map.count) = (offset, bytes, EXTENTS as u32);
    // By system call, since `ioctl` takes what follows as its own arguments.
    // SAFETY: the kernel writes at most `count` extents behind the head.
    let result = unsafe { libc::syscall(libc::SYS_ioctl, fd, FS_IOC_FIEMAP, &raw mut map) };
    if result != 0 {
        return;
    }
    let owner = Owner { account, file: file.slot };
    for extent in map.extents.iter().take(map.mapped as usize) {
        let from = offset.max(extent.logical);
        let end = offset.saturating_add(bytes).min(extent.logical.saturating_add(extent.length));
        if extent.flags & NO_PLACE == 0 && from < end {
            let place = extent.physical.saturating_add(from - extent.logical);
            file.region.places.mark(place, end - from, owner);
        }
    }
}
