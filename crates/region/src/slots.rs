//! Slots: who has which, and where a free one is.
//!
//! A slot's own words say whether it is in use. A bit for each slot tells a newcomer where to look.
//! It reads 256 words, in 32 cache lines, however many sessions there are, and also if all slots
//! are taken. A thread that dies between writing a slot and its bit leaves a wrong bit. The daemon
//! finds a free slot whose bit is set within a second; a missing bit costs one check.

use crate::layout::Region;
use crate::session::State;
use core::sync::atomic::Ordering;

impl Region {
    /// Takes the first free slot; `None` if there is none.
    pub(crate) fn claim_slot(&self, pid: u32) -> Option<u32> {
        for (at, word) in self.taken.0.iter().enumerate() {
            let mut seen = word.load(Ordering::Relaxed);
            while seen != u64::MAX {
                let bit = 1 << seen.trailing_ones();
                let before = word.fetch_or(bit, Ordering::AcqRel);
                let session = at as u32 * u64::BITS + seen.trailing_ones();
                seen = before | bit;
                // Else another was quicker, or the bit was wrong.
                if before & bit == 0 && self.claim_this(session, pid) {
                    return Some(session);
                }
            }
        }
        None
    }

    /// The process's number is written first, so that a slot in use always says whose it is. So a
    /// check for dead processes never takes a newcomer for the session before it, and finds
    /// processes that died in here.
    fn claim_this(&self, session: u32, pid: u32) -> bool {
        let slot = &self.sessions[session as usize];
        if slot.state.load(Ordering::Acquire) != State::Free as u32 {
            return false;
        }
        // Before anything is written to it: no scan goes beyond the high-water mark.
        if self.high_water() <= session {
            self.extent.high_water.fetch_max(session + 1, Ordering::Relaxed);
        }
        if slot.pid.compare_exchange(0, pid, Ordering::AcqRel, Ordering::Relaxed).is_err() {
            return false;
        }
        slot.move_state(State::Free, State::Idle)
    }

    /// The slot has no owner from here on: its state says so already.
    pub(crate) fn free_slot(&self, session: u32) {
        // Before the bit: who dies before this leaves a slot that says whose it was, and is found.
        self.sessions[session as usize].pid.store(0, Ordering::Release);
        self.mark_free(session);
    }

    fn mark_free(&self, session: u32) {
        let bit = 1 << (session % u64::BITS);
        self.taken.0[(session / u64::BITS) as usize].fetch_and(!bit, Ordering::AcqRel);
    }

    /// Frees a slot whose thread was killed while it claimed or freed it. A newcomer that claims it
    /// at this moment decides by the slot's own words, whatever its bit says.
    pub(crate) fn find_slot_again(&self, session: u32) {
        let slot = &self.sessions[session as usize];
        if slot.state() == State::Free && slot.pid.load(Ordering::Acquire) == 0 {
            self.mark_free(session);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock;
    use crate::common::{region, session};
    use crate::control::PERMITS;
    use crate::layout::Counter;
    use headworks_policy::SESSIONS;

    #[test]
    fn a_full_table_refuses_and_takes_whoever_comes_after_somebody_left() {
        let region = region();
        let all: Vec<u32> = (0..SESSIONS).map(|_| session(region)).collect();
        assert_eq!(all, (0..SESSIONS as u32).collect::<Vec<_>>());
        let come = || region.register(std::process::id(), clock::now());
        assert_eq!((come(), come()), (None, None));
        assert_eq!(region.counter(Counter::SlotTableFull), 2);
        for leaves in [7, SESSIONS as u32 - 1, 4711] {
            region.unregister(leaves);
            assert_eq!((come(), come()), (Some(leaves), None));
        }
    }

    #[test]
    fn a_full_table_is_known_without_a_look_at_the_slots_and_the_daemon_finds_those_that_are_free()
    {
        let region = region();
        let (first, second) = (session(region), session(region));
        // All were taken, and left by processes that were killed over it.
        region.taken.0.iter().for_each(|word| word.store(u64::MAX, Ordering::Relaxed));
        region.unregister(second);
        region.taken.0[0].store(u64::MAX, Ordering::Relaxed);
        assert_eq!(region.register(std::process::id(), clock::now()), None);
        region.reclaim(&mut [0; PERMITS]);
        assert_eq!(session(region), second, "and {first} is taken");
    }

    #[test]
    fn a_bit_that_is_not_set_gives_away_nobodys_slot() {
        let region = region();
        let first = session(region);
        region.taken.0[0].store(0, Ordering::Relaxed);
        assert_ne!(session(region), first);
    }

    #[test]
    fn many_come_and_go_at_once_and_no_slot_is_lost_or_given_twice() {
        let region = region();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..500 {
                        let mine: Vec<u32> = (0..5).map(|_| session(region)).collect();
                        let own = std::process::id();
                        for &session in &mine {
                            let slot = region.session(session).unwrap();
                            assert!(slot.closing.swap(1, Ordering::Relaxed) == 0, "given twice");
                            assert_eq!(slot.pid.load(Ordering::Relaxed), own);
                        }
                        mine.into_iter().for_each(|session| region.unregister(session));
                    }
                });
            }
        });
        assert!(region.taken.0.iter().all(|word| word.load(Ordering::Relaxed) == 0));
        assert!(region.high_water() <= 20);
    }
}
