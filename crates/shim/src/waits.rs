//! The hooks of waits in the middle of a request: sleeps on conditions, and what MariaDB says of
//! its waits by itself.

use crate::real;
use core::ffi::c_void;
use core::sync::atomic::{AtomicBool, Ordering};
use headworks_hooks::barrier::{Of, guarded_keeping_errno};
use headworks_hooks::process;
use headworks_hooks::server_waits;
use headworks_hooks::threads::blocked;
use headworks_region::Protocol;
use libc::{c_int, clockid_t, pthread_cond_t, pthread_mutex_t, timespec};

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
fn sleeping(wait: impl FnOnce() -> c_int) -> c_int {
    if !blocked::may_block() {
        return wait();
    }
    guarded_keeping_errno(Of::Process, blocked::falls_asleep);
    let result = wait();
    guarded_keeping_errno(Of::Process, blocked::wakes_up);
    result
}

/// # Safety
/// As the C library's function; so for all below.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn pthread_cond_wait(
    condition: *mut pthread_cond_t,
    mutex: *mut pthread_mutex_t,
) -> c_int {
    // SAFETY: the arguments are the caller's.
    sleeping(|| unsafe { real::pthread_cond_wait(condition, mutex) })
}

/// # Safety
/// As the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn pthread_cond_timedwait(
    condition: *mut pthread_cond_t,
    mutex: *mut pthread_mutex_t,
    until: *const timespec,
) -> c_int {
    // SAFETY: the arguments are the caller's.
    sleeping(|| unsafe { real::pthread_cond_timedwait(condition, mutex, until) })
}

/// # Safety
/// As the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn pthread_cond_clockwait(
    condition: *mut pthread_cond_t,
    mutex: *mut pthread_mutex_t,
    clock: clockid_t,
    until: *const timespec,
) -> c_int {
    // SAFETY: the arguments are the caller's.
    sleeping(|| unsafe { real::pthread_cond_clockwait(condition, mutex, clock, until) })
}
