//! Accounts: who is charged for I/O, and what configuration says of them.
//!
//! Each thread that does governed I/O has an account. Rules give it a priority, a limit that it
//! shares with all threads of its rule (the rule's *group*), and give files the deadlines of their
//! `fsync`s.

use super::{Guarded, IoRegion};
use crate::lock::{thread_exists, thread_id};
use crate::rules::glob;
use crate::text::{SharedText, Text};
use crate::{clock, thread};
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use headworks_policy::Nanos;
use headworks_policy::split::{ACCOUNTS, Account, AccountSettings, GROUPS, USUAL_LEVEL};

/// Rules that a region can hold. The group of rule i has account i + 1.
pub const RULES: usize = 32;

/// The first account of a thread.
const FIRST_THREAD: usize = RULES + 1;

/// When all accounts are in use, nobody looks for one of a dead thread for so long.
const FULL_FOR: Nanos = Nanos::from_millis(1_000);

/// What a rule speaks of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u32)]
pub enum Subject {
    /// The rule is not used.
    #[default]
    Nothing = 0,
    /// Files whose path fits.
    File = 1,
    /// Threads whose name fits, or whose process has a title that fits.
    Thread = 2,
    /// Threads that serve a session of a class whose name fits.
    Class = 3,
    /// Threads of processes in a control group whose path fits.
    Cgroup = 4,
}

/// What rules know a thread by. Texts that are not known are empty.
#[derive(Clone, Copy, Debug, Default)]
pub struct Names {
    /// Name of the thread.
    pub name: Text,
    /// Title of its process.
    pub title: Text,
    /// Class of the session that it serves.
    pub class: Text,
    /// The end of its process's path in the hierarchy of control groups.
    pub cgroup: Text,
}

/// Rules of a thread. What a thread uses counts for its section of threads, for its class and for
/// its control group.
const OF_THREADS: [Subject; GROUPS] = [Subject::Thread, Subject::Class, Subject::Cgroup];

/// A rule.
#[derive(Clone, Copy, Debug)]
pub struct IoRule {
    /// What it speaks of.
    pub subject: Subject,
    /// Pattern with `*` and `?`.
    pub pattern: Text,
    /// Deadline of `fsync`s of the file or the threads; zero for none.
    pub deadline: Nanos,
    /// Priority of the threads, 0 (highest) to 7, if the rule gives one.
    pub level: Option<u8>,
    /// Normalized bytes a second that the threads share; zero for no limit.
    pub rate: u64,
    /// Normalized bytes that they may save up; zero for a second's worth.
    pub burst: u64,
    /// Whether clients wait for the threads, for the scheduler `rcp`.
    pub ground: Ground,
}

/// Whether clients wait for what a thread does (RCP, section 4.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u32)]
pub enum Ground {
    /// The gate knows, or nobody says.
    #[default]
    Unknown = 0,
    /// They do.
    Foreground = 1,
    /// They do not.
    Background = 2,
}

impl Ground {
    pub(super) fn from_word(word: u32) -> Ground {
        match word {
            1 => Ground::Foreground,
            2 => Ground::Background,
            _ => Ground::Unknown,
        }
    }
}

/// The same in shared memory.
#[derive(Debug)]
#[repr(C)]
pub(super) struct RuleSlot {
    subject: AtomicU32,
    level: AtomicU32,
    ground: AtomicU32,
    _pad: AtomicU32,
    deadline_ns: AtomicU64,
    rate: AtomicU64,
    burst: AtomicU64,
    pattern: SharedText,
}

headworks_policy::layout!(RuleSlot {
    subject,
    level,
    ground,
    _pad,
    deadline_ns,
    rate,
    burst,
    pattern
});

/// All rules, and a number that changes with them.
#[derive(Debug)]
#[repr(C)]
pub(super) struct RuleTable {
    pub(super) version: AtomicU32,
    /// Subjects of the rules, one bit each.
    subjects: AtomicU32,
    rules: [RuleSlot; RULES],
}

headworks_policy::layout!(RuleTable { version, subjects, rules });

