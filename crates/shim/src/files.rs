//! The hooks of calls on files. For a process without an I/O scheduler, and for files that are not
//! governed, they are the functions of the C library.

use crate::real;
use core::ffi::{c_char, c_void};
use headworks_hooks::barrier::guarded_under_io;
use headworks_hooks::files::{self, Call, file_names};
use libc::{c_int, c_long, iovec, mode_t, off_t, size_t, ssize_t};

/// Makes a call between the operations before and after it.
#[inline]
pub(crate) fn between<T: Copy>(
    before: impl FnOnce(&mut Option<Call>),
    real: impl FnOnce() -> T,
    after: impl FnOnce(&mut Call, T),
) -> T {
    if !files::is_on() {
        return real();
    }
    let mut call = None;
    guarded_under_io(|| before(&mut call));
    let result = real();
    if let Some(call) = &mut call {
        guarded_under_io(|| after(call, result));
    }
    result
}

/// Bytes of several buffers.
///
/// # Safety
/// `parts` points to `len` buffers, or to what the kernel will refuse as well.
pub(crate) unsafe fn length(parts: *const iovec, len: c_int) -> usize {
    let len = usize::try_from(len).unwrap_or(0).min(1024);
    if parts.is_null() {
        return 0;
    }
    // SAFETY: the caller's duty.
    (0..len).fold(0, |sum: usize, at| sum.saturating_add(unsafe { (*parts.add(at)).iov_len }))
}

/// A call on a descriptor that is not governed.
#[inline]
fn passing(fd: c_int, real: impl FnOnce() -> ssize_t) -> ssize_t {
    let result = real();
    files::passed(fd, result);
    result
}

/// A read, at the file's own position if there is no offset.
#[inline]
pub(crate) fn reading(
    fd: c_int,
    offset: Option<off_t>,
    bytes: impl FnOnce() -> usize,
    real: impl FnOnce() -> ssize_t,
) -> ssize_t {
    if !files::watches_reads() {
        return real();
    }
    if !files::may_be_governed(fd) {
        return passing(fd, real);
    }
    let after = |call: &mut _, count| files::after_read(call, fd, offset, count);
    between(|call| files::before_read(fd, offset, bytes(), call), real, after)
}

/// A write, at the file's own position if there is no offset.
#[inline]
pub(crate) fn writing(
    fd: c_int,
    offset: Option<off_t>,
    bytes: impl FnOnce() -> usize,
    real: impl FnOnce() -> ssize_t,
) -> ssize_t {
    write_or_commit(fd, offset, bytes, false, real)
}

/// A write that is durable when it returns if it `commits`, or if the file was opened so.
#[inline]
pub(crate) fn write_or_commit(
    fd: c_int,
    offset: Option<off_t>,
    bytes: impl FnOnce() -> usize,
    commits: bool,
    real: impl FnOnce() -> ssize_t,
) -> ssize_t {
    if !files::may_be_governed(fd) {
        return passing(fd, real);
    }
    let after = |call: &mut _, count| files::after_write(call, fd, offset, count);
    between(|call| files::before_write(fd, bytes(), commits, call), real, after)
}

/// # Safety
/// `path` is what the caller gives to the C library's function.
pub(crate) unsafe fn opening(
    dir: c_int,
    path: *const c_char,
    flags: c_int,
    real: impl FnOnce() -> c_int,
) -> c_int {
    let may_change = flags & (libc::O_CREAT | libc::O_TRUNC) != 0;
    // SAFETY: the caller's duty.
    let changes = || may_change && unsafe { file_names::opening_changes(dir, path, flags) };
    let before = |call: &mut _| {
        if changes() {
            files::before_metadata(false, call);
        }
    };
    let fd = between(before, real, |call, _| files::leave(call));
    files::forget(fd);
    if flags & libc::O_TRUNC != 0 && fd >= 0 && files::is_on() {
        guarded_under_io(|| files::freed(fd, 0, 0));
    }
    fd
}

