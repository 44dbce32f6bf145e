//! Tokens: who has one, who gets one next.
//!
//! A token is a word: free, or busy with the index of its user. Users take and free them without
//! the lock while nobody waits; the rest happens under the lock, where the policy decides.

use crate::control::TOKENS;
use crate::futex;
use crate::layout::{Counter, Region, Token};
use crate::user::{State, UserSlot};
use core::sync::atomic::{AtomicUsize, Ordering};
use headworks_policy::USERS;
use headworks_policy::gate::{Gate, Next};
use headworks_policy::wrr::ClassShare;

const BUSY: u32 = 1 << 31;

/// The user that has a token, if one has.
pub(crate) fn holder(region: &Region, token: u32) -> Option<u32> {
    let word = region.tokens[token as usize % TOKENS].word.load(Ordering::Relaxed);
    (word & BUSY != 0).then_some(word & !BUSY)
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

    fn push(&mut self, user: u32) {
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

    /// Takes a free token, the favourite first.
    pub(crate) fn take_token(&self, slot: &UserSlot) -> bool {
        let limit = self.control.limit();
        let favourite = slot.favourite.load(Ordering::Relaxed);
        let mine = self.mark_of(slot);
        // It has one that a granter gave back too late: not one more.
        if self.own_token(mine, slot.token.load(Ordering::Acquire)).is_some() {
            return true;
        }
        let taken = if favourite < limit && self.claim(favourite, mine) {
            Some(favourite)
        } else {
            (0..limit).find(|&token| self.claim(token, mine))
        };
        if let Some(token) = taken {
            slot.token.store(token + 1, Ordering::Relaxed);
            slot.favourite.store(token, Ordering::Relaxed);
        }
        taken.is_some()
    }

    fn mark_of(&self, slot: &UserSlot) -> u32 {
        let start = self.users.as_ptr() as usize;
        let offset = core::ptr::from_ref(slot) as usize - start;
        (offset / size_of::<UserSlot>()) as u32
    }

    fn claim(&self, token: u32, user: u32) -> bool {
        let word = &self.tokens[token as usize % TOKENS].word;
        let free = word.load(Ordering::SeqCst);
        free & BUSY == 0
            && word.compare_exchange(free, BUSY | user, Ordering::SeqCst, Ordering::Relaxed).is_ok()
    }

    /// The token that a slot's word names, if it is really this user's: a slot that says otherwise
    /// was tampered with, and must not free a stranger's token.
    pub(crate) fn own_token(&self, user: u32, word: u32) -> Option<u32> {
        let token = word.checked_sub(1).filter(|&token| (token as usize) < TOKENS)?;
        (self.tokens[token as usize].word.load(Ordering::Relaxed) == BUSY | user).then_some(token)
    }

    /// Frees a token, and gives it to somebody if anybody waits.
    pub(crate) fn free_token(&self, token: u32) {
        let word = &self.tokens[token as usize].word;
        word.store(word.load(Ordering::Relaxed) & !BUSY, Ordering::SeqCst);
        if self.pending.count.load(Ordering::SeqCst) > 0 {
            self.locked(|gate, wakes| self.pump(gate, wakes, None));
        }
    }

    /// Gives tokens to those who need one while there are both; `in_hand` is a busy token that is
    /// free to give. The lock is held.
    pub(crate) fn pump(&self, gate: &mut Gate, wakes: &mut Wakes<'_>, mut in_hand: Option<u32>) {
        // Before the tokens are looked at: see "Nobody is forgotten".
        self.publish(gate);
        let limit = self.control.limit();
        // Each pass gives a token away or drops an entry: no more passes than there can be users.
        for _ in 0..2 * USERS {
            if in_hand.is_some_and(|token| token >= limit) {
                self.drop_token(in_hand.take());
                self.set_excess(self.excess().saturating_sub(1));
            }
            if gate.pending() == 0 && self.excess() == 0 {
                break;
            }
            let Some(token) =
                in_hand.take().or_else(|| (0..limit).find(|&token| self.claim(token, 0)))
            else {
                break;
            };
            in_hand = if self.excess() > 0 {
                self.replace_excess(limit, token)
            } else {
                self.give(gate, wakes, token)
            };
        }
        self.drop_token(in_hand);
    }

    /// Gives a busy token to whom the policy names; returns it if nobody took it.
    fn give(&self, gate: &mut Gate, wakes: &mut Wakes<'_>, token: u32) -> Option<u32> {
        let (user, taken) = match gate.decide()? {
            Next::Admit(turn) => {
                let slot = &self.users[turn.user as usize];
                self.book(slot, turn.user, token);
                slot.quota.store(turn.quota, Ordering::Relaxed);
                slot.accounted.store(1, Ordering::Relaxed);
                let taken = slot.move_state(State::Waiting, State::Inside);
                if taken {
                    wakes.push(turn.user);
                } else {
                    gate.wrr.withdraw(turn.user);
                }
                (turn.user, taken)
            }
            Next::Settle(user) => {
                let slot = &self.users[user as usize];
                self.book(slot, user, token);
                (user, slot.move_state(State::Overdraft, State::Inside))
            }
        };
        if taken {
            return None;
        }
        self.users[user as usize].token.store(0, Ordering::Relaxed);
        Some(token)
    }

    fn excess(&self) -> u32 {
        self.pending.excess.load(Ordering::Relaxed)
    }

    fn set_excess(&self, excess: u32) {
        self.pending.excess.store(excess, Ordering::Relaxed);
    }

    /// Frees the tokens whose owners do not know of them: somebody was killed between booking a
    /// token and handing it over. `seen` is what the last look found; only a token that looks
    /// orphaned twice is freed, because a user writes its slot a moment after the token.
    pub fn reclaim(&self, seen: &mut [u32; TOKENS]) {
        self.locked(|gate, wakes| {
            for (at, token) in self.tokens.iter().enumerate() {
                let word = token.word.load(Ordering::SeqCst);
                let knows = |slot: &UserSlot| slot.token.load(Ordering::Acquire) == at as u32 + 1;
                let owner = self.users.get((word & !BUSY) as usize);
                let orphan = word & BUSY != 0 && !owner.is_some_and(knows);
                if orphan && seen[at] == word {
                    let free = word & !BUSY;
                    let freed = token.word.compare_exchange(
                        word,
                        free,
                        Ordering::SeqCst,
                        Ordering::Relaxed,
                    );
                    if freed.is_ok() {
                        self.count(Counter::Reclaimed);
                    }
                }
                seen[at] = if orphan { word } else { 0 };
            }
            self.count_excess();
            self.pump(gate, wakes, None);
        });
    }

    /// Counts the busy tokens beyond the limit, after the limit changed. The lock is held.
    pub(crate) fn count_excess(&self) {
        let beyond = &self.tokens[self.control.limit() as usize..];
        let busy = |token: &&Token| token.word.load(Ordering::Relaxed) & BUSY != 0;
        self.set_excess(beyond.iter().filter(busy).count() as u32);
    }

    /// Books a busy token on a user that holds one beyond the limit, in exchange for that one;
    /// returns it if there is no such user. The lock is held.
    fn replace_excess(&self, limit: u32, token: u32) -> Option<u32> {
        for beyond in limit..TOKENS as u32 {
            let word = self.tokens[beyond as usize].word.load(Ordering::Relaxed);
            let Some(slot) = self.users.get((word & !BUSY) as usize).filter(|_| word & BUSY != 0)
            else {
                continue;
            };
            self.tokens[token as usize].word.store(word, Ordering::SeqCst);
            let (old, new) = (beyond + 1, token + 1);
            // Fails if its owner gives it back at this moment.
            if slot.token.compare_exchange(old, new, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
                slot.favourite.store(token, Ordering::Relaxed);
                self.drop_token(Some(beyond));
                self.set_excess(self.excess().saturating_sub(1));
                return None;
            }
            self.tokens[token as usize].word.store(BUSY, Ordering::SeqCst);
        }
        self.set_excess(0);
        Some(token)
    }

    fn book(&self, slot: &UserSlot, user: u32, token: u32) {
        self.tokens[token as usize].word.store(BUSY | user, Ordering::SeqCst);
        slot.favourite.store(token, Ordering::Relaxed);
        slot.token.store(token + 1, Ordering::Relaxed);
    }

    fn drop_token(&self, token: Option<u32>) {
        if let Some(token) = token {
            let word = &self.tokens[token as usize].word;
            word.store(word.load(Ordering::Relaxed) & !BUSY, Ordering::SeqCst);
        }
    }

    /// Tells everybody how many tokens are spoken for. The lock is held.
    fn publish(&self, gate: &Gate) {
        let spoken_for = (gate.pending() as u32).saturating_add(self.excess());
        self.pending.count.store(spoken_for, Ordering::SeqCst);
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
            self.rebuild(gate);
        }
        let result = work(gate, &mut wakes);
        self.publish(gate);
        drop(held);
        wakes.flush();
        Some(result)
    }

    /// Makes the policy's state anew from the users' slots, after somebody died while changing it.
    /// Debts are lost. A place that was being handed over is found by [`Region::reclaim`].
    #[cold]
    fn rebuild(&self, gate: &mut Gate) {
        gate.clear();
        gate.wrr.set_zeta(self.control.settings().zeta);
        for (class, slot) in self.classes.iter().enumerate() {
            let weight = slot.weight.load(Ordering::Relaxed);
            let shared = slot.shared.load(Ordering::Relaxed) != 0;
            gate.wrr.set_share(class, ClassShare::from_words(weight, shared));
        }
        for (user, slot) in self.users[..self.high_water() as usize].iter().enumerate() {
            let user = user as u32;
            gate.wrr.join(user, slot.class.load(Ordering::Relaxed));
            match slot.state() {
                State::Waiting => gate.wrr.arrive(user),
                State::Overdraft => gate.owe(user),
                _ => {}
            }
        }
    }
}
