//! Tokens: who has one, who gets one next.
//!
//! A token is a word: free, or busy with a mark that says whose it is. Users take and free them
//! without the lock while nobody waits; the rest happens under the lock, where the policy decides.
//!
//! # The word decides whose a token is
//! A slot names the token that its user has, but only the mark in the token's word makes it so.
//! Whoever frees a token or gives it on exchanges that very mark: a thread that was stopped for
//! seconds (SIGSTOP, a paused machine) between two instructions may have been taken for dead, and
//! its token may be a stranger's by now.
//!
//! On its way from one user to the next a token has the mark [`HAND`]: it belongs to whoever has the
//! lock. If that one dies, all such tokens are nobody's (`repair`).

use crate::control::TOKENS;
use crate::futex;
use crate::layout::{Counter, Region};
use crate::user::{State, UserSlot};
use core::sync::atomic::{AtomicUsize, Ordering, compiler_fence};
use headworks_policy::USERS;
use headworks_policy::gate::{Gate, Next};

pub(crate) const BUSY: u32 = 1 << 31;

/// Mark of a token that is being given. No user has this number.
pub(crate) const HAND: u32 = USERS as u32;

/// The user that has a token, if one has. Nobody's slot belongs to a token that is being given.
pub(crate) fn holder(region: &Region, token: u32) -> Option<u32> {
    let word = region.tokens[token as usize % TOKENS].word.load(Ordering::Relaxed);
    (word & BUSY != 0).then_some(word & !BUSY)
}

/// The token that a slot's word names.
pub(crate) fn named(word: u32) -> Option<u32> {
    word.checked_sub(1).filter(|&token| (token as usize) < TOKENS)
}

/// Threads to wake once the lock is released.
pub(crate) struct Wakes<'a> {
    region: &'a Region,
    users: [u32; 32],
    count: usize,
}

impl<'a> Wakes<'a> {
    fn new(region: &'a Region) -> Self {
        Wakes { region, users: [0; 32], count: 0 }
    }

    pub(crate) fn push(&mut self, user: u32) {
        if self.count == self.users.len() {
            self.flush();
        }
        self.users[self.count] = user;
        self.count += 1;
    }

    fn flush(&mut self) {
        for &user in &self.users[..self.count] {
            self.region.wake_user(user);
        }
        self.count = 0;
    }
}

/// A [`Waker`], as a number; zero for none.
static WAKER: AtomicUsize = AtomicUsize::new(0);

/// Tells a user of this process that its turn has come. `false` if it does not know the user, whose thread then sleeps on
/// its slot. Called by whoever grants the turn, with the region's lock released.
pub type Waker = fn(user: u32) -> bool;

/// Says how this process wakes users that no thread sleeps for.
pub fn set_waker(waker: Waker) {
    WAKER.store(waker as usize, Ordering::Release);
}

impl Region {
    fn wake_user(&self, user: u32) {
        let waker = WAKER.load(Ordering::Acquire);
        // SAFETY: not zero, so it is what `set_waker` was given.
        let known = waker != 0 && unsafe { core::mem::transmute::<usize, Waker>(waker) }(user);
        if !known {
            futex::wake(&self.users[user as usize].state, 1);
        }
    }

    /// Lets a user in with a free token, the favourite first. `false` if there is none.
    pub(crate) fn go_inside(&self, slot: &UserSlot) -> bool {
        let mine = self.mark_of(slot);
        // It has one that a granter gave back too late: not one more.
        if self.own_token(mine, slot.token.load(Ordering::Acquire)).is_some() {
            slot.set_state(State::Inside);
            return true;
        }
        let limit = self.control.limit();
        let favourite = slot.favourite.load(Ordering::Relaxed);
        let taken = if favourite < limit && self.claim(favourite, mine) {
            Some(favourite)
        } else {
            (0..limit).find(|&token| self.claim(token, mine))
        };
        taken.is_some_and(|token| self.settle_in(slot, mine, token))
    }

    /// The user of this slot has just taken a token and goes inside. `false` if the token was taken
    /// for lost meanwhile, because its thread was stopped for seconds before it could say so: it is
    /// somebody else's then, or will be.
    fn settle_in(&self, slot: &UserSlot, user: u32, token: u32) -> bool {
        let before = slot.state();
        slot.token.store(token + 1, Ordering::Relaxed);
        slot.favourite.store(token, Ordering::Relaxed);
        slot.set_state(State::Inside);
        // The look comes after the stores in the program's order, which a stop between them keeps.
        // A fence between processors would only serve the few nanoseconds in which `reclaim` acts.
        compiler_fence(Ordering::SeqCst);
        if self.own_token(user, token + 1).is_some() {
            return true;
        }
        slot.token.store(0, Ordering::Relaxed);
        slot.move_state(State::Inside, before);
        false
    }

