//! Ctrl-C: an experiment notices, takes its servers and clients down, and removes its files.

use std::fmt;
use std::mem;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use anyhow::Result;

static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// When the first signal came, in µs of `CLOCK_MONOTONIC`; 0 before.
static FIRST_US: AtomicU64 = AtomicU64::new(0);

/// Wrappers such as `timeout` send one wish twice; only a signal later than this is a second one.
const SAME_WISH_US: u64 = 2_000_000;

/// The signals that ask an experiment to end.
const SIGNALS: [i32; 2] = [libc::SIGINT, libc::SIGTERM];

extern "C" fn note(signal: i32) {
    INTERRUPTED.store(true, Ordering::SeqCst);
    let now_us = monotonic_us();
    let first_us = match FIRST_US.compare_exchange(0, now_us, Ordering::SeqCst, Ordering::SeqCst) {
        Ok(_) => now_us,
        Err(first_us) => first_us,
    };
    if now_us - first_us > SAME_WISH_US {
        // SAFETY: signal and raise may be called in a handler; the signal is blocked until the
        // handler returns, and then ends the process.
        unsafe {
            libc::signal(signal, libc::SIG_DFL);
            libc::raise(signal);
        }
    }
}

/// `CLOCK_MONOTONIC` in µs. Safe to call in a signal handler.
pub(crate) fn monotonic_us() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid timespec; CLOCK_MONOTONIC always exists.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    time.tv_sec as u64 * 1_000_000 + time.tv_nsec as u64 / 1000
}

/// While it lives, the first SIGINT or SIGTERM is only noted; another one some seconds later ends
/// the process as usual.
pub(crate) struct Watch {
    previous: Vec<(i32, libc::sigaction)>,
}

impl Watch {
    pub(crate) fn new() -> Self {
        INTERRUPTED.store(false, Ordering::SeqCst);
        FIRST_US.store(0, Ordering::SeqCst);
        let previous = SIGNALS
            .into_iter()
            .map(|signal| {
                // SAFETY: an all-zero sigaction is valid (empty mask, no flags). The handler only
                // calls what may be called at any moment. Both structures live through the call.
                unsafe {
                    let mut action: libc::sigaction = mem::zeroed();
                    let mut previous: libc::sigaction = mem::zeroed();
                    action.sa_sigaction = note as *const () as libc::sighandler_t;
                    action.sa_flags = libc::SA_RESTART;
                    libc::sigaction(signal, &raw const action, &raw mut previous);
                    (signal, previous)
                }
            })
            .collect();
        Self { previous }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        for (signal, previous) in &self.previous {
            // SAFETY: `previous` is what sigaction returned for this very signal.
            unsafe { libc::sigaction(*signal, previous, std::ptr::null_mut()) };
        }
    }
}

/// The experiment was asked to end (SIGINT, SIGTERM). A program ends with status 130 when it finds
/// this error (`error.is::<Interrupted>()`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Interrupted;

impl fmt::Display for Interrupted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("interrupted; the servers are stopped and the working directory is removed")
    }
}

impl std::error::Error for Interrupted {}

/// An error once the experiment was asked to end.
pub(crate) fn check() -> Result<()> {
    if INTERRUPTED.load(Ordering::SeqCst) { Err(Interrupted.into()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_is_noted_and_does_not_kill() {
        let watch = Watch::new();
        check().unwrap();
        for _ in 0..2 {
            // SAFETY: raise sends the signal to this thread, whose handler only stores to atomics
            // the first times.
            unsafe { libc::raise(libc::SIGTERM) };
        }
        assert!(check().unwrap_err().context("while measuring").is::<Interrupted>());
        drop(watch);
        INTERRUPTED.store(false, Ordering::SeqCst);
    }
}
