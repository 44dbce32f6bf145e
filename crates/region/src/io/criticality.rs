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
//! A held thread polls. If a client waits for a lock that this thread holds, its call goes on. That
//! finds what the note missed: a note written while the call was on its way to be held, or a lease
//! that ended before the wait did.
//!
//! The holder may be unknown (readers of a lock, a semaphore, an inlined futex), or another thread
//! than at the time of the note, because a lock went from hand to hand. When a client's thread has
//! waited for [`STUCK_AFTER`], or for [`STUCK_THOUGH_KNOWN`] for a holder that was known, the
//! scheduler may let the held call go ([`Scheduler::may_block_clients`]).
//!
//! A thread whose last call was its client's own inherits nothing: it has no need to, and the
//! client that waits would look for others that wait for it, with the lock in its hands.
//!
//! # Invariants
//! All of this is a hint. It is written without a lock, and may be torn or late. A thread that dies
//! while it waits leaves a note that counts as a stuck client for [`STUCK_FOR`] at most, and keeps
//! its holder's inheritance for [`INHERITED_FOR`]. Wrong notes let a call go too early, or leave it
//! held as long as the scheduler would hold it anyway. A wrong verdict on a guess lets calls on one
//! file go for some time (`policy::split::trust`).

use super::{AccountSlot, IoRegion, SplitKind};
use crate::lock::{self, thread_exists, thread_id};
use crate::{clock, thread};
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

