//! Functions that are looked up when they are first called. They belong to libraries that the
//! program may load later than this one.

use super::Real;
use core::ffi::{CStr, c_void};
use libc::{c_int, c_long, c_uint};

// A program that finds these symbols here and nowhere else has not loaded the library.
late_functions! {
    io_submit(context: *mut c_void, count: c_long, requests: *const *const c_void) -> c_int,
        or -libc::ENOSYS;
    io_uring_queue_init(entries: c_uint, ring: *mut c_void, flags: c_uint) -> c_int,
        or -libc::ENOSYS;
    io_uring_queue_init_params(
        entries: c_uint, ring: *mut c_void, settings: *mut [c_uint; 30]
    ) -> c_int, or -libc::ENOSYS;
    io_uring_submit(ring: *mut c_void) -> c_int, or -libc::ENOSYS;
    io_uring_submit_and_wait(ring: *mut c_void, count: c_uint) -> c_int, or -libc::ENOSYS;
    io_uring_submit_and_get_events(ring: *mut c_void) -> c_int, or -libc::ENOSYS;
    io_uring_submit_and_wait_timeout(
        ring: *mut c_void, done: *mut c_void, count: c_uint, time: *mut c_void, mask: *mut c_void
    ) -> c_int, or -libc::ENOSYS;
    io_uring_queue_exit(ring: *mut c_void) -> (), or ();
}
