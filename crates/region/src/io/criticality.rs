//! Which calls clients wait for, and who inherits that (RCP, sections 4.1, 4.2 and 4.4).
//!
//! # Problem
//! A thread that serves a client's request is *foreground*; what it does is critical. A background
//! thread becomes critical while a foreground thread waits for a lock that it holds, or for a
//! condition that it will signal. It may itself wait for somebody, or be held by the scheduler.
//!
//! # The primitive
//! A thread that is about to block notes what it waits for, and which thread holds it if that is
//! known ([`IoRegion::blocks`]). If a client waits for the caller, every thread along the chain of
//! these notes inherits: its calls are critical until [`INHERITED_FOR`] has passed or the wait
//! ends, and a call of it that is held goes on at once.
//!
//! The holder may be unknown (readers of a lock, a semaphore, an inlined futex). A held thread
//! therefore polls: when a client's thread has waited for [`STUCK_AFTER`] for an unknown holder,
//! the scheduler may let the held call go ([`Scheduler::may_block_clients`]).
//!
//! # Invariants
//! All of this is a hint. It is written without a lock, may be torn or late, and a thread that dies
//! while it waits leaves notes that mislead for [`STUCK_FOR`] at most. Wrong notes let a call go
//! too early, or leave it held as long as the scheduler would hold it anyway. A wrong verdict on a
//! guess lets calls on one file go for some time (`policy::split::trust`).

use super::{AccountSlot, IoRegion, SplitKind};
use crate::{clock, lock, thread};
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicU32, AtomicU64};
use headworks_policy::Nanos;
use headworks_policy::split::{Account, Call, Scheduler, Task, Urgency};

use super::account::Ground;
use super::waits::{INHERITED, PROMOTED};

/// A thread that inherits stays critical for so long, unless the wait ends before.
pub const INHERITED_FOR: Nanos = Nanos::from_millis(10_000);

/// A client's thread that waits for so long for an unknown holder is stuck.
pub const STUCK_AFTER: Nanos = Nanos::from_millis(5);

/// A guess was right if the client goes on within such a time after the call returned: the caller
/// may have more to do before it releases the lock.
pub const RIGHT_WITHIN: Nanos = Nanos::from_millis(100);

/// It counts as stuck for so long: a longer wait is not due to a call that is held here.
pub const STUCK_FOR: Nanos = Nanos::from_millis(2_000);

/// Links of a chain that are followed (at most four were seen: RCP, section 4.4).
const CHAIN_MAX: usize = 16;

/// Entries of the table that finds the account of a thread.
const THREADS: usize = 4096;

/// Entries of the table that keeps which thread last signalled a condition or semaphore.
const SIGNALS: usize = 4096;

/// A thread that has not signalled for so long is no helper any more (section 4.2.1).
const HELPS_FOR_MS: u64 = 10_000;

/// What a thread waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Blocker {
    /// A mutex.
    Mutex = 1,
    /// A lock for readers and writers.
    RwLock = 2,
    /// A condition variable.
    Condition = 3,
    /// A semaphore.
    Semaphore = 4,
    /// A futex of the program's own.
    Futex = 5,
    /// Something else.
    Unknown = 6,
}

/// Kinds of [`Blocker`], and the word for "nothing".
pub const BLOCKERS: usize = 7;

/// Their names, by number.
pub const BLOCKER_NAMES: [&str; BLOCKERS] =
    ["", "mutex", "rwlock", "condition", "semaphore", "futex", "unknown"];

/// Which thread waits for which. All zero bytes: none.
#[derive(Debug)]
#[repr(C)]
pub struct Inheritance {
    /// Threads of clients that wait for an unknown holder: a hint, which is wrong if one was
    /// killed.
    unknown: AtomicU32,
    /// The longest chain that was followed.
    pub longest_chain: AtomicU32,
    /// Times a thread inherited, by what was waited for.
    pub by_blocker: [AtomicU64; BLOCKERS],
    /// Calls that were held and went on because a client waited for them.
    pub promoted: AtomicU64,
    /// The last held call that went on by a guess, until it is known whether that was right.
    guess: Guess,
    /// Account of a thread, by its number modulo the length.
    threads: [AtomicU32; THREADS],
    /// Last signal: thread in the upper half, milliseconds in the lower.
    signals: [AtomicU64; SIGNALS],
}

