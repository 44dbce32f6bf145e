//! Waits of this backend, as PostgreSQL reports them.
//!
//! Since version 14 the server exports `my_wait_event_info`, the address of a word. Its high byte
//! is the class of the wait, and its low bytes say which (PostgreSQL, `utils/wait_event.h`). A
//! backend writes it before it sleeps. Older servers export nothing: whatever a backend sleeps for
//! in the middle of a request is then taken for a wait of an unknown kind.

use core::sync::atomic::{AtomicPtr, Ordering};
use headworks_policy::Nanos;
use headworks_region::Pause;

/// The variable: a pointer to the word.
static VARIABLE: AtomicPtr<*const u32> = AtomicPtr::new(core::ptr::null_mut());

/// Classes of waits.
const LOCK: u32 = 0x03;
const IO: u32 = 0x0A;
const TIMEOUT: u32 = 0x09;
const CLIENT: u32 = 0x06;
const LIGHT_LOCK: u32 = 0x01;
const EXTENSION: u32 = 0x07;

/// Looks the variable up.
pub(super) fn find() {
    // SAFETY: the name is a C string.
    let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"my_wait_event_info".as_ptr()) };
    VARIABLE.store(found.cast(), Ordering::Relaxed);
}

/// What this backend sleeps for in an epoll set; `None` for storage, which is work.
pub(super) fn pause() -> Option<Pause> {
    let variable = VARIABLE.load(Ordering::Relaxed);
    if variable.is_null() {
        return Some(Pause::Asleep);
    }
    // SAFETY: the server's variable, which only this thread writes; it points to a word of the
    // server's shared or private memory for as long as the process lives.
    let word =
        unsafe { variable.read().as_ref().map(|word| core::ptr::from_ref(word).read_volatile()) };
    of_word(word?)
}

/// How long the backend may sleep for this reason before its permit is lent. Waits for the workers
/// of a parallel query are many and short.
pub(super) fn lent_after(why: Pause) -> Nanos {
    if why == Pause::Process { Nanos::from_millis(2) } else { Nanos(0) }
}

fn of_word(word: u32) -> Option<Pause> {
    match (word >> 24, word & 0xFFFF) {
        (IO | LIGHT_LOCK, _) => None,
        // The low bytes are the LockTagType: relation, tuple, transaction, user lock, advisory
        // lock.
        (LOCK, 0) => Some(Pause::TableLock),
        (LOCK, 4 | 5) => Some(Pause::RowLock),
        (LOCK, 9 | 10) => Some(Pause::UserLock),
        (LOCK, _) => Some(Pause::Lock),
        (CLIENT, _) => Some(Pause::Client),
        (TIMEOUT, _) => Some(Pause::Sleep),
        // A function that connects to a server, perhaps this one. Or nothing was said.
        (0 | EXTENSION, _) => Some(Pause::Elsewhere),
        // Buffer pins, other processes.
        _ => Some(Pause::Process),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_of_waits_are_told_apart() {
        for (word, expected) in [
            (0x0300_0000, Some(Pause::TableLock)),
            (0x0300_0005, Some(Pause::RowLock)),
            (0x0300_000A, Some(Pause::UserLock)),
            (0x0300_0001, Some(Pause::Lock)),
            (0x0900_0001, Some(Pause::Sleep)),
            (0x0600_0001, Some(Pause::Client)),
            (0x0800_002F, Some(Pause::Process)),
            (0x0700_0000, Some(Pause::Elsewhere)),
            (0, Some(Pause::Elsewhere)),
            // It works: in storage, or at a latch.
            (0x0A00_0014, None),
            (0x0100_0008, None),
        ] {
            assert_eq!(of_word(word), expected, "{word:x}");
        }
    }
}
