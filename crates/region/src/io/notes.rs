//! Notes of threads: who waits for whom ([`super::inherit`]), who signals what, and which call went
//! on by a guess ([`super::guess`]).
//!
//! They are hints: written without a lock, and perhaps torn or late.

use crate::clock;
use crate::lock::thread_id;
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicU32, AtomicU64};
use headworks_policy::Nanos;
use headworks_policy::split::{Account, Task};

/// What a thread waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Blocker {
    /// A mutex.
    Mutex = 1,
    /// A lock for readers and writers.
    RwLock = 2,
    /// A condition variable.
    Condition = 3,
    /// A semaphore.
    Semaphore = 4,
    /// A futex of the program's own.
    Futex = 5,
    /// Something else.
    Unknown = 6,
}

/// Kinds of [`Blocker`], and the word for "nothing".
pub const BLOCKERS: usize = 7;

/// Their names, by number.
pub const BLOCKER_NAMES: [&str; BLOCKERS] =
    ["", "mutex", "rwlock", "condition", "semaphore", "futex", "unknown"];

/// Entries of the table that finds the account of a thread.
const THREADS: usize = 4096;

/// Entries of the table that keeps which thread last signalled a condition or semaphore.
const SIGNALS: usize = 4096;

/// A thread that has not signalled for so long is no helper any more (section 4.2.1).
const HELPS_FOR_MS: u64 = 10_000;

/// Which thread waits for which. All zero bytes: none.
#[derive(Debug)]
#[repr(C)]
pub struct Inheritance {
    /// Threads of clients that wait for a lock or its like: a hint, which is wrong if one was
    /// killed.
    pub(super) clients: AtomicU32,
    /// The longest chain that was followed.
    pub longest_chain: AtomicU32,
    /// Times a thread inherited, by what was waited for.
    pub by_blocker: [AtomicU64; BLOCKERS],
    /// Calls that were held and went on because a client waited for them.
    pub promoted: AtomicU64,
    /// The last held call that went on by a guess, until it is known whether that was right.
    pub(super) guess: Guess,
    /// Account of a thread, by its number modulo the length.
    threads: [AtomicU32; THREADS],
    /// Last signal: thread in the upper half, milliseconds in the lower.
    signals: [AtomicU64; SIGNALS],
}

headworks_policy::layout!(Inheritance {
    clients,
    longest_chain,
    by_blocker,
    promoted,
    guess,
    threads,
    signals
});

/// A held call went on because it may have blocked a client.
#[derive(Debug)]
#[repr(C)]
pub(super) struct Guess {
    /// Account of the client, plus one; zero for no guess.
    pub client: AtomicU32,
    /// The call's task, plus one.
    pub task: AtomicU32,
    /// Its file.
    pub file: AtomicU32,
    _pad: AtomicU32,
    /// When the call returned; zero as long as it runs.
    pub returned_ns: AtomicU64,
}

headworks_policy::layout!(Guess { client, task, file, _pad, returned_ns });

fn signal_place(address: usize) -> usize {
    (address >> 4).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (64 - SIGNALS.trailing_zeros())
}

fn milliseconds() -> u64 {
    (clock::last_tick().0 / 1_000_000) & 0xFFFF_FFFF
}

impl Inheritance {
    pub(super) fn note_thread(&self, tid: u32, account: Account) {
        self.threads[tid as usize % THREADS].store(account.into(), Relaxed);
    }

    /// The calling thread signals the condition or semaphore at this address.
    pub fn signals(&self, address: usize) {
        let word = u64::from(thread_id()) << 32 | milliseconds();
        let place = &self.signals[signal_place(address)];
        // An unconditional store would move the cache line between processors.
        if place.load(Relaxed) != word {
            place.store(word, Relaxed);
        }
    }

    /// The account that the thread with this number had last.
    pub(super) fn account(&self, tid: u32) -> Account {
        self.threads[tid as usize % THREADS].load(Relaxed) as Account
    }

    /// The thread that usually signals it: a guess from the last signal.
    pub fn helper(&self, address: usize) -> Option<u32> {
        let word = self.signals[signal_place(address)].load(Relaxed);
        let age = milliseconds().wrapping_sub(word & 0xFFFF_FFFF);
        (word != 0 && age < HELPS_FOR_MS).then_some((word >> 32) as u32)
    }
}

impl Guess {
    /// A call of this task, on this file, goes on for this client (account plus one).
    pub fn begin(&self, client: u32, task: Task, file: u32) {
        self.returned_ns.store(0, Relaxed);
        self.task.store(u32::from(task) + 1, Relaxed);
        self.file.store(file, Relaxed);
        self.client.store(client, Relaxed);
    }

    /// The call of this task has returned.
    pub fn note_return(&self, now: Nanos, task: Task) {
        if self.client.load(Relaxed) != 0 && self.task.load(Relaxed) == u32::from(task) + 1 {
            self.returned_ns.store(now.0, Relaxed);
        }
    }

    /// When the call of the last guess returned, if that is not judged yet.
    pub fn returned(&self) -> Option<Nanos> {
        let returned = Nanos(self.returned_ns.load(Relaxed));
        (self.client.load(Relaxed) != 0 && returned != Nanos(0)).then_some(returned)
    }
}