headworks_policy::layout!(Inheritance {
    unknown,
    longest_chain,
    by_blocker,
    promoted,
    guess,
    threads,
    signals
});

/// A held call went on because it may have blocked a client.
#[derive(Debug)]
#[repr(C)]
struct Guess {
    /// Account of the client, plus one; zero for no guess.
    client: AtomicU32,
    /// The call's task, plus one.
    task: AtomicU32,
    /// Its file.
    file: AtomicU32,
    _pad: AtomicU32,
    /// When the call returned; zero as long as it runs.
    returned_ns: AtomicU64,
}

headworks_policy::layout!(Guess { client, task, file, _pad, returned_ns });

fn signal_place(address: usize) -> usize {
    (address >> 4).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (64 - SIGNALS.trailing_zeros())
}

fn milliseconds() -> u64 {
    (clock::last_tick().0 / 1_000_000) & 0xFFFF_FFFF
}

impl Inheritance {
    pub(super) fn note_thread(&self, tid: u32, account: Account) {
        self.threads[tid as usize % THREADS].store(account.into(), Relaxed);
    }

    /// The calling thread signals the condition or semaphore at this address.
    pub fn signals(&self, address: usize) {
        let word = u64::from(lock::thread_id()) << 32 | milliseconds();
        let place = &self.signals[signal_place(address)];
        // An unconditional store would move the cache line between processors.
        if place.load(Relaxed) != word {
            place.store(word, Relaxed);
        }
    }

    /// The thread that usually signals it: a guess from the last signal.
    pub fn helper(&self, address: usize) -> Option<u32> {
        let word = self.signals[signal_place(address)].load(Relaxed);
        let age = milliseconds().wrapping_sub(word & 0xFFFF_FFFF);
        (word != 0 && age < HELPS_FOR_MS).then_some((word >> 32) as u32)
    }
}

impl IoRegion {
    /// Whether notes of who waits for whom are wanted.
    #[inline]
    pub fn follows_waits(&self) -> bool {
        self.control.kind() == SplitKind::Rcp
            && self.control.is_on()
            && self.control.without_inheritance.load(Relaxed) == 0
    }

    /// Whether a client waits for what the calling thread does, whose account this is.
    pub fn urgency(&self, account: Account) -> Urgency {
        if self.control.kind() != SplitKind::Rcp {
            return Urgency::Critical;
        }
        if self.is_foreground(account) {
            return Urgency::Critical;
        }
        let slot = self.accounts.get(usize::from(account));
        let until = slot.map_or(0, |slot| slot.inherits_until_ns.load(Relaxed));
        match (until > clock::now().0, until & GUESSED != 0) {
            (true, false) => Urgency::Critical,
            (true, true) => Urgency::Guessed,
            (false, _) => Urgency::Background,
        }
    }

    /// Whether the calling thread, whose account this is, serves a client itself.
    pub(super) fn is_foreground(&self, account: Account) -> bool {
        let Some(slot) = self.accounts.get(usize::from(account)) else { return true };
        // The operator's rules stand above what the program says of itself.
        let (serves, said) = thread::with(|words| {
            let said = if words.background.get() { 2 } else { words.ground.get() };
            (words.serving.get() != 0, said)
        });
        let ground = match Ground::from_word(slot.ground.load(Relaxed)) {
            Ground::Unknown => Ground::from_word(said.into()),
            rule => rule,
        };
        match ground {
            Ground::Foreground => true,
            Ground::Background => false,
            // Without a gate that knows, only threads that are said to be are background.
            Ground::Unknown => serves || !self.control.gate_knows(),
        }
    }

    /// The account of a thread, if it has one.
    pub(super) fn account_of(&self, tid: u32) -> Option<Account> {
        let at = self.inheritance.threads[tid as usize % THREADS].load(Relaxed) as usize;
        let slot = self.accounts.get(at)?;
        (tid != 0 && slot.tid.load(Relaxed) == tid).then_some(at as Account)
    }

