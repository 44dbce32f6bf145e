//! Permits: who has one, who gets one next.
//!
//! A permit is a word: free, or busy with the id of its owner. Sessions take and free permits
//! without the lock while no session is queued. Everything else happens under the lock, where the
//! policy decides.
//!
//! # The word decides whose a permit is
//! A slot names the permit that its session has, but only the owner id in the permit's word counts.
//! A thread that frees or grants a permit exchanges that id. A thread that was stopped for seconds
//! (SIGSTOP, a paused machine) between two instructions may have been taken for dead. Its permit
//! may then belong to another session.
//!
//! A permit on its way from one session to the next has the owner id [`IN_TRANSFER`] and belongs to
//! the thread that holds the lock. If that thread dies, `repair` frees the permits in transfer.

use crate::clock;
use crate::control::PERMITS;
use crate::futex;
use crate::layout::{Counter, Region};
use crate::session::{SessionSlot, State};
use core::sync::atomic::{AtomicUsize, Ordering, compiler_fence};
use headworks_policy::SESSIONS;
use headworks_policy::gate::{Gate, Next};

pub(crate) const BUSY: u32 = 1 << 31;

/// Owner id of a permit in transfer. No session has this number.
pub(crate) const IN_TRANSFER: u32 = SESSIONS as u32;

/// The session that has the permit, if one has. No slot belongs to a permit in transfer.
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

/// Tells a session of this process that it was admitted. `false` if the process does not know the
/// session, whose thread then sleeps on its slot. Called by the granter after it released the
/// region's lock.
pub type Waker = fn(session: u32) -> bool;

