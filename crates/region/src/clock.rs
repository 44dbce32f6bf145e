//! The one clock of the region: CLOCK_MONOTONIC, the same in all processes of a machine.

use headworks_policy::Nanos;

/// Now. About 25 ns, without a system call on machines with a usable time-stamp counter.
pub fn now() -> Nanos {
    read(libc::CLOCK_MONOTONIC)
}

/// The time of the last tick: late by some milliseconds, for a quarter of the cost.
pub fn last_tick() -> Nanos {
    read(libc::CLOCK_MONOTONIC_COARSE)
}

#[inline]
fn read(clock: libc::clockid_t) -> Nanos {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid timespec to write to; both clocks always exist on Linux.
    unsafe { libc::clock_gettime(clock, &mut time) };
    Nanos(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}