impl RuleTable {
    /// Replaces all. Those beyond [`RULES`] are left out.
    pub(super) fn set(&self, rules: &[IoRule]) {
        for (at, slot) in self.rules.iter().enumerate() {
            let Some(rule) = rules.get(at) else {
                slot.subject.store(Subject::Nothing as u32, Relaxed);
                continue;
            };
            slot.level.store(rule.level.map_or(u32::MAX, u32::from), Relaxed);
            slot.ground.store(rule.ground as u32, Relaxed);
            slot.deadline_ns.store(rule.deadline.0, Relaxed);
            slot.rate.store(rule.rate, Relaxed);
            slot.burst.store(rule.burst, Relaxed);
            slot.pattern.set(rule.pattern.bytes());
            slot.subject.store(rule.subject as u32, Relaxed);
        }
        let subjects = rules.iter().take(RULES).fold(0, |all, rule| all | 1 << rule.subject as u32);
        self.subjects.store(subjects, Relaxed);
        self.version.fetch_add(1, Relaxed);
    }

    fn find(&self, subject: Subject, names: &[&[u8]]) -> Option<(usize, &RuleSlot)> {
        self.rules.iter().enumerate().find(|(_, rule)| {
            rule.subject.load(Relaxed) == subject as u32
                && names.iter().any(|name| glob(rule.pattern.get().bytes(), name))
        })
    }

    /// Whether any rule speaks of this.
    #[inline]
    pub(super) fn speaks_of(&self, subject: Subject) -> bool {
        self.subjects.load(Relaxed) >> subject as u32 & 1 != 0
    }

    /// Which rules these are; never that of no rules, `u32::MAX`.
    pub(super) fn version(&self) -> u32 {
        self.version.load(Relaxed) & !(1 << 31)
    }

    /// Deadline of a file's `fsync`s; zero for none.
    pub(super) fn deadline(&self, path: &[u8]) -> Nanos {
        self.find(Subject::File, &[path])
            .map_or(Nanos(0), |(_, rule)| Nanos(rule.deadline_ns.load(Relaxed)))
    }

    fn of_thread(&self, subject: Subject, names: &Names) -> Option<(usize, &RuleSlot)> {
        let one = match subject {
            Subject::Class => &names.class,
            Subject::Cgroup => &names.cgroup,
            _ => return self.find(subject, &[names.name.bytes(), names.title.bytes()]),
        };
        // A thread without a class is in none, not even in `*`.
        if one.bytes().is_empty() { None } else { self.find(subject, &[one.bytes()]) }
    }

    /// Whether rules say that clients wait for a thread.
    pub(super) fn ground(&self, names: &Names) -> Ground {
        let said = |subject| {
            let (_, rule) = self.of_thread(subject, names)?;
            Some(Ground::from_word(rule.ground.load(Relaxed)))
        };
        let mut all = OF_THREADS.into_iter().filter_map(said);
        all.find(|ground| *ground != Ground::Unknown).unwrap_or_default()
    }

    /// Deadline of a thread's `fsync`s; zero for none.
    fn thread_deadline(&self, names: &Names) -> Nanos {
        let said = |subject| {
            let (_, rule) = self.of_thread(subject, names)?;
            Some(Nanos(rule.deadline_ns.load(Relaxed)))
        };
        let mut all = OF_THREADS.into_iter().filter_map(said);
        all.find(|deadline| *deadline > Nanos(0)).unwrap_or_default()
    }

    /// What rules say of a thread, and of the groups that it is in.
    pub(super) fn thread(
        &self,
        names: &Names,
    ) -> (AccountSettings, [Option<(Account, AccountSettings)>; GROUPS]) {
        let found = OF_THREADS.map(|subject| self.of_thread(subject, names));
        let level = |(_, rule): &(usize, &RuleSlot)| u8::try_from(rule.level.load(Relaxed)).ok();
        let level = found.iter().flatten().filter_map(level).find(|level| *level <= 7);
        let groups = found.map(|found| {
            let (at, rule) = found.filter(|(_, rule)| rule.rate.load(Relaxed) > 0)?;
            let rate = Some(rule.rate.load(Relaxed) as f64);
            let burst = rule.burst.load(Relaxed);
            let settings =
                AccountSettings { level: USUAL_LEVEL, rate, burst, ..AccountSettings::default() };
            Some(((at + 1) as Account, settings))
        });
        let own = AccountSettings {
            level: level.unwrap_or(USUAL_LEVEL),
            groups: groups.map(|group| group.map(|(group, _)| group)),
            ..AccountSettings::default()
        };
        (own, groups)
    }
}

