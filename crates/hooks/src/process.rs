//! This process's view of the gate: the region it is attached to, and whether it is disabled.

use crate::biased_lock;
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering};
use headworks_region::layout::{Counter, Region};
use headworks_region::thread;

/// Null before the process is attached, and again once it is disabled.
static REGION: AtomicPtr<Region> = AtomicPtr::new(core::ptr::null_mut());
static PID: AtomicU32 = AtomicU32::new(0);
/// The profile declares session locks.
static WORDS: AtomicBool = AtomicBool::new(false);

/// Attaches this process to a region. Called once, from the library's constructor or by a test.
pub fn attach(region: &'static Region) {
    biased_lock::prepare();
    PID.store(own_pid(), Ordering::Relaxed);
    profile_chosen(region);
    REGION.store(core::ptr::from_ref(region).cast_mut(), Ordering::Release);
}

/// The region has the profile of this process's server.
pub(crate) fn profile_chosen(region: &Region) {
    WORDS.store(!region.declared_locks.is_empty(), Ordering::Relaxed);
}

/// The region; `None` before the attachment and once this process is disabled.
pub fn region() -> Option<&'static Region> {
    // SAFETY: null, or a reference that `attach` stored and that lives as long as the process.
    unsafe { REGION.load(Ordering::Acquire).as_ref() }
}

/// Whether the profile declares session locks.
pub fn has_declared_locks() -> bool {
    WORDS.load(Ordering::Relaxed)
}

/// Disables this process for good: later calls only pass through.
pub(crate) fn stand_aside() {
    REGION.store(core::ptr::null_mut(), Ordering::SeqCst);
}

/// Disables this process and opens the gate, so that no session waits for what this process would
/// have given back.
pub fn disable() {
    let region = region();
    stand_aside();
    if let Some(region) = region {
        region.count(Counter::PanicOpened);
        region.set_off(true);
    }
}

/// In the child after `fork`: it goes on as a process of the gate, or its calls pass from here on.
pub(crate) fn forked(serves: bool) {
    // SAFETY: getppid has no preconditions.
    let parent = unsafe { libc::syscall(libc::SYS_getppid) } as u32;
    if serves && parent == PID.load(Ordering::Relaxed) {
        PID.store(own_pid(), Ordering::Relaxed);
    } else {
        stand_aside();
    }
}

/// This process's id, by system call: a child of `vfork` shares our memory but not our id.
pub fn own_pid() -> u32 {
    // SAFETY: getpid has no preconditions.
    unsafe { libc::syscall(libc::SYS_getpid) as u32 }
}

/// Whether this is the process that attached, and not a child that shares its memory.
pub fn is_attached_process() -> bool {
    own_pid() == PID.load(Ordering::Relaxed)
}

/// Marks that this thread is inside a hook, until dropped.
#[derive(Debug)]
pub struct InHook(());

impl InHook {
    /// `None` if the thread is inside a hook already: a signal handler interrupted it, or the real
    /// function called another hook. The caller then passes straight through.
    pub fn enter() -> Option<InHook> {
        // Lazily: a guard that is made and dropped would end the outer hook's mark.
        thread::with(|words| (!words.in_hook.replace(true)).then(|| InHook(())))
    }
}

impl Drop for InHook {
    fn drop(&mut self) {
        thread::with(|words| words.in_hook.set(false));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hook_inside_a_hook_is_refused_and_does_not_end_the_outer_one() {
        let outer = InHook::enter();
        assert!(outer.is_some());
        assert!(InHook::enter().is_none());
        assert!(InHook::enter().is_none(), "the refusal changed nothing");
        drop(outer);
        assert!(InHook::enter().is_some());
    }
}
