//! What is noted of a request that is queued: behind whom it waits, and how it ended
//! ([`crate::held`]).

use crate::entered::PassReason;
use crate::held::{BEHIND, HeldRequest, named};
use crate::layout::Region;
use crate::permits::holder;
use crate::session::{SessionSlot, State};
use core::sync::atomic::{AtomicU32, Ordering};
use headworks_policy::Nanos;

/// Permits that are read to find them.
const LOOKED_AT: u32 = 64;

fn word(cell: &AtomicU32) -> u32 {
    cell.load(Ordering::Relaxed)
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
