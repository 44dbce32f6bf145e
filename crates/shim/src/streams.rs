//! The hooks of reading from and writing to the clients of event loops. For every other descriptor they are the functions
//! of the C library.

use crate::files;
use crate::guard::guarded_keeping_errno;
use crate::hooks::{NOT_THE_STREAM, errno};
use crate::real;
use core::ffi::c_void;
use headworks_hooks::eventloop::{self, Watch};
use libc::{c_int, iovec, msghdr, size_t, sockaddr, socklen_t, ssize_t};

/// What a read of `asked` bytes that began at the mark `before` has told of how much there was.
fn note_emptied(watch: &Watch, before: u32, count: ssize_t, asked: usize) {
    let drained = match usize::try_from(count) {
        Ok(0) => false,
        Ok(count) => count < asked,
        Err(_) => errno() == libc::EAGAIN,
    };
    if drained {
        watch.emptied(before);
    }
}

/// # Safety
/// `buffer` holds `count` bytes.
unsafe fn received(watch: &'static Watch, buffer: *const c_void, count: usize) {
    if count > 0 {
        // SAFETY: the caller's duty.
        let bytes = unsafe { core::slice::from_raw_parts(buffer.cast::<u8>(), count) };
        guarded_keeping_errno(|| eventloop::received(watch, bytes));
    }
}

/// # Safety
/// `buffer` holds `count` bytes.
pub(crate) unsafe fn sent(watch: &'static Watch, buffer: *const c_void, count: usize) {
    if count > 0 {
        // SAFETY: the caller's duty.
        let bytes = unsafe { core::slice::from_raw_parts(buffer.cast::<u8>(), count) };
        guarded_keeping_errno(|| eventloop::sent(watch, bytes));
    }
}

/// The parts of several buffers that `count` bytes fill.
///
/// # Safety
/// As for `readv`: `parts` points to `len` buffers.
unsafe fn each_part(
    parts: *const iovec,
    len: usize,
    count: usize,
    mut work: impl FnMut(*const c_void, usize),
) {
    let mut left = count;
    for at in 0..len {
        // SAFETY: the caller's duty; the kernel has read them, too.
        let part = unsafe { *parts.add(at) };
        let filled = part.iov_len.min(left);
        left -= filled;
        work(part.iov_base, filled);
        if left == 0 {
            return;
        }
    }
}

/// # Safety
/// `parts` points to `len` buffers.
unsafe fn room(parts: *const iovec, len: usize) -> usize {
    // SAFETY: the caller's duty.
    (0..len).fold(0, |sum: usize, at| sum.saturating_add(unsafe { (*parts.add(at)).iov_len }))
}

/// # Safety
/// As the C library's function; so for all below.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn read(fd: c_int, buffer: *mut c_void, len: size_t) -> ssize_t {
    let Some(watch) = eventloop::client(fd) else {
        // SAFETY: the arguments are the caller's.
        return files::reading(fd, None, || len, || unsafe { real::read(fd, buffer, len) });
    };
    let before = watch.readiness();
    // SAFETY: the arguments are the caller's.
    let count = unsafe { real::read(fd, buffer, len) };
    note_emptied(watch, before, count, len);
    // SAFETY: the kernel has written `count` bytes, and no more than `len`, to `buffer`.
    unsafe { received(watch, buffer, usize::try_from(count).unwrap_or(0).min(len)) };
    count
}

/// # Safety
/// As the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn __read_chk(
    fd: c_int,
    buffer: *mut c_void,
    len: size_t,
    room: size_t,
) -> ssize_t {
    if len > room {
        // SAFETY: what the fortified function does with an overflow: it ends the process.
        unsafe { __chk_fail() }
    }
    // SAFETY: the arguments are the caller's.
    unsafe { read(fd, buffer, len) }
}

unsafe extern "C" {
    fn __chk_fail() -> !;
}

/// # Safety
/// As the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn readv(fd: c_int, parts: *const iovec, len: c_int) -> ssize_t {
    let Some(watch) = eventloop::client(fd) else {
        // SAFETY: the arguments are the caller's, and the kernel reads them, too.
        let bytes = || unsafe { files::length(parts, len) };
        // SAFETY: the arguments are the caller's.
        return files::reading(fd, None, bytes, || unsafe { real::readv(fd, parts, len) });
    };
    let before = watch.readiness();
    // SAFETY: the arguments are the caller's.
    let count = unsafe { real::readv(fd, parts, len) };
    if count >= 0 {
        // Not negative: the kernel has taken it.
        let len = usize::try_from(len).unwrap_or(0);
        // SAFETY: the kernel has read the parts and written `count` bytes into them.
        unsafe {
            note_emptied(watch, before, count, room(parts, len));
            each_part(parts, len, count as usize, |buffer, count| received(watch, buffer, count));
        }
    } else {
        note_emptied(watch, before, count, 0);
    }
    count
}

