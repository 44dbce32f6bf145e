//! Priority of the daemon. A late heartbeat opens the gate, so the daemon must not starve. Its
//! heartbeat runs before the server's threads, its memory is locked, and the OOM killer prefers
//! other victims.
//!
//! Each of these takes rights that an ordinary user does not have. Without them the daemon works
//! like any process.

use std::sync::atomic::{AtomicI32, Ordering};

/// Nice value of the heartbeat's thread.
const NICE: i32 = -10;

/// What is taken off the daemon's badness when the kernel looks for a victim, out of a thousand.
const OOM_SCORE_ADJ: &str = "-900";

/// Nice value of all other threads.
static ORDINARY: AtomicI32 = AtomicI32::new(0);

/// Takes the priorities that it may have. To be called while there are rights, and before there are
/// threads.
pub fn prefer() {
    // SAFETY: both take numbers.
    unsafe {
        ORDINARY.store(libc::getpriority(libc::PRIO_PROCESS, 0).max(0), Ordering::Relaxed);
        libc::setpriority(libc::PRIO_PROCESS, 0, NICE);
    }
    let _ = std::fs::write("/proc/self/oom_score_adj", OOM_SCORE_ADJ);
    let limit = libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: the structure outlives the call.
    unsafe { libc::setrlimit(libc::RLIMIT_MEMLOCK, &raw const limit) };
}

/// Keeps every touched page in memory. Only where that has no limit: beyond a limit, later requests
/// for memory would fail.
pub(super) fn lock_memory() {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the structure outlives the call; the flags are known to the kernel, or refused.
    unsafe {
        if libc::getrlimit(libc::RLIMIT_MEMLOCK, &raw mut limit) == 0
            && limit.rlim_cur == libc::RLIM_INFINITY
        {
            libc::mlockall(libc::MCL_CURRENT | libc::MCL_FUTURE | libc::MCL_ONFAULT);
        }
    }
}

/// Gives this thread, and those that it starts, ordinary priority: their work can wait.
pub(super) fn step_back() {
    // SAFETY: takes numbers; zero is the calling thread.
    unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, ORDINARY.load(Ordering::Relaxed)) };
}
