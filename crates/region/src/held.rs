//! Records of requests that were queued: behind which sessions, for how long, and how it ended.
//!
//! A request that is not queued leaves no record, so below P nothing is written. The records are a
//! ring that overwrites its oldest. A reader may miss some, but never reads half of one.

use crate::entered::PassReason;
use crate::layout::Region;
use crate::permits::holder;
use crate::session::{SessionSlot, State};
use core::sync::atomic::{AtomicU16, AtomicU32, AtomicU64, Ordering, fence};
use headworks_policy::Nanos;

/// Records that the ring keeps.
pub const HELD: usize = 4096;

/// Running sessions that a record names: those that had been running for longest.
pub const BEHIND: usize = 4;

/// Permits that are read to find them.
const LOOKED_AT: u32 = 64;

/// One queued request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeldRequest {
    /// Its number: how many were queued before it, over all sessions.
    pub number: u64,
    /// Whose it was, and which session of that slot.
    pub session: u32,
    /// See `session`.
    pub generation: u32,
    /// Index of the class.
    pub class: u32,
    /// Other sessions that were queued or owed a permit when it was queued.
    pub ahead: u32,
    /// Sessions that ran at that moment, the longest-running ones first.
    pub behind: [Option<u32>; BEHIND],
    /// Why it passed, if it was not admitted.
    pub passed: Option<PassReason>,
    /// When it arrived.
    pub arrived: Nanos,
    /// When it was admitted or passed.
    pub admitted: Nanos,
    /// When the server came back for the next one.
    pub ended: Nanos,
}

#[derive(Debug)]
#[repr(C)]
struct Entry {
    stamp: AtomicU64,
    session: AtomicU32,
    generation: AtomicU32,
    class: AtomicU32,
    ahead: AtomicU32,
    behind: [AtomicU16; BEHIND],
    passed: AtomicU32,
    _pad: AtomicU32,
    arrived_ns: AtomicU64,
    admitted_ns: AtomicU64,
    ended_ns: AtomicU64,
}

/// See the module. All zero bytes: no record.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct HeldRing {
    head: AtomicU64,
    entries: [Entry; HELD],
}

headworks_policy::layout!(Entry {
    stamp,
    session,
    generation,
    class,
    ahead,
    behind,
    passed,
    _pad,
    arrived_ns,
    admitted_ns,
    ended_ns,
});
headworks_policy::layout!(HeldRing { head, entries });

fn word(cell: &AtomicU32) -> u32 {
    cell.load(Ordering::Relaxed)
}

// A session's number, and zero for none, fit into 16 bits: slots are small.
const _: () = assert!(headworks_policy::SESSIONS < u16::MAX as usize);

fn named(cells: &[AtomicU16; BEHIND]) -> [Option<u32>; BEHIND] {
    core::array::from_fn(|at| u32::from(cells[at].load(Ordering::Relaxed)).checked_sub(1))
}

impl SessionSlot {
    /// Behind whom its latest held request waits or waited, and how many waited beside it.
    pub fn waits_behind(&self) -> ([Option<u32>; BEHIND], u32) {
        (named(&self.behind), word(&self.ahead))
    }
}

impl Region {
    /// A request of this session is queued: notes which sessions run. Called by its thread before
    /// it sleeps.
    #[cold]
    pub(crate) fn note_wait(&self, slot: &SessionSlot) {
        let mut oldest = [(u64::MAX, 0u32); BEHIND];
        for permit in 0..self.control.limit().min(LOOKED_AT) {
            let Some(session) = holder(self, permit) else { continue };
            let Some(other) = self.session(session).filter(|other| other.state() != State::Free)
            else {
                continue;
            };
            // Inside for longest first.
            let mut entry = (other.admitted_ns.load(Ordering::Relaxed), session + 1);
            for place in &mut oldest {
                if entry.0 < place.0 {
                    core::mem::swap(place, &mut entry);
                }
            }
        }
        for (to, (_, session)) in slot.behind.iter().zip(oldest) {
            // It fits: see above.
            to.store(session as u16, Ordering::Relaxed);
        }
        slot.ahead.store(self.pending().saturating_sub(1), Ordering::Relaxed);
        slot.waits.store(1, Ordering::Relaxed);
        slot.pass_reason.store(0, Ordering::Relaxed);
    }

    /// A request is over: records it if it was queued. One that passed at once was not.
    #[cold]
    pub fn note_held(&self, session: u32, wait: Nanos, admitted: Nanos, ended: Nanos) {
        let Some(slot) = self.session(session) else { return };
        if word(&slot.waits) == 0 {
            return;
        }
        slot.waits.store(0, Ordering::Relaxed);
        let number = self.held.head.fetch_add(1, Ordering::Relaxed);
        let entry = &self.held.entries[number as usize % HELD];
        entry.stamp.store(0, Ordering::Relaxed);
        fence(Ordering::Release);
        for (to, from) in [
            (&entry.session, session),
            (&entry.generation, word(&slot.generation)),
            (&entry.class, word(&slot.class)),
            (&entry.ahead, word(&slot.ahead)),
            (&entry.passed, word(&slot.pass_reason)),
        ] {
            to.store(from, Ordering::Relaxed);
        }
        for (to, from) in entry.behind.iter().zip(&slot.behind) {
            to.store(from.load(Ordering::Relaxed), Ordering::Relaxed);
        }
        entry.arrived_ns.store(admitted.0.saturating_sub(wait.0), Ordering::Relaxed);
        entry.admitted_ns.store(admitted.0, Ordering::Relaxed);
        entry.ended_ns.store(ended.0, Ordering::Relaxed);
        entry.stamp.store(number + 1, Ordering::Release);
    }

    /// Requests that were queued since the start.
    pub fn held_requests(&self) -> u64 {
        self.held.head.load(Ordering::Relaxed)
    }

    /// The record of a queued request. `None` if it was overwritten or never existed.
    pub fn held_request(&self, number: u64) -> Option<HeldRequest> {
        let entry = &self.held.entries[number as usize % HELD];
        if entry.stamp.load(Ordering::Acquire) != number + 1 {
            return None;
        }
        let time = |cell: &AtomicU64| Nanos(cell.load(Ordering::Relaxed));
        let record = HeldRequest {
            number,
            session: word(&entry.session),
            generation: word(&entry.generation),
            class: word(&entry.class),
            ahead: word(&entry.ahead),
            behind: named(&entry.behind),
            passed: PassReason::from_word(word(&entry.passed)),
            arrived: time(&entry.arrived_ns),
            admitted: time(&entry.admitted_ns),
            ended: time(&entry.ended_ns),
        };
        fence(Ordering::Acquire);
        (entry.stamp.load(Ordering::Relaxed) == number + 1).then_some(record)
    }

    /// All records, the latest first.
    pub fn held_records(&self) -> impl Iterator<Item = HeldRequest> {
        let head = self.held_requests();
        (head.saturating_sub(HELD as u64)..head)
            .rev()
            .filter_map(|number| self.held_request(number))
    }
}