/// The same if the holder was known when it began to wait.
pub const STUCK_THOUGH_KNOWN: Nanos = Nanos::from_millis(100);

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
    /// Threads of clients that wait for a lock or its like: a hint, which is wrong if one was
    /// killed.
    clients: AtomicU32,
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
    clients,
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
        let (in_background, said) =
            thread::with(|words| (words.background.get(), words.ground.get()));
        match Ground::from_word(slot.ground.load(Relaxed)) {
            Ground::Foreground => return true,
            Ground::Background => return false,
            Ground::Unknown => {}
        }
        match said {
            _ if in_background => false,
            thread::DECLARED_FOREGROUND | thread::SERVES_CLIENTS | thread::SERVES_UNSEEN => true,
            thread::DECLARED_BACKGROUND => false,
            // Without a gate that knows, only threads that are said to be are background. Threads
            // beyond all accounts have no rules.
            _ => account == 0 || !self.control.gate_knows(),
        }
    }

    /// Whether the calling thread waits for work: a thread of the server's between two connections,
    /// or one that a rule names between two jobs. A thread in the background works for somebody.
    fn idles(&self, slot: &AccountSlot, on: Blocker) -> bool {
        let (serving, said) = thread::with(|words| (words.serving.get() != 0, words.ground.get()));
        let idle = match said {
            thread::DECLARED_FOREGROUND | thread::SERVES_UNSEEN => false,
            thread::SERVES_CLIENTS => !serving && self.control.gate_knows(),
            _ => Ground::from_word(slot.ground.load(Relaxed)) == Ground::Foreground,
        };
        idle && on == Blocker::Condition
    }

    /// The calling thread's session is one of the background: what is known of its last call does
    /// not hold for the next one.
    pub fn turns_to_background(&self) {
        let account = thread::with(|words| words.account.get());
        let own = |slot: &&AccountSlot| slot.tid.load(Relaxed) == thread_id();
        if let Some(slot) = self.accounts.get(usize::from(account)).filter(own) {
            slot.foreground.store(0, Relaxed);
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
        let critical = self.urgency(account) != Urgency::Background && !self.idles(slot, on);
        let known = exact && holder.is_some();
        let flags = if critical { CRITICAL } else { 0 } | if known { KNOWN } else { 0 };
        slot.blocked.store(on as u32 | flags, Relaxed);
        if critical {
            self.inheritance.clients.fetch_add(1, Relaxed);
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
        let mut chain = [Account::MAX; CHAIN_MAX];
        let mut at = account;
        for link in 1..CHAIN_MAX {
            chain[link - 1] = at;
            // Notes that are guesses may go round.
            let Some(holder) = next(at).filter(|holder| !chain.contains(holder)) else { break };
            let Some(slot) = self.accounts.get(usize::from(holder)) else { break };
            at = holder;
            if slot.foreground.load(Relaxed) != 0 && slot.task.load(Relaxed) == 0 {
                continue;
            }
            slot.extend_lease(now, exact);
            slot.inherited.fetch_add(1, Relaxed);
            self.inheritance.by_blocker[on as usize].fetch_add(1, Relaxed);
            self.inheritance.longest_chain.fetch_max(link as u32, Relaxed);
            let promoted = if self.promote(now, holder, exact) { PROMOTED } else { 0 };
            client.done.fetch_or(INHERITED | promoted, Relaxed);
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
            let exact = client.blocked.load(Relaxed) & KNOWN != 0;
            new.inherits_until_ns.store(lease(now, exact), Relaxed);
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
        let holder = self.account_of(by).and_then(|at| self.accounts.get(usize::from(at)));
        let Some(lease) = holder.map(|holder| &holder.inherits_until_ns) else { return };
        let until = lease.load(Relaxed);
        if until != 0 && !self.accounts.iter().any(others) {
            // A client that has begun to wait meanwhile has extended it.
            let _ = lease.compare_exchange(until, 0, Relaxed, Relaxed);
        }
    }

    /// The thread of this account does not wait any more, or is dead. Returns whom it waited for.
    pub(super) fn forget_wait(&self, slot: &AccountSlot) -> u32 {
        if slot.blocked.swap(0, Relaxed) & CRITICAL != 0 {
            let less = |count: u32| Some(count.saturating_sub(1));
            let _ = self.inheritance.clients.fetch_update(Relaxed, Relaxed, less);
        }
        slot.blocked_by.swap(0, Relaxed)
    }

    /// The call of this account that is held goes on. Says whether there was one.
    fn promote(&self, now: Nanos, account: Account, sure: bool) -> bool {
        let Some(slot) = self.accounts.get(usize::from(account)) else { return false };
        let Some(task) = slot.task.load(Relaxed).checked_sub(1) else { return false };
        // Numbers of tasks are used again: this one may be another thread's by now.
        let tid = self.tasks.get(task as usize).map(|task| task.tid.load(Relaxed));
        if tid != Some(slot.tid.load(Relaxed)) {
            return false;
        }
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

    /// Lets this task of the calling thread go on if a client waits for it, or if a client's thread
    /// is stuck and may wait for it. Says whether it does.
    pub(super) fn may_block_clients(&self, now: Nanos, account: Account, task: Task) -> bool {
        if self.inheritance.clients.load(Relaxed) == 0 {
            return false;
        }
        let me = thread_id();
        let waits_for_me = |slot: &AccountSlot| {
            slot.blocked_by.load(Relaxed) == me
                && slot.blocked.load(Relaxed) & (CRITICAL | KNOWN) == CRITICAL | KNOWN
                && thread_exists(slot.tid.load(Relaxed))
        };
        let client = self.accounts.iter().find(|slot| waits_for_me(slot));
        if (client.is_some() || self.urgency(account) == Urgency::Critical)
            && self.goes_on(now, task, |scheduler| scheduler.promote(now, task, true))
        {
            if let Some(client) = client {
                client.done.fetch_or(PROMOTED, Relaxed);
            }
            return true;
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
        slot.foreground.store(self.is_foreground(call.account).into(), Relaxed);
        if held.is_some() && call.account != 0 {
            // Another thread's number may have taken its place in the table.
            self.inheritance.note_thread(thread_id(), call.account);
        }
        let counter = if background { &slot.background } else { &slot.critical };
        counter.fetch_add(1, Relaxed);
        slot.task.store(held.map_or(0, |task| u32::from(task) + 1), Relaxed);
    }
}

/// The holder was known for sure when the wait began. Beside the kind in [`AccountSlot::blocked`].
const KNOWN: u32 = 1 << 8;

/// A client waits for the thread.
const CRITICAL: u32 = 1 << 9;

/// The lowest bit of the time until which an account inherits: it does so by a guess.
const GUESSED: u64 = 1;

/// Until when an account inherits, with the bit of a guess.
fn lease(now: Nanos, exact: bool) -> u64 {
    (now + INHERITED_FOR).0 & !GUESSED | if exact { 0 } else { GUESSED }
}

/// For how long a client's thread has been stuck, if it is.
fn stuck_for(slot: &AccountSlot, now: Nanos) -> Option<Nanos> {
    let waited = now.since(Nanos(slot.blocked_ns.load(Relaxed)));
    let blocked = slot.blocked.load(Relaxed);
    let least = if blocked & KNOWN != 0 { STUCK_THOUGH_KNOWN } else { STUCK_AFTER };
    (blocked & CRITICAL != 0 && waited >= least && waited < STUCK_FOR).then_some(waited)
}

impl AccountSlot {
    /// It inherits from now on. A guess takes nothing from what is known for sure.
    fn extend_lease(&self, now: Nanos, exact: bool) {
        let extend = |until: u64| {
            let known = until > now.0 && until & GUESSED == 0;
            Some(lease(now, exact || known))
        };
        let _ = self.inherits_until_ns.fetch_update(Relaxed, Relaxed, extend);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::io::{CallKind, IoMapping, IoRule, Names, Order, Subject, Ticket};
    use crate::text::Text;

    fn region(name: &str) -> &'static IoRegion {
        let path = std::env::temp_dir().join(format!("headworks-{name}-{}", std::process::id()));
        let path = std::ffi::CString::new(path.into_os_string().into_encoded_bytes()).unwrap();
        let region = IoMapping::create(&path, None).unwrap().region();
        std::fs::remove_file(path.to_str().unwrap()).unwrap();
        region.start(SplitKind::Rcp, true);
        region.set_rules(&[IoRule {
            subject: Subject::Thread,
            pattern: Text::new(b"back*"),
            deadline: Nanos(0),
            level: None,
            rate: 0,
            burst: 0,
            ground: Ground::Background,
        }]);
        region
    }

    /// An account of a thread that has ended, and that thread's number.
    fn of_another_thread(region: &'static IoRegion) -> (Account, u32) {
        let work = || (region.account(Names::default), lock::thread_id());
        std::thread::spawn(work).join().unwrap()
    }

    /// The calling thread is background, and calls `fsync` with much to write: it is held.
    fn held(region: &'static IoRegion, inode: u64) -> (u16, Ticket) {
        let account = region.account(|| Names { name: Text::new(b"back"), ..Names::default() });
        let (file, _) = region.file(1, inode, |_| 0).unwrap();
        for page in 0..100 {
            region.wrote(account, file, page << 20, 4096);
        }
        let ticket = region.enter(CallKind::Fsync, account, file, 0);
        assert!(!region.is_admitted(&ticket));
        (file, ticket)
    }

    #[test]
    fn who_gives_up_does_not_take_the_inheritance_of_others() {
        let region = region("gives-up");
        let [(holder, tid), (waits, _), (gives_up, _)] =
            [(); 3].map(|()| of_another_thread(region));
        region.blocks(waits, Blocker::Mutex, Some(tid), true);
        region.blocks(gives_up, Blocker::Semaphore, Some(tid), false);
        let until = || region.accounts[usize::from(holder)].inherits_until_ns.load(Relaxed);
        assert_eq!(until() & GUESSED, 0, "a guess does not weaken what is known");
        region.unblocks(gives_up);
        assert_ne!(until(), 0);
        region.unblocks(waits);
        assert_eq!(until(), 0);
    }

    #[test]
    fn a_file_is_awaited_while_its_writer_inherits() {
        let region = region("awaited");
        let (client, _) = of_another_thread(region);
        let (file, ticket) = held(region, 7);
        assert!(!region.awaited().has(file));
        region.blocks(client, Blocker::Mutex, Some(thread_id()), true);
        assert!(region.is_admitted(&ticket));
        assert!(region.awaited().has(file));
        region.unblocks(client);
        assert!(!region.awaited().has(file));
        region.leave(ticket, None);
    }

    #[test]
    fn a_held_thread_finds_who_waits_for_it_when_the_note_has_failed() {
        let region = region("finds");
        let (end, ends) = std::sync::mpsc::channel::<()>();
        let (say, hear) = std::sync::mpsc::channel();
        let client = std::thread::spawn(move || {
            say.send(region.account(Names::default)).unwrap();
            let _ = ends.recv();
        });
        let account = hear.recv().unwrap();
        let own = region.account(|| Names { name: Text::new(b"back"), ..Names::default() });
        region.blocks(account, Blocker::Mutex, Some(thread_id()), true);
        // It ends before the wait does.
        region.accounts[usize::from(own)].inherits_until_ns.store(0, Relaxed);
        let (_, ticket) = held(region, 7);
        assert!(matches!(region.next_order(&ticket, true), Order::WriteBack(_)));
        assert_eq!(region.next_order(&ticket, true), Order::Go);
        region.leave(ticket, None);
        region.unblocks(account);
        drop(end);
        client.join().unwrap();
    }

    #[test]
    fn a_chain_of_waits_goes_on_over_a_condition() {
        let region = region("chain");
        region.control.gate_learns();
        let [(client, _), (holder, tid), (helper, helps)] =
            [(); 3].map(|()| of_another_thread(region));
        thread::with(|words| words.ground.set(thread::SERVES_CLIENTS));
        region.blocks(client, Blocker::Mutex, Some(tid), true);
        // From here on this thread stands for the holder, which serves no client.
        thread::with(|words| words.ground.set(0));
        region.blocks(holder, Blocker::Condition, Some(helps), false);
        assert_ne!(region.accounts[usize::from(helper)].inherits_until_ns.load(Relaxed), 0);
    }

    #[test]
    fn a_number_that_another_threads_call_has_by_now_is_not_promoted() {
        let region = region("number");
        let (client, _) = of_another_thread(region);
        let (end, ends) = std::sync::mpsc::channel::<()>();
        let (say, hear) = std::sync::mpsc::channel();
        let old = std::thread::spawn(move || {
            let (_, ticket) = held(region, 7);
            let task = ticket.task;
            region.leave(ticket, None);
            say.send((thread_id(), task)).unwrap();
            let _ = ends.recv();
        });
        let (tid, task) = hear.recv().unwrap();
        region.locked(|guarded| guarded.next_task = task.unwrap().into());
        let (_, ticket) = held(region, 8);
        assert_eq!(ticket.task, task);
        region.blocks(client, Blocker::Mutex, Some(tid), true);
        assert!(!region.is_admitted(&ticket));
        region.unblocks(client);
        region.leave(ticket, None);
        drop(end);
        old.join().unwrap();
    }

    #[test]
    fn a_thread_that_died_while_it_waited_is_not_counted_for_ever() {
        let region = region("waits");
        let account = || std::thread::spawn(|| region.account(Names::default)).join().unwrap();
        let dead = std::thread::spawn(|| {
            let account = region.account(Names::default);
            // A signal handler may wait inside a wait, or jump out of it.
            region.blocks(account, Blocker::Semaphore, None, false);
            region.blocks(account, Blocker::Semaphore, None, false);
            account
        });
        let dead = dead.join().unwrap();
        assert_eq!(region.inheritance.clients.load(Relaxed), 1);
        while account() != dead {}
        assert_eq!(region.inheritance.clients.load(Relaxed), 0);
    }
}
