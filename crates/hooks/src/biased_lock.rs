//! A biased lock for an entry of the table of connections: nearly free for the thread that serves
//! the connection.
//!
//! # The problem
//! A lock around each operation costs two locked instructions. Each waits until all earlier stores
//! of the server have reached its cache. Yet nearly always the same thread serves a connection.
//!
//! # The protocol
//! An entry has an *owner*: the first thread that served it. The owner enters by plain loads and
//! stores: it writes that it is inside, then checks that it still is the owner. Every other thread
//! takes the lock `shared`. The first of them revokes the bias for good. It overwrites the owner.
//! Then it has the kernel put a barrier into every running thread of the process (`membarrier`). At
//! last it checks whether the owner is inside. Either the owner's write came before its barrier:
//! the other thread sees it and leaves. Or the owner's check comes after its barrier: the owner
//! sees that it is the owner no more. From then on all threads take the lock, the former owner too.
//! Without `membarrier` there are no owners.
//!
//! A signal may interrupt the thread that is inside, and its handler may come to the same entry. It
//! finds the entry occupied and leaves, on the owner's thread too. Between the owner's check
//! whether it is inside and its write that it is, a handler may enter and leave; it changes
//! nothing.
//!
//! An owner that ends its connection gives up the bias. The descriptor's next connection, which
//! another thread accepts and serves, can then have an owner again.

use core::sync::atomic::{AtomicBool, AtomicU32, Ordering, compiler_fence};
use headworks_region::lock::thread_id;
use headworks_region::thread::keeping_errno;

/// Stands where the owner's thread id would: the bias was revoked for good.
const REVOKED: u32 = u32::MAX;

/// Whether `membarrier` is available.
static BARRIERS: AtomicBool = AtomicBool::new(false);

/// See the module. All zero bytes are a free lock without an owner.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct BiasedLock {
    /// Thread id; zero for none.
    owner: AtomicU32,
    /// Written by the owner only, or by the thread that gives up the bias.
    owner_inside: AtomicBool,
    shared: AtomicBool,
}

/// How a thread entered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Entry {
    Owner,
    Shared,
}

/// What happens to the bias when a thread leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ownership {
    /// This thread serves the connection: it becomes the owner if there never was one.
    Take,
    Keep,
    /// The connection is over.
    GiveUp,
}

/// Asks the kernel whether `membarrier` is available. Called once, before the first connection.
pub(crate) fn prepare() {
    let registered = membarrier(libc::MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED);
    BARRIERS.store(registered, Ordering::Relaxed);
}

fn membarrier(command: libc::c_int) -> bool {
    // SAFETY: takes numbers only.
    keeping_errno(|| unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) } == 0)
}

impl BiasedLock {
    pub(crate) const fn new() -> BiasedLock {
        BiasedLock {
            owner: AtomicU32::new(0),
            owner_inside: AtomicBool::new(false),
            shared: AtomicBool::new(false),
        }
    }

    /// `None` if a thread is inside.
    pub(crate) fn enter(&self) -> Option<Entry> {
        self.enter_with(|| ())
    }

    /// `between` runs between the owner's write and its check, for tests.
    fn enter_with(&self, between: impl FnOnce()) -> Option<Entry> {
        let me = thread_id();
        if self.owner.load(Ordering::Relaxed) == me {
            if self.owner_inside.load(Ordering::Relaxed) {
                return None;
            }
            between();
            self.owner_inside.store(true, Ordering::Relaxed);
            // The processor's part of this fence is the other side's `membarrier`.
            compiler_fence(Ordering::SeqCst);
            if self.owner.load(Ordering::Relaxed) == me {
                return Some(Entry::Owner);
            }
            self.owner_inside.store(false, Ordering::Release);
        }
        self.enter_shared()
    }

    #[cold]
    fn enter_shared(&self) -> Option<Entry> {
        if self.shared.swap(true, Ordering::Acquire) {
            return None;
        }
        // No thread becomes the owner while the lock is held.
        if !matches!(self.owner.load(Ordering::Acquire), 0 | REVOKED) {
            self.owner.store(REVOKED, Ordering::SeqCst);
            self.barrier();
        }
        if self.owner_inside.load(Ordering::Acquire) {
            self.shared.store(false, Ordering::SeqCst);
            return None;
        }
        Some(Entry::Shared)
    }

    /// Leaves. The caller must then read what others noted for it. Either they see that no thread
    /// is inside ([`BiasedLock::occupied`]), or this thread sees their note.
    pub(crate) fn leave(&self, entry: Entry, ownership: Ownership) {
        match entry {
            Entry::Owner => {
                if ownership == Ownership::GiveUp && self.owner.load(Ordering::Relaxed) != REVOKED {
                    self.give_up();
                }
                self.owner_inside.store(false, Ordering::Release);
                compiler_fence(Ordering::SeqCst);
            }
            Entry::Shared => self.leave_shared(ownership),
        }
    }

    /// One atomic step, as another thread may revoke the bias at this moment.
    #[cold]
    fn give_up(&self) {
        let _ = self.owner.compare_exchange(thread_id(), 0, Ordering::Release, Ordering::Relaxed);
    }

    #[cold]
    fn leave_shared(&self, ownership: Ownership) {
        let none = self.owner.load(Ordering::Relaxed) == 0;
        if none && ownership == Ownership::Take && BARRIERS.load(Ordering::Relaxed) {
            self.owner.store(thread_id(), Ordering::Release);
        }
        self.shared.store(false, Ordering::SeqCst);
    }

