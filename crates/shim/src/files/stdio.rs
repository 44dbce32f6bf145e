//! Streams: the C library writes them from inside, where no hook sees it.
//!
//! A thread's bytes are summed up. With each [`PIECE`] the call that completes it counts as a write
//! of the sum to the stream's file: it is held and noted as a write is. The C library decides when
//! it writes, so the range that is noted is off by at most a piece.

use super::writing;
use crate::real;
use core::ffi::c_void;
use headworks_hooks::files;
use headworks_region::thread::{keeping_errno, with};
use libc::{FILE, size_t, ssize_t};

/// Bytes that count as one write.
const PIECE: usize = 64 << 10;

#[inline]
fn streaming(len: usize, count: usize, stream: *mut FILE, real: impl FnOnce() -> size_t) -> size_t {
    let bytes = len.saturating_mul(count);
    if bytes == 0 || !files::is_on() {
        return real();
    }
    let sum = with(|words| words.streamed.get() as usize).saturating_add(bytes);
    let noted = sum >= PIECE;
    with(|words| words.streamed.set(if noted { 0 } else { sum as u32 }));
    if !noted {
        return real();
    }
    // SAFETY: `bytes` are to be written, so the caller's stream is an open one.
    let fd = keeping_errno(|| unsafe { libc::fileno(stream) });
    let mut written = 0;
    writing(
        fd,
        None,
        || sum,
        || {
            written = real();
            if written == count { ssize_t::try_from(sum).unwrap_or(0) } else { 0 }
        },
    );
    written
}

/// # Safety
/// As the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn fwrite(
    buffer: *const c_void,
    len: size_t,
    count: size_t,
    stream: *mut FILE,
) -> size_t {
    // SAFETY: the arguments are the caller's.
    streaming(len, count, stream, || unsafe { real::fwrite(buffer, len, count, stream) })
}

/// # Safety
/// As the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn fwrite_unlocked(
    buffer: *const c_void,
    len: size_t,
    count: size_t,
    stream: *mut FILE,
) -> size_t {
    // SAFETY: the arguments are the caller's.
    streaming(len, count, stream, || unsafe { real::fwrite_unlocked(buffer, len, count, stream) })
}