/// `recv` from a client of an event loop.
///
/// # Safety
/// As the C library's function.
pub(crate) unsafe fn recv(
    watch: &'static Watch,
    fd: c_int,
    buffer: *mut c_void,
    len: size_t,
    flags: c_int,
) -> ssize_t {
    let before = watch.readiness();
    // SAFETY: the arguments are the caller's.
    let count = unsafe { real::recv(fd, buffer, len, flags) };
    if flags & NOT_THE_STREAM == 0 {
        note_emptied(watch, before, count, len);
        // SAFETY: the kernel has written `count` bytes, and no more than `len`, to `buffer`.
        unsafe { received(watch, buffer, usize::try_from(count).unwrap_or(0).min(len)) };
    }
    count
}

/// # Safety
/// As the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn recvfrom(
    fd: c_int,
    buffer: *mut c_void,
    len: size_t,
    flags: c_int,
    addr: *mut sockaddr,
    addr_len: *mut socklen_t,
) -> ssize_t {
    let watch = eventloop::client(fd).filter(|_| flags & NOT_THE_STREAM == 0);
    let before = watch.map_or(0, Watch::readiness);
    // SAFETY: the arguments are the caller's.
    let count = unsafe { real::recvfrom(fd, buffer, len, flags, addr, addr_len) };
    if let Some(watch) = watch {
        note_emptied(watch, before, count, len);
        // SAFETY: the kernel has written `count` bytes, and no more than `len`, to `buffer`.
        unsafe { received(watch, buffer, usize::try_from(count).unwrap_or(0).min(len)) };
    }
    count
}

/// # Safety
/// As the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn __recvfrom_chk(
    fd: c_int,
    buffer: *mut c_void,
    len: size_t,
    room: size_t,
    flags: c_int,
    addr: *mut sockaddr,
    addr_len: *mut socklen_t,
) -> ssize_t {
    if len > room {
        // SAFETY: what the fortified function does with an overflow: it ends the process.
        unsafe { __chk_fail() }
    }
    // SAFETY: the arguments are the caller's.
    unsafe { recvfrom(fd, buffer, len, flags, addr, addr_len) }
}

/// # Safety
/// As the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn recvmsg(fd: c_int, message: *mut msghdr, flags: c_int) -> ssize_t {
    let watch = eventloop::client(fd).filter(|_| flags & NOT_THE_STREAM == 0);
    let before = watch.map_or(0, Watch::readiness);
    // SAFETY: the arguments are the caller's.
    let count = unsafe { real::recvmsg(fd, message, flags) };
    if let Some(watch) = watch {
        if count >= 0 {
            // SAFETY: the kernel has read the message and written `count` bytes into its parts.
            unsafe {
                let (parts, len) = ((*message).msg_iov, (*message).msg_iovlen);
                note_emptied(watch, before, count, room(parts, len));
                each_part(parts, len, count as usize, |buffer, count| {
                    received(watch, buffer, count);
                });
            }
        } else {
            note_emptied(watch, before, count, 0);
        }
    }
    count
}

/// # Safety
/// As the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn write(fd: c_int, buffer: *const c_void, len: size_t) -> ssize_t {
    // SAFETY: the arguments are the caller's.
    let count = files::writing(fd, None, || len, || unsafe { real::write(fd, buffer, len) });
    if count > 0
        && let Some(watch) = eventloop::client(fd)
    {
        // SAFETY: the kernel has read `count` bytes, and no more than `len`, from `buffer`.
        unsafe { sent(watch, buffer, (count as usize).min(len)) };
    }
    count
}

/// # Safety
/// As the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn writev(fd: c_int, parts: *const iovec, len: c_int) -> ssize_t {
    // SAFETY: the arguments are the caller's, and the kernel reads them, too.
    let bytes = || unsafe { files::length(parts, len) };
    // SAFETY: the arguments are the caller's.
    let count = files::writing(fd, None, bytes, || unsafe { real::writev(fd, parts, len) });
    if count > 0
        && let Some(watch) = eventloop::client(fd)
    {
        // Not negative: the kernel has taken it.
        let len = usize::try_from(len).unwrap_or(0);
        // SAFETY: the kernel has read `count` bytes from the parts.
        unsafe {
            each_part(parts, len, count as usize, |buffer, count| sent(watch, buffer, count));
        }
    }
    count
}

/// # Safety
/// As the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn sendmsg(
    fd: c_int,
    message: *const msghdr,
    flags: c_int,
) -> ssize_t {
    // SAFETY: the arguments are the caller's.
    let count = unsafe { real::sendmsg(fd, message, flags) };
    if count > 0
        && let Some(watch) = eventloop::client(fd)
    {
        // SAFETY: the kernel has read `count` bytes from the message's parts.
        unsafe {
            let (parts, len) = ((*message).msg_iov, (*message).msg_iovlen);
            each_part(parts, len, count as usize, |buffer, count| sent(watch, buffer, count));
        }
    }
    count
}