/// Declares a hook that only makes a call between its operations.
macro_rules! hooks {
    ($($name:ident($($arg:ident: $type:ty),*) -> $result:ty = $around:expr;)*) => {$(
        /// # Safety
        /// As the C library's function.
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name($($arg: $type),*) -> $result {
            // SAFETY: the arguments are the caller's.
            $around(|| unsafe { real::$name($($arg),*) })
        }
    )*};
}

/// The same function under another name: on 64-bit machines all offsets have 64 bits.
macro_rules! aliases {
    ($($alias:ident = $name:ident($($arg:ident: $type:ty),*) -> $result:ty;)*) => {$(
        /// # Safety
        /// As the C library's function.
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $alias($($arg: $type),*) -> $result {
            // SAFETY: the arguments are the caller's.
            unsafe { $name($($arg),*) }
        }
    )*};
}

// Behind the macros, which they use.
mod names;
mod ranges;
mod stdio;
pub(crate) use ranges::{allocating, copying, positioned_write, sync_range};

pub(crate) fn syncing(fd: c_int, real: impl FnOnce() -> c_int) -> c_int {
    between(|call| files::before_fsync(fd, call), real, |call, _| files::leave(call))
}

pub(crate) fn metadata(directory: bool, real: impl FnOnce() -> c_int) -> c_int {
    between(|call| files::before_metadata(directory, call), real, |call, _| files::leave(call))
}

/// A call that takes a file's name away.
///
/// # Safety
/// `path` is what the caller gives to the C library's function.
unsafe fn removing(dir: c_int, path: *const c_char, real: impl FnOnce() -> c_int) -> c_int {
    let mut file = None;
    if files::is_on() {
        // SAFETY: the caller's duty.
        guarded_under_io(|| file = unsafe { file_names::named(dir, path) });
    }
    let result = metadata(false, real);
    if let Some(file) = file.filter(|_| result == 0) {
        guarded_under_io(|| file_names::removed(file));
    }
    result
}

/// A call that gives a file another name, and may take it from another file.
///
/// # Safety
/// The paths are what the caller gives to the C library's function.
pub(crate) unsafe fn renaming(
    (from_dir, from): (c_int, *const c_char),
    (to_dir, to): (c_int, *const c_char),
    real: impl FnOnce() -> c_int,
) -> c_int {
    let (mut file, mut over) = (None, None);
    if files::is_on() {
        // SAFETY: the caller's duty.
        guarded_under_io(|| unsafe {
            (file, over) = (file_names::named(from_dir, from), file_names::named(to_dir, to))
        });
    }
    let result = metadata(false, real);
    if let Some(file) = file.filter(|_| result == 0) {
        guarded_under_io(|| file_names::renamed(file, over));
    }
    result
}

pub(crate) fn truncating(fd: c_int, length: off_t, real: impl FnOnce() -> c_int) -> c_int {
    let result = metadata(false, real);
    if result == 0 && files::is_on() {
        guarded_under_io(|| files::freed(fd, length, 0));
    }
    result
}

