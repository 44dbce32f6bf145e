//! Spinning for the next request.

use super::State;
use crate::spin::{SPIN_TIME, SpinHistory};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::cell::RefCell;
use std::sync::atomic::Ordering;
use std::time::Instant;

/// Requests without spinning after one that was already queued: the queue is deep then.
const DEEP_SKIPPED: u32 = 64;

thread_local! {
    static SPINS: RefCell<(SpinHistory, u32)> = RefCell::default();
}

impl State {
    /// Spins for the next request, if that is worth it. The caller reads the request, or sleeps.
    pub(super) fn look(&self) {
        if !self.looks.load(Ordering::Relaxed) {
            return;
        }
        let Some(kernel) = self.kernel.get() else { return };
        SPINS.with_borrow_mut(|(spins, deep)| {
            if *deep > 0 {
                *deep -= 1;
                return;
            }
            if !spins.worth_it() || self.looking.swap(true, Ordering::Relaxed) {
                return;
            }
            let until = Instant::now() + SPIN_TIME;
            let mut first = true;
            loop {
                let mut fds = [PollFd::new(kernel, PollFlags::IN)];
                let none = Timespec { tv_sec: 0, tv_nsec: 0 };
                // The read also finds the end of the connection.
                if poll(&mut fds, Some(&none)) != Ok(0) {
                    spins.succeeded();
                    *deep = if first { DEEP_SKIPPED } else { 0 };
                    break;
                }
                first = false;
                if Instant::now() >= until {
                    spins.failed();
                    break;
                }
                // The loop device's own thread may need this processor.
                std::thread::yield_now();
            }
            self.looking.store(false, Ordering::Relaxed);
        });
    }
}
