//! Short stops of a stage's threads: whether others wait for it then longer (the dissertation's way
//! to find blocking). Off by default.
//!
//! A thread is stopped by `ptrace`, for a few milliseconds at a time and a quarter of the time at
//! most. If this program is killed meanwhile, the kernel lets the threads run on. Some system calls
//! return an error to the program when their thread is stopped: threads in these are left alone.

use super::procfs;
use std::time::{Duration, Instant};

/// Length of a stop.
pub const STOP: Duration = Duration::from_millis(5);
/// From one stop to the next.
pub const EVERY: Duration = Duration::from_millis(20);
/// More threads are not stopped together.
const THREADS_MAX: usize = 32;

/// Calls that go on after a stop as if there had been none.
const HARMLESS: [i64; 9] = [
    libc::SYS_futex,
    libc::SYS_nanosleep,
    libc::SYS_clock_nanosleep,
    libc::SYS_poll,
    libc::SYS_fsync,
    libc::SYS_fdatasync,
    libc::SYS_pread64,
    libc::SYS_pwrite64,
    libc::SYS_sched_yield,
];

/// How a thread that was interrupted stands.
enum Stand {
    /// It stands still.
    Still,
    /// A signal came first, which is to be delivered.
    Signal(i32),
    /// It does not yet: a device holds it.
    NotYet,
    /// It has ended.
    Gone,
}

/// Threads of which this program has hold. They are let go at the latest when this ends.
#[derive(Default)]
struct Held(Vec<u32>);

impl Held {
    /// Takes hold of a thread that may be stopped at this time, and stops it.
    fn stop(&mut self, pid: u32, tid: u32) {
        let harmless = procfs::call_of(pid, tid).is_none_or(|number| HARMLESS.contains(&number));
        let there = procfs::threads(pid).contains(&tid) && !self.0.contains(&tid);
        if harmless && there && ptrace(libc::PTRACE_SEIZE, tid, 0) {
            ptrace(libc::PTRACE_INTERRUPT, tid, 0);
            self.0.push(tid);
        }
    }

    /// Lets go all that stand still, and gives the others some time to.
    fn let_go(&mut self, patience: Duration) {
        let until = Instant::now() + patience;
        loop {
            self.0.retain(|&tid| match stand(tid) {
                Stand::Still => !ptrace(libc::PTRACE_DETACH, tid, 0),
                Stand::Signal(signal) => !ptrace(libc::PTRACE_DETACH, tid, signal),
                Stand::NotYet => true,
                Stand::Gone => false,
            });
            if self.0.is_empty() || Instant::now() > until {
                return;
            }
            std::thread::sleep(Duration::from_micros(200));
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        // What a device holds longer is let go by the kernel when this program ends.
        self.let_go(Duration::from_secs(5));
    }
}

/// Stops a process's threads again and again, for some time. Returns how long they stood still.
/// Between the stops it has no hold of them, so signals reach them as ever.
pub fn stop_for(pid: u32, tids: &[u32], time: Duration) -> Duration {
    let until = Instant::now() + time;
    let mut stood = Duration::ZERO;
    let mut held = Held::default();
    while Instant::now() < until {
        let begun = Instant::now();
        for &tid in tids.iter().take(THREADS_MAX) {
            held.stop(pid, tid);
        }
        if !held.0.is_empty() {
            std::thread::sleep(STOP);
            held.let_go(Duration::from_millis(50));
            stood += begun.elapsed();
        }
        std::thread::sleep(EVERY.saturating_sub(begun.elapsed()));
    }
    stood
}

fn ptrace(request: libc::c_uint, tid: u32, signal: i32) -> bool {
    let address = std::ptr::null_mut::<libc::c_void>();
    let data = signal as usize as *mut libc::c_void;
    // SAFETY: these requests take no address, and a signal's number or nothing as data.
    unsafe { libc::ptrace(request, tid as libc::pid_t, address, data) == 0 }
}

fn stand(tid: u32) -> Stand {
    let mut status = 0;
    let flags = libc::__WALL | libc::WNOHANG;
    // SAFETY: a valid place for the status.
    let found = unsafe { libc::waitpid(tid as libc::pid_t, &raw mut status, flags) };
    match found {
        0 => Stand::NotYet,
        found if found < 0 || !libc::WIFSTOPPED(status) => Stand::Gone,
        _ if status >> 16 == libc::PTRACE_EVENT_STOP => Stand::Still,
        _ => Stand::Signal(libc::WSTOPSIG(status)),
    }
}
