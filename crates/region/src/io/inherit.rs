//! Who inherits that a client waits for it (RCP, sections 4.2 and 4.4).
//!
//! # Problem
//! A thread that serves a client's request is *foreground*; what it does is critical. A background
//! thread becomes critical while a foreground thread waits for a lock that it holds, or for a
//! condition that it will signal. It may itself wait for another thread, or be held by the
//! scheduler.
//!
//! # The primitive
//! A thread that is about to block notes what it waits for, and which thread holds it if that is
//! known ([`IoRegion::blocks`]). If a client waits for the caller, every thread along the chain of
//! these notes inherits. Its calls are critical until the wait ends or its lease does, and its held
//! call goes on at once. What a note misses, a held thread finds itself, or guesses
//! ([`super::guess`]).
//!
//! A foreground thread gets no lease. Its calls are critical anyway, and to end a lease scans all
//! accounts, which the client would do while it holds the lock.
//!
//! # Invariants
//! All of this is a hint. It is written without a lock, and may be torn or late. A thread that dies
//! while it waits keeps its holder's inheritance until the lease ends. Wrong notes let a call go
//! too early, or leave it held as long as the scheduler would hold it anyway.

use super::account::{AccountSlot, CRITICAL, KNOWN, lease};
use super::guess::RIGHT_WITHIN;
use super::layout::IoRegion;
use super::notes::{BLOCKERS, Blocker};
use super::waits::{ClientWait, INHERITED, PROMOTED};
use crate::text::Text;
use crate::{clock, thread};
use core::sync::atomic::Ordering::Relaxed;
use headworks_policy::Nanos;
use headworks_policy::split::{Account, Criticality, Scheduler, Task};

/// Links of a chain that are followed (at most four were seen: RCP, section 4.4).
const CHAIN_MAX: usize = 16;

impl IoRegion {
    /// Whether notes of who waits for whom are wanted.
    #[inline]
    pub fn follows_waits(&self) -> bool {
        self.control.kind().puts_clients_first()
            && self.control.is_on()
            && self.control.without_inheritance.load(Relaxed) == 0
    }

    /// The account of a thread, if it has one.
    pub(super) fn account_of(&self, tid: u32) -> Option<Account> {
        let at = self.inheritance.account(tid);
        let slot = self.accounts.get(usize::from(at))?;
        (tid != 0 && slot.tid.load(Relaxed) == tid).then_some(at)
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
        let critical =
            self.criticality(account) != Criticality::Background && !self.idles(slot, on);
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
        if !self.control.kind().puts_clients_first() {
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
            let right =
                self.inheritance.guess.returned().is_some_and(|at| now.since(at) < RIGHT_WITHIN);
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
        let (client, by) = slot.end_wait();
        if client {
            let less = |count: u32| Some(count.saturating_sub(1));
            let _ = self.inheritance.clients.fetch_update(Relaxed, Relaxed, less);
        }
        by
    }

    /// The call of this account that is held goes on. Says whether there was one.
    pub(super) fn promote(&self, now: Nanos, account: Account, sure: bool) -> bool {
        let Some(slot) = self.accounts.get(usize::from(account)) else { return false };
        let Some(task) = slot.task.load(Relaxed).checked_sub(1) else { return false };
        // Numbers of tasks are used again: this one may be another thread's by now.
        let tid = self.tasks.get(task as usize).map(|task| task.tid.load(Relaxed));
        if tid != Some(slot.tid.load(Relaxed)) {
            return false;
        }
        let promote = |scheduler: &mut dyn Scheduler| scheduler.promote(now, task as Task, sure);
        let goes = self.resume_if(now, task as Task, promote);
        if goes {
            slot.task.store(0, Relaxed);
        }
        goes
    }

    /// The calling thread has waited for a lock or its like since `began`.
    fn note_lock_wait(&self, account: Account, cause: usize, began: Nanos, holder: u32, done: u32) {
        let serves = thread::with(|words| words.serving.get() != 0);
        let idle = cause == Blocker::Condition as usize && !serves;
        let took = clock::now().since(began);
        if cause < BLOCKERS
            && !idle
            && let Some(wait) = self.client_wait(account, cause, began, took)
        {
            self.waits.note(ClientWait { holder, done, ..wait }, || {
                let slot = self.account_of(holder);
                let slot = slot.and_then(|at| self.accounts.get(usize::from(at)));
                slot.map_or(Text::EMPTY, |slot| slot.name.get())
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::io::account::GUESSED;
    use crate::io::{CallKind, Foreground, IoMapping, IoRule, Order, Subject, Ticket};
    use crate::lock::thread_id;
    use headworks_policy::split::SplitKind;

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
            foreground: Foreground::No,
            application: Text::EMPTY,
        }]);
        region
    }

    /// An account of a thread that has ended, and that thread's number.
    fn of_another_thread(region: &'static IoRegion) -> (Account, u32) {
        let work = || (region.account(|_| ()), thread_id());
        std::thread::spawn(work).join().unwrap()
    }

    /// The calling thread is background, and calls `fsync` with much to write: it is held.
    fn held(region: &'static IoRegion, inode: u64) -> (u16, Ticket) {
        let account = region.account(|names| names.name = Text::new(b"back"));
        let file = region.file(1, inode, |_| 0).unwrap().slot;
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
        let region = region("critical");
        let (client, _) = of_another_thread(region);
        let (file, ticket) = held(region, 7);
        assert!(!region.critical_files().has(file));
        region.blocks(client, Blocker::Mutex, Some(thread_id()), true);
        assert!(region.is_admitted(&ticket));
        assert!(region.critical_files().has(file));
        region.unblocks(client);
        assert!(!region.critical_files().has(file));
        region.leave(ticket);
    }

    #[test]
    fn a_held_thread_finds_who_waits_for_it_when_the_note_has_failed() {
        let region = region("finds");
        let (end, ends) = std::sync::mpsc::channel::<()>();
        let (say, hear) = std::sync::mpsc::channel();
        let client = std::thread::spawn(move || {
            say.send(region.account(|_| ())).unwrap();
            let _ = ends.recv();
        });
        let account = hear.recv().unwrap();
        let own = region.account(|names| names.name = Text::new(b"back"));
        region.blocks(account, Blocker::Mutex, Some(thread_id()), true);
        // It ends before the wait does.
        region.accounts[usize::from(own)].inherits_until_ns.store(0, Relaxed);
        let (_, ticket) = held(region, 7);
        assert!(matches!(region.next_order(&ticket, true), Order::WriteBack(_)));
        assert_eq!(region.next_order(&ticket, true), Order::Go);
        region.leave(ticket);
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
        thread::with(|words| words.role.set(thread::SERVES_CLIENTS));
        region.blocks(client, Blocker::Mutex, Some(tid), true);
        // From here on this thread stands for the holder, which serves no client.
        thread::with(|words| words.role.set(0));
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
            region.leave(ticket);
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
        region.leave(ticket);
        drop(end);
        old.join().unwrap();
    }

    #[test]
    fn a_thread_that_died_while_it_waited_is_not_counted_for_ever() {
        let region = region("waits");
        let account = || std::thread::spawn(|| region.account(|_| ())).join().unwrap();
        let dead = std::thread::spawn(|| {
            let account = region.account(|_| ());
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