/// An account's owner and what it did. Counters are written by its own thread.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct AccountSlot {
    /// Its thread; zero for an unused slot.
    pub tid: AtomicU32,
    /// Version of the rules by which it was set.
    pub(super) rules: AtomicU32,
    /// Name of the thread, or the title of its process.
    pub name: SharedText,
    /// Priority.
    pub level: AtomicU32,
    /// Its first group, plus one; zero for none.
    pub group: AtomicU32,
    /// Whether rules say that clients wait for it: a [`Ground`].
    pub ground: AtomicU32,
    /// Whether clients waited for its last call, without inheritance.
    pub(super) foreground: AtomicU32,
    /// The call of it that waits, plus one.
    pub(super) task: AtomicU32,
    /// What it waits for: a [`super::criticality::Blocker`].
    pub(super) blocked: AtomicU32,
    /// The thread that has it, as far as is known; zero for nobody.
    pub(super) blocked_by: AtomicU32,
    /// What was done about it: bits of [`super::waits`].
    pub(super) done: AtomicU32,
    /// Since when it waits.
    pub(super) blocked_ns: AtomicU64,
    /// Class of the session that it serves, plus one; zero for none.
    pub(super) class: AtomicU32,
    _pad: AtomicU32,
    /// Deadline of its `fsync`s; zero for none.
    pub(super) deadline_ns: AtomicU64,
    /// Until when it counts as a client's, because one waits for it.
    pub(super) inherits_until_ns: AtomicU64,
    /// Calls that a client waited for.
    pub critical: AtomicU64,
    /// Calls that nobody waited for.
    pub background: AtomicU64,
    /// Times it inherited a client's criticality.
    pub inherited: AtomicU64,
    /// Governed writes.
    pub writes: AtomicU64,
    /// Bytes that they wrote.
    pub written_bytes: AtomicU64,
    /// `fsync`s and their like.
    pub fsyncs: AtomicU64,
    /// Time from their call to their return.
    pub fsync_ns: AtomicU64,
    /// Reads that went to the device.
    pub reads: AtomicU64,
    /// Bytes that they read.
    pub read_bytes: AtomicU64,
    /// Calls that were held.
    pub held: AtomicU64,
    /// Time for which they were.
    pub held_ns: AtomicU64,
    /// Pieces written back before an `fsync`.
    pub written_back: AtomicU64,
}

headworks_policy::layout!(AccountSlot {
    tid,
    rules,
    name,
    level,
    group,
    ground,
    foreground,
    task,
    blocked,
    blocked_by,
    done,
    blocked_ns,
    class,
    _pad,
    deadline_ns,
    inherits_until_ns,
    critical,
    background,
    inherited,
    writes,
    written_bytes,
    fsyncs,
    fsync_ns,
    reads,
    read_bytes,
    held,
    held_ns,
    written_back
});

impl AccountSlot {
    /// Another thread has it from now on.
    pub(super) fn reset(&self, tid: u32, name: &[u8]) {
        self.name.set(name);
        for word in [
            &self.ground,
            &self.foreground,
            &self.task,
            &self.blocked,
            &self.blocked_by,
            &self.done,
        ] {
            word.store(0, Relaxed);
        }
        for counter in [
            &self.inherits_until_ns,
            &self.critical,
            &self.background,
            &self.inherited,
            &self.writes,
            &self.written_bytes,
            &self.fsyncs,
            &self.fsync_ns,
            &self.reads,
            &self.read_bytes,
            &self.held,
            &self.held_ns,
            &self.written_back,
        ] {
            counter.store(0, Relaxed);
        }
        self.rules.store(u32::MAX, Relaxed);
        self.tid.store(tid, Relaxed);
    }
}

