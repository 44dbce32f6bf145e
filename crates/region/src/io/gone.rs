//! Threads, programs and servers that are gone.
//!
//! What a dead thread had is taken back by the next one that waits. Processes that a server forked
//! for its clients outlive its kill until their call returns. Its successor may refuse to start
//! until then, as PostgreSQL's does. So calls of such a process are no longer held. A process that
//! ran another program by `exec` is not one of them: its calls are held even after the shell that
//! started it has ended.

use super::layout::{FREE, Guarded, IoRegion, RUNNING, WAITING};
use super::tasks::returned;
use crate::clock;
use crate::lock::thread_exists;
use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::{Relaxed, Release};
use headworks_policy::Nanos;
use headworks_policy::split::{Account, Task};

/// Larger than the number of any thread.
pub(super) const NO_THREAD: u32 = 1 << 30;

/// A task that runs for so long may have lost its thread.
pub(super) const SUSPECT_AFTER: Nanos = Nanos::from_millis(500);

/// This process was forked, and none of its calls has been held.
const NOT_NOTED: u32 = u32::MAX;

/// Its parent when a call of it was first held; zero for a process that was not forked. One that
/// has left its parent by then, as services do at their start, goes on being held.
static PARENT: AtomicU32 = AtomicU32::new(0);

/// In the child after `fork`.
pub fn forked() {
    PARENT.store(NOT_NOTED, Relaxed);
}

/// Whether the parent has ended since a call of this process was first held.
pub(super) fn parent_is_gone() -> bool {
    let noted = PARENT.load(Relaxed);
    if noted == 0 {
        return false;
    }
    // SAFETY: getppid has no preconditions, and never fails.
    let parent = unsafe { libc::syscall(libc::SYS_getppid) } as u32;
    if noted == NOT_NOTED {
        PARENT.store(parent, Relaxed);
    }
    ![NOT_NOTED, parent].contains(&noted)
}

impl IoRegion {
    /// Takes back what threads had that are dead.
    pub(super) fn reap(&self, guarded: &mut Guarded, now: Nanos) {
        for (at, slot) in self.tasks.iter().enumerate() {
            let state = slot.state();
            let since = Nanos(slot.since_ns.load(Relaxed));
            if state == FREE
                || now.since(since) < SUSPECT_AFTER
                || thread_exists(slot.tid.load(Relaxed))
            {
                continue;
            }
            let (kind, call) = slot.call();
            if state == WAITING {
                guarded.split.scheduler().cancel(now, at as Task);
            } else if state == RUNNING {
                returned(guarded, now, at as Task, kind, &call, Nanos(0));
            }
            slot.word.store(FREE, Release);
        }
    }

    /// The scheduler forgets accounts for which others wait in vain: their threads have ended. Says
    /// whether there were any.
    pub(super) fn forget_ended(&self, guarded: &mut Guarded, now: Nanos) -> bool {
        let lives = |account: Account| {
            let slot = self.accounts.get(usize::from(account));
            slot.is_none_or(|slot| thread_exists(slot.tid.load(Relaxed)))
        };
        guarded.split.scheduler().forget_ended(now, &lives)
    }

    /// A program begins in this thread after `exec`. Calls that the program before it had not ended
    /// are given up: their end will not be reported.
    pub fn program_begins(&self, tid: u32) {
        for slot in self.tasks.iter().filter(|slot| slot.tid.load(Relaxed) == tid) {
            slot.tid.store(NO_THREAD, Relaxed);
        }
    }

    /// Takes back what threads had that are dead. For who looks at the region from outside: else
    /// the next call that waits does it.
    pub fn tidy(&self) {
        self.locked(|guarded| self.reap(guarded, clock::now()));
    }
}
