//! Permits: who has one, who gets one next.
//!
//! A permit is a word: free, or busy with a owner that says whose it is. Sessions take and free them
//! without the lock while nobody waits; the rest happens under the lock, where the policy decides.
//!
//! # The word decides whose a permit is
//! A slot names the permit that its session has, but only the owner in the permit's word makes it so.
//! Whoever frees a permit or gives it on exchanges that very owner: a thread that was stopped for
//! seconds (SIGSTOP, a paused machine) between two instructions may have been taken for dead, and
//! its permit may be a stranger's by now.
//!
//! On its way from one session to the next a permit has the owner [`IN_TRANSFER`]: it belongs to whoever has the
//! lock. If that one dies, all such permits are nobody's (`repair`).

use crate::control::PERMITS;
use crate::futex;
use crate::layout::{Counter, Region};
use crate::session::{SessionSlot, State};
use core::sync::atomic::{AtomicUsize, Ordering, compiler_fence};
use headworks_policy::SESSIONS;
use headworks_policy::gate::{Gate, Next};

pub(crate) const BUSY: u32 = 1 << 31;

/// Mark of a permit that is being given. No session has this number.
pub(crate) const IN_TRANSFER: u32 = SESSIONS as u32;

/// The session that has a permit, if one has. Nobody's slot belongs to a permit that is being given.
pub(crate) fn holder(region: &Region, permit: u32) -> Option<u32> {
    let word = region.permits[permit as usize % PERMITS].word.load(Ordering::Relaxed);
    (word & BUSY != 0).then_some(word & !BUSY)
}

/// The permit that a slot's word names.
pub(crate) fn named(word: u32) -> Option<u32> {
    word.checked_sub(1).filter(|&permit| (permit as usize) < PERMITS)
}

/// Threads to wake once the lock is released.
pub(crate) struct Wakes<'a> {
    region: &'a Region,
    sessions: [u32; 32],
    count: usize,
}

impl<'a> Wakes<'a> {
    fn new(region: &'a Region) -> Self {
        Wakes { region, sessions: [0; 32], count: 0 }
    }

    pub(crate) fn push(&mut self, session: u32) {
        if self.count == self.sessions.len() {
            self.flush();
        }
        self.sessions[self.count] = session;
        self.count += 1;
    }

    fn flush(&mut self) {
        for &session in &self.sessions[..self.count] {
            self.region.wake_session(session);
        }
        self.count = 0;
    }
}

/// A [`Waker`], as a number; zero for none.
static WAKER: AtomicUsize = AtomicUsize::new(0);

/// Tells a session of this process that its turn has come. `false` if it does not know the session, whose thread then sleeps on
/// its slot. Called by whoever grants the turn, with the region's lock released.
pub type Waker = fn(session: u32) -> bool;

/// Says how this process wakes sessions that no thread sleeps for.
pub fn set_waker(waker: Waker) {
    WAKER.store(waker as usize, Ordering::Release);
}

impl Region {
    fn wake_session(&self, session: u32) {
        let waker = WAKER.load(Ordering::Acquire);
        // SAFETY: not zero, so it is what `set_waker` was given.
        let known = waker != 0 && unsafe { core::mem::transmute::<usize, Waker>(waker) }(session);
        if !known {
            futex::wake(&self.sessions[session as usize].state, 1);
        }
    }

    /// Lets a session in with a free permit, the one it held last first. `false` if there is none.
    pub(crate) fn take_free_permit(&self, slot: &SessionSlot) -> bool {
        let mine = self.session_of(slot);
        // It has one that a granter gave back too late: not one more.
        if self.own_permit(mine, slot.permit.load(Ordering::Acquire)).is_some() {
            slot.set_state(State::Running);
            return true;
        }
        let limit = self.control.limit();
        let last_permit = slot.last_permit.load(Ordering::Relaxed);
        let taken = if last_permit < limit && self.claim(last_permit, mine) {
            Some(last_permit)
        } else {
            (0..limit).find(|&permit| self.claim(permit, mine))
        };
        taken.is_some_and(|permit| self.confirm_permit(slot, mine, permit))
    }

    /// The session of this slot has just taken a permit and goes inside. `false` if the permit was taken
    /// for lost meanwhile, because its thread was stopped for seconds before it could say so: it is
    /// somebody else's then, or will be.
    fn confirm_permit(&self, slot: &SessionSlot, session: u32, permit: u32) -> bool {
        let before = slot.state();
        slot.permit.store(permit + 1, Ordering::Relaxed);
        slot.last_permit.store(permit, Ordering::Relaxed);
        slot.set_state(State::Running);
        // The look comes after the stores in the program's order, which a stop between them keeps.
        // A fence between processors would only serve the few nanoseconds in which `reclaim` acts.
        compiler_fence(Ordering::SeqCst);
        if self.own_permit(session, permit + 1).is_some() {
            return true;
        }
        slot.permit.store(0, Ordering::Relaxed);
        slot.move_state(State::Running, before);
        false
    }

