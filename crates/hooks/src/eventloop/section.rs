//! One entry for each epoll set: the lists of its sessions, and the critical section that guards
//! them.

use super::connection::{self, LoopConnection, QueueState, TIMEOUT};
use super::table::{Table, Zeroed};
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use headworks_policy::Nanos;
use headworks_region::clock;
use headworks_region::lock::thread_id;
use headworks_region::thread::keeping_errno;

/// Lists of sessions of a set: one for each [`QueueState`] but the first.
const LISTS: usize = 4;

const SPINS: u32 = 200;

/// See the module. All zero bytes are the entry of a descriptor that is no epoll set, or has no
/// clients in it.
#[derive(Debug)]
#[repr(C, align(64))]
pub(super) struct Set {
    /// Thread in the section.
    owner: AtomicU32,
    /// Clients' sockets with our tag.
    tagged: AtomicU32,
    waited: AtomicBool,
    /// The descriptor is an epoll set.
    made: AtomicBool,
    /// Counts the returns from the kernel.
    round: AtomicU32,
    /// First and last of each list, as descriptors plus one.
    first: [AtomicU32; LISTS],
    last: [AtomicU32; LISTS],
    /// When the held sessions were last checked.
    looked_ns: AtomicU64,
}

// SAFETY: atomics.
unsafe impl Zeroed for Set {}

static SETS: Table<Set> = Table::new();

pub(super) fn find(set: i32) -> Option<&'static Set> {
    SETS.find(set)
}

pub(super) fn find_or_make(set: i32) -> Option<&'static Set> {
    SETS.find_or_make(set)
}

impl Set {
    pub(super) fn in_use(&self) -> bool {
        self.tagged.load(Ordering::Acquire) != 0
    }

    pub(super) fn note_waited(&self) {
        if !self.waited.load(Ordering::Relaxed) {
            self.waited.store(true, Ordering::Release);
        }
    }

    /// Whether the hooks see this set's events. Otherwise, the server would get our data instead of
    /// the data that it registered.
    pub(super) fn is_waited(&self) -> bool {
        self.waited.load(Ordering::Acquire)
    }

    pub(super) fn count_tagged(&self, more: bool) {
        if more {
            self.tagged.fetch_add(1, Ordering::AcqRel);
        } else {
            let less = |count: u32| Some(count.saturating_sub(1));
            let _ = self.tagged.fetch_update(Ordering::AcqRel, Ordering::Acquire, less);
        }
    }

    pub(super) fn is_made(&self) -> bool {
        self.made.load(Ordering::Relaxed)
    }

    /// A set was made with this descriptor, or the set that had it is closed.
    pub(super) fn renew(&self, made: bool) {
        self.made.store(made, Ordering::Relaxed);
        self.tagged.store(0, Ordering::Release);
        self.waited.store(false, Ordering::Release);
        for end in self.first.iter().chain(&self.last) {
            end.store(0, Ordering::Relaxed);
        }
    }

    /// Whether this thread is in the section.
    pub(super) fn is_mine(&self) -> bool {
        self.owner.load(Ordering::Relaxed) == thread_id()
    }

    /// Enters the section; `None` if that takes too long, or this thread is in it already.
    pub(super) fn enter(&'static self) -> Option<Section> {
        let me = thread_id();
        for _ in 0..SPINS {
            if self.try_enter(me) {
                return Some(Section(self));
            }
            core::hint::spin_loop();
        }
        self.enter_slowly(me)
    }

