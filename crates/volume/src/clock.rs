//! The clock of the engine: CLOCK_MONOTONIC. Nothing below the engine reads it.

use headworks_policy::Nanos;

/// Now.
pub fn now() -> Nanos {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid timespec to write to; CLOCK_MONOTONIC always exists on Linux.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time) };
    // Neither is ever negative for this clock.
    Nanos(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}