    fn session_of(&self, slot: &SessionSlot) -> u32 {
        let start = self.sessions.as_ptr() as usize;
        let offset = core::ptr::from_ref(slot) as usize - start;
        (offset / size_of::<SessionSlot>()) as u32
    }

    fn claim(&self, permit: u32, owner: u32) -> bool {
        let word = &self.permits[permit as usize % PERMITS].word;
        let free = word.load(Ordering::SeqCst);
        free & BUSY == 0
            && word
                .compare_exchange(free, BUSY | owner, Ordering::SeqCst, Ordering::Relaxed)
                .is_ok()
    }

    /// Makes a permit that is held under one owner busy under another. `false` if it is not.
    fn exchange(&self, permit: u32, from: u32, to: u32) -> bool {
        let word = &self.permits[permit as usize].word;
        let (from, to) = (BUSY | from, BUSY | to);
        word.compare_exchange(from, to, Ordering::SeqCst, Ordering::Relaxed).is_ok()
    }

    /// Frees a permit that is held under this owner. `false` if it is not.
    pub(crate) fn release(&self, permit: u32, owner: u32) -> bool {
        let word = &self.permits[permit as usize].word;
        word.compare_exchange(BUSY | owner, owner, Ordering::SeqCst, Ordering::Relaxed).is_ok()
    }

    /// The permit that a slot's word names, if it is really this session's at this moment.
    pub(crate) fn own_permit(&self, session: u32, word: u32) -> Option<u32> {
        let held = |permit: u32| self.permits[permit as usize].word.load(Ordering::Relaxed);
        named(word).filter(|&permit| held(permit) == BUSY | session)
    }

    /// Frees a permit of `session` without the lock, and gives it to somebody if anybody waits. `false`
    /// if it is not that session's: its slot was tampered with, or the permit was taken for lost.
    pub(crate) fn free_permit(&self, session: u32, permit: u32) -> bool {
        if !self.release(permit, session) {
            return false;
        }
        // After the permit is free: see "Nobody is forgotten". Only this one is to be seen to.
        if self.pending.count.load(Ordering::SeqCst) > 0 {
            self.locked(|gate, wakes| {
                if self.claim(permit, IN_TRANSFER) {
                    self.hand_over(gate, wakes, Some(permit));
                }
            });
        }
        true
    }

    /// Takes the permit of a session that leaves into the hand. The lock is held.
    pub(crate) fn take_back(&self, session: u32, slot: &SessionSlot) -> Option<u32> {
        // The word before the slot: a permit in the hand is found at once if this thread dies here.
        let permit = named(slot.permit.load(Ordering::Acquire))
            .filter(|&permit| self.exchange(permit, session, IN_TRANSFER));
        slot.permit.store(0, Ordering::Relaxed);
        permit
    }

    /// Whether a free permit may be taken by whoever comes: nobody waits or is owed one.
    pub(crate) fn is_quiet(&self) -> bool {
        self.pending.count.load(Ordering::Relaxed) == 0
    }

    /// Gives a permit in the hand to whoever needs it first, or frees it if nobody does. Looks at no
    /// other permit: while somebody needs one, none is free. The lock is held.
    pub(crate) fn hand_over(
        &self,
        gate: &mut Gate,
        wakes: &mut Wakes<'_>,
        mut in_transfer: Option<u32>,
    ) {
        let limit = self.control.limit();
        // Each pass gives the permit away or drops an entry: no more passes than there can be sessions.
        for _ in 0..2 * SESSIONS {
            let Some(permit) = in_transfer else { return };
            if permit >= limit {
                self.set_excess(self.excess().saturating_sub(1));
                break;
            }
            in_transfer = if self.excess() > 0 {
                self.replace_excess(limit, permit)
            } else {
                match gate.decide() {
                    Some(next) => self.give(gate, wakes, next, permit),
                    None => break,
                }
            };
        }
        if let Some(permit) = in_transfer {
            self.release(permit, IN_TRANSFER);
        }
    }

    /// Gives free permits to those who need one while there are both. Looks at each permit, on its
    /// own cache line: only for the first who comes to need one, and where permits may have become
    /// free that nobody has in hand. What they need was published before: see "Nobody is forgotten".
    pub(crate) fn scan_permits(&self) {
        for permit in 0..self.control.limit() {
            if self.pending.count.load(Ordering::SeqCst) == 0 {
                return;
            }
            if self.permits[permit as usize].word.load(Ordering::SeqCst) & BUSY != 0 {
                continue;
            }
            let done = self.locked(|gate, wakes| {
                if self.claim(permit, IN_TRANSFER) {
                    self.hand_over(gate, wakes, Some(permit));
                }
            });
            // Whoever has the lock for long keeps nobody here; the daemon looks again.
            if done.is_none() {
                return;
            }
        }
    }

