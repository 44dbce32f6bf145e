//! Which account a thread has: it claims one at its first call, and the rules set it.

use super::layout::{Guarded, IoRegion};
use super::rules::{Names, RULES, Subject};
use crate::lock::{thread_exists, thread_id};
use crate::text::Text;
use crate::{clock, thread};
use core::sync::atomic::Ordering::Relaxed;
use headworks_policy::Nanos;
use headworks_policy::split::{ACCOUNTS, Account, USUAL_LEVEL};

/// The first account of a thread.
const FIRST_THREAD: usize = RULES + 1;

/// How long no search for a dead thread's account is made once all accounts are in use.
const FULL_FOR: Nanos = Nanos::from_millis(1_000);

impl IoRegion {
    /// The calling thread's account. `tell` fills its names in. It is asked only when the thread is
    /// new, serves another class, or the rules have changed.
    pub fn account(&self, tell: impl FnOnce(&mut Names)) -> Account {
        let me = thread_id();
        let version = self.rules.version();
        let last = thread::with(|words| words.account.get());
        let class = match self.rules.speaks_of(Subject::Class) {
            true => thread::with(|words| words.class.get()),
            false => 0,
        };
        let own = self.accounts.get(usize::from(last)).filter(|slot| slot.tid.load(Relaxed) == me);
        if own.is_some_and(|slot| {
            slot.rules.load(Relaxed) == version && slot.class.load(Relaxed) == u32::from(class)
        }) {
            return last;
        }
        if own.is_none() && self.accounts_are_full() {
            return 0;
        }
        let Some(found) = self.claim(me, last, tell) else {
            return if own.is_some() { last } else { 0 };
        };
        if let Some(slot) = self.accounts.get(usize::from(found)).filter(|_| found != 0) {
            slot.class.store(class.into(), Relaxed);
        }
        thread::with(|words| words.account.set(found));
        found
    }

    #[cold]
    #[inline(never)]
    fn claim(&self, me: u32, last: Account, tell: impl FnOnce(&mut Names)) -> Option<Account> {
        let mut names = Names::default();
        tell(&mut names);
        self.locked(|guarded| {
            let found = self.claim_account(guarded, me, last, &names);
            if found != 0 {
                self.set_account(guarded, found, &names);
            }
            found
        })
    }

    #[inline(never)]
    fn claim_account(
        &self,
        guarded: &mut Guarded,
        me: u32,
        last: Account,
        names: &Names,
    ) -> Account {
        let (name, title) = (names.name.bytes(), names.title.bytes());
        let own = |at: usize| self.accounts[at].tid.load(Relaxed) == me;
        let threads = FIRST_THREAD..ACCOUNTS;
        let at = if threads.contains(&usize::from(last)) && own(usize::from(last)) {
            Some(usize::from(last))
        } else {
            let count = ACCOUNTS - FIRST_THREAD;
            let begin = guarded.next_account as usize % count;
            let in_turn = |step: usize| FIRST_THREAD + (begin + step) % count;
            // One that it lost sight of, because the lock was busy.
            let known = self.account_of(me).map(usize::from).filter(|at| threads.contains(at));
            let unused = |at: &usize| self.accounts[*at].tid.load(Relaxed) == 0;
            let free = known.or_else(|| (0..count).map(in_turn).find(unused));
            // Threads end without a word: their accounts are looked for when all are in use.
            let ended = |at: &usize| !thread_exists(self.accounts[*at].tid.load(Relaxed));
            let free = free.or_else(|| match self.accounts_are_full() {
                true => None,
                false => (0..count).map(in_turn).find(ended),
            });
            guarded.next_account =
                free.map_or(guarded.next_account, |at| (at - FIRST_THREAD + 1) as u32);
            free
        };
        let Some(at) = at else {
            if !self.accounts_are_full() {
                self.control.accounts_full.fetch_add(1, Relaxed);
                let until = clock::now() + FULL_FOR;
                self.control.accounts_full_until_ns.store(until.0, Relaxed);
            }
            return 0;
        };
        let slot = &self.accounts[at];
        if slot.tid.load(Relaxed) != me {
            // A name that is the program's own says less than a title that was set.
            let first = title.split(|byte| *byte == b' ').next().unwrap_or(title);
            let program = first.rsplit(|byte| *byte == b'/').next().unwrap_or(first);
            let own_name = !name.is_empty() && !program.starts_with(name);
            self.forget_wait(slot);
            slot.reset(me, if own_name || title.is_empty() { name } else { title });
            self.inherit_at_first(me, slot);
            guarded.split.scheduler().forget_account(at as Account);
        }
        self.inheritance.note_thread(me, at as Account);
        at as Account
    }

    /// What rules say of the account's thread is in force.
    #[inline(never)]
    fn set_account(&self, guarded: &mut Guarded, account: Account, names: &Names) {
        let slot = &self.accounts[usize::from(account)];
        slot.rules.store(self.rules.version(), Relaxed);
        let now = clock::now();
        let scheduler = guarded.split.scheduler();
        let settings = self.rules.thread(names, |group, settings| {
            scheduler.set_account(now, group, settings);
        });
        slot.level.store(settings.level.into(), Relaxed);
        slot.foreground_by_rule.store(self.rules.foreground(names) as u32, Relaxed);
        slot.deadline_ns.store(self.rules.thread_deadline(names).0, Relaxed);
        slot.tag.store(self.rules.tag(names).into(), Relaxed);
        let group = settings.groups.into_iter().flatten().next();
        slot.group.store(group.map_or(0, |group| u32::from(group) + 1), Relaxed);
        scheduler.set_account(now, account, &settings);
    }

    /// All accounts were in use a moment ago.
    fn accounts_are_full(&self) -> bool {
        let until = Nanos(self.control.accounts_full_until_ns.load(Relaxed));
        let left = until.since(clock::now());
        left > Nanos(0) && left <= FULL_FOR
    }

    /// Whether rules speak of control groups.
    pub fn asks_for_cgroups(&self) -> bool {
        self.rules.speaks_of(Subject::Cgroup)
    }

    /// Deadline of an `fsync`: the shorter one of the account's and the file's. Zero for none.
    pub(super) fn deadline(&self, account: Account, of_file: Nanos) -> Nanos {
        // Threads that found no free account share account 0, which has no deadline.
        let own = (account != 0).then(|| self.accounts.get(usize::from(account))).flatten();
        let own = own.map_or(Nanos(0), |slot| Nanos(slot.deadline_ns.load(Relaxed)));
        let both = [own, of_file];
        both.into_iter().filter(|deadline| *deadline > Nanos(0)).min().unwrap_or_default()
    }

    /// What a storage server knows the requests of an account by: see [`IoRegion::application`].
    /// Zero if no rule says.
    pub fn tag(&self, account: Account) -> u16 {
        let own = (account != 0).then(|| self.accounts.get(usize::from(account))).flatten();
        own.and_then(|slot| u16::try_from(slot.tag.load(Relaxed)).ok()).unwrap_or(0)
    }

    /// The application of this tag, as the rules name it.
    pub fn application(&self, tag: u16) -> Option<Text> {
        self.rules.application(tag)
    }

    /// Priority of an account, 0 (highest) to 7.
    pub fn level(&self, account: Account) -> u8 {
        let own = (account != 0).then(|| self.accounts.get(usize::from(account))).flatten();
        let level = own.map(|slot| slot.level.load(Relaxed));
        level.and_then(|level| u8::try_from(level).ok()).unwrap_or(USUAL_LEVEL).min(7)
    }
}
