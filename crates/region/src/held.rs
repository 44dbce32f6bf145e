//! Records of requests that were queued: behind which sessions, for how long, and how it ended.
//!
//! A request that is not queued leaves no record, so below P nothing is written.

use crate::entered::PassReason;
use crate::layout::Region;
use crate::permits::holder;
use crate::ring::{Record, Ring, halves, joined};
use crate::session::{SessionSlot, State};
use core::sync::atomic::{AtomicU32, Ordering};
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

/// See the module.
pub type HeldRing = Ring<HeldRequest, 7, HELD>;

impl Record<7> for HeldRequest {
    const FIELDS: &'static str =
        "session, generation; class, ahead; behind; passed; arrived; admitted; ended";

    fn to_words(&self) -> [u64; 7] {
        let behind = self.behind.iter().rev();
        [
            joined(self.session, self.generation),
            joined(self.class, self.ahead),
            // Slots are few enough for 16 bits each: see below.
            behind.fold(0, |word, session| word << 16 | session.map_or(0, |at| u64::from(at) + 1)),
            self.passed.map_or(0, |reason| reason as u64),
            self.arrived.0,
            self.admitted.0,
            self.ended.0,
        ]
    }

    fn from_words(number: u64, words: [u64; 7]) -> Self {
        let [whose, class, behind, passed, arrived, admitted, ended] = words;
        let (session, generation) = halves(whose);
        let (class, ahead) = halves(class);
        HeldRequest {
            number,
            session,
            generation,
            class,
            ahead,
            behind: core::array::from_fn(|at| named((behind >> (16 * at)) as u16)),
            passed: PassReason::from_word(passed as u32),
            arrived: Nanos(arrived),
            admitted: Nanos(admitted),
            ended: Nanos(ended),
        }
    }
}

fn word(cell: &AtomicU32) -> u32 {
    cell.load(Ordering::Relaxed)
}

// A session's number, and zero for none, fit into 16 bits: slots are small.
const _: () = assert!(headworks_policy::SESSIONS < u16::MAX as usize);

/// A session's number from the number plus one; zero for none.
fn named(word: u16) -> Option<u32> {
    u32::from(word).checked_sub(1)
}

impl SessionSlot {
    /// Behind whom its latest held request waits or waited, and how many waited beside it.
    pub fn waits_behind(&self) -> ([Option<u32>; BEHIND], u32) {
        (self.behind.each_ref().map(|cell| named(cell.load(Ordering::Relaxed))), word(&self.ahead))
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
        let (behind, ahead) = slot.waits_behind();
        self.held.push(&HeldRequest {
            number: 0,
            session,
            generation: word(&slot.generation),
            class: word(&slot.class),
            ahead,
            behind,
            passed: PassReason::from_word(word(&slot.pass_reason)),
            arrived: Nanos(admitted.0.saturating_sub(wait.0)),
            admitted,
            ended,
        });
    }

    /// Requests that were queued since the start.
    pub fn held_requests(&self) -> u64 {
        self.held.count()
    }

    /// The record of a queued request. `None` if it was overwritten or never existed.
    pub fn held_request(&self, number: u64) -> Option<HeldRequest> {
        self.held.get(number)
    }

    /// All records, the latest first.
    pub fn held_records(&self) -> impl Iterator<Item = HeldRequest> {
        self.held.latest()
    }
}