    fn mark_of(&self, slot: &UserSlot) -> u32 {
        let start = self.users.as_ptr() as usize;
        let offset = core::ptr::from_ref(slot) as usize - start;
        (offset / size_of::<UserSlot>()) as u32
    }

    fn claim(&self, token: u32, mark: u32) -> bool {
        let word = &self.tokens[token as usize % TOKENS].word;
        let free = word.load(Ordering::SeqCst);
        free & BUSY == 0
            && word.compare_exchange(free, BUSY | mark, Ordering::SeqCst, Ordering::Relaxed).is_ok()
    }

    /// Makes a token that is held under one mark busy under another. `false` if it is not.
    fn exchange(&self, token: u32, from: u32, to: u32) -> bool {
        let word = &self.tokens[token as usize].word;
        let (from, to) = (BUSY | from, BUSY | to);
        word.compare_exchange(from, to, Ordering::SeqCst, Ordering::Relaxed).is_ok()
    }

    /// Frees a token that is held under this mark. `false` if it is not.
    pub(crate) fn release(&self, token: u32, mark: u32) -> bool {
        let word = &self.tokens[token as usize].word;
        word.compare_exchange(BUSY | mark, mark, Ordering::SeqCst, Ordering::Relaxed).is_ok()
    }

    /// The token that a slot's word names, if it is really this user's at this moment.
    pub(crate) fn own_token(&self, user: u32, word: u32) -> Option<u32> {
        let held = |token: u32| self.tokens[token as usize].word.load(Ordering::Relaxed);
        named(word).filter(|&token| held(token) == BUSY | user)
    }

    /// Frees a token of `user` without the lock, and gives it to somebody if anybody waits. `false`
    /// if it is not that user's: its slot was tampered with, or the token was taken for lost.
    pub(crate) fn free_token(&self, user: u32, token: u32) -> bool {
        if !self.release(token, user) {
            return false;
        }
        // After the token is free: see "Nobody is forgotten". Only this one is to be seen to.
        if self.pending.count.load(Ordering::SeqCst) > 0 {
            self.locked(|gate, wakes| {
                if self.claim(token, HAND) {
                    self.hand_over(gate, wakes, Some(token));
                }
            });
        }
        true
    }

    /// Takes the token of a user that leaves into the hand. The lock is held.
    pub(crate) fn take_back(&self, user: u32, slot: &UserSlot) -> Option<u32> {
        // The word before the slot: a token in the hand is found at once if this thread dies here.
        let token = named(slot.token.load(Ordering::Acquire))
            .filter(|&token| self.exchange(token, user, HAND));
        slot.token.store(0, Ordering::Relaxed);
        token
    }

    /// Whether a free token may be taken by whoever comes: nobody waits or is owed one.
    pub(crate) fn is_quiet(&self) -> bool {
        self.pending.count.load(Ordering::Relaxed) == 0
    }

    /// Gives a token in the hand to whoever needs it first, or frees it if nobody does. Looks at no
    /// other token: while somebody needs one, none is free. The lock is held.
    pub(crate) fn hand_over(
        &self,
        gate: &mut Gate,
        wakes: &mut Wakes<'_>,
        mut in_hand: Option<u32>,
    ) {
        let limit = self.control.limit();
        // Each pass gives the token away or drops an entry: no more passes than there can be users.
        for _ in 0..2 * USERS {
            let Some(token) = in_hand else { return };
            if token >= limit {
                self.set_excess(self.excess().saturating_sub(1));
                break;
            }
            in_hand = if self.excess() > 0 {
                self.replace_excess(limit, token)
            } else {
                match gate.decide() {
                    Some(next) => self.give(gate, wakes, next, token),
                    None => break,
                }
            };
        }
        if let Some(token) = in_hand {
            self.release(token, HAND);
        }
    }

    /// Gives free tokens to those who need one while there are both. Looks at each token, on its
    /// own cache line: only for the first who comes to need one, and where tokens may have become
    /// free that nobody has in hand. What they need was published before: see "Nobody is forgotten".
    pub(crate) fn sweep(&self) {
        for token in 0..self.control.limit() {
            if self.pending.count.load(Ordering::SeqCst) == 0 {
                return;
            }
            if self.tokens[token as usize].word.load(Ordering::SeqCst) & BUSY != 0 {
                continue;
            }
            let done = self.locked(|gate, wakes| {
                if self.claim(token, HAND) {
                    self.hand_over(gate, wakes, Some(token));
                }
            });
            // Whoever has the lock for long keeps nobody here; the daemon looks again.
            if done.is_none() {
                return;
            }
        }
    }

