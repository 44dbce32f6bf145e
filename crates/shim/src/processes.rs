//! The hooks of a server with a process for each connection. Such a process has no table of
//! connections: its only client is [`headworks_hooks::backend`]. Calls on any other descriptor go
//! to the C library unchanged.

use crate::real;
use crate::receiving::{NOT_THE_STREAM, errno, set_errno, timespec_of};
use core::ffi::c_void;
use headworks_hooks::backend::{self, Receipt, Stage};
use headworks_hooks::barrier::{Of, guarded, guarded_keeping_errno};
use headworks_hooks::early::EarlyReads;
use headworks_policy::Nanos;
use libc::{c_int, epoll_event, size_t, ssize_t};

/// `recv` from the client of a backend.
///
/// # Safety
/// As the C library's function; so for all below.
pub(crate) unsafe fn recv(fd: c_int, buffer: *mut c_void, len: size_t, flags: c_int) -> ssize_t {
    if flags & NOT_THE_STREAM != 0 || backend::in_tls() {
        // SAFETY: the arguments are the caller's.
        return unsafe { real::recv(fd, buffer, len, flags) };
    }
    // SAFETY: the arguments are the caller's.
    unsafe { recv_from_client(fd, buffer, len, flags) }
}

/// What comes before a receipt from the client, on its socket or inside TLS.
pub(crate) fn about_to_receive() -> Receipt {
    let mut receipt = Receipt::Go;
    match backend::stage() {
        Stage::Ready => {}
        Stage::Busy => guarded(Of::Process, || receipt = backend::about_to_receive()),
        Stage::Fresh => guarded_keeping_errno(Of::Process, backend::adopt),
    }
    receipt
}

unsafe fn recv_from_client(fd: c_int, buffer: *mut c_void, len: size_t, flags: c_int) -> ssize_t {
    let busy = backend::stage() == Stage::Busy;
    let mut receipt = about_to_receive();
    if receipt == Receipt::Later {
        return interrupted();
    }
    if len > 0 && !buffer.is_null() {
        // SAFETY: the caller gives a buffer of this length to be written.
        let room = unsafe { core::slice::from_raw_parts_mut(buffer.cast::<u8>(), len) };
        if let Some(count) = backend::deliver(room) {
            return count as ssize_t;
        }
    }
    let early = (busy && backend::stage() == Stage::Ready).then_some(&backend::EARLY_READS);
    if early.is_some_and(EarlyReads::leave_out) {
        set_errno(libc::EAGAIN);
        found_nothing();
        return -1;
    }
    // SAFETY: the arguments are the caller's.
    let count = unsafe { real::recv(fd, buffer, len, flags) };
    if let Some(early) = early {
        early.made(count < 0 && errno() == libc::EAGAIN);
    }
    if count > 0 {
        // SAFETY: the kernel has written `count` bytes, and no more than `len`, to `buffer`.
        let bytes =
            unsafe { core::slice::from_raw_parts(buffer.cast::<u8>(), (count as usize).min(len)) };
        guarded(Of::Process, || receipt = backend::received(bytes));
        if receipt == Receipt::Later {
            return interrupted();
        }
    } else if count < 0 && errno() == libc::EAGAIN {
        found_nothing();
    }
    count
}

fn found_nothing() {
    if backend::anticipating() {
        guarded_keeping_errno(Of::Process, backend::found_nothing);
    }
}

/// Says that a receipt was interrupted.
pub(crate) fn interrupted() -> ssize_t {
    set_errno(libc::EINTR);
    -1
}

/// `send` took `count` bytes for the client of a backend.
///
/// # Safety
/// `buffer` holds `count` bytes.
pub(crate) unsafe fn sent(buffer: *const c_void, count: usize) {
    if !backend::in_tls() {
        // SAFETY: the caller's duty.
        let bytes = unsafe { core::slice::from_raw_parts(buffer.cast::<u8>(), count) };
        guarded(Of::Process, || backend::sent(bytes));
    }
}

/// A descriptor that may be the client's is about to be closed.
pub(crate) fn closing(fd: c_int) {
    if backend::knows(fd) {
        guarded_keeping_errno(Of::Process, || backend::closing(fd));
    }
}

/// `epoll_wait` in a process that serves one client.
///
/// # Safety
/// As the C library's function.
pub(crate) unsafe fn epoll_wait(
    set: c_int,
    events: *mut epoll_event,
    count: c_int,
    timeout_ms: c_int,
) -> c_int {
    let total = u64::try_from(timeout_ms).ok().map(Nanos::from_millis);
    let mut sleep = None;
    if backend::may_lend() {
        guarded(Of::Process, || sleep = backend::about_to_sleep(set));
    }
    let (first, why) = match sleep {
        Some(sleep) if total.is_none_or(|total| total > sleep.0) => sleep,
        // SAFETY: the arguments are the caller's.
        _ => return unsafe { real::epoll_wait(set, events, count, timeout_ms) },
    };
    // SAFETY: the array is the caller's.
    let ready = unsafe { epoll_wait_for(set, events, count, first) };
    if ready != 0 {
        return ready;
    }
    guarded_keeping_errno(Of::Process, || backend::slept(why));
    let rest_ms = match total {
        None => timeout_ms,
        // Rounded up, as a wait never returns early.
        Some(total) => {
            c_int::try_from(total.since(first).0.div_ceil(1_000_000)).unwrap_or(timeout_ms)
        }
    };
    // SAFETY: the arguments are the caller's.
    let ready = unsafe { real::epoll_wait(set, events, count, rest_ms) };
    guarded_keeping_errno(Of::Process, backend::woke);
    ready
}

/// # Safety
/// As `epoll_wait`.
unsafe fn epoll_wait_for(set: c_int, events: *mut epoll_event, count: c_int, time: Nanos) -> c_int {
    let whole_ms = c_int::try_from(time.0.div_ceil(1_000_000)).unwrap_or(c_int::MAX);
    if !time.0.is_multiple_of(1_000_000) {
        let exact = timespec_of(time);
        // SAFETY: the array is the caller's; no signal mask is changed.
        let ready = unsafe {
            libc::syscall(libc::SYS_epoll_pwait2, set, events, count, &raw const exact, 0, 8)
        };
        if ready >= 0 || errno() != libc::ENOSYS {
            return ready as c_int;
        }
        // Kernels before 5.11 count milliseconds.
    }
    // SAFETY: the array is the caller's.
    unsafe { real::epoll_wait(set, events, count, whole_ms) }
}
