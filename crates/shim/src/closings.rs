//! The hooks of everything that closes descriptors.

use crate::{processes, real};
use headworks_hooks::barrier::{Of, guarded_keeping_errno};
use headworks_hooks::conn::{self, DESCRIPTORS};
use headworks_hooks::{backend, eventloop, files, process, threads};
use libc::{c_int, c_uint};

/// The descriptor is about to be closed, or was made to stand for something else.
fn ends(fd: c_int) {
    files::forget(fd);
    if let Some(connection) = eventloop::client(fd) {
        guarded_keeping_errno(Of::Loop(connection), || eventloop::close(fd, connection));
    } else if eventloop::is_set(fd) {
        guarded_keeping_errno(Of::Process, || eventloop::closing_set(fd));
    }
    match conn::find(fd) {
        Some(conn) if conn.session_id().is_some() => {
            guarded_keeping_errno(Of::Thread(conn), || threads::closing(conn));
        }
        Some(_) => {}
        None => processes::closing(fd),
    }
}

/// All descriptors from `first` to `last` are about to be closed. A child that shares its parent's
/// memory closes its own, and no session ends.
fn all_end(first: c_uint, last: c_uint) {
    let [from, to] = [first, last].map(|fd| c_int::try_from(fd).unwrap_or(c_int::MAX));
    files::forget_range(from, to);
    if process::region().is_none() || !process::is_attached_process() {
        return;
    }
    // Nothing that is followed lies beyond the tables.
    for fd in first..=last.min(DESCRIPTORS as c_uint - 1) {
        let fd = fd as c_int;
        if conn::find(fd).is_some_and(|conn| conn.session_id().is_some())
            || eventloop::client(fd).is_some()
            || eventloop::is_set(fd)
            || backend::knows(fd)
        {
            ends(fd);
        }
    }
}

/// # Safety
/// As the C library's function; so for all below.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn close(fd: c_int) -> c_int {
    ends(fd);
    // SAFETY: the argument is the caller's.
    unsafe { real::close(fd) }
}

/// # Safety
/// As the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn close_range(first: c_uint, last: c_uint, flags: c_int) -> c_int {
    // With flags they are closed by a later exec, or for this thread alone; what is refused closes
    // nothing.
    if flags == 0 && first <= last {
        all_end(first, last);
    }
    // SAFETY: the arguments are the caller's.
    unsafe { real::close_range(first, last, flags) }
}

/// # Safety
/// As the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn closefrom(first: c_int) {
    all_end(c_uint::try_from(first).unwrap_or(0), c_uint::MAX);
    // SAFETY: the argument is the caller's.
    unsafe { real::closefrom(first) }
}

/// # Safety
/// As the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn dup2(from: c_int, to: c_int) -> c_int {
    // SAFETY: the arguments are the caller's.
    let made = unsafe { real::dup2(from, to) };
    // Afterwards: a call that is refused closes nothing, and no other thread can be given the
    // number.
    if made >= 0 && from != to {
        ends(to);
    }
    made
}

/// # Safety
/// As the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn dup3(from: c_int, to: c_int, flags: c_int) -> c_int {
    // SAFETY: the arguments are the caller's.
    let made = unsafe { real::dup3(from, to, flags) };
    if made >= 0 {
        ends(to);
    }
    made
}