    fn try_enter(&self, me: u32) -> bool {
        self.owner.load(Ordering::Relaxed) == 0
            && self.owner.compare_exchange(0, me, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    #[cold]
    fn enter_slowly(&'static self, me: u32) -> Option<Section> {
        let begun = clock::now();
        while self.owner.load(Ordering::Relaxed) != me && clock::now().since(begun) < TIMEOUT {
            if self.try_enter(me) {
                return Some(Section(self));
            }
            // SAFETY: takes nothing.
            keeping_errno(|| unsafe { libc::sched_yield() });
        }
        None
    }
}

/// This thread is in the section of a set, until dropped.
#[derive(Debug)]
pub(super) struct Section(&'static Set);

impl Drop for Section {
    fn drop(&mut self) {
        self.0.owner.store(0, Ordering::Release);
    }
}

/// What may be done to the lists of a set whose section this thread is in.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lists(pub(super) &'static Set);

fn entry(link: u32) -> Option<(i32, &'static LoopConnection)> {
    let fd = i32::try_from(link.checked_sub(1)?).ok()?;
    Some((fd, connection::find(fd)?))
}

impl Section {
    pub(super) fn lists(&self) -> Lists {
        Lists(self.0)
    }
}

impl Lists {
    fn ends(self, queue_state: QueueState) -> Option<(&'static AtomicU32, &'static AtomicU32)> {
        let at = usize::from(queue_state as u8).checked_sub(1)?;
        Some((self.0.first.get(at)?, self.0.last.get(at)?))
    }

    /// The first of a list.
    pub(super) fn first(self, queue_state: QueueState) -> Option<(i32, &'static LoopConnection)> {
        entry(self.ends(queue_state)?.0.load(Ordering::Relaxed))
    }

    /// The one after this.
    pub(super) fn after(
        self,
        connection: &LoopConnection,
    ) -> Option<(i32, &'static LoopConnection)> {
        entry(connection.next.load(Ordering::Relaxed))
    }

    pub(super) fn is_empty(self, queue_state: QueueState) -> bool {
        self.ends(queue_state).is_none_or(|(first, _)| first.load(Ordering::Relaxed) == 0)
    }

    /// Takes an entry out of its list and puts it at the end of another, or of none.
    pub(super) fn put(self, fd: i32, connection: &LoopConnection, queue_state: QueueState) {
        self.take_out(connection);
        let Some((first, last)) = self.ends(queue_state) else { return };
        let me = fd.unsigned_abs() + 1;
        let before = last.load(Ordering::Relaxed);
        connection.previous.store(before, Ordering::Relaxed);
        connection.next.store(0, Ordering::Relaxed);
        match entry(before) {
            Some((_, before)) => before.next.store(me, Ordering::Relaxed),
            None => first.store(me, Ordering::Relaxed),
        }
        last.store(me, Ordering::Relaxed);
        connection.round.store(self.0.round.load(Ordering::Relaxed), Ordering::Relaxed);
        connection.set_queue_state(queue_state);
    }

    /// Begins a round: entries listed from here on differ from earlier ones by its number.
    pub(super) fn next_round(self) {
        let next = self.0.round.load(Ordering::Relaxed).wrapping_add(1);
        self.0.round.store(next, Ordering::Relaxed);
    }

    pub(super) fn is_of_this_round(self, connection: &LoopConnection) -> bool {
        connection.round.load(Ordering::Relaxed) == self.0.round.load(Ordering::Relaxed)
    }

    fn take_out(self, connection: &LoopConnection) {
        let Some((first, last)) = self.ends(connection.queue_state()) else { return };
        let (before, after) =
            (connection.previous.load(Ordering::Relaxed), connection.next.load(Ordering::Relaxed));
        match entry(before) {
            Some((_, neighbour)) => neighbour.next.store(after, Ordering::Relaxed),
            None => first.store(after, Ordering::Relaxed),
        }
        match entry(after) {
            Some((_, neighbour)) => neighbour.previous.store(before, Ordering::Relaxed),
            None => last.store(before, Ordering::Relaxed),
        }
        connection.set_queue_state(QueueState::Out);
    }

    /// When the held sessions were last checked.
    pub(super) fn looked(self) -> Nanos {
        Nanos(self.0.looked_ns.load(Ordering::Relaxed))
    }

    pub(super) fn note_looked(self, now: Nanos) {
        self.0.looked_ns.store(now.0, Ordering::Relaxed);
    }
}