    /// Whether a thread is inside. To be called after a note for that thread was written.
    pub(crate) fn occupied(&self) -> bool {
        self.barrier();
        self.owner_inside.load(Ordering::SeqCst) || self.shared.load(Ordering::SeqCst)
    }

    /// A barrier in every thread that could be an owner. It cannot fail after registration.
    fn barrier(&self) {
        if BARRIERS.load(Ordering::Relaxed) {
            membarrier(libc::MEMBARRIER_CMD_PRIVATE_EXPEDITED);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::cell::UnsafeCell;
    use core::sync::atomic::AtomicU64;

    /// Owns it as this thread.
    fn owned() -> BiasedLock {
        prepare();
        let biased_lock = BiasedLock::new();
        let entry = biased_lock.enter().unwrap();
        biased_lock.leave(entry, Ownership::Take);
        biased_lock
    }

    #[test]
    fn the_first_to_serve_is_the_owner_until_another_comes() {
        let biased_lock = owned();
        let Some(Entry::Owner) = biased_lock.enter() else {
            assert!(!BARRIERS.load(Ordering::Relaxed));
            println!("skipped: this kernel has no membarrier");
            return;
        };
        assert_eq!(biased_lock.enter(), None, "it is inside");
        let other =
            || std::thread::scope(|scope| scope.spawn(|| biased_lock.enter()).join().unwrap());
        assert_eq!(other(), None, "the owner is inside");
        biased_lock.leave(Entry::Owner, Ownership::Keep);
        assert_eq!(biased_lock.enter(), Some(Entry::Shared), "the ownership has ended");
        assert_eq!(other(), None);
        biased_lock.leave(Entry::Shared, Ownership::Take);
        assert_eq!(biased_lock.enter(), Some(Entry::Shared), "for good");
        biased_lock.leave(Entry::Shared, Ownership::Keep);
        assert_eq!(other(), Some(Entry::Shared));
    }

    #[test]
    fn an_ownership_that_was_given_up_can_be_taken_again() {
        let biased_lock = owned();
        let entry = biased_lock.enter().unwrap();
        biased_lock.leave(entry, Ownership::GiveUp);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                assert_eq!(biased_lock.enter(), Some(Entry::Shared));
                biased_lock.leave(Entry::Shared, Ownership::Take);
                let entry = biased_lock.enter().unwrap();
                assert_eq!(entry == Entry::Owner, BARRIERS.load(Ordering::Relaxed));
                biased_lock.leave(entry, Ownership::Keep);
            });
        });
    }

    #[test]
    fn an_owner_that_is_overtaken_at_the_door_stays_outside() {
        let biased_lock = owned();
        let entry = biased_lock.enter_with(|| {
            let come = || assert_eq!(biased_lock.enter(), Some(Entry::Shared));
            std::thread::scope(|scope| scope.spawn(come).join().unwrap());
        });
        assert!(entry.is_none() || !BARRIERS.load(Ordering::Relaxed), "a stranger is inside");
        biased_lock.leave(Entry::Shared, Ownership::Keep);
        assert_eq!(biased_lock.enter(), Some(Entry::Shared), "it left no trace");
    }

    struct Guarded {
        biased_lock: BiasedLock,
        /// Twice the same number while no thread is inside.
        pair: UnsafeCell<[u64; 2]>,
        torn: AtomicBool,
    }

    // SAFETY: the pair is only touched by the thread that holds the lock.
    unsafe impl Sync for Guarded {}

    impl Guarded {
        /// Whether it entered; it stays inside for some `spins`.
        fn use_it(&self, spins: u32) -> bool {
            let Some(entry) = self.biased_lock.enter() else { return false };
            let first = self.pair.get().cast::<u64>();
            // SAFETY: this thread is inside; the pair is two numbers in a row.
            unsafe {
                let second = first.add(1);
                let torn = first.read_volatile() != second.read_volatile();
                self.torn.fetch_or(torn, Ordering::Relaxed);
                first.write_volatile(first.read_volatile() + 1);
                (0..spins).for_each(|_| std::hint::spin_loop());
                second.write_volatile(second.read_volatile() + 1);
            }
            self.biased_lock.leave(entry, Ownership::Keep);
            true
        }
    }

    /// Another thread enters at every step of an owner's entering and leaving.
    #[test]
    fn owner_and_stranger_are_never_inside_together() {
        const ROUNDS: u64 = 20_000;
        prepare();
        let all: Vec<_> = (0..ROUNDS)
            .map(|_| Guarded {
                biased_lock: BiasedLock::new(),
                pair: UnsafeCell::new([0; 2]),
                torn: AtomicBool::new(false),
            })
            .collect();
        let (begun, done) = (AtomicU64::new(0), AtomicU64::new(0));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for (round, guarded) in (1..).zip(&all) {
                    while begun.load(Ordering::Acquire) < round {
                        std::hint::spin_loop();
                    }
                    (0..round % 61).for_each(|_| std::hint::spin_loop());
                    while !guarded.use_it(300) {}
                    done.store(round, Ordering::Release);
                }
            });
            for (round, guarded) in (1..).zip(&all) {
                let entry = guarded.biased_lock.enter().unwrap();
                guarded.biased_lock.leave(entry, Ownership::Take);
                begun.store(round, Ordering::Release);
                while done.load(Ordering::Acquire) < round {
                    guarded.use_it(0);
                }
            }
        });
        let torn = all.iter().filter(|guarded| guarded.torn.load(Ordering::Relaxed)).count();
        assert_eq!(torn, 0, "two were inside");
    }
}