impl IoRegion {
    /// The calling thread's account. `names` is asked only when it is new, serves another class, or
    /// the rules have changed.
    pub fn account(&self, names: impl FnOnce() -> Names) -> Account {
        let me = thread_id();
        let version = self.rules.version.load(Relaxed);
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
        let names = names();
        let Some(found) = self.locked(|guarded| self.claim_account(guarded, me, last, &names))
        else {
            return if own.is_some() { last } else { 0 };
        };
        if let Some(slot) = self.accounts.get(usize::from(found)).filter(|_| found != 0) {
            slot.class.store(class.into(), Relaxed);
        }
        thread::with(|words| words.account.set(found));
        found
    }

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
        slot.rules.store(self.rules.version.load(Relaxed), Relaxed);
        let (settings, groups) = self.rules.thread(names);
        slot.level.store(settings.level.into(), Relaxed);
        slot.ground.store(self.rules.ground(names) as u32, Relaxed);
        slot.deadline_ns.store(self.rules.thread_deadline(names).0, Relaxed);
        self.inheritance.note_thread(me, at as Account);
        let group = settings.groups.into_iter().flatten().next();
        slot.group.store(group.map_or(0, |group| u32::from(group) + 1), Relaxed);
        let now = clock::now();
        let scheduler = guarded.split.scheduler();
        for (group, settings) in groups.iter().flatten() {
            scheduler.set_account(now, *group, settings);
        }
        scheduler.set_account(now, at as Account, &settings);
        at as Account
    }

    /// The scheduler forgets accounts for which others wait in vain: their threads have ended. Says
    /// whether there were any.
    pub(super) fn forget_ended(&self, guarded: &mut Guarded, now: Nanos) -> bool {
        let lives = |account: Account| {
            let slot = self.accounts.get(usize::from(account));
            slot.is_none_or(|slot| thread_exists(slot.tid.load(Relaxed)))
        };
        guarded.split.scheduler().forget_ended(now, &lives)
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
        // Threads without an account of their own share account 0, which has no deadline.
        let own = (account != 0).then(|| self.accounts.get(usize::from(account))).flatten();
        let own = own.map_or(Nanos(0), |slot| Nanos(slot.deadline_ns.load(Relaxed)));
        let both = [own, of_file];
        both.into_iter().filter(|deadline| *deadline > Nanos(0)).min().unwrap_or_default()
    }

    /// Priority of an account, 0 (highest) to 7.
    pub fn level(&self, account: Account) -> u8 {
        let own = (account != 0).then(|| self.accounts.get(usize::from(account))).flatten();
        let level = own.map(|slot| slot.level.load(Relaxed));
        level.and_then(|level| u8::try_from(level).ok()).unwrap_or(USUAL_LEVEL).min(7)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(subject: Subject, pattern: &str, rate: u64, level: Option<u8>) -> IoRule {
        let (deadline, burst, ground) = (Nanos(0), 0, Ground::Unknown);
        let pattern = Text::new(pattern.as_bytes());
        IoRule { subject, pattern, deadline, level, rate, burst, ground }
    }

    #[test]
    fn what_a_thread_uses_counts_for_its_section_its_class_and_its_control_group() {
        // SAFETY: made of integers, for which zero bytes are valid.
        let table: RuleTable = unsafe { core::mem::zeroed() };
        assert!(!table.speaks_of(Subject::Class));
        table.set(&[
            rule(Subject::Cgroup, "/batch.slice/*", 5, Some(6)),
            rule(Subject::Thread, "copy*", 3, None),
            rule(Subject::Class, "reports", 4, Some(5)),
            rule(Subject::Class, "*", 0, Some(1)),
        ]);
        assert!(table.speaks_of(Subject::Class) && !table.speaks_of(Subject::File));
        let names = |name: &str, class: &str, cgroup: &str| {
            let text = |text: &str| Text::new(text.as_bytes());
            let (name, class, cgroup) = (text(name), text(class), text(cgroup));
            Names { name, class, cgroup, ..Names::default() }
        };
        let of = |name, class, cgroup| {
            let (own, groups) = table.thread(&names(name, class, cgroup));
            let told = groups.map(|group| group.map(|(group, _)| group));
            assert_eq!(own.groups, told);
            (told, own.level)
        };
        assert_eq!(of("copy 1", "reports", "/batch.slice/x"), ([Some(2), Some(3), Some(1)], 5));
        assert_eq!(of("x", "reports", "/"), ([None, Some(3), None], 5));
        assert_eq!(of("x", "other", "/batch.slice/x"), ([None, None, Some(1)], 1));
        assert_eq!(of("copy 1", "", "/batch.slice/x"), ([Some(2), None, Some(1)], 6));
        assert_eq!(of("x", "", ""), ([None; 3], USUAL_LEVEL));
    }
}