    /// Gives a token in the hand to whom the policy names; returns it if that one does not take it.
    fn give(&self, gate: &mut Gate, wakes: &mut Wakes<'_>, next: Next, token: u32) -> Option<u32> {
        let (user, wanted) = match next {
            Next::Admit(turn) => (turn.user, State::Waiting),
            Next::Settle(user) => (user, State::Overdraft),
        };
        let slot = &self.users[user as usize];
        // Before anything is booked: whoever went on meanwhile may have a token of its own.
        let mut in_hand = Some(token);
        if slot.state() == wanted {
            self.book(slot, user, token);
            if let Next::Admit(turn) = next {
                slot.quota.store(turn.quota, Ordering::Relaxed);
                slot.accounted.store(1, Ordering::Relaxed);
            }
            if slot.move_state(wanted, State::Inside) {
                if wanted == State::Waiting {
                    wakes.push(user);
                }
                return None;
            }
            // Its own thread may have found the booked token and freed it.
            let (old, none) = (token + 1, 0);
            let _ = slot.token.compare_exchange(old, none, Ordering::AcqRel, Ordering::Relaxed);
            in_hand = self.exchange(token, user, HAND).then_some(token);
        }
        if wanted == State::Waiting {
            gate.wrr.withdraw(user);
        }
        in_hand
    }

    fn excess(&self) -> u32 {
        self.lock.excess.load(Ordering::Relaxed)
    }

    fn set_excess(&self, excess: u32) {
        self.lock.excess.store(excess, Ordering::Relaxed);
    }

    /// Counts the busy tokens beyond the limit, after the limit changed: with the queue made anew, all
    /// that looks at each token under the lock. The lock is held.
    pub(crate) fn count_excess(&self) {
        let limit = self.control.limit();
        let beyond = &self.tokens[limit as usize..];
        let busy = beyond.iter().filter(|token| token.word.load(Ordering::Relaxed) & BUSY != 0);
        self.set_excess(busy.count() as u32);
        self.lock.excess_from.store(limit, Ordering::Relaxed);
    }

    /// Books a token in the hand on a user that holds one beyond the limit, in exchange for that
    /// one; returns it if there is no such user. No token is looked at twice, as none beyond the
    /// limit is taken again. The lock is held.
    fn replace_excess(&self, limit: u32, token: u32) -> Option<u32> {
        let from = self.lock.excess_from.load(Ordering::Relaxed).max(limit);
        for beyond in from..TOKENS as u32 {
            self.lock.excess_from.store(beyond + 1, Ordering::Relaxed);
            let Some(user) = holder(self, beyond) else { continue };
            let Some(slot) = self.user(user) else { continue };
            // Before the slot names it: its user may give it back as soon as it does.
            if !self.exchange(token, HAND, user) {
                return None;
            }
            let (old, new) = (beyond + 1, token + 1);
            // Fails if its owner gives it back at this moment.
            if slot.token.compare_exchange(old, new, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
                slot.favourite.store(token, Ordering::Relaxed);
                self.release(beyond, user);
                self.set_excess(self.excess().saturating_sub(1));
                return None;
            }
            if !self.exchange(token, user, HAND) {
                return None;
            }
        }
        self.set_excess(0);
        Some(token)
    }

    /// Books a token in the hand on a user that has none.
    fn book(&self, slot: &UserSlot, user: u32, token: u32) {
        slot.favourite.store(token, Ordering::Relaxed);
        // The word last: if this thread dies before, the token is found in its hand; if after, the
        // slot says for whom it was.
        slot.token.store(token + 1, Ordering::Release);
        self.exchange(token, HAND, user);
    }

    /// How many tokens are spoken for. The lock is held.
    fn spoken_for(&self, gate: &Gate) -> u32 {
        (gate.pending() as u32).saturating_add(self.excess())
    }

    /// Tells everybody how many tokens are spoken for. The lock is held.
    pub(crate) fn publish(&self, gate: &Gate) {
        let spoken_for = self.spoken_for(gate);
        // All look at this word: it is written if it changes.
        if self.pending.count.load(Ordering::Relaxed) != spoken_for {
            self.pending.count.store(spoken_for, Ordering::SeqCst);
        }
    }

    /// Runs `work` on the policy's state with the lock held; `None` if the lock was not to be had.
    pub(crate) fn locked<T>(&self, work: impl FnOnce(&mut Gate, &mut Wakes<'_>) -> T) -> Option<T> {
        let mut wakes = Wakes::new(self);
        let held = self.lock.lock.acquire(|now| self.beat.stale(now))?;
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
        self.publish(gate);
        drop(held);
        #[cfg(test)]
        hold::note(crate::clock::now().since(since));
        wakes.flush();
        if inherited {
            self.sweep();
        }
        Some(result)
    }
}

#[cfg(test)]
mod hold;
#[cfg(test)]
mod tests;