/// Sets how this process wakes sessions that no thread sleeps for.
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

    /// Takes a free permit for a session, the one that it held last if possible. `false` if none is
    /// free.
    pub(crate) fn take_free_permit(&self, slot: &SessionSlot) -> bool {
        let mine = self.session_of(slot);
        // It has a permit already: a granter was late.
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

    /// The session of this slot has just taken a permit: writes that into the slot. `false` if the
    /// permit was reclaimed meanwhile, because the thread was stopped for seconds before it could
    /// write the slot. The permit belongs to another session then, or will.
    fn confirm_permit(&self, slot: &SessionSlot, session: u32, permit: u32) -> bool {
        let before = slot.state();
        slot.permit.store(permit + 1, Ordering::Relaxed);
        slot.last_permit.store(permit, Ordering::Relaxed);
        slot.set_state(State::Running);
        // The check comes after the stores in program order, which a stop between them keeps. A
        // fence between processors would only cover the few nanoseconds in which `reclaim` runs.
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

    /// Changes a permit's owner. `false` if it has another owner than `from`.
    fn exchange(&self, permit: u32, from: u32, to: u32) -> bool {
        let word = &self.permits[permit as usize].word;
        let (from, to) = (BUSY | from, BUSY | to);
        word.compare_exchange(from, to, Ordering::SeqCst, Ordering::Relaxed).is_ok()
    }

    /// Frees a permit. `false` if it has another owner.
    pub(crate) fn release(&self, permit: u32, owner: u32) -> bool {
        let word = &self.permits[permit as usize].word;
        word.compare_exchange(BUSY | owner, owner, Ordering::SeqCst, Ordering::Relaxed).is_ok()
    }

    /// The permit that a slot's word names, if it belongs to this session at this moment.
    pub(crate) fn own_permit(&self, session: u32, word: u32) -> Option<u32> {
        let held = |permit: u32| self.permits[permit as usize].word.load(Ordering::Relaxed);
        named(word).filter(|&permit| held(permit) == BUSY | session)
    }

    /// Frees a session's permit without the lock, and grants it to another if any is queued.
    /// `false` if the permit is not the session's: its slot was overwritten, or the permit was
    /// reclaimed.
    pub(crate) fn free_permit(&self, session: u32, permit: u32) -> bool {
        if !self.release(permit, session) {
            return false;
        }
        // After the permit is free: see "No session is forgotten". Only this permit needs handling.
        if self.pending.count.load(Ordering::SeqCst) > 0 {
            self.locked(|gate, wakes| {
                if self.claim(permit, IN_TRANSFER) {
                    self.hand_over(gate, wakes, Some(permit));
                }
            });
        }
        true
    }

    /// Puts the permit of a leaving session into transfer. The lock is held.
    pub(crate) fn take_back(&self, session: u32, slot: &SessionSlot) -> Option<u32> {
        // The permit's word before the slot: if this thread dies here, the permit is found in
        // transfer.
        let permit = named(slot.permit.load(Ordering::Acquire))
            .filter(|&permit| self.exchange(permit, session, IN_TRANSFER));
        slot.permit.store(0, Ordering::Relaxed);
        permit
    }

    /// Whether a free permit may be taken without the lock: no session is queued or owed one.
    pub(crate) fn is_quiet(&self) -> bool {
        self.pending.count.load(Ordering::Relaxed) == 0
    }

    /// Grants a permit in transfer to the session that is next, or frees it if none needs one.
    /// Scans no other permit: while a session needs one, none is free. The lock is held.
    pub(crate) fn hand_over(
        &self,
        gate: &mut Gate,
        wakes: &mut Wakes<'_>,
        mut in_transfer: Option<u32>,
    ) {
        let limit = self.control.limit();
        // Each pass grants the permit or drops an entry: at most as many passes as there are
        // sessions.
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
                    Some(next) => self.grant(gate, wakes, next, permit),
                    None => break,
                }
            };
        }
        if let Some(permit) = in_transfer {
            self.release(permit, IN_TRANSFER);
        }
    }

    /// Grants free permits to sessions that need one, as long as there are both. Reads each
    /// permit's cache line. Used by the first session that comes to need a permit, and where
    /// permits may have become free outside a transfer. `pending` was raised before: see "No
    /// session is forgotten".
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
            // If the lock is held for long, the daemon scans again.
            if done.is_none() {
                return;
            }
        }
    }

    /// Grants a permit in transfer to the session that the policy chose. Returns the permit if that
    /// session does not take it.
    fn grant(
        &self,
        gate: &mut Gate,
        wakes: &mut Wakes<'_>,
        next: Next,
        permit: u32,
    ) -> Option<u32> {
        let (session, wanted) = match next {
            Next::Admit(turn) => (turn.session, State::Queued),
            Next::Repay(session) => (session, State::Owed),
        };
        let slot = &self.sessions[session as usize];
        // Before the permit is assigned: the session may have got another one meanwhile.
        let mut in_transfer = Some(permit);
        if slot.state() == wanted {
            self.assign(slot, session, permit);
            if let Next::Admit(turn) = next {
                slot.quota.store(turn.quota, Ordering::Relaxed);
                slot.accounted.store(1, Ordering::Relaxed);
                // Its thread may wake much later.
                slot.admitted_ns.store(clock::now().0, Ordering::Relaxed);
            }
            if slot.move_state(wanted, State::Running) {
                if wanted == State::Queued {
                    wakes.push(session);
                }
                return None;
            }
            // Its own thread may have found the assigned permit and freed it.
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

    /// Counts the busy permits beyond the limit, after the limit changed. This and a rebuilt queue
    /// are all that reads each permit under the lock. The lock is held.
    pub(crate) fn count_excess(&self) {
        let limit = self.control.limit();
        let beyond = &self.permits[limit as usize..];
        let busy = beyond.iter().filter(|permit| permit.word.load(Ordering::Relaxed) & BUSY != 0);
        self.set_excess(busy.count() as u32);
        self.lock.excess_from.store(limit, Ordering::Relaxed);
    }

    /// Assigns a permit in transfer to a session that holds one beyond the limit, in exchange for
    /// that one. Returns the permit if there is no such session. Reads no permit twice, as none
    /// beyond the limit is taken again. The lock is held.
    fn replace_excess(&self, limit: u32, permit: u32) -> Option<u32> {
        let from = self.lock.excess_from.load(Ordering::Relaxed).max(limit);
        for beyond in from..PERMITS as u32 {
            self.lock.excess_from.store(beyond + 1, Ordering::Relaxed);
            let Some(session) = holder(self, beyond) else { continue };
            let Some(slot) = self.session(session) else { continue };
            // Before the slot names it: the session may give it back as soon as it does.
            if !self.exchange(permit, IN_TRANSFER, session) {
                return None;
            }
            let (old, new) = (beyond + 1, permit + 1);
            // Fails if the owner gives it back at this moment.
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

    /// Assigns a permit in transfer to a session that has none.
    fn assign(&self, slot: &SessionSlot, session: u32, permit: u32) {
        slot.last_permit.store(permit, Ordering::Relaxed);
        // The permit's word last. If this thread dies before that, the permit is found in transfer;
        // if after, the slot says whose it is.
        slot.permit.store(permit + 1, Ordering::Release);
        self.exchange(permit, IN_TRANSFER, session);
    }

    /// How many permits are needed: by queued sessions, by owed ones, and for those beyond P. The
    /// lock is held.
    fn permits_needed(&self, gate: &Gate) -> u32 {
        (gate.pending() as u32).saturating_add(self.excess())
    }

    /// Publishes how many permits are needed. The lock is held.
    pub(crate) fn publish_pending(&self, gate: &Gate) {
        let permits_needed = self.permits_needed(gate);
        // All threads read this word: it is written only if it changes.
        if self.pending.count.load(Ordering::Relaxed) != permits_needed {
            self.pending.count.store(permits_needed, Ordering::SeqCst);
        }
    }

    /// Runs `work` on the policy's state with the lock held. `None` if the lock was busy for too
    /// long.
    pub(crate) fn locked<T>(&self, work: impl FnOnce(&mut Gate, &mut Wakes<'_>) -> T) -> Option<T> {
        let mut wakes = Wakes::new(self);
        let held = self.lock.lock.acquire(|now| self.heartbeat.stale(now))?;
        // SAFETY: the lock is held, so no other thread has a reference to the state. Its fields are
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