    /// The calling thread, whose account this is, is about to wait. `holder` is the thread that
    /// it waits for, as far as that is known; `exact` says that it is more than a guess.
    pub fn blocks(&self, account: Account, on: Blocker, holder: Option<u32>, exact: bool) {
        let Some(slot) = self.accounts.get(usize::from(account)) else { return };
        let now = clock::now();
        // A wait that this one interrupts, or that a signal handler jumped out of.
        self.forget_wait(slot);
        slot.blocked_by.store(holder.unwrap_or(0), Relaxed);
        slot.blocked_ns.store(now.0, Relaxed);
        slot.done.store(0, Relaxed);
        let critical = self.urgency(account) != Urgency::Background;
        let unknown = critical && !(exact && holder.is_some());
        let flags = if critical { CRITICAL } else { 0 } | if unknown { UNKNOWN } else { 0 };
        slot.blocked.store(on as u32 | flags, Relaxed);
        if unknown {
            self.inheritance.unknown.fetch_add(1, Relaxed);
        }
        if critical {
            self.inherit(now, account, on, exact);
        }
    }

    /// Every thread inherits that this account waits for, directly or not.
    fn inherit(&self, now: Nanos, account: Account, on: Blocker, exact: bool) {
        let next = |account: Account| {
            // The holder may have got its account after the note was written.
            self.account_of(self.accounts.get(usize::from(account))?.blocked_by.load(Relaxed))
        };
        let Some(client) = self.accounts.get(usize::from(account)) else { return };
        let until = lease(now, exact);
        let mut chain = [Account::MAX; CHAIN_MAX];
        let mut at = account;
        for link in 1..CHAIN_MAX {
            chain[link - 1] = at;
            // Notes that are guesses may go round.
            let Some(holder) = next(at).filter(|holder| !chain.contains(holder)) else { break };
            let Some(slot) = self.accounts.get(usize::from(holder)) else { break };
            slot.inherits_until_ns.store(until, Relaxed);
            slot.inherited.fetch_add(1, Relaxed);
            self.inheritance.by_blocker[on as usize].fetch_add(1, Relaxed);
            self.inheritance.longest_chain.fetch_max(link as u32, Relaxed);
            let promoted = if self.promote(now, holder, exact) { PROMOTED } else { 0 };
            client.done.fetch_or(INHERITED | promoted, Relaxed);
            at = holder;
        }
    }

    /// A thread that gets its account only now inherits if a client waits for it already.
    pub(super) fn inherit_at_first(&self, tid: u32, new: &AccountSlot) {
        if self.control.kind() != SplitKind::Rcp {
            return;
        }
        let now = clock::now();
        let waits = |slot: &&AccountSlot| {
            slot.blocked_by.load(Relaxed) == tid
                && (slot.blocked.load(Relaxed) & CRITICAL != 0
                    || slot.inherits_until_ns.load(Relaxed) > now.0)
        };
        if let Some(client) = self.accounts.iter().find(waits) {
            let on = (client.blocked.load(Relaxed) & 0xFF) as usize;
            new.inherits_until_ns.store(lease(now, true), Relaxed);
            new.inherited.fetch_add(1, Relaxed);
            self.inheritance.by_blocker[on.min(BLOCKERS - 1)].fetch_add(1, Relaxed);
        }
    }

    /// The calling thread does not wait any more.
    pub fn unblocks(&self, account: Account) {
        let Some(slot) = self.accounts.get(usize::from(account)) else { return };
        if self.inheritance.guess.client.load(Relaxed) == u32::from(account) + 1 {
            let now = clock::now();
            let right = self.guess_returned().is_some_and(|at| now.since(at) < RIGHT_WITHIN);
            self.judge_guess(now, right);
        }
        let (blocked, done) = (slot.blocked.load(Relaxed), slot.done.load(Relaxed));
        let by = self.forget_wait(slot);
        if blocked & CRITICAL != 0 {
            let (began, cause) = (Nanos(slot.blocked_ns.load(Relaxed)), (blocked & 0xFF) as usize);
            self.note_lock_wait(account, cause, began, by, done);
        }
        let others = |slot: &AccountSlot| {
            slot.blocked_by.load(Relaxed) == by && slot.blocked.load(Relaxed) & CRITICAL != 0
        };
        if let Some(holder) = self.account_of(by)
            && let Some(holder) = self.accounts.get(usize::from(holder))
            && holder.inherits_until_ns.load(Relaxed) != 0
            && !self.accounts.iter().any(others)
        {
            holder.inherits_until_ns.store(0, Relaxed);
        }
    }