    /// Gives a permit in the hand to whom the policy names; returns it if that one does not take it.
    fn give(&self, gate: &mut Gate, wakes: &mut Wakes<'_>, next: Next, permit: u32) -> Option<u32> {
        let (session, wanted) = match next {
            Next::Admit(turn) => (turn.session, State::Queued),
            Next::Repay(session) => (session, State::Owed),
        };
        let slot = &self.sessions[session as usize];
        // Before anything is booked: whoever went on meanwhile may have a permit of its own.
        let mut in_transfer = Some(permit);
        if slot.state() == wanted {
            self.book(slot, session, permit);
            if let Next::Admit(turn) = next {
                slot.quota.store(turn.quota, Ordering::Relaxed);
                slot.accounted.store(1, Ordering::Relaxed);
            }
            if slot.move_state(wanted, State::Running) {
                if wanted == State::Queued {
                    wakes.push(session);
                }
                return None;
            }
            // Its own thread may have found the booked permit and freed it.
            let (old, none) = (permit + 1, 0);
            let _ = slot.permit.compare_exchange(old, none, Ordering::AcqRel, Ordering::Relaxed);
            in_transfer = self.exchange(permit, session, IN_TRANSFER).then_some(permit);
        }
        if wanted == State::Queued {
            gate.wrr.withdraw(session);
        }
        in_transfer
    }

    fn excess(&self) -> u32 {
        self.lock.excess.load(Ordering::Relaxed)
    }

    fn set_excess(&self, excess: u32) {
        self.lock.excess.store(excess, Ordering::Relaxed);
    }

    /// Counts the busy permits beyond the limit, after the limit changed: with the queue made anew, all
    /// that looks at each permit under the lock. The lock is held.
    pub(crate) fn count_excess(&self) {
        let limit = self.control.limit();
        let beyond = &self.permits[limit as usize..];
        let busy = beyond.iter().filter(|permit| permit.word.load(Ordering::Relaxed) & BUSY != 0);
        self.set_excess(busy.count() as u32);
        self.lock.excess_from.store(limit, Ordering::Relaxed);
    }

    /// Books a permit in the hand on a session that holds one beyond the limit, in exchange for that
    /// one; returns it if there is no such session. No permit is looked at twice, as none beyond the
    /// limit is taken again. The lock is held.
    fn replace_excess(&self, limit: u32, permit: u32) -> Option<u32> {
        let from = self.lock.excess_from.load(Ordering::Relaxed).max(limit);
        for beyond in from..PERMITS as u32 {
            self.lock.excess_from.store(beyond + 1, Ordering::Relaxed);
            let Some(session) = holder(self, beyond) else { continue };
            let Some(slot) = self.session(session) else { continue };
            // Before the slot names it: its session may give it back as soon as it does.
            if !self.exchange(permit, IN_TRANSFER, session) {
                return None;
            }
            let (old, new) = (beyond + 1, permit + 1);
            // Fails if its owner gives it back at this moment.
            if slot.permit.compare_exchange(old, new, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
                slot.last_permit.store(permit, Ordering::Relaxed);
                self.release(beyond, session);
                self.set_excess(self.excess().saturating_sub(1));
                return None;
            }
            if !self.exchange(permit, session, IN_TRANSFER) {
                return None;
            }
        }
        self.set_excess(0);
        Some(permit)
    }

    /// Books a permit in the hand on a session that has none.
    fn book(&self, slot: &SessionSlot, session: u32, permit: u32) {
        slot.last_permit.store(permit, Ordering::Relaxed);
        // The word last: if this thread dies before, the permit is found in its hand; if after, the
        // slot says for whom it was.
        slot.permit.store(permit + 1, Ordering::Release);
        self.exchange(permit, IN_TRANSFER, session);
    }

    /// How many permits are spoken for. The lock is held.
    fn spoken_for(&self, gate: &Gate) -> u32 {
        (gate.pending() as u32).saturating_add(self.excess())
    }

    /// Tells everybody how many permits are spoken for. The lock is held.
    pub(crate) fn publish_pending(&self, gate: &Gate) {
        let spoken_for = self.spoken_for(gate);
        // All look at this word: it is written if it changes.
        if self.pending.count.load(Ordering::Relaxed) != spoken_for {
            self.pending.count.store(spoken_for, Ordering::SeqCst);
        }
    }

    /// Runs `work` on the policy's state with the lock held; `None` if the lock was not to be had.
    pub(crate) fn locked<T>(&self, work: impl FnOnce(&mut Gate, &mut Wakes<'_>) -> T) -> Option<T> {
        let mut wakes = Wakes::new(self);
        let held = self.lock.lock.acquire(|now| self.heartbeat.stale(now))?;
        // SAFETY: the lock is held, so nobody else has a reference to the state. Its fields are
        // integers, valid whatever bytes are there, and it indexes with bounds checks.
        let gate = unsafe { &mut *self.gate.0.get() };
        if held.inherited {
            self.count(Counter::LockInherited);
            self.rebuild(gate, &mut wakes);
        }
        let inherited = held.inherited;
        #[cfg(test)]
        let since = crate::clock::now();
        let result = work(gate, &mut wakes);
        self.publish_pending(gate);
        drop(held);
        #[cfg(test)]
        lock_times::note(crate::clock::now().since(since));
        wakes.flush();
        if inherited {
            self.scan_permits();
        }
        Some(result)
    }
}

#[cfg(test)]
mod lock_times;
#[cfg(test)]
mod tests;
