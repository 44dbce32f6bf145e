//! Repairs what threads left behind that were killed or stopped in the middle of an operation.
//!
//! # Where a thread may die
//! Most state under the lock follows from the slots and the permits: the queue, the debts of
//! permits, the count of permits beyond P. The next owner of the lock rebuilds it (`rebuild`).
//! Three things do not follow from them. Each step of granting a permit is ordered so that they can
//! be told apart:
//!
//! * *A permit in transfer* has a special owner id ([`IN_TRANSFER`]). Only the owner of the lock
//!   has permits in transfer, so all of them are free.
//! * *A permit that is assigned to a session which was not woken*: its slot names the permit, and
//!   its state says that it is queued or owed one. It is woken.
//! * *A permit that no slot names*, or whose session does not need it. A thread was killed between
//!   taking the permit and writing its slot, or between clearing its slot and freeing the permit. A
//!   live thread may be at that very point, so the daemon checks twice ([`Region::reclaim`]).
//!
//! A thread that is killed without the lock has changed nothing but its own slot and permit. The
//! daemon frees the slot once the process or thread is gone.
//!
//! # Where the queue may be wrong
//! A session that does not get the lock passes, and its entry may stay in the queue. The next
//! thread that finds such an entry drops it. Until then it counts as a session that needs a permit,
//! and no session is admitted without the lock. The second part of [`Region::reclaim`] removes it.

use crate::clock;
use crate::control::PERMITS;
use crate::layout::{Counter, Region};
use crate::permits::{BUSY, IN_TRANSFER, Wakes};
use crate::session::State;
use core::sync::atomic::Ordering;
use headworks_policy::gate::Gate;
use headworks_policy::wrr::ClassShare;

/// Sessions or permits that are checked under one hold of the lock: some microseconds.
const SLICE: usize = 128;

impl Region {
    /// Rebuilds the policy's state from the sessions' slots and the permits, after a thread died
    /// while it changed it. Debts in requests are lost. The lock is held.
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
                    slot.admitted_ns.store(clock::now().0, Ordering::Relaxed);
                    // Unless it passed meanwhile: it then gives the permit back when it leaves.
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
        // Code that runs under the same lock has to know that sessions need a permit. They are
        // granted one as soon as the lock is released.
        self.publish_pending(gate);
    }

    /// Frees permits whose owners do not name them or do not need them: a thread was killed between
    /// two steps. A session writes its slot a moment after the permit, so a permit is freed only if
    /// two checks in a row find it orphaned. `seen` holds what the last check found.
    ///
    /// Then makes the queue agree with the sessions' states. Called by the daemon every second.
    /// Does nothing if the lock is busy.
    pub fn reclaim(&self, seen: &mut [u32; PERMITS]) {
        let mut got_lock = true;
        let mut slices = (0..PERMITS).step_by(SLICE);
        while let Some(from) = slices.next().filter(|_| got_lock) {
            got_lock = self.reclaim_permits(seen, from..PERMITS.min(from + SLICE));
        }
        let sessions = self.high_water();
        let mut slices = (0..sessions).step_by(SLICE);
        // A lock that is held for long does not delay the daemon's other work.
        while let Some(from) = slices.next().filter(|_| got_lock) {
            let slice = from..sessions.min(from + SLICE as u32);
            slice.clone().for_each(|session| self.find_slot_again(session));
            let done =
                self.locked(|gate, _| slice.for_each(|session| self.reconcile(gate, session)));
            got_lock = done.is_some();
        }
        self.scan_permits();
    }

    /// Returns whether it got the lock.
    fn reclaim_permits(&self, seen: &mut [u32; PERMITS], slice: core::ops::Range<usize>) -> bool {
        let done = self.locked(|_, _| {
            for at in slice {
                let permit = &self.permits[at];
                let word = permit.word.load(Ordering::SeqCst);
                let owner = word & !BUSY;
                let orphan = word & BUSY != 0 && !self.is_held(at as u32, owner);
                // Only the owner of the lock has permits in transfer.
                let lost = orphan && (seen[at] == word || owner == IN_TRANSFER);
                if lost && self.release(at as u32, owner) {
                    self.count(Counter::Reclaimed);
                }
                seen[at] = if orphan { word } else { 0 };
            }
        });
        done.is_some()
    }

    /// Whether this session has the permit and is in a state in which it will give it back.
    fn is_held(&self, permit: u32, owner: u32) -> bool {
        let Some(slot) = self.session(owner) else { return false };
        slot.permit.load(Ordering::Acquire) == permit + 1
            && !matches!(slot.state(), State::Free | State::Idle | State::Lent | State::Long)
    }

    /// Makes the queue's entries for a session agree with its state. The lock is held.
    ///
    /// A session that changes its state at this moment takes the lock next. What it finds done then
    /// is not done again.
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
