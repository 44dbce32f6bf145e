//! Putting right what threads left that were killed or stopped in the middle of something.
//!
//! # Where a thread may die
//! Of what is done under the lock, whoever takes it next makes everything anew that follows from the
//! slots and the permits (`rebuild`): the queue, the debts of permits, the count of those beyond P.
//! Three things do not follow from them, and each step of giving a permit is ordered so that they can
//! be told apart:
//!
//! * *A permit in the hand* has a owner of its own ([`IN_TRANSFER`]). Nobody else can have one in hand while
//!   the lock is held, so all of them are free.
//! * *A permit that is booked on a session which has not been told*: its slot names the permit and its
//!   state says that it waits, or is owed one. It is told.
//! * *A permit that no slot knows of*, or one whose session has no use for it: a thread was killed after
//!   it had taken the permit and before its slot said so, or between forgetting it and freeing it. A
//!   thread that is alive may be at that very point, so the daemon looks twice ([`Region::reclaim`]).
//!
//! What was killed without the lock in its hand changes nothing but its own slot and permits; the
//! slot is given back by the daemon once its process or thread is gone.
//!
//! # Where the queue may be wrong
//! A session that does not get the lock is let pass all the same, and its entry may stay in the queue.
//! Whoever comes upon such an entry drops it, but until then it counts as one who needs a permit, and
//! nobody enters without the lock. Hence the second part of [`Region::reclaim`].

use crate::control::PERMITS;
use crate::layout::{Counter, Region};
use crate::permits::{BUSY, IN_TRANSFER, Wakes};
use crate::session::State;
use core::sync::atomic::Ordering;
use headworks_policy::gate::Gate;
use headworks_policy::wrr::ClassShare;

/// Sessions or permits that are looked at while the lock is held once: some microseconds.
const SLICE: usize = 128;

impl Region {
    /// Makes the policy's state anew from the sessions' slots and the permits, after somebody died while
    /// changing it. Debts in requests are lost. The lock is held.
    #[cold]
    pub(crate) fn rebuild(&self, gate: &mut Gate, wakes: &mut Wakes<'_>) {
        gate.clear();
        gate.wrr.set_zeta(self.control.settings().zeta);
        for (class, slot) in self.classes.iter().enumerate() {
            let weight = slot.weight.load(Ordering::Relaxed);
            let shared = slot.shared.load(Ordering::Relaxed) != 0;
            gate.wrr.set_share(class, ClassShare::from_words(weight, shared));
        }
        for permit in 0..PERMITS as u32 {
            if self.release(permit, IN_TRANSFER) {
                self.count(Counter::Reclaimed);
            }
        }
        for (session, slot) in self.sessions[..self.high_water() as usize].iter().enumerate() {
            let session = session as u32;
            gate.wrr.join(session, slot.class.load(Ordering::Relaxed));
            let booked = self.own_permit(session, slot.permit.load(Ordering::Acquire)).is_some();
            match slot.state() {
                State::Queued if booked => {
                    slot.accounted.store(1, Ordering::Relaxed);
                    // Unless it has gone on by itself: it then gives the permit back when it leaves.
                    if slot.move_state(State::Queued, State::Running) {
                        wakes.push(session);
                    }
                }
                State::Queued => gate.wrr.arrive(session),
                State::Owed if booked => {
                    slot.move_state(State::Owed, State::Running);
                }
                State::Owed => gate.grant_next_first(session),
                _ => {}
            }
        }
        self.count_excess();
        // Who comes under the same lock has to know that others need a permit. These get one as soon
        // as it is released.
        self.publish_pending(gate);
    }

    /// Frees the permits whose owners do not know of them or have no use for them: somebody was
    /// killed between two steps. `seen` is what the last look found; only a permit that looks
    /// orphaned twice is freed, because a session writes its slot a moment after the permit.
    ///
    /// Then makes the queue agree with what the sessions do. Called by the daemon every second; without
    /// the lock nothing is done.
    pub fn reclaim(&self, seen: &mut [u32; PERMITS]) {
        let mut go_on = true;
        let mut slices = (0..PERMITS).step_by(SLICE);
        while let Some(from) = slices.next().filter(|_| go_on) {
            go_on = self.reclaim_permits(seen, from..PERMITS.min(from + SLICE));
        }
        let sessions = self.high_water();
        let mut slices = (0..sessions).step_by(SLICE);
        // Whoever has the lock for long keeps the daemon from nothing else.
        while let Some(from) = slices.next().filter(|_| go_on) {
            let slice = from..sessions.min(from + SLICE as u32);
            slice.clone().for_each(|session| self.find_slot_again(session));
            let done =
                self.locked(|gate, _| slice.for_each(|session| self.reconcile(gate, session)));
            go_on = done.is_some();
        }
        self.scan_permits();
    }

    /// Says whether the lock was to be had.
    fn reclaim_permits(&self, seen: &mut [u32; PERMITS], slice: core::ops::Range<usize>) -> bool {
        let done = self.locked(|_, _| {
            for at in slice {
                let permit = &self.permits[at];
                let word = permit.word.load(Ordering::SeqCst);
                let owner = word & !BUSY;
                let orphan = word & BUSY != 0 && !self.is_held(at as u32, owner);
                // Nobody but the one with the lock has a permit in hand.
                let lost = orphan && (seen[at] == word || owner == IN_TRANSFER);
                if lost && self.release(at as u32, owner) {
                    self.count(Counter::Reclaimed);
                }
                seen[at] = if orphan { word } else { 0 };
            }
        });
        done.is_some()
    }

    /// Whether the session with this owner has the permit, and in a state in which it will give it back.
    fn is_held(&self, permit: u32, owner: u32) -> bool {
        let Some(slot) = self.session(owner) else { return false };
        slot.permit.load(Ordering::Acquire) == permit + 1
            && !matches!(slot.state(), State::Free | State::Idle | State::Lent | State::Long)
    }

    /// Makes the queue's entries for a session agree with its state. The lock is held.
    ///
    /// A session that changes its state at this moment takes the lock next: nothing that it finds then
    /// is done a second time.
    fn reconcile(&self, gate: &mut Gate, session: u32) {
        let Some(slot) = self.session(session) else { return };
        let state = slot.state();
        let (waiting, owed) = (gate.wrr.is_waiting(session), gate.is_owed(session));
        if owed && state != State::Owed {
            gate.clear_debt(session);
        }
        match state {
            State::Queued if !waiting => gate.wrr.arrive(session),
            State::Owed if !owed => gate.grant_next_first(session),
            State::Queued => {}
            // In its turn, and backlogged until that ends.
            State::Running | State::Owed | State::Lent | State::Long if !waiting => {}
            // It is no longer backlogged either.
            _ => drop(gate.wrr.withdraw(session)),
        }
    }
}

#[cfg(test)]
mod tests;
