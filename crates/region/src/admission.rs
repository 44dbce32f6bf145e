//! Letting users in and out: tokens, the queue, sleeping and waking.
//!
//! # Tokens
//! There are P tokens, each a word on a cache line of its own. Whoever holds one is inside, so at
//! most P are, exactly and without a shared counter that could be checked and then overshot. A
//! user takes the token that it held last if it is still free: below P each user keeps its own,
//! and no cache line moves between processors.
//!
//! # Nobody is forgotten
//! A user that finds no token enqueues under the lock, raises `pending` and looks at the tokens
//! once more. A user that leaves frees its token and then looks at `pending`. Both pairs are
//! sequentially consistent: either the one sees the free token or the other sees the waiter.
//!
//! # Nobody is held for ever
//! A sleeper wakes every fifth of a second and looks whether the daemon lives, the gate is open
//! and its longest hold is over; each of these lets it pass. Whoever passes holds no token and
//! gives none back.

use crate::clock;
use crate::control::TOKENS;
use crate::futex;
use crate::layout::{Counter, Region};
use crate::user::{FLAG_BYPASS, State, UserSlot, bump};
use core::sync::atomic::{AtomicU64, Ordering};
use headworks_policy::gate::{Gate, Next};
use headworks_policy::wrr::ClassShare;
use headworks_policy::{CLASSES, Nanos, USERS};

/// Longest sleep of a held thread before it looks around.
const NAP: Nanos = Nanos::from_millis(200);

const BUSY: u32 = 1 << 31;

/// How an attempt to enter ended. In every case the user is inside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entered {
    /// A token was free.
    AtOnce,
    /// After waiting for one.
    Waited,
    /// Without a token, for this reason.
    Passed(PassReason),
}

/// Why a request passes without a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum PassReason {
    /// The gate only observes, or is off.
    NotEnforcing = 1,
    /// The connection is never held.
    Bypass = 2,
    /// The daemon gave no sign of life.
    Stale = 3,
    /// Held for the longest time.
    HoldLimit = 4,
    /// The gate was opened.
    GateOpened = 5,
    /// The connection was shut down.
    Cancelled = 6,
    /// The lock was not to be had.
    LockBusy = 7,
    /// The statement is one that always passes.
    Statement = 8,
    /// It owns a transaction or a lock.
    Owner = 9,
}

impl PassReason {
    /// From the word in a slot.
    pub fn from_word(word: u32) -> Option<PassReason> {
        Some(match word {
            1 => PassReason::NotEnforcing,
            2 => PassReason::Bypass,
            3 => PassReason::Stale,
            4 => PassReason::HoldLimit,
            5 => PassReason::GateOpened,
            6 => PassReason::Cancelled,
            7 => PassReason::LockBusy,
            8 => PassReason::Statement,
            9 => PassReason::Owner,
            _ => return None,
        })
    }

    /// For people.
    pub fn name(self) -> &'static str {
        match self {
            PassReason::NotEnforcing => "the gate does not hold anybody",
            PassReason::Bypass => "this connection is never held",
            PassReason::Stale => "the daemon gave no sign of life",
            PassReason::HoldLimit => "it was held for the longest time allowed",
            PassReason::GateOpened => "the gate was opened",
            PassReason::Cancelled => "its connection was shut down",
            PassReason::LockBusy => "the region's lock was not to be had",
            PassReason::Statement => "its statement always passes",
            PassReason::Owner => "it owns a transaction or a lock",
        }
    }
}

/// Threads to wake once the lock is released.
struct Wakes<'a> {
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
            futex::wake(&self.region.users[user as usize].state, 1);
        }
        self.count = 0;
    }
}

impl Region {
    /// Claims a slot for a new user. `None` when all are taken; the connection then passes.
    pub fn register(&self, pid: u32, now: Nanos) -> Option<u32> {
        for (user, slot) in self.users.iter().enumerate() {
            if slot.state.load(Ordering::Relaxed) == State::Free as u32
                && slot.move_state(State::Free, State::Idle)
            {
                let user = user as u32;
                slot.reset();
                slot.pid.store(pid, Ordering::Relaxed);
                slot.connected_ns.store(now.0, Ordering::Relaxed);
                slot.favourite.store(user % self.control.limit(), Ordering::Relaxed);
                self.pending.high_water.fetch_max(user + 1, Ordering::Relaxed);
                self.locked(|gate, _| gate.wrr.join(user, 0));
                return Some(user);
            }
        }
        self.count(Counter::SlotTableFull);
        None
    }

