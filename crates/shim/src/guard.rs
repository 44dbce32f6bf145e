//! What stands between an operation of ours and the database's thread.

use core::panic::AssertUnwindSafe;
use headworks_hooks::process::{self, InHook};
use headworks_region::thread::keeping_errno;

/// Runs an operation so that nothing of it reaches the caller: a panic is caught (and ends our
/// part in this process), a hook inside a hook passes through. The operation leaves errno as it
/// is: the region's sleeps and wake-ups do, and it makes no other system call that can fail.
#[inline]
pub(crate) fn guarded(operation: impl FnOnce()) {
    let Some(_inside) = InHook::enter() else { return };
    if std::panic::catch_unwind(AssertUnwindSafe(operation)).is_err() {
        stand_aside();
    }
}

/// The same for an operation that may change errno.
pub(crate) fn guarded_keeping_errno(operation: impl FnOnce()) {
    if process::region().is_some() {
        keeping_errno(|| guarded(operation));
    }
}

#[cold]
fn stand_aside() {
    keeping_errno(|| {
        let _ = std::panic::catch_unwind(process::disable);
        say(b"headworks: internal error, the gate stands aside in this process; the database is not affected\n");
    });
}

/// Writes a line to standard error, by system call: no lock, no allocation, no hook.
pub(crate) fn say(line: &[u8]) {
    // SAFETY: the line is valid for its length; a failure to write it has no consequence.
    unsafe { libc::syscall(libc::SYS_write, 2, line.as_ptr(), line.len()) };
}
