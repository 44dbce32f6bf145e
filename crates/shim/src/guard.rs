//! What stands between an operation of ours and the database's thread.

use core::panic::AssertUnwindSafe;
use headworks_hooks::process::{self, InHook};

/// Runs an operation so that nothing of it reaches the caller but its result: errno is kept, a
/// panic is caught (and ends our part in this process), a hook inside a hook passes through.
pub(crate) fn guarded<T>(fallback: T, operation: impl FnOnce() -> T) -> T {
    if process::region().is_none() {
        return fallback;
    }
    let Some(_inside) = InHook::enter() else { return fallback };
    // SAFETY: errno is this thread's own, and its address does not change.
    let errno = unsafe { libc::__errno_location() };
    // SAFETY: as above.
    let kept = unsafe { *errno };
    let result = std::panic::catch_unwind(AssertUnwindSafe(operation)).unwrap_or_else(|_| {
        let _ = std::panic::catch_unwind(process::disable);
        say(b"headworks: internal error, the gate stands aside in this process; the database is not affected\n");
        fallback
    });
    // SAFETY: as above.
    unsafe { *errno = kept };
    result
}

/// Writes a line to standard error, by system call: no lock, no allocation, no hook.
pub(crate) fn say(line: &[u8]) {
    // SAFETY: the line is valid for its length; a failure to write it has no consequence.
    unsafe { libc::syscall(libc::SYS_write, 2, line.as_ptr(), line.len()) };
}
