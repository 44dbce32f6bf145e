//! The C library's streams.

use super::Real;
use core::ffi::{CStr, c_void};
use libc::{FILE, c_char, c_int, size_t};

// Constructors of other libraries may write to streams before this one has looked anything up.
late_functions! {
    fwrite(data: *const c_void, size: size_t, count: size_t, stream: *mut FILE) -> size_t, or 0;
    fwrite_unlocked(
        data: *const c_void, size: size_t, count: size_t, stream: *mut FILE
    ) -> size_t, or 0;
    fputs(text: *const c_char, stream: *mut FILE) -> c_int, or libc::EOF;
    fputs_unlocked(text: *const c_char, stream: *mut FILE) -> c_int, or libc::EOF;
    fclose(stream: *mut FILE) -> c_int, or libc::EOF;
}