    /// Gives back everything a user holds and its slot; its counters go to its class.
    pub fn unregister(&self, user: u32) {
        let Some(slot) = self.user(user) else { return };
        if slot.state() == State::Free {
            return;
        }
        self.leave(user);
        self.locked(|gate, _| {
            gate.wrr.withdraw(user);
            gate.forgive(user);
            self.bury(slot);
        });
        slot.set_state(State::Free);
    }

    fn bury(&self, slot: &UserSlot) {
        let class = (slot.class.load(Ordering::Relaxed) as usize).min(CLASSES - 1);
        let departed = &self.classes[class].departed;
        let add = |to: &AtomicU64, by: u64| {
            to.store(to.load(Ordering::Relaxed).wrapping_add(by), Ordering::Relaxed);
        };
        add(&departed.users, 1);
        let served = &slot.served;
        for (to, from) in [
            (&departed.requests, &served.requests),
            (&departed.turns, &served.turns),
            (&departed.queued, &served.queued),
            (&departed.passed, &served.passed),
            (&departed.wait_ns, &served.wait_ns),
            (&departed.run_ns, &served.run_ns),
        ] {
            add(to, from.load(Ordering::Relaxed));
        }
        for (sums, histogram) in
            [(&departed.wait, &served.wait), (&departed.latency, &served.latency)]
        {
            let mut counts = [0; headworks_policy::histogram::BUCKETS];
            histogram.add_to(&mut counts);
            for (to, by) in sums.iter().zip(counts) {
                if by > 0 {
                    add(to, by);
                }
            }
        }
    }

    /// Puts a user into a class and marks whether it is ever held.
    pub fn classify(&self, user: u32, class: u32, bypass: bool, epoch: u32) {
        let Some(slot) = self.user(user) else { return };
        slot.class.store(class.min(CLASSES as u32 - 1), Ordering::Relaxed);
        slot.class_epoch.store(epoch, Ordering::Relaxed);
        let flags = slot.flags.load(Ordering::Relaxed) & !FLAG_BYPASS;
        slot.flags.store(flags | (u32::from(bypass) * FLAG_BYPASS), Ordering::Relaxed);
        self.locked(|gate, _| gate.wrr.reclassify(user, class));
    }

    /// A request of `user`, which holds nothing, wants to start its turn. Returns when it may,
    /// at the latest when the longest hold is over.
    pub fn enter(&self, user: u32, arrived: Nanos) -> Entered {
        let Some(slot) = self.user(user) else { return Entered::Passed(PassReason::Bypass) };
        slot.used.store(0, Ordering::Relaxed);
        slot.quota.store(1, Ordering::Relaxed);
        slot.accounted.store(0, Ordering::Relaxed);
        if !self.control.enforcing() {
            return self.pass(slot, PassReason::NotEnforcing);
        }
        if slot.flags.load(Ordering::Relaxed) & FLAG_BYPASS != 0 {
            return self.pass(slot, PassReason::Bypass);
        }
        if self.pending.count.load(Ordering::Relaxed) == 0 && self.take_token(slot) {
            slot.set_state(State::Inside);
            return Entered::AtOnce;
        }
        self.wait_for_turn(user, slot, arrived)
    }

    /// A user inside a transaction, whose token was lent out, goes on: at once, with a token if
    /// one is free, else without and owed one.
    pub fn reenter(&self, user: u32) {
        let Some(slot) = self.user(user) else { return };
        if !self.control.enforcing() {
            slot.set_state(State::Passing);
            return;
        }
        if self.pending.count.load(Ordering::Relaxed) == 0 && self.take_token(slot) {
            slot.set_state(State::Inside);
            return;
        }
        slot.set_state(State::Overdraft);
        let done = self.locked(|gate, wakes| {
            gate.owe(user);
            self.pump(gate, wakes, None);
        });
        if done.is_none() {
            slot.set_state(State::Passing);
        }
        if slot.state() == State::Overdraft {
            self.count(Counter::Overdraft);
        }
    }

    /// The turn is over: gives the token back and accounts for what was used. Also right for a
    /// user that holds no token.
    pub fn leave(&self, user: u32) {
        let Some(slot) = self.user(user) else { return };
        if slot.state() == State::Idle {
            return;
        }
        let overdraft = slot.state() == State::Overdraft;
        // Written by this thread, or by the granter while this thread waits: no swap is needed.
        let accounted = slot.accounted.load(Ordering::Relaxed) != 0;
        slot.accounted.store(0, Ordering::Relaxed);
        let used = slot.used.load(Ordering::Relaxed);
        slot.used.store(0, Ordering::Relaxed);
        let contended = self.pending.count.load(Ordering::Relaxed) != 0;
        if accounted || contended || overdraft {
            let done = self.locked(|gate, wakes| {
                gate.wrr.withdraw(user);
                gate.forgive(user);
                gate.wrr.end_turn(user, used);
                let token = slot.token.swap(0, Ordering::Relaxed);
                slot.set_state(State::Idle);
                self.pump(gate, wakes, self.own_token(user, token));
            });
            if done.is_some() {
                return;
            }
        }
        let token = slot.token.swap(0, Ordering::Relaxed);
        slot.set_state(State::Idle);
        if let Some(token) = self.own_token(user, token) {
            self.free_token(token);
        }
    }

