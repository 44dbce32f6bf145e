//! Waits of threads, as MariaDB reports them.
//!
//! The server calls `thd_wait_begin(thd, type)` and `thd_wait_end(thd)` around every wait, for its
//! own pool of threads. Both are callbacks in a struct that the exported variable
//! `thread_scheduler` points to. With one thread for each connection they are null. A pool has its
//! own, which are called after ours.
//!
//! The struct is not a public interface, so its layout is checked before it is written. The
//! exported functions of the same names must load their callbacks from the expected offsets.

use core::ffi::{CStr, c_int, c_void};
use core::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};
use headworks_region::Pause;

/// A function `thd_wait_begin(thd, type)`.
pub type WaitBegin = unsafe extern "C-unwind" fn(*mut c_void, c_int);
/// A function `thd_wait_end(thd)`.
pub type WaitEnd = unsafe extern "C-unwind" fn(*mut c_void);

/// Offsets of the two callbacks in MariaDB 10.2 to 11.8 on 64-bit machines.
const BEGIN: usize = 0x28;
const END: usize = 0x30;

/// The callbacks before ours; zero for none.
static CHAINED_BEGIN: AtomicUsize = AtomicUsize::new(0);
static CHAINED_END: AtomicUsize = AtomicUsize::new(0);

/// Why a session pauses, by the type of the wait (`service_thd_wait.h`). `None` for waits of
/// storage, which are work, and for those of the network, which are seen at the socket. Group
/// commits are short mostly: those that are not are seen as sleeps on a condition.
pub fn pause_of(kind: c_int) -> Option<Pause> {
    match kind {
        1 => Some(Pause::Sleep),
        3 => Some(Pause::RowLock),
        4 => Some(Pause::GlobalLock),
        5 => Some(Pause::MetadataLock),
        6 => Some(Pause::TableLock),
        7 => Some(Pause::UserLock),
        _ => None,
    }
}

/// The callback of the server's own pool for the start of a wait.
pub fn chained_begin() -> Option<WaitBegin> {
    let found = CHAINED_BEGIN.load(Ordering::Relaxed);
    // SAFETY: not zero, so it is what the server had stored there as such a function.
    (found != 0).then(|| unsafe { core::mem::transmute::<usize, WaitBegin>(found) })
}

/// The same for the end of a wait.
pub fn chained_end() -> Option<WaitEnd> {
    let found = CHAINED_END.load(Ordering::Relaxed);
    // SAFETY: not zero, so it is what the server had stored there as such a function.
    (found != 0).then(|| unsafe { core::mem::transmute::<usize, WaitEnd>(found) })
}

/// Stores our callbacks where the server calls them. Returns `false` if this server exports no such
/// struct, or one of another layout. Called once the server has its scheduler: at the first
/// connection.
pub fn install(begin: WaitBegin, end: WaitEnd) -> bool {
    let Some(scheduler) = scheduler() else { return false };
    let own = [begin as usize, end as usize];
    let places = [BEGIN, END].map(|offset| scheduler.wrapping_add(offset));
    let Some(before) = read_words(places) else { return false };
    if before == own {
        return true;
    }
    // Before our own callbacks, which read this: a wait that begins in between must not miss the
    // pool's.
    CHAINED_BEGIN.store(before[0], Ordering::SeqCst);
    CHAINED_END.store(before[1], Ordering::SeqCst);
    // The end first: for a wait that began before, our callback for the end does nothing.
    write_word(places[1], own[1]) && write_word(places[0], own[0])
}

/// The address of the scheduler's callbacks, if the layout is as expected.
fn scheduler() -> Option<usize> {
    let expected = |name, offset| loads_callback(symbol(name)?, offset).then_some(());
    expected(c"thd_wait_begin", BEGIN as u8)?;
    expected(c"thd_wait_end", END as u8)?;
    let variable = symbol(c"thread_scheduler")? as usize;
    let [scheduler] = read_words([variable])?;
    (scheduler != 0).then_some(scheduler)
}

fn symbol(name: &CStr) -> Option<*const c_void> {
    // SAFETY: the name is a C string.
    let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
    (!found.is_null()).then_some(found.cast_const())
}

/// Bytes of a function that are checked.
const CHECKED_BYTES: usize = 48;

/// Whether a function of the server loads a pointer from this offset and jumps to it.
#[cfg(target_arch = "x86_64")]
fn loads_callback(function: *const c_void, offset: u8) -> bool {
    let mut code = [0u8; CHECKED_BYTES];
    copy(function as usize, &mut code) && is_callback(&code, offset)
}