    /// The thread of this account does not wait any more, or is dead. Returns whom it waited for.
    pub(super) fn forget_wait(&self, slot: &AccountSlot) -> u32 {
        if slot.blocked.swap(0, Relaxed) & UNKNOWN != 0 {
            let less = |count: u32| Some(count.saturating_sub(1));
            let _ = self.inheritance.unknown.fetch_update(Relaxed, Relaxed, less);
        }
        slot.blocked_by.swap(0, Relaxed)
    }

    /// The call of this account that is held goes on. Says whether there was one.
    fn promote(&self, now: Nanos, account: Account, sure: bool) -> bool {
        let Some(slot) = self.accounts.get(usize::from(account)) else { return false };
        let Some(task) = slot.task.load(Relaxed).checked_sub(1) else { return false };
        let promote = |scheduler: &mut dyn Scheduler| scheduler.promote(now, task as Task, sure);
        let goes = self.goes_on(now, task as Task, promote);
        if goes {
            slot.task.store(0, Relaxed);
        }
        goes
    }

    /// A call that is held goes on if the scheduler agrees. Says whether it does.
    fn goes_on(
        &self,
        now: Nanos,
        task: Task,
        agrees: impl FnOnce(&mut dyn Scheduler) -> bool,
    ) -> bool {
        let Some(slot) = self.tasks.get(usize::from(task)) else { return false };
        let goes = self.locked(|guarded| {
            agrees(guarded.split.scheduler()) && self.goes(guarded, now, task, slot)
        });
        if goes == Some(true) {
            self.inheritance.promoted.fetch_add(1, Relaxed);
        }
        goes == Some(true)
    }

    /// Lets this task go on if a client's thread has waited for [`STUCK_AFTER`] for an unknown
    /// holder, which this task may be. Says whether it does.
    pub(super) fn may_block_clients(&self, now: Nanos, task: Task) -> bool {
        if self.inheritance.unknown.load(Relaxed) == 0 {
            return false;
        }
        let accounts = self.accounts.iter().zip(1..);
        let stuck = accounts.filter_map(|(slot, client)| Some((stuck_for(slot, now)?, client)));
        let Some((waited, client)) = stuck.max() else { return false };
        if self.guess_returned().is_some_and(|at| now.since(at) >= RIGHT_WITHIN) {
            self.judge_guess(now, false);
        }
        let goes =
            self.goes_on(now, task, |scheduler| scheduler.may_block_clients(now, task, waited));
        if goes {
            let guess = &self.inheritance.guess;
            guess.returned_ns.store(0, Relaxed);
            guess.task.store(u32::from(task) + 1, Relaxed);
            let file = self.tasks.get(usize::from(task)).map(|slot| slot.file.load(Relaxed));
            guess.file.store(file.unwrap_or(u32::MAX), Relaxed);
            guess.client.store(client, Relaxed);
            if let Some(slot) = self.accounts.get(client as usize - 1) {
                slot.done.fetch_or(PROMOTED, Relaxed);
            }
            self.inheritance.by_blocker[Blocker::Unknown as usize].fetch_add(1, Relaxed);
        }
        goes
    }

    /// Notes that the call of a task has returned, if the last guess let it go.
    pub(super) fn note_return(&self, now: Nanos, task: Task) {
        let guess = &self.inheritance.guess;
        if guess.client.load(Relaxed) != 0 && guess.task.load(Relaxed) == u32::from(task) + 1 {
            guess.returned_ns.store(now.0, Relaxed);
        }
    }

    /// When the call of the last guess returned, if that is not judged yet.
    fn guess_returned(&self) -> Option<Nanos> {
        let guess = &self.inheritance.guess;
        let returned = Nanos(guess.returned_ns.load(Relaxed));
        (guess.client.load(Relaxed) != 0 && returned != Nanos(0)).then_some(returned)
    }

