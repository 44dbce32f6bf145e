//! The C library's streams. They call its own `write` and `close`, which no hook sees.

use crate::real;
use core::ffi::c_void;
use headworks_hooks::barrier::guarded_under_io;
use headworks_hooks::files::{self, unseen};
use libc::{FILE, c_char, c_int, size_t};

unsafe extern "C" {
    fn fileno_unlocked(stream: *mut FILE) -> c_int;
    fn __fwriting(stream: *mut FILE) -> c_int;
}

/// So many bytes went into a stream.
///
/// # Safety
/// The stream is one that the C library has just written to.
#[inline]
unsafe fn put(stream: *mut FILE, bytes: usize) {
    if files::is_on() && unseen::counts(bytes) {
        // SAFETY: the caller's duty.
        guarded_under_io(|| unseen::streamed(unsafe { fileno_unlocked(stream) }));
    }
}

macro_rules! puts {
    ($($name:ident($($arg:ident: $type:ty),*; $stream:ident) -> $result:ty = $bytes:expr;)*) => {$(
        /// # Safety
        /// As the C library's function.
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name($($arg: $type,)* $stream: *mut FILE) -> $result {
            // SAFETY: the arguments are the caller's.
            let result = unsafe { real::$name($($arg,)* $stream) };
            // SAFETY: the stream is the caller's; what was asked for has been read.
            unsafe { put($stream, $bytes(result)) };
            result
        }
    )*};
}

puts! {
    fwrite(data: *const c_void, size: size_t, count: size_t; stream) -> size_t =
        |done: size_t| done.saturating_mul(size);
    fwrite_unlocked(data: *const c_void, size: size_t, count: size_t; stream) -> size_t =
        |done: size_t| done.saturating_mul(size);
    fputs(text: *const c_char; stream) -> c_int =
        |done: c_int| if done >= 0 && files::is_on() { libc::strlen(text) } else { 0 };
    fputs_unlocked(text: *const c_char; stream) -> c_int =
        |done: c_int| if done >= 0 && files::is_on() { libc::strlen(text) } else { 0 };
}

/// # Safety
/// As the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn fclose(stream: *mut FILE) -> c_int {
    if files::is_on() && !stream.is_null() {
        // SAFETY: the stream is the caller's; it is not closed yet.
        let (fd, writes) = unsafe { (fileno_unlocked(stream), __fwriting(stream) != 0) };
        if writes {
            guarded_under_io(|| unseen::closing(fd));
        }
        files::forget(fd);
    }
    // SAFETY: the argument is the caller's.
    unsafe { real::fclose(stream) }
}
