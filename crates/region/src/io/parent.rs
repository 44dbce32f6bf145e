//! Whether the server that this process belongs to has ended.
//!
//! Processes that a server forked for its clients outlive its kill until their call returns. Its
//! successor may refuse to start until then, as PostgreSQL's does. So calls of such a process are
//! no longer held. A process that ran another program by `exec` is on its own: it goes on being
//! held when the shell that started it has ended.

use core::sync::atomic::{AtomicU32, Ordering::Relaxed};

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
pub(super) fn is_gone() -> bool {
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
