//! Calls from a signal handler on an alternate stack.
//!
//! # Problem
//! Such a stack may have 8 KiB (`SIGSTKSZ`), of which the kernel's frame with the processor's
//! registers takes more than half. An operation on files takes up to 3 KiB. A program that reports
//! its own crash must not end before its report.
//!
//! # The primitive
//! The kernel says whether the thread is on its alternate stack ([`is_used`]). A page of a stack
//! that was none is remembered, so that the kernel is seldom asked. A handler that has its stack
//! disarmed (`SS_AUTODISARM`) is not known.

use headworks_region::thread::{self, keeping_errno};

/// Bytes in a page. No stack shares one with an alternate stack.
const PAGE: usize = 4096;

/// Whether the calling thread is on its alternate stack.
#[inline]
pub(crate) fn is_used() -> bool {
    let here = 0u8;
    let page = (&raw const here).addr() / PAGE;
    thread::with(|words| words.stack_page.get() != page) && asked(page)
}

#[cold]
#[inline(never)] // its answer is gone from the stack when it returns
fn asked(page: usize) -> bool {
    let mut stack = libc::stack_t { ss_sp: core::ptr::null_mut(), ss_flags: 0, ss_size: 0 };
    let none = core::ptr::null::<libc::stack_t>();
    // SAFETY: only asks; the answer outlives the call.
    let failed = keeping_errno(|| unsafe {
        libc::syscall(libc::SYS_sigaltstack, none, &raw mut stack) != 0
    });
    let used = !failed && stack.ss_flags & libc::SS_ONSTACK != 0;
    if !used {
        thread::with(|words| words.stack_page.set(page));
    }
    used
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::sync::atomic::AtomicU32;
    use core::sync::atomic::Ordering::Relaxed;

    static SEEN: AtomicU32 = AtomicU32::new(0);

    extern "C" fn handler(_: libc::c_int) {
        SEEN.store(1 + u32::from(is_used()), Relaxed);
    }

    fn seen_in_handler(flags: libc::c_int) -> u32 {
        // SAFETY: the handler only stores to a static and to a thread-local.
        unsafe {
            let mut action: libc::sigaction = core::mem::zeroed();
            action.sa_sigaction = handler as *const () as usize;
            action.sa_flags = flags;
            libc::sigaction(libc::SIGUSR2, &raw const action, core::ptr::null_mut());
            libc::raise(libc::SIGUSR2);
        }
        SEEN.swap(0, Relaxed)
    }

    #[test]
    fn a_handler_on_an_alternate_stack_is_known_and_others_are_not() {
        assert!(!is_used());
        let mut room = vec![0u8; 64 << 10];
        let stack =
            libc::stack_t { ss_sp: room.as_mut_ptr().cast(), ss_flags: 0, ss_size: room.len() };
        let mut before = stack;
        // SAFETY: the stack outlives its use: it is taken back below.
        unsafe { libc::sigaltstack(&raw const stack, &raw mut before) };
        assert_eq!(seen_in_handler(0), 1);
        assert_eq!(seen_in_handler(libc::SA_ONSTACK), 2);
        assert!(!is_used());
        assert_eq!(seen_in_handler(libc::SA_ONSTACK), 2, "also after a call that was not there");
        // SAFETY: as above.
        unsafe { libc::sigaltstack(&raw const before, core::ptr::null_mut()) };
    }
}
