//! Calls on ranges of files, and on all of a file system at once.

use super::{between, length, metadata, reading, write_or_commit};
use crate::real;
use headworks_hooks::barrier::guarded_under_io;
use headworks_hooks::files;
use headworks_region::thread::keeping_errno;
use libc::{c_int, c_uint, iovec, off_t, size_t, ssize_t};

/// `fallocate` gives pages up if it does not only allocate.
pub(crate) fn allocating(
    fd: c_int,
    mode: c_int,
    offset: off_t,
    bytes: off_t,
    real: impl FnOnce() -> c_int,
) -> c_int {
    const MOVES: c_int = libc::FALLOC_FL_COLLAPSE_RANGE | libc::FALLOC_FL_INSERT_RANGE;
    const FREES: c_int = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_ZERO_RANGE;
    let result = metadata(false, real);
    if result == 0 && mode & (MOVES | FREES) != 0 && files::is_on() {
        let bytes = if mode & MOVES != 0 { 0 } else { bytes };
        guarded_under_io(|| files::freed(fd, offset, bytes));
    }
    result
}

/// `sync_file_range` begins what a scheduler would order. It is held only in the background of
/// `rcp`, where so much at once would be in the clients' way.
pub(crate) fn sync_range(
    fd: c_int,
    offset: off_t,
    bytes: off_t,
    flags: c_uint,
    real: impl FnOnce() -> c_int,
) -> c_int {
    if flags & libc::SYNC_FILE_RANGE_WRITE == 0 || !files::is_on() {
        return real();
    }
    let before = |call: &mut _| files::before_writeback(fd, offset, bytes, call);
    let result = between(before, real, |call, _| files::leave(call));
    if result == 0 {
        guarded_under_io(|| files::wrote_back(fd, offset, bytes));
    }
    result
}

fn sync_all(real: impl FnOnce() -> c_int) -> c_int {
    between(files::before_sync, real, |call, _| files::leave(call))
}

/// A write of up to `bytes` to a place that the call moves forward, or to the file's own position.
///
/// # Safety
/// The place is null, or what the kernel will refuse, or writable.
pub(crate) unsafe fn positioned_write(
    fd: c_int,
    at: *const i64,
    bytes: usize,
    real: impl FnOnce() -> ssize_t,
) -> ssize_t {
    let after = |call: &mut _, count: ssize_t| {
        // SAFETY: once bytes were moved, the kernel has written to the place.
        let moved = (count > 0 && !at.is_null()).then(|| unsafe { *at } - count as i64);
        files::after_write(call, fd, moved, count);
    };
    between(|call| files::before_write(fd, bytes, false, call), real, after)
}

/// Longest part of a copy that waits its turn at once.
const COPY_BYTES: usize = 1 << 20;

/// The kernel copies no more in one call.
const COPY_MAX: usize = 0x7FFF_F000;

/// A copy inside the kernel, which may copy less than it is asked for. If the file is governed, it
/// is made in parts, each of which waits its turn. It ends with a part that is not whole.
pub(crate) fn copying(to: c_int, bytes: usize, mut part: impl FnMut(usize) -> ssize_t) -> ssize_t {
    if bytes <= COPY_BYTES || !files::is_on() || !files::may_be_governed(to) {
        return part(bytes);
    }
    let first = part(COPY_BYTES);
    let (mut done, mut last) = (first, first);
    let bytes = bytes.min(COPY_MAX) as ssize_t;
    while last == COPY_BYTES as ssize_t && done < bytes {
        // The program's next call meets the error, as it would have.
        last = keeping_errno(|| part(COPY_BYTES.min((bytes - done) as usize)));
        done += last.max(0);
    }
    done
}

/// With `RWF_NOWAIT` a call asks not to be delayed.
const NOWAIT: c_int = 8;

/// A call of the second generation, which passes if it asks for that.
fn second<F: FnOnce() -> ssize_t>(
    flags: c_int,
    real: F,
    governed: impl FnOnce(F) -> ssize_t,
) -> ssize_t {
    if flags & NOWAIT == 0 { governed(real) } else { real() }
}

/// The offset of the calls of the second generation: -1 is the file's own position.
fn place(offset: off_t) -> Option<off_t> {
    (offset != -1).then_some(offset)
}

hooks! {
    fallocate(fd: c_int, mode: c_int, offset: off_t, bytes: off_t) -> c_int =
        |real| allocating(fd, mode, offset, bytes, real);
    posix_fallocate(fd: c_int, offset: off_t, bytes: off_t) -> c_int =
        |real| allocating(fd, 0, offset, bytes, real);
    sync_file_range(fd: c_int, offset: off_t, bytes: off_t, flags: c_uint) -> c_int =
        |real| sync_range(fd, offset, bytes, flags, real);
    syncfs(fd: c_int) -> c_int = sync_all;
    preadv2(fd: c_int, parts: *const iovec, count: c_int, offset: off_t, flags: c_int) -> ssize_t =
        // SAFETY: the arguments are the caller's.
        |real| second(flags, real, |real| reading(fd, place(offset), || unsafe { length(parts, count) }, real));
    pwritev2(fd: c_int, parts: *const iovec, count: c_int, offset: off_t, flags: c_int) -> ssize_t =
        // SAFETY: the arguments are the caller's.
        |real| second(flags, real, |real| {
            let commits = flags & (libc::RWF_DSYNC | libc::RWF_SYNC) != 0;
            // SAFETY: as above.
            write_or_commit(fd, place(offset), || unsafe { length(parts, count) }, commits, real)
        });
}

/// # Safety
/// As the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn copy_file_range(
    from: c_int,
    from_at: *mut off_t,
    to: c_int,
    to_at: *mut off_t,
    len: size_t,
    flags: c_uint,
) -> ssize_t {
    copying(to, len, |len| {
        // SAFETY: the arguments are the caller's.
        let real = || unsafe { real::copy_file_range(from, from_at, to, to_at, len, flags) };
        // SAFETY: as above.
        unsafe { positioned_write(to, to_at, len, real) }
    })
}

/// # Safety
/// As the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn sync() {
    sync_all(|| {
        // SAFETY: has no preconditions.
        unsafe { real::sync() };
        0
    });
}

aliases! {
    fallocate64 = fallocate(fd: c_int, mode: c_int, offset: off_t, bytes: off_t) -> c_int;
    posix_fallocate64 = posix_fallocate(fd: c_int, offset: off_t, bytes: off_t) -> c_int;
    preadv64v2 = preadv2(
        fd: c_int, parts: *const iovec, count: c_int, offset: off_t, flags: c_int
    ) -> ssize_t;
    pwritev64v2 = pwritev2(
        fd: c_int, parts: *const iovec, count: c_int, offset: off_t, flags: c_int
    ) -> ssize_t;
}
