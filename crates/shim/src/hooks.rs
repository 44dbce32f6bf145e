//! The exported symbols. `headworks_hooks::symbols::SYMBOLS` lists them.

use crate::receiving::{
    NOT_THE_STREAM, about_to_block, errno, received, received_nothing, set_errno, timespec_of,
};
use crate::start::client_can_come;
use crate::{processes, real, streams, waits};
use core::ffi::c_void;
use headworks_hooks::barrier::{Of, guarded, guarded_keeping_errno};
use headworks_hooks::conn::{self, Conn, Work};
use headworks_hooks::early::EarlyReads;
use headworks_hooks::{backend, eventloop, files, lifecycle, threads};
use headworks_policy::Nanos;
use libc::{c_int, nfds_t, pollfd, sigset_t, size_t, sockaddr, socklen_t, ssize_t, timespec};

fn accepted(client: c_int) {
    // `fclose` closes by a call that no hook sees: the number may have been a file's.
    files::forget(client);
    client_can_come();
    guarded_keeping_errno(Of::Process, || {
        lifecycle::accepted(client);
        waits::accepted();
    });
}

/// # Safety
/// As the C library's function; so for all below.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn listen(fd: c_int, backlog: c_int) -> c_int {
    client_can_come();
    guarded_keeping_errno(Of::Process, lifecycle::listens);
    // SAFETY: the arguments are the caller's.
    unsafe { real::listen(fd, backlog) }
}

/// # Safety
/// As the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn accept(
    fd: c_int,
    addr: *mut sockaddr,
    len: *mut socklen_t,
) -> c_int {
    // SAFETY: the arguments are the caller's.
    let client = unsafe { real::accept(fd, addr, len) };
    if client >= 0 {
        accepted(client);
    }
    client
}

/// # Safety
/// As the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn accept4(
    fd: c_int,
    addr: *mut sockaddr,
    len: *mut socklen_t,
    flags: c_int,
) -> c_int {
    // SAFETY: the arguments are the caller's.
    let client = unsafe { real::accept4(fd, addr, len, flags) };
    if client >= 0 {
        accepted(client);
    }
    client
}

/// # Safety
/// As the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn recv(
    fd: c_int,
    buffer: *mut c_void,
    len: size_t,
    flags: c_int,
) -> ssize_t {
    if backend::serves(fd) {
        // A backend has but one client: the tables of connections would only be cold memory.
        // SAFETY: the arguments are the caller's.
        return unsafe { processes::recv(fd, buffer, len, flags) };
    }
    let Some(conn) = conn::find(fd) else {
        if let Some(connection) = eventloop::client(fd) {
            // SAFETY: the arguments are the caller's.
            return unsafe { streams::recv(connection, fd, buffer, len, flags) };
        }
        // SAFETY: the arguments are the caller's.
        return unsafe { real::recv(fd, buffer, len, flags) };
    };
    let mut early = None;
    if conn.work() != Work::None {
        guarded(Of::Thread(conn), || threads::about_to_receive(conn));
        if conn.work() == Work::None && flags == libc::MSG_DONTWAIT {
            early = conn.early_reads();
        }
    }
    if early.is_some_and(EarlyReads::leave_out) {
        set_errno(libc::EAGAIN);
        received_nothing(conn, -1);
        return -1;
    }
    if flags & libc::MSG_DONTWAIT == 0 {
        about_to_block(conn, fd);
    }
    // SAFETY: the arguments are the caller's.
    let count = unsafe { real::recv(fd, buffer, len, flags) };
    if let Some(early) = early {
        early.made(count < 0 && errno() == libc::EAGAIN);
    }
    if flags & NOT_THE_STREAM != 0 || !conn.is_followed() {
        return count;
    }
    if count > 0 {
        // SAFETY: the kernel has written `count` bytes, and no more than `len`, to `buffer`.
        received(conn, unsafe {
            core::slice::from_raw_parts(buffer.cast::<u8>(), (count as usize).min(len))
        });
    } else if count < 0 || len > 0 {
        received_nothing(conn, count);
    }
    count
}

/// # Safety
/// As the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn __recv_chk(
    fd: c_int,
    buffer: *mut c_void,
    len: size_t,
    room: size_t,
    flags: c_int,
) -> ssize_t {
    unsafe extern "C" {
        fn __chk_fail() -> !;
    }
    if len > room {
        // SAFETY: what the fortified function does with an overflow: it ends the process.
        unsafe { __chk_fail() }
    }
    // SAFETY: the arguments are the caller's.
    unsafe { recv(fd, buffer, len, flags) }
}

/// # Safety
/// As the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn send(
    fd: c_int,
    buffer: *const c_void,
    len: size_t,
    flags: c_int,
) -> ssize_t {
    // SAFETY: the arguments are the caller's.
    let count = unsafe { real::send(fd, buffer, len, flags) };
    if count <= 0 {
        return count;
    }
    if backend::serves(fd) {
        // SAFETY: the kernel has read `count` bytes from `buffer`.
        unsafe { processes::sent(buffer, (count as usize).min(len)) };
        return count;
    }
    let Some(conn) = conn::find(fd) else {
        if let Some(connection) = eventloop::client(fd) {
            // SAFETY: the kernel has read `count` bytes from `buffer`.
            unsafe { streams::sent(connection, buffer, (count as usize).min(len)) };
        }
        return count;
    };
    if conn.is_followed() {
        // SAFETY: the kernel has read `count` bytes, and no more than `len`, from `buffer`.
        let bytes =
            unsafe { core::slice::from_raw_parts(buffer.cast::<u8>(), (count as usize).min(len)) };
        guarded(Of::Thread(conn), || threads::sent(conn, bytes));
    }
    count
}

