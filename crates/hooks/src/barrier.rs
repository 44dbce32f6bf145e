//! The barrier between an operation of ours and the database's thread.
//!
//! A panic is our error: the call that it interrupts goes on as without the gate. The connection
//! passes from then on; so does a process that serves only one connection. Both are counted. After
//! the third panic within a minute the gate opens for all, and this process does nothing more.
//!
//! A panic in an operation on files is no matter of the gate: the files of this process are not
//! governed from then on.

use crate::conn::Conn;
use crate::eventloop::{self, LoopConnection};
use crate::{alternate_stack, backend, files, process, threads};
use core::panic::AssertUnwindSafe;
use headworks_region::clock;
use headworks_region::thread::keeping_errno;
use process::InHook;
use std::panic::catch_unwind;

/// Whose an operation is.
#[derive(Clone, Copy, Debug)]
pub enum Of {
    /// A client of a server with one thread for each connection.
    Thread(&'static Conn),
    /// A client of an event loop.
    Loop(&'static LoopConnection),
    /// No single connection: the process, or its only client.
    Process,
    /// A thread under `--io`, whose calls on files and waits for locks are followed.
    Files,
}

/// Runs an operation so that no failure of it reaches the caller. A panic is caught, and a hook
/// inside a hook passes through. Errno stays as it is: only the region's sleeps and wake-ups may
/// fail, and they restore it.
#[inline]
pub fn guarded(of: Of, operation: impl FnOnce()) {
    let Some(_inside) = InHook::enter() else { return };
    if catch_unwind(AssertUnwindSafe(operation)).is_err() {
        contain(of);
    }
}

/// The same for an operation that may change errno.
pub fn guarded_keeping_errno(of: Of, operation: impl FnOnce()) {
    if process::region().is_some() {
        keeping_errno(|| guarded(of, operation));
    }
}

/// The same for an operation on files or locks, for a process under `--io`. A call from an
/// alternate stack passes, as the operation could overflow it.
#[inline]
pub fn guarded_under_io(operation: impl FnOnce()) {
    keeping_errno(|| {
        guarded(Of::Files, || {
            if !alternate_stack::is_used() {
                operation();
            }
        });
    });
}

#[cold]
fn contain(of: Of) {
    keeping_errno(|| {
        if matches!(of, Of::Files) {
            let _ = catch_unwind(files::disable);
            return;
        }
        let Some(region) = process::region() else { return };
        // The error may be in this code too.
        if region.note_panic(clock::now())
            || (catch_unwind(AssertUnwindSafe(|| stop_following(of))).is_err()
                && region.note_panic(clock::now()))
        {
            let _ = catch_unwind(process::disable);
            say(b"headworks: internal errors repeat: the gate is open for all until the database is restarted; the database is not affected\n");
        } else {
            say(b"headworks: internal error: the connection in which it happened passes the gate from here on; the database is not affected\n");
        }
    });
}

fn stop_following(of: Of) {
    match of {
        Of::Thread(conn) => threads::abandon(conn),
        Of::Loop(connection) => eventloop::abandon(connection),
        Of::Process if backend::has_client() => backend::abandon(),
        Of::Process => threads::blocked::abandon(),
        Of::Files => {}
    }
}

/// Writes a line to standard error, by system call: no lock, no allocation, no hook.
pub fn say(line: &[u8]) {
    // SAFETY: the line is valid for its length; a failure to write it has no consequence.
    unsafe { libc::syscall(libc::SYS_write, 2, line.as_ptr(), line.len()) };
}
