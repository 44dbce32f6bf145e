//! What the hooks of `recv`, of streams and of TLS have in common: the bytes of a connection that a
//! thread serves.

use headworks_hooks::barrier::{Of, guarded, guarded_keeping_errno};
use headworks_hooks::conn::{Conn, Work};
use headworks_hooks::threads;
use headworks_policy::Nanos;
use libc::{c_int, ssize_t, timespec};

/// Flags of a `recv` that is no receipt of the stream's next bytes. The bytes stay where they are,
/// or come from elsewhere, or are thrown away. In the last case the buffer may be null.
pub(crate) const NOT_THE_STREAM: c_int =
    libc::MSG_PEEK | libc::MSG_TRUNC | libc::MSG_OOB | libc::MSG_ERRQUEUE;

pub(crate) fn errno() -> c_int {
    // SAFETY: errno is this thread's own.
    unsafe { *libc::__errno_location() }
}

pub(crate) fn set_errno(error: c_int) {
    // SAFETY: errno is this thread's own.
    unsafe { *libc::__errno_location() = error }
}

/// The server read these bytes of a connection that is followed.
#[inline]
pub(crate) fn received(conn: &'static Conn, bytes: &[u8]) {
    let kept = bytes.try_into().is_ok_and(|header| conn.keep_header(header));
    if !kept {
        guarded(Of::Thread(conn), || threads::received(conn, bytes));
    }
}

/// A read that waits until there is something: nothing may be kept for what may not come.
pub(crate) fn about_to_block(conn: &'static Conn, fd: c_int) {
    if threads::may_block(conn) {
        guarded_keeping_errno(Of::Thread(conn), || threads::about_to_block(conn, fd));
    }
}

/// A read of a connection that is followed returned no bytes.
pub(crate) fn received_nothing(conn: &'static Conn, count: ssize_t) {
    if count == 0 {
        return guarded_keeping_errno(Of::Thread(conn), || threads::hung_up(conn));
    }
    if conn.is_generic() && conn.work() != Work::None {
        guarded_keeping_errno(Of::Thread(conn), || threads::blocked_for_nothing(conn));
    }
    match errno() {
        libc::EAGAIN if !conn.anticipating() => {}
        libc::EAGAIN => guarded_keeping_errno(Of::Thread(conn), || threads::found_nothing(conn)),
        libc::EINTR | libc::ENOTSOCK | libc::EBADF => {}
        _ => guarded_keeping_errno(Of::Thread(conn), || threads::hung_up(conn)),
    }
}

pub(crate) fn timespec_of(time: Nanos) -> timespec {
    timespec {
        tv_sec: (time.0 / 1_000_000_000) as libc::time_t,
        tv_nsec: (time.0 % 1_000_000_000) as libc::c_long,
    }
}