/// # Safety
/// As the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn poll(fds: *mut pollfd, count: nfds_t, timeout_ms: c_int) -> c_int {
    // SAFETY: the arguments are the caller's.
    let Some((conn, first)) = (unsafe { staged(fds, count) }) else {
        // SAFETY: the arguments are the caller's.
        return unsafe { waits::poll(fds, count, timeout_ms) };
    };
    let total = u64::try_from(timeout_ms).ok().map(Nanos::from_millis);
    if total.is_some_and(|total| total <= first) {
        // SAFETY: the arguments are the caller's.
        return unsafe { real::poll(fds, count, timeout_ms) };
    }
    // Whole milliseconds need no `ppoll`, which costs the kernel two more copies.
    let ready = match c_int::try_from(first.0 / 1_000_000) {
        // SAFETY: the array is the caller's.
        Ok(first_ms) if first.0.is_multiple_of(1_000_000) => unsafe {
            real::poll(fds, count, first_ms)
        },
        // SAFETY: the array is the caller's; no signal mask is changed.
        _ => unsafe { real::ppoll(fds, count, &timespec_of(first), core::ptr::null()) },
    };
    if ready != 0 {
        return ready;
    }
    guarded_keeping_errno(Of::Thread(conn), || threads::slept(conn));
    let rest_ms = match total {
        None => timeout_ms,
        // Rounded up, as a poll never returns early.
        Some(total) => {
            c_int::try_from(total.since(first).0.div_ceil(1_000_000)).unwrap_or(timeout_ms)
        }
    };
    // SAFETY: the arguments are the caller's.
    let ready = unsafe { real::poll(fds, count, rest_ms) };
    guarded_keeping_errno(Of::Thread(conn), || threads::woke(conn));
    ready
}

/// # Safety
/// As the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn __poll_chk(
    fds: *mut pollfd,
    count: nfds_t,
    timeout_ms: c_int,
    room: size_t,
) -> c_int {
    unsafe extern "C" {
        fn __chk_fail() -> !;
    }
    if room / size_of::<pollfd>() < count as usize {
        // SAFETY: what the fortified function does with an overflow: it ends the process.
        unsafe { __chk_fail() }
    }
    // SAFETY: the arguments are the caller's.
    unsafe { poll(fds, count, timeout_ms) }
}

/// # Safety
/// As the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn ppoll(
    fds: *mut pollfd,
    count: nfds_t,
    timeout: *const timespec,
    mask: *const sigset_t,
) -> c_int {
    // SAFETY: the arguments are the caller's.
    let Some((conn, first)) = (unsafe { staged(fds, count) }) else {
        // SAFETY: the arguments are the caller's.
        return unsafe { real::ppoll(fds, count, timeout, mask) };
    };
    // SAFETY: the caller passes null or a readable time.
    let valid = unsafe { timeout.as_ref() }
        .is_none_or(|time| time.tv_sec >= 0 && (0..1_000_000_000).contains(&time.tv_nsec));
    if !valid {
        // SAFETY: the arguments are the caller's; the real function refuses them.
        return unsafe { real::ppoll(fds, count, timeout, mask) };
    }
    // SAFETY: as above.
    let total = unsafe { timeout.as_ref() }.map(|time| {
        Nanos(
            (time.tv_sec as u64).saturating_mul(1_000_000_000).saturating_add(time.tv_nsec as u64),
        )
    });
    if total.is_some_and(|total| total <= first) {
        // SAFETY: the arguments are the caller's.
        return unsafe { real::ppoll(fds, count, timeout, mask) };
    }
    // SAFETY: the array and the mask are the caller's.
    let ready = unsafe { real::ppoll(fds, count, &timespec_of(first), mask) };
    if ready != 0 {
        return ready;
    }
    guarded_keeping_errno(Of::Thread(conn), || threads::slept(conn));
    let rest = total.map(|total| timespec_of(total.since(first)));
    let rest = rest.as_ref().map_or(core::ptr::null(), core::ptr::from_ref);
    // SAFETY: the array and the mask are the caller's; the time lives until the call returns.
    let ready = unsafe { real::ppoll(fds, count, rest, mask) };
    guarded_keeping_errno(Of::Thread(conn), || threads::woke(conn));
    ready
}

/// # Safety
/// As the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn shutdown(fd: c_int, how: c_int) -> c_int {
    if how != libc::SHUT_WR {
        guarded_keeping_errno(Of::Process, || {
            if let Some(connection) = eventloop::client(fd) {
                eventloop::shutting_down(fd, connection);
            }
            threads::shutting_down(fd);
        });
    }
    // SAFETY: the arguments are the caller's.
    unsafe { real::shutdown(fd, how) }
}

/// A poll of one descriptor whose session holds a permit: its connection, and how long to sleep
/// before the permit is given to others.
///
/// # Safety
/// `fds` points to `count` entries, or the caller made a mistake that the real function reports.
unsafe fn staged(fds: *const pollfd, count: nfds_t) -> Option<(&'static Conn, Nanos)> {
    if count != 1 || fds.is_null() {
        return None;
    }
    // SAFETY: there is one entry.
    let conn = conn::find(unsafe { (*fds).fd })?;
    // Nothing but loads: it needs no guard.
    threads::about_to_sleep(conn).map(|first| (conn, first))
}
