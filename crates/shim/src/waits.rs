//! The hooks of waits in the middle of a request: sleeps on conditions, and what MariaDB says of
//! its waits by itself.

use core::ffi::c_void;
use core::sync::atomic::{AtomicBool, Ordering};
use headworks_hooks::barrier::{Of, guarded_keeping_errno};
use headworks_hooks::process;
use headworks_hooks::server_waits;
use headworks_hooks::threads::blocked;
use headworks_region::Protocol;
use libc::c_int;

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
