//! A lock in shared memory that survives the death of its owner.
//!
//! The lock is one word: the owner's thread id, and a bit that says whether a waiter sleeps. The
//! critical sections take a fraction of a microsecond, so a waiter spins a little and then sleeps
//! briefly. If the owner's thread is gone, a waiter takes the lock over, and learns that the state
//! may be half changed. After `TIMEOUT` an attempt ends without the lock, and the caller lets its
//! session pass.

use crate::{clock, futex, thread};
use core::sync::atomic::{AtomicU32, Ordering};
use headworks_policy::Nanos;

const SLEEPERS: u32 = 1 << 31;
const SPINS: u32 = 200;
const MAX_SLEEP: Nanos = Nanos::from_micros(500);
const TIMEOUT: Nanos = Nanos::from_millis(100);

/// Timeout when the daemon sends no heartbeat: it may have been stopped while it held the lock.
/// Long enough to notice a dead owner.
const TIMEOUT_STALE: Nanos = Nanos::from_millis(2);

/// This thread's id, cached.
pub fn thread_id() -> u32 {
    thread::with(|words| match words.id.get() {
        0 => ask_thread_id(words),
        id => id,
    })
}

#[cold]
fn ask_thread_id(words: &thread::Words) -> u32 {
    // SAFETY: gettid has no preconditions, and never fails.
    let id = unsafe { libc::syscall(libc::SYS_gettid) } as u32;
    words.id.set(id);
    id
}

/// Forgets the cached id: a forked child has another one.
pub fn forget_thread_id() {
    thread::with(|words| words.id.set(0));
}

/// Whether a thread with this id exists on the machine. A thread of any program counts.
pub fn thread_exists(id: u32) -> bool {
    thread::keeping_errno(|| {
        // SAFETY: signal 0 only asks.
        let gone = unsafe { libc::syscall(libc::SYS_tkill, id, 0) } != 0;
        // SAFETY: errno is this thread's own.
        !(gone && unsafe { *libc::__errno_location() } == libc::ESRCH)
    })
}

/// See the module. All zero bytes are a free lock.
#[derive(Debug)]
#[repr(C)]
pub struct RobustLock(AtomicU32);

headworks_policy::layout!(RobustLock { 0 });

/// The lock is held until this is dropped.
#[derive(Debug)]
pub struct Held<'a> {
    lock: &'a RobustLock,
    /// The previous owner died inside: what the lock guards may be inconsistent.
    pub inherited: bool,
}

impl RobustLock {
    /// Takes the lock, or gives up after a tenth of a second. It gives up much sooner if `stale`
    /// says that the daemon sends no heartbeat, which is only asked when the lock is not free.
    pub fn acquire(&self, stale: impl Fn(Nanos) -> bool) -> Option<Held<'_>> {
        let me = thread_id();
        for _ in 0..SPINS {
            if self.try_take(me) {
                return Some(Held { lock: self, inherited: false });
            }
            core::hint::spin_loop();
        }
        self.acquire_slowly(me, &stale)
    }

    fn try_take(&self, me: u32) -> bool {
        self.0.load(Ordering::Relaxed) == 0
            && self.0.compare_exchange(0, me, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    #[cold]
    fn acquire_slowly(&self, me: u32, stale: &dyn Fn(Nanos) -> bool) -> Option<Held<'_>> {
        let start = clock::now();
        let timeout = if stale(start) { TIMEOUT_STALE } else { TIMEOUT };
        loop {
            // A sleeper that gets the lock leaves the bit set: there may be more of its kind.
            let word = self.0.load(Ordering::Relaxed);
            if word == 0 {
                if self
                    .0
                    .compare_exchange(0, me | SLEEPERS, Ordering::Acquire, Ordering::Relaxed)
                    .is_ok()
                {
                    return Some(Held { lock: self, inherited: false });
                }
                continue;
            }
            let owner = word & !SLEEPERS;
            let waited = clock::now().since(start);
            if owner == me || waited >= timeout {
                return None;
            }
            // No thread has the number zero: the word was overwritten.
            if waited > MAX_SLEEP && (owner == 0 || !thread_exists(owner)) {
                if self
                    .0
                    .compare_exchange(word, me | SLEEPERS, Ordering::Acquire, Ordering::Relaxed)
                    .is_ok()
                {
                    return Some(Held { lock: self, inherited: true });
                }
                continue;
            }
            let asleep = word | SLEEPERS;
            if word == asleep
                || self
                    .0
                    .compare_exchange(word, asleep, Ordering::Relaxed, Ordering::Relaxed)
                    .is_ok()
            {
                futex::wait(&self.0, asleep, MAX_SLEEP);
            }
        }
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            // What it guards may be half changed. The next one finds a word that names no owner,
            // and takes the lock over as from one that died.
            self.lock.0.store(SLEEPERS, Ordering::Release);
            futex::wake(&self.lock.0, 1);
            return;
        }
        if self.lock.0.swap(0, Ordering::Release) & SLEEPERS != 0 {
            futex::wake(&self.lock.0, 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::AtomicU64;

    #[test]
    fn it_excludes() {
        let lock = Arc::new((RobustLock(AtomicU32::new(0)), AtomicU64::new(0)));
        let threads: Vec<_> = (0..4)
            .map(|_| {
                let lock = Arc::clone(&lock);
                std::thread::spawn(move || {
                    for _ in 0..10_000 {
                        // On a busy machine the holder may stand still for longer than one try.
                        let tries = std::iter::repeat_with(|| lock.0.acquire(|_| false));
                        let held = tries.flatten().next().expect("no thread holds it for ever");
                        let value = lock.1.load(Ordering::Relaxed);
                        lock.1.store(value + 1, Ordering::Relaxed);
                        drop(held);
                    }
                })
            })
            .collect();
        for thread in threads {
            thread.join().unwrap();
        }
        assert_eq!(lock.1.load(Ordering::Relaxed), 40_000);
    }

    #[test]
    fn the_owner_of_a_lock_that_died_is_noticed() {
        let lock = Arc::new(RobustLock(AtomicU32::new(0)));
        let dead = Arc::clone(&lock);
        std::thread::spawn(move || core::mem::forget(dead.acquire(|_| false))).join().unwrap();
        // The thread took it, and its guard was never dropped.
        let held = lock.acquire(|_| false).expect("a dead owner does not block");
        assert!(held.inherited);
    }

    #[test]
    fn a_word_that_names_no_owner_does_not_block() {
        let lock = RobustLock(AtomicU32::new(SLEEPERS));
        assert!(lock.acquire(|_| false).expect("no thread holds it").inherited);
        assert!(!lock.acquire(|_| false).expect("it was given back").inherited);
    }

    #[test]
    fn a_panic_inside_is_as_the_death_of_the_owner() {
        let lock = RobustLock(AtomicU32::new(0));
        let panics = || {
            let _held = lock.acquire(|_| false);
            panic!("on purpose");
        };
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(panics)).unwrap_err();
        assert!(lock.acquire(|_| false).expect("no thread holds it").inherited);
        assert!(!lock.acquire(|_| false).expect("it was given back").inherited);
    }

    #[test]
    fn a_thread_that_holds_it_already_is_refused_and_not_hung() {
        let lock = RobustLock(AtomicU32::new(0));
        let held = lock.acquire(|_| false).unwrap();
        assert!(lock.acquire(|_| false).is_none());
        drop(held);
        assert!(lock.acquire(|_| false).is_some());
    }
}