    /// The client idles inside a transaction: lends its token out. Its next request goes through
    /// [`Region::reenter`].
    pub fn lend(&self, user: u32) {
        let Some(slot) = self.user(user) else { return };
        match slot.state() {
            State::Inside => {}
            State::Overdraft => {
                self.locked(|gate, wakes| {
                    gate.forgive(user);
                    self.pump(gate, wakes, None);
                });
            }
            _ => return,
        }
        let token = slot.token.swap(0, Ordering::Relaxed);
        slot.set_state(State::Lent);
        if let Some(token) = self.own_token(user, token) {
            self.count(Counter::Lent);
            self.free_token(token);
        }
    }

    /// The socket of `user` was shut down or closed, perhaps by another thread: it is not held
    /// any longer, now or later.
    pub fn cancel(&self, user: u32) {
        let Some(slot) = self.user(user) else { return };
        slot.closing.store(1, Ordering::SeqCst);
        if slot.move_state(State::Waiting, State::Cancelled) {
            self.count(Counter::Cancelled);
            futex::wake(&slot.state, 1);
        }
    }

    /// Gives free tokens to those who wait. Called by the daemon now and then, and whenever the
    /// number of tokens grew.
    pub fn pump_all(&self) {
        if self.pending.count.load(Ordering::SeqCst) > 0 {
            self.locked(|gate, wakes| self.pump(gate, wakes, None));
        }
    }

    /// Gives back what a user holds whose thread or process is gone, from another process.
    pub fn reap(&self, user: u32) {
        self.count(Counter::Reaped);
        self.unregister(user);
    }

    /// Writes new settings and lets those in or pass whom they concern.
    pub fn apply(&self, settings: &crate::control::Settings) {
        self.control.store(settings);
        self.locked(|gate, wakes| {
            gate.wrr.set_zeta(settings.zeta);
            self.pump(gate, wakes, None);
        });
        if !self.control.enforcing() {
            self.wake_everybody();
        }
    }

    /// Opens the gate for everybody at once, or closes it.
    pub fn set_off(&self, off: bool) {
        self.control.store_off(off);
        if off {
            self.wake_everybody();
        }
    }

    /// Writes name and weight of a class.
    pub fn set_class(&self, class: usize, name: &str, weight: u32, share: ClassShare, shared: bool) {
        let Some(slot) = self.classes.get(class) else { return };
        slot.name.set(name.as_bytes());
        slot.weight.store(weight, Ordering::Relaxed);
        slot.shared.store(u32::from(shared), Ordering::Relaxed);
        self.locked(|gate, _| gate.wrr.set_share(class, share));
    }

    /// Wakes every held thread, so that it looks around.
    pub fn wake_everybody(&self) {
        for slot in &self.users[..self.high_water() as usize] {
            if slot.state() == State::Waiting {
                futex::wake(&slot.state, 1);
            }
        }
    }

    fn pass(&self, slot: &UserSlot, reason: PassReason) -> Entered {
        slot.set_state(State::Passing);
        slot.pass_reason.store(reason as u32, Ordering::Relaxed);
        if reason != PassReason::NotEnforcing {
            slot.served.was_passed();
        }
        match reason {
            PassReason::Stale => self.count(Counter::Stale),
            PassReason::HoldLimit => self.count(Counter::HoldLimit),
            PassReason::GateOpened => self.count(Counter::GateOpen),
            PassReason::LockBusy => self.count(Counter::LockBusy),
            _ => {}
        }
        Entered::Passed(reason)
    }

