//! Sleeping on and waking by a word of shared memory. Both leave errno as it is.

use crate::thread::keeping_errno;
use core::sync::atomic::AtomicU32;
use headworks_policy::Nanos;

/// Sleeps while `word` is `expected`, for `timeout` at the most. Returns on a wake-up, a changed
/// word, a signal or the end of the time alike: the caller looks at the word again.
pub fn wait(word: &AtomicU32, expected: u32, timeout: Nanos) {
    let time = libc::timespec {
        tv_sec: (timeout.0 / 1_000_000_000) as libc::time_t,
        tv_nsec: (timeout.0 % 1_000_000_000) as libc::c_long,
    };
    keeping_errno(|| {
        let word = word.as_ptr();
        // SAFETY: the word outlives the call: it lies in the mapping, which is never unmapped while
        // in use. The kernel only reads it and the timespec.
        unsafe {
            libc::syscall(libc::SYS_futex, word, libc::FUTEX_WAIT, expected, &raw const time);
        }
    });
}

/// Wakes up to `count` threads that sleep on `word`.
pub fn wake(word: &AtomicU32, count: i32) {
    keeping_errno(|| {
        // SAFETY: FUTEX_WAKE only uses the address as a key.
        unsafe {
            libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE, count);
        }
    });
}