/// On other processors the instructions differ; there, sleeps on conditions are watched instead.
#[cfg(not(target_arch = "x86_64"))]
fn loads_callback(_: *const c_void, _: u8) -> bool {
    false
}

/// `mov offset(%rax),%rax; test %rax,%rax; je …; jmp *%rax`, whatever the jump's distance.
#[cfg_attr(not(target_arch = "x86_64"), allow(dead_code))] // its tests run everywhere
fn is_callback(code: &[u8], offset: u8) -> bool {
    let load = [0x48, 0x8B, 0x40, offset, 0x48, 0x85, 0xC0, 0x74];
    code.windows(load.len()).any(|window| window == load)
}

/// Copies bytes of this process; `false` if they are not all mapped. By system call, because a
/// wrong guess about the program's memory must not crash it.
fn copy(from: usize, to: &mut [u8]) -> bool {
    let local = libc::iovec { iov_base: to.as_mut_ptr().cast(), iov_len: to.len() };
    let remote = libc::iovec { iov_base: from as *mut c_void, iov_len: to.len() };
    // SAFETY: the local buffer is `to`; the kernel checks the other one.
    let copied =
        unsafe { libc::process_vm_readv(own_pid(), &raw const local, 1, &raw const remote, 1, 0) };
    usize::try_from(copied) == Ok(to.len())
}

fn read_words<const N: usize>(places: [usize; N]) -> Option<[usize; N]> {
    let mut words = [0; N];
    for (word, place) in words.iter_mut().zip(places) {
        let mut bytes = [0; size_of::<usize>()];
        if !copy(place, &mut bytes) {
            return None;
        }
        *word = usize::from_ne_bytes(bytes);
    }
    Some(words)
}

/// Stores a word in the program's memory; `false` if it is not writable.
fn write_word(place: usize, word: usize) -> bool {
    let Some([before]) = read_words([place]) else { return false };
    let mut bytes = before.to_ne_bytes();
    let local = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
    let remote = libc::iovec { iov_base: place as *mut c_void, iov_len: bytes.len() };
    // SAFETY: writes back what was read, so that the kernel says whether the page may be written.
    let written =
        unsafe { libc::process_vm_writev(own_pid(), &raw const local, 1, &raw const remote, 1, 0) };
    if usize::try_from(written) != Ok(bytes.len()) || !place.is_multiple_of(align_of::<usize>()) {
        return false;
    }
    // In one step: other threads may read it at any time. SAFETY: aligned, and just written to. The
    // server only reads it once its scheduler is there.
    unsafe { AtomicPtr::from_ptr(place as *mut *mut c_void) }
        .store(word as *mut c_void, Ordering::SeqCst);
    true
}

fn own_pid() -> libc::pid_t {
    crate::process::own_pid() as libc::pid_t
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_of_storage_and_of_the_network_are_none_of_ours() {
        let known: Vec<c_int> = (0..13).filter(|&kind| pause_of(kind).is_some()).collect();
        assert_eq!(known, [1, 3, 4, 5, 6, 7]);
    }

    #[test]
    fn a_function_that_loads_its_callback_from_elsewhere_is_told() {
        // thd_wait_begin of MariaDB 10.11 on Debian 12, from `test %rdi,%rdi` on.
        let code = [
            0x48, 0x85, 0xFF, 0x74, 0x23, 0x48, 0x8B, 0x87, 0x80, 0x05, 0x00, 0x00, 0x48, 0x85,
            0xC0, 0x74, 0x0F, 0x48, 0x8B, 0x40, 0x28, 0x48, 0x85, 0xC0, 0x74, 0x06, 0xFF, 0xE0,
        ];
        assert!(is_callback(&code, 0x28));
        assert!(!is_callback(&code, 0x30));
    }

    #[test]
    fn memory_that_is_not_there_or_not_to_be_written_is_left_alone() {
        static CONSTANT: usize = 7;
        let constant = &raw const CONSTANT as usize;
        assert_eq!(read_words([constant]), Some([7]));
        assert!(!write_word(constant, 8));
        assert_eq!(read_words([8usize]), None);
        assert!(!write_word(8, 8));
        let mut word = 1usize;
        assert!(write_word(&raw mut word as usize, 2));
        assert_eq!(word, 2);
        assert!(!write_word(&raw mut word as usize + 1, 2), "not aligned");
    }
}