    fn wait_for_turn(&self, user: u32, slot: &UserSlot, arrived: Nanos) -> Entered {
        if self.beat.stale(arrived) {
            return self.pass(slot, PassReason::Stale);
        }
        slot.set_state(State::Waiting);
        let queued = self.locked(|gate, wakes| {
            gate.wrr.arrive(user);
            self.pump(gate, wakes, None);
        });
        if queued.is_none() {
            slot.set_state(State::Passing);
            return self.pass(slot, PassReason::LockBusy);
        }
        let hold_max = self.control.hold_max();
        let mut waited = false;
        let reason = loop {
            let now = clock::now();
            let held = now.since(arrived);
            match slot.state() {
                State::Waiting => {}
                State::Cancelled => break PassReason::Cancelled,
                _ if waited => {
                    slot.served.was_queued();
                    return Entered::Waited;
                }
                _ => return Entered::AtOnce,
            }
            if slot.closing.load(Ordering::SeqCst) != 0 {
                break PassReason::Cancelled;
            }
            if !self.control.enforcing() {
                break PassReason::GateOpened;
            }
            if self.beat.stale(now) {
                break PassReason::Stale;
            }
            if held >= hold_max {
                break PassReason::HoldLimit;
            }
            waited = true;
            futex::wait(&slot.state, State::Waiting as u32, NAP.min(hold_max - held));
        };
        // A token that was granted in this very moment is kept.
        if !slot.move_state(State::Waiting, State::Passing)
            && !slot.move_state(State::Cancelled, State::Passing)
        {
            return Entered::Waited;
        }
        slot.served.was_queued();
        self.locked(|gate, _| gate.wrr.withdraw(user));
        self.pass(slot, reason)
    }

    /// Takes a free token, the favourite first.
    fn take_token(&self, slot: &UserSlot) -> bool {
        let limit = self.control.limit();
        let favourite = slot.favourite.load(Ordering::Relaxed);
        let mine = self.mark_of(slot);
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
    fn own_token(&self, user: u32, word: u32) -> Option<u32> {
        let token = word.checked_sub(1).filter(|&token| (token as usize) < TOKENS)?;
        (self.tokens[token as usize].word.load(Ordering::Relaxed) == BUSY | user).then_some(token)
    }

    /// Frees a token, and gives it to somebody if anybody waits.
    fn free_token(&self, token: u32) {
        let word = &self.tokens[token as usize].word;
        word.store(word.load(Ordering::Relaxed) & !BUSY, Ordering::SeqCst);
        if self.pending.count.load(Ordering::SeqCst) > 0 {
            self.locked(|gate, wakes| self.pump(gate, wakes, None));
        }
    }

    /// Gives tokens to those who need one while there are both; `in_hand` is a busy token that is
    /// free to give. The lock is held.
    fn pump(&self, gate: &mut Gate, wakes: &mut Wakes<'_>, mut in_hand: Option<u32>) {
        // Before the tokens are looked at: see "Nobody is forgotten".
        self.publish(gate);
        let limit = self.control.limit();
        // Each pass gives a token away or drops an entry: no more passes than there can be users.
        for _ in 0..2 * USERS {
            if in_hand.is_some_and(|token| token >= limit) {
                self.drop_token(in_hand.take());
            }
            if gate.pending() == 0 {
                break;
            }
            let Some(token) = in_hand.take().or_else(|| (0..limit).find(|&token| self.claim(token, 0)))
            else {
                break;
            };
            in_hand = match gate.decide() {
                Some(Next::Admit(turn)) => {
                    let slot = &self.users[turn.user as usize];
                    self.book(slot, turn.user, token);
                    slot.quota.store(turn.quota, Ordering::Relaxed);
                    slot.accounted.store(1, Ordering::Relaxed);
                    if slot.move_state(State::Waiting, State::Inside) {
                        wakes.push(turn.user);
                        None
                    } else {
                        slot.token.store(0, Ordering::Relaxed);
                        gate.wrr.withdraw(turn.user);
                        Some(token)
                    }
                }
                Some(Next::Settle(user)) => {
                    let slot = &self.users[user as usize];
                    self.book(slot, user, token);
                    if slot.move_state(State::Overdraft, State::Inside) {
                        None
                    } else {
                        slot.token.store(0, Ordering::Relaxed);
                        Some(token)
                    }
                }
                None => Some(token),
            };
        }
        self.drop_token(in_hand);
    }

    /// Tells everybody how many wait. The lock is held.
    fn publish(&self, gate: &Gate) {
        self.pending.count.store(gate.pending() as u32, Ordering::SeqCst);
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

    /// Runs `work` on the policy's state with the lock held; `None` if the lock was not to be had.
    fn locked<T>(&self, work: impl FnOnce(&mut Gate, &mut Wakes<'_>) -> T) -> Option<T> {
        let mut wakes = Wakes::new(self);
        let held = self.lock.lock.acquire()?;
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
    /// Debts are lost; places are not.
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

    /// Counts one request in the user's turn and says whether it still has quota for another.
    pub fn spend(&self, slot: &UserSlot) -> bool {
        bump(&slot.used, 1);
        slot.used.load(Ordering::Relaxed) < slot.quota.load(Ordering::Relaxed)
    }

    /// For tests: takes the lock and never gives it back, as a thread does that is killed inside.
    #[doc(hidden)]
    pub fn die_with_the_lock(&self) {
        core::mem::forget(self.lock.lock.acquire());
    }
}