    /// Tells the scheduler whether the last guess was right.
    fn judge_guess(&self, now: Nanos, right: bool) {
        let guess = &self.inheritance.guess;
        guess.client.store(0, Relaxed);
        let file = guess.file.load(Relaxed);
        self.locked(|guarded| guarded.split.scheduler().guessed(now, file, right));
    }

    /// How long a held thread may sleep before it polls for clients that are stuck.
    pub(super) fn longest_sleep(&self) -> Nanos {
        if self.control.kind() == SplitKind::Rcp { STUCK_AFTER } else { super::MAX_SLEEP }
    }

    /// Counts a call, and keeps which one of its account is held.
    pub(super) fn note_call(&self, call: &Call, held: Option<Task>) {
        if self.control.kind() != SplitKind::Rcp {
            return;
        }
        let Some(slot) = self.accounts.get(usize::from(call.account)) else { return };
        let background = call.urgency == Urgency::Background;
        let counter = if background { &slot.background } else { &slot.critical };
        counter.fetch_add(1, Relaxed);
        slot.task.store(held.map_or(0, |task| u32::from(task) + 1), Relaxed);
    }
}

/// The holder is not known for sure. Beside the kind in [`AccountSlot::blocked`].
const UNKNOWN: u32 = 1 << 8;

/// A client waits for the thread.
const CRITICAL: u32 = 1 << 9;

/// The lowest bit of the time until which an account inherits: it does so by a guess.
const GUESSED: u64 = 1;

/// Until when an account inherits, with the bit of a guess.
fn lease(now: Nanos, exact: bool) -> u64 {
    (now + INHERITED_FOR).0 & !GUESSED | if exact { 0 } else { GUESSED }
}

/// For how long a client's thread has waited for an unknown holder, if it does.
fn stuck_for(slot: &AccountSlot, now: Nanos) -> Option<Nanos> {
    let waited = now.since(Nanos(slot.blocked_ns.load(Relaxed)));
    let stuck = slot.blocked.load(Relaxed) & UNKNOWN != 0;
    (stuck && waited >= STUCK_AFTER && waited < STUCK_FOR).then_some(waited)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::io::{IoMapping, Names};

    #[test]
    fn who_gives_up_does_not_take_the_inheritance_of_others() {
        let path = std::env::temp_dir().join(format!("headworks-gives-up-{}", std::process::id()));
        let path = std::ffi::CString::new(path.into_os_string().into_encoded_bytes()).unwrap();
        let region = IoMapping::create(&path, None).unwrap().region();
        std::fs::remove_file(path.to_str().unwrap()).unwrap();
        region.start(SplitKind::Rcp, true);
        let thread = || {
            let work = || (region.account(Names::default), lock::thread_id());
            std::thread::spawn(work).join().unwrap()
        };
        let [(holder, tid), (waits, _), (gives_up, _)] = [(); 3].map(|()| thread());
        region.blocks(waits, Blocker::Mutex, Some(tid), true);
        region.blocks(gives_up, Blocker::Condition, Some(tid), false);
        let until = || region.accounts[usize::from(holder)].inherits_until_ns.load(Relaxed);
        region.unblocks(gives_up);
        assert_ne!(until(), 0);
        region.unblocks(waits);
        assert_eq!(until(), 0);
    }

    #[test]
    fn a_thread_that_died_while_it_waited_is_not_counted_for_ever() {
        let path = std::env::temp_dir().join(format!("headworks-waits-{}", std::process::id()));
        let path = std::ffi::CString::new(path.into_os_string().into_encoded_bytes()).unwrap();
        let region = IoMapping::create(&path, None).unwrap().region();
        region.start(SplitKind::Rcp, true);
        let account = || std::thread::spawn(|| region.account(Names::default)).join().unwrap();
        let dead = std::thread::spawn(|| {
            let account = region.account(Names::default);
            // A signal handler may wait inside a wait, or jump out of it.
            region.blocks(account, Blocker::Semaphore, None, false);
            region.blocks(account, Blocker::Semaphore, None, false);
            account
        });
        let dead = dead.join().unwrap();
        assert_eq!(region.inheritance.unknown.load(Relaxed), 1);
        while account() != dead {}
        assert_eq!(region.inheritance.unknown.load(Relaxed), 0);
        std::fs::remove_file(path.to_str().unwrap()).unwrap();
    }
}