hooks! {
    open(path: *const c_char, flags: c_int, mode: mode_t) -> c_int =
        // SAFETY: the arguments are the caller's.
        |real| unsafe { opening(libc::AT_FDCWD, path, flags, real) };
    open64(path: *const c_char, flags: c_int, mode: mode_t) -> c_int =
        // SAFETY: the arguments are the caller's.
        |real| unsafe { opening(libc::AT_FDCWD, path, flags, real) };
    openat(dir: c_int, path: *const c_char, flags: c_int, mode: mode_t) -> c_int =
        // SAFETY: the arguments are the caller's.
        |real| unsafe { opening(dir, path, flags, real) };
    openat64(dir: c_int, path: *const c_char, flags: c_int, mode: mode_t) -> c_int =
        // SAFETY: the arguments are the caller's.
        |real| unsafe { opening(dir, path, flags, real) };
    creat(path: *const c_char, mode: mode_t) -> c_int =
        // SAFETY: the arguments are the caller's.
        |real| unsafe {
            opening(libc::AT_FDCWD, path, libc::O_CREAT | libc::O_TRUNC, real)
        };
    pread(fd: c_int, buffer: *mut c_void, len: size_t, offset: off_t) -> ssize_t =
        |real| reading(fd, Some(offset), || len, real);
    pwrite(fd: c_int, buffer: *const c_void, len: size_t, offset: off_t) -> ssize_t =
        |real| writing(fd, Some(offset), || len, real);
    preadv(fd: c_int, parts: *const iovec, count: c_int, offset: off_t) -> ssize_t =
        // SAFETY: the arguments are the caller's.
        |real| reading(fd, Some(offset), || unsafe { length(parts, count) }, real);
    pwritev(fd: c_int, parts: *const iovec, count: c_int, offset: off_t) -> ssize_t =
        // SAFETY: the arguments are the caller's.
        |real| writing(fd, Some(offset), || unsafe { length(parts, count) }, real);
    fsync(fd: c_int) -> c_int = |real| syncing(fd, real);
    fdatasync(fd: c_int) -> c_int = |real| syncing(fd, real);
    mkdir(path: *const c_char, mode: mode_t) -> c_int = |real| metadata(true, real);
    ftruncate(fd: c_int, length: off_t) -> c_int = |real| truncating(fd, length, real);
    __open_2(path: *const c_char, flags: c_int) -> c_int =
        // SAFETY: the arguments are the caller's.
        |real| unsafe { opening(libc::AT_FDCWD, path, flags, real) };
    __open64_2(path: *const c_char, flags: c_int) -> c_int =
        // SAFETY: the arguments are the caller's.
        |real| unsafe { opening(libc::AT_FDCWD, path, flags, real) };
    __openat_2(dir: c_int, path: *const c_char, flags: c_int) -> c_int =
        // SAFETY: the arguments are the caller's.
        |real| unsafe { opening(dir, path, flags, real) };
    __openat64_2(dir: c_int, path: *const c_char, flags: c_int) -> c_int =
        // SAFETY: the arguments are the caller's.
        |real| unsafe { opening(dir, path, flags, real) };
    fcntl(fd: c_int, command: c_int, argument: c_long) -> c_int =
        |real| setting(fd, command, real);
    fcntl64(fd: c_int, command: c_int, argument: c_long) -> c_int =
        |real| setting(fd, command, real);
}

/// `F_SETFL` may turn `O_DIRECT` on or off.
fn setting(fd: c_int, command: c_int, real: impl FnOnce() -> c_int) -> c_int {
    let result = real();
    if command == libc::F_SETFL {
        files::forget(fd);
    }
    result
}

unsafe extern "C" {
    fn __chk_fail() -> !;
}

/// # Safety
/// As the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn __pread_chk(
    fd: c_int,
    buffer: *mut c_void,
    len: size_t,
    offset: off_t,
    room: size_t,
) -> ssize_t {
    if len > room {
        // SAFETY: what the fortified function does with an overflow: it ends the process.
        unsafe { __chk_fail() }
    }
    // SAFETY: the arguments are the caller's.
    unsafe { pread(fd, buffer, len, offset) }
}

aliases! {
    creat64 = creat(path: *const c_char, mode: mode_t) -> c_int;
    pread64 = pread(fd: c_int, buffer: *mut c_void, len: size_t, offset: off_t) -> ssize_t;
    __pread64_chk = __pread_chk(
        fd: c_int, buffer: *mut c_void, len: size_t, offset: off_t, room: size_t
    ) -> ssize_t;
    pwrite64 = pwrite(fd: c_int, buffer: *const c_void, len: size_t, offset: off_t) -> ssize_t;
    preadv64 = preadv(fd: c_int, parts: *const iovec, count: c_int, offset: off_t) -> ssize_t;
    pwritev64 = pwritev(fd: c_int, parts: *const iovec, count: c_int, offset: off_t) -> ssize_t;
    ftruncate64 = ftruncate(fd: c_int, length: off_t) -> c_int;
}
