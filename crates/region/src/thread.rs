//! A few words of each thread, reached without a call.
//!
//! In a preloaded library the usual thread-local variables cost a call into the dynamic loader each
//! time. On x86-64 these lie at a fixed distance from the thread pointer and cost two instructions.
//! That is the initial-exec model, which a library may use if it is loaded at the program's start.

use core::cell::Cell;

/// What a thread keeps for us. All zero bytes at its start; no destructor, so it can be used in a
/// signal handler and at any time of a thread's life.
#[derive(Debug)]
#[repr(C)]
pub struct Words {
    /// Its id; zero until it is asked for.
    pub(crate) id: Cell<u32>,
    /// It is inside a hook.
    pub in_hook: Cell<bool>,
    /// Calls on descriptors since what is known of one was last checked.
    pub uses: Cell<u16>,
    /// Session whose request it serves, plus one; zero if it serves none.
    pub serving: Cell<u32>,
    /// Its account for I/O, if that account names it.
    pub account: Cell<u16>,
    /// What is known of it: one of the constants below, or zero.
    pub role: Cell<u8>,
    /// The session that it serves, or served last, is of a background class.
    pub background: Cell<bool>,
    /// The class of that session, plus one; zero for none.
    pub class: Cell<u8>,
    /// Blocks of 512 bytes that devices had read for it when it last looked.
    pub blocks_read: Cell<u32>,
    /// The session of the connection that it serves, plus one; zero for none.
    pub session: Cell<u32>,
    /// Bytes that it has put into streams of the C library since a file was last asked for them.
    pub streamed: Cell<u32>,
    /// Page of a stack on which it was last seen, which is no alternate stack.
    pub stack_page: Cell<usize>,
}

/// In [`Words::role`]: the program said (`headworks_foreground`) that clients wait for it.
pub const DECLARED_FOREGROUND: u8 = 1;
/// The program said that they do not.
pub const DECLARED_BACKGROUND: u8 = 2;
/// The gate saw that the thread serves clients, and the program has said nothing.
pub const SERVES_CLIENTS: u8 = 3;
/// The same, but the gate does not see when the request that it serves is over.
pub const SERVES_UNSEEN: u8 = 4;

#[cfg(target_arch = "x86_64")]
mod place {
    use super::Words;

    core::arch::global_asm!(
        ".pushsection .tbss.headworks_thread_words,\"awT\",@nobits",
        ".p2align 3",
        ".globl headworks_thread_words",
        ".hidden headworks_thread_words",
        ".type headworks_thread_words, @object",
        ".size headworks_thread_words, 40",
        "headworks_thread_words:",
        ".zero 40",
        ".popsection",
    );

    const _: () = assert!(size_of::<Words>() <= 40 && align_of::<Words>() <= 8);

    pub(super) fn with<T>(work: impl FnOnce(&Words) -> T) -> T {
        let place: *const Words;
        // SAFETY: reads the word that the loader made for the symbol above, which is its distance
        // from the thread pointer, and the thread pointer itself. Neither changes for a thread.
        unsafe {
            core::arch::asm!(
                "mov {place}, qword ptr [rip + headworks_thread_words@GOTTPOFF]",
                "add {place}, qword ptr fs:[0]",
                place = out(reg) place,
                options(pure, readonly, nostack),
            );
        }
        // SAFETY: 40 aligned bytes of this thread's own, zero at first, which is a valid `Words`.
        // The reference does not outlive the call, so it stays in the thread.
        work(unsafe { &*place })
    }
}

#[cfg(not(target_arch = "x86_64"))]
mod place {
    use super::Words;
    use core::cell::Cell;

    thread_local! {
        static WORDS: Words = const {
            Words {
                id: Cell::new(0),
                in_hook: Cell::new(false),
                uses: Cell::new(0),
                serving: Cell::new(0),
                account: Cell::new(0),
                role: Cell::new(0),
                background: Cell::new(false),
                class: Cell::new(0),
                blocks_read: Cell::new(0),
                session: Cell::new(0),
                streamed: Cell::new(0),
                stack_page: Cell::new(0),
            }
        };
    }

    pub(super) fn with<T>(work: impl FnOnce(&Words) -> T) -> T {
        WORDS.with(work)
    }
}

/// Runs `work` on this thread's words.
#[inline(always)] // two instructions
pub fn with<T>(work: impl FnOnce(&Words) -> T) -> T {
    place::with(work)
}

/// Runs `work`, which may make system calls, so that the thread's errno is as before.
pub fn keeping_errno<T>(work: impl FnOnce() -> T) -> T {
    // SAFETY: errno is this thread's own, and its address does not change.
    let errno = unsafe { libc::__errno_location() };
    // SAFETY: as above.
    let kept = unsafe { *errno };
    let result = work();
    // SAFETY: as above.
    unsafe { *errno = kept };
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_thread_has_words_of_its_own() {
        with(|words| words.in_hook.set(true));
        let others: Vec<_> = (0..4)
            .map(|_| {
                std::thread::spawn(|| {
                    let fresh = with(|words| !words.in_hook.get() && words.id.get() == 0);
                    let id = crate::lock::thread_id();
                    (fresh, id, with(|words| words.id.get()))
                })
            })
            .map(|thread| thread.join().unwrap())
            .collect();
        assert!(others.iter().all(|(fresh, id, kept)| *fresh && id == kept && *id != 0));
        assert!(with(|words| words.in_hook.replace(false)));
        // SAFETY: gettid has no preconditions.
        assert_eq!(crate::lock::thread_id(), unsafe { libc::gettid() } as u32);
    }
}
