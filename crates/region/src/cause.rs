//! For whom a thread works, as the gate knows it: the cause of its reads and of the pages that it
//! dirties.
//!
//! # Problem
//! A storage engine may order its I/O by session. At each miss and at each change of a page it must
//! know whose request the calling thread serves. The gate knows. The thread that serves a
//! connection writes its number into the connection's slot when a request comes
//! ([`SessionSlot::thread`]). The slot's state says whether that request is still in hand. What is
//! missing is the way back, from the thread to the slot.
//!
//! # The primitive
//! [`Causes::current`] remembers the slot that it found for this thread last. While that slot still
//! names the thread and a request is in hand, it costs loads of one cache line which the thread
//! itself wrote. Else it looks through the slots that were ever used. Nothing is found for a
//! flusher, or for a thread of a pool, whose slots name none. Such a thread searches again only
//! after 50 times the duration of its search. So it spends 2 % of its time here at most.
//!
//! # What a cause is
//! Slot and generation in one number, never 0. A dirty page may outlive the connection that dirtied
//! it, and must not be charged to the next one in that slot.

use crate::clock;
use crate::layout::Region;
use crate::lock::thread_id;
use crate::session::{SessionSlot, State};
use core::cell::Cell;
use core::sync::atomic::Ordering::Relaxed;
use headworks_policy::{CLASSES, SESSIONS};

/// Bits of a slot's number.
const SLOT_BITS: u32 = SESSIONS.trailing_zeros();
/// Generations told apart: the rest of the number, less the one for "no session".
const GENERATIONS: u32 = (1 << (32 - SLOT_BITS)) - 1;
const _: () = assert!(SESSIONS.is_power_of_two());

/// A search for nothing is not repeated for so many times its duration.
const PAUSE: u64 = 50;

thread_local! {
    /// The slot found last, and when to look again after nothing was found. No slot has the first
    /// number.
    static FOUND: Cell<(u32, u64)> = const { Cell::new((u32::MAX, 0)) };
}

/// Tells for whom threads of this process work.
#[derive(Clone, Copy, Debug)]
pub struct Causes {
    region: &'static Region,
}

impl Causes {
    /// Asks this region.
    #[must_use]
    pub fn new(region: &'static Region) -> Self {
        Self { region }
    }

    /// The cause of the request that the calling thread serves at this moment; 0 for none.
    #[must_use]
    pub fn current(&self) -> u32 {
        let me = thread_id();
        let (last, not_before_ns) = FOUND.get();
        if let Some(slot) = self.region.session(last)
            && serves(slot, me)
        {
            return cause_of(last, slot);
        }
        let start = clock::now();
        if start.0 < not_before_ns {
            return 0;
        }
        match self.search(me) {
            Some((session, slot)) => {
                FOUND.set((session, 0));
                cause_of(session, slot)
            }
            None => {
                let took_ns = clock::now().since(start).0;
                // The slot is kept: the next request may be its again.
                FOUND.set((last, start.0 + took_ns.saturating_mul(PAUSE)));
                0
            }
        }
    }

    /// The slot that names the thread with a request in hand; of several the one admitted last.
    fn search(&self, me: u32) -> Option<(u32, &'static SessionSlot)> {
        let pid = std::process::id();
        (0..self.region.high_water())
            .filter_map(|session| Some((session, self.region.session(session)?)))
            .filter(|(_, slot)| serves(slot, me) && slot.pid.load(Relaxed) == pid)
            .max_by_key(|(_, slot)| slot.admitted_ns.load(Relaxed))
    }

    /// The cause of a session's requests, as [`Causes::current`] gives it.
    #[must_use]
    pub fn of_session(&self, session: u32) -> u32 {
        self.region.session(session).map_or(0, |slot| cause_of(session, slot))
    }

    /// The session behind a cause, if it is still connected.
    #[must_use]
    pub fn session(&self, cause: u32) -> Option<u32> {
        let session = cause.checked_sub(1)? & (SESSIONS as u32 - 1);
        let slot = self.region.session(session)?;
        (slot.state() != State::Free && cause_of(session, slot) == cause).then_some(session)
    }

    /// What a cause weighs among those connected, as a level of the block schedulers. Level 0
    /// (weight 8) is for the classes that weigh most, level 7 (weight 1) for an eighth of that or
    /// less. A cause whose session has left weighs as the first class, which sessions have that no
    /// rule puts elsewhere.
    ///
    /// Where the sessions of a class share its weight, each weighs as the class: the schedulers
    /// have no groups.
    #[must_use]
    pub fn level(&self, cause: u32) -> u8 {
        let weight_of = |class: usize| match self.region.classes.get(class) {
            // A region that no rules were written into has no weights: all are equal.
            Some(slot) => slot.weight.load(Relaxed).max(1),
            None => 1,
        };
        let class = self.session(cause).and_then(|session| self.region.session(session));
        let class = class.map_or(0, |slot| slot.class.load(Relaxed) as usize);
        let most = (0..CLASSES).map(weight_of).max().unwrap_or(1);
        level_for(weight_of(class), most)
    }
}

/// The level whose weight (8 − level) is nearest to `weight` where `most` has 8.
fn level_for(weight: u32, most: u32) -> u8 {
    let (weight, most) = (u64::from(weight), u64::from(most.max(1)));
    let eighths = ((8 * weight + most / 2) / most).clamp(1, 8);
    // 0 to 7.
    (8 - eighths) as u8
}

/// Whether the slot's request in hand is served by this thread.
fn serves(slot: &SessionSlot, thread: u32) -> bool {
    slot.thread.load(Relaxed) == thread
        && matches!(
            slot.state(),
            State::Running | State::Owed | State::Passing | State::Lent | State::Long
        )
}

fn cause_of(session: u32, slot: &SessionSlot) -> u32 {
    ((slot.generation.load(Relaxed) % GENERATIONS) << SLOT_BITS | session) + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_eighths_of_the_greatest_weight() {
        let levels = [1000, 875, 500, 130, 125, 1].map(|weight| level_for(weight, 1000));
        assert_eq!(levels, [0, 1, 4, 7, 7, 7]);
        assert_eq!(level_for(1, 1), 0);
    }
}
