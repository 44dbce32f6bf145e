//! The hooks of waits in the middle of a request: sleeps on conditions, polls of sockets that are
//! not the client's, and what MariaDB says of its waits.

use crate::real;
use core::ffi::c_void;
use core::sync::atomic::{AtomicBool, Ordering};
use headworks_hooks::barrier::{Of, guarded_keeping_errno};
use headworks_hooks::server_waits;
use headworks_hooks::threads::blocked;
use headworks_hooks::{backend, conn, eventloop, process};
use headworks_region::{Pause, Protocol};
use libc::{c_int, nfds_t, pollfd};

/// The server was asked for its callbacks.
static ASKED: AtomicBool = AtomicBool::new(false);

/// A client has connected: the server has its scheduler by now.
pub(crate) fn accepted() {
    if ASKED.load(Ordering::Relaxed) {
        return;
    }
    ASKED.store(true, Ordering::Relaxed);
    if process::region().is_some_and(|region| region.protocol() == Protocol::MySql) {
        server_waits::install(wait_begins, wait_ends);
    }
}

unsafe extern "C-unwind" fn wait_begins(thd: *mut c_void, kind: c_int) {
    if let Some(why) = server_waits::pause_of(kind) {
        guarded_keeping_errno(Of::Process, || blocked::begin_wait(why));
    }
    if let Some(next) = server_waits::chained_begin() {
        // SAFETY: the server's own callback, with its arguments.
        unsafe { next(thd, kind) }
    }
}

unsafe extern "C-unwind" fn wait_ends(thd: *mut c_void) {
    if let Some(next) = server_waits::chained_end() {
        // SAFETY: the server's own callback, with its argument.
        unsafe { next(thd) }
    }
    // Waits of storage and of the network end here, too: their session has lent nothing.
    guarded_keeping_errno(Of::Process, blocked::end_wait);
}

/// Runs a wait on a condition; if the thread serves a request, the gate hears of it.
#[inline]
pub(crate) fn sleeping(wait: impl FnOnce() -> c_int) -> c_int {
    if !blocked::may_block() {
        return wait();
    }
    guarded_keeping_errno(Of::Process, blocked::falls_asleep);
    let result = wait();
    guarded_keeping_errno(Of::Process, blocked::wakes_up);
    result
}

/// `poll` by a thread or process that may serve a request. If it has to sleep, and none of the
/// sockets is a client's, the request waits for an answer from elsewhere.
///
/// # Safety
/// As the C library's function.
pub(crate) unsafe fn poll(fds: *mut pollfd, count: nfds_t, timeout_ms: c_int) -> c_int {
    let (thread, backend) = (blocked::may_block(), backend::may_lend());
    // SAFETY: the caller gives an array of this length.
    if timeout_ms == 0 || !(thread || backend) || unsafe { has_client(fds, count) } {
        // SAFETY: the arguments are the caller's.
        return unsafe { real::poll(fds, count, timeout_ms) };
    }
    // SAFETY: the arguments are the caller's.
    let ready = unsafe { real::poll(fds, count, 0) };
    if ready != 0 {
        return ready;
    }
    guarded_keeping_errno(Of::Process, || match backend {
        true => backend::polls_elsewhere(),
        false => blocked::begin_wait(Pause::Elsewhere),
    });
    // SAFETY: the arguments are the caller's.
    let ready = unsafe { real::poll(fds, count, timeout_ms) };
    guarded_keeping_errno(Of::Process, || match backend {
        true => backend::woke(),
        false => blocked::end_wait(),
    });
    ready
}

/// # Safety
/// `fds` is null or an array of this length.
unsafe fn has_client(fds: *const pollfd, count: nfds_t) -> bool {
    if fds.is_null() || count == 0 {
        // No socket at all: a plain sleep.
        return true;
    }
    // SAFETY: the caller's duty.
    let fds = unsafe { core::slice::from_raw_parts(fds, count as usize) };
    let is_client = |fd| {
        let conn = conn::find(fd).is_some_and(|conn| conn.session_id().is_some());
        conn || backend::serves(fd) || eventloop::client(fd).is_some()
    };
    fds.iter().any(|each| is_client(each.fd))
}
