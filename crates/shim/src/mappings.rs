//! The hooks of shared mappings: how files are written without a call.

use crate::files::between;
use crate::real;
use core::ffi::c_void;
use headworks_hooks::barrier::guarded_under_io;
use headworks_hooks::files as ops;
use libc::c_int;

/// # Safety
/// As the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn mmap(
    start: *mut c_void,
    len: usize,
    access: c_int,
    flags: c_int,
    fd: c_int,
    offset: libc::off_t,
) -> *mut c_void {
    // SAFETY: the arguments are the caller's.
    let made = unsafe { real::mmap(start, len, access, flags, fd, offset) };
    let shared = fd >= 0 && access & libc::PROT_WRITE != 0 && flags & libc::MAP_SHARED != 0;
    if shared && made != libc::MAP_FAILED && ops::is_on() {
        guarded_under_io(|| ops::mapped::mapped(fd, made.addr(), len, offset));
    }
    made
}

/// # Safety
/// As the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn mmap64(
    start: *mut c_void,
    len: usize,
    access: c_int,
    flags: c_int,
    fd: c_int,
    offset: libc::off_t,
) -> *mut c_void {
    // SAFETY: the arguments are the caller's.
    unsafe { mmap(start, len, access, flags, fd, offset) }
}

/// # Safety
/// As the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn msync(start: *mut c_void, len: usize, flags: c_int) -> c_int {
    // SAFETY: the arguments are the caller's.
    let real = || unsafe { real::msync(start, len, flags) };
    if flags & libc::MS_SYNC == 0 {
        return real();
    }
    let at = start.addr();
    let after = |call: &mut _, result| ops::mapped::after_msync(call, at, result);
    between(|call| ops::mapped::before_msync(at, len, call), real, after)
}
