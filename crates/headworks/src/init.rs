//! The first process of a container.
//!
//! The kernel makes every orphan of a PID namespace a child of its first process. If that is the
//! database, the daemon becomes its child. PostgreSQL then takes the daemon's end, by a signal or
//! with a code above 1, for a crashed backend and ends all sessions. So where `headworks run` is
//! the first process, it stays as an init, and the server is its child (decision 19).
//!
//! From outside it looks like the server: it ends with the server's code, and passes on the signals
//! that the server handles. Other signals are dropped, as the kernel drops them for a first
//! process.

use anyhow::{Context, Result};
use std::io::Error;
use std::time::{Duration, Instant};

/// Time for the daemon to remove the instance after the server's end. The kernel kills all
/// remaining processes when this one ends.
const SHUTDOWN_GRACE: Duration = Duration::from_millis(1_000);

/// How often to check for ended processes whose signal was missed.
const POLL_INTERVAL: Duration = Duration::from_millis(500);

/// Stays behind if this is the first process of its PID namespace, and returns in a child. To be
/// called before there are threads.
pub fn stay_if_first() -> Result<()> {
    if std::process::id() != 1 {
        return Ok(());
    }
    // SAFETY: both sets are initialised before they are used. What is blocked is kept for
    // `next_signal`; the faults of this process itself end it all the same.
    let (all, before) = unsafe {
        let (mut all, mut before): (libc::sigset_t, libc::sigset_t) = std::mem::zeroed();
        libc::sigfillset(&raw mut all);
        libc::sigprocmask(libc::SIG_BLOCK, &raw const all, &raw mut before);
        (all, before)
    };
    // SAFETY: there is one thread, so the child may go on as any process would.
    match unsafe { libc::fork() } {
        -1 => Err(Error::last_os_error()).context("cannot fork"),
        0 => {
            // SAFETY: the set is what was in force before.
            unsafe {
                libc::sigprocmask(libc::SIG_SETMASK, &raw const before, std::ptr::null_mut())
            };
            Ok(())
        }
        server => {
            // SAFETY: the name is a C string; it tells people what this is.
            unsafe { libc::prctl(libc::PR_SET_NAME, c"hw-init".as_ptr()) };
            let code = attend(server, &all);
            bury_the_rest(&all);
            std::process::exit(code)
        }
    }
}

/// Passes signals on and reaps children until the server has ended. Returns its exit code.
fn attend(server: i32, all: &libc::sigset_t) -> i32 {
    loop {
        while let Some((child, status)) = ended() {
            if child == server {
                return code_of(status);
            }
        }
        let Some((signal, code)) = next_signal(all, POLL_INTERVAL) else { continue };
        // The terminal's signals come from the kernel, and reach the server directly.
        let from_a_process = code <= 0;
        if signal != libc::SIGCHLD && from_a_process && handles(server, signal) {
            // SAFETY: the server was not waited for yet, so the number is still its own.
            unsafe { libc::kill(server, signal) };
        }
    }
}

/// Waits briefly for the server's remaining processes.
fn bury_the_rest(all: &libc::sigset_t) {
    let begun = Instant::now();
    loop {
        while ended().is_some() {}
        let left = SHUTDOWN_GRACE.saturating_sub(begun.elapsed());
        if left.is_zero() || Error::last_os_error().raw_os_error() == Some(libc::ECHILD) {
            return;
        }
        next_signal(all, left);
    }
}

/// The number and the status of a child that has ended. `None` if no child has ended: errno is
/// ECHILD without children, and zero if they all run.
fn ended() -> Option<(i32, i32)> {
    let mut status = 0;
    // SAFETY: errno is this thread's own; the status outlives the call.
    let child = unsafe {
        *libc::__errno_location() = 0;
        libc::waitpid(-1, &raw mut status, libc::WNOHANG)
    };
    (child > 0).then_some((child, status))
}

/// The next signal, and its origin as `si_code`.
fn next_signal(all: &libc::sigset_t, timeout: Duration) -> Option<(i32, i32)> {
    let timeout = libc::timespec {
        tv_sec: timeout.as_secs() as libc::time_t,
        tv_nsec: timeout.subsec_nanos().into(),
    };
    // SAFETY: all zero bytes are a valid structure; all three outlive the call.
    unsafe {
        let mut info: libc::siginfo_t = std::mem::zeroed();
        let signal = libc::sigtimedwait(all, &raw mut info, &raw const timeout);
        (signal > 0).then_some((signal, info.si_code))
    }
}

/// As a shell has it.
fn code_of(status: i32) -> i32 {
    if libc::WIFEXITED(status) { libc::WEXITSTATUS(status) } else { 128 + libc::WTERMSIG(status) }
}

/// Whether a process has a handler for a signal. Without /proc, it is assumed to.
fn handles(process: i32, signal: i32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{process}/status"));
    status.map_or(true, |status| caught(&status).is_none_or(|set| set >> (signal - 1) & 1 == 1))
}

/// The set of signals that a process catches, from its status in /proc.
fn caught(status: &str) -> Option<u64> {
    let set = status.lines().find_map(|line| line.strip_prefix("SigCgt:"))?;
    u64::from_str_radix(set.trim(), 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_signals_that_a_process_catches_are_read() {
        assert_eq!(caught("SigIgn:\t0000000000001000\nSigCgt:\t0000000000004003\n"), Some(0x4003));
        assert_eq!(caught("Name:\tx\n"), None);
    }

    #[test]
    fn a_signal_becomes_a_code_as_in_a_shell() {
        assert_eq!(code_of(3 << 8), 3);
        assert_eq!(code_of(libc::SIGKILL), 137);
    }

    #[test]
    fn an_ordinary_process_does_not_stay() {
        stay_if_first().unwrap();
        assert_ne!(std::process::id(), 1);
    }
}
