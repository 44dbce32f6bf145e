//! Accounts: who is charged for I/O, and what configuration says of them.
//!
//! Each thread that does governed I/O has an account. Rules give it a priority, a limit that it
//! shares with all threads of its rule (the rule's *group*), and give files the deadlines of their
//! `fsync`s.

use crate::rules::glob;
use crate::text::{SharedText, Text};
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use headworks_policy::Nanos;
use headworks_policy::split::{Account, AccountSettings};

/// Rules that a region can hold. The group of rule i has account i + 1.
pub const RULES: usize = 32;

/// The first account of a thread.
pub(super) const FIRST_THREAD: usize = RULES + 1;

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
}

/// A rule.
#[derive(Clone, Copy, Debug)]
pub struct IoRule {
    /// What it speaks of.
    pub subject: Subject,
    /// Pattern with `*` and `?`.
    pub pattern: Text,
    /// Deadline of `fsync`s of the file; zero for none.
    pub deadline: Nanos,
    /// Priority of the threads, 0 (highest) to 7.
    pub level: u8,
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
    _pad: AtomicU32,
    rules: [RuleSlot; RULES],
}

headworks_policy::layout!(RuleTable { version, _pad, rules });

impl RuleTable {
    /// Replaces all. Those beyond [`RULES`] are left out.
    pub(super) fn set(&self, rules: &[IoRule]) {
        for (at, slot) in self.rules.iter().enumerate() {
            let Some(rule) = rules.get(at) else {
                slot.subject.store(Subject::Nothing as u32, Relaxed);
                continue;
            };
            slot.level.store(rule.level.into(), Relaxed);
            slot.ground.store(rule.ground as u32, Relaxed);
            slot.deadline_ns.store(rule.deadline.0, Relaxed);
            slot.rate.store(rule.rate, Relaxed);
            slot.burst.store(rule.burst, Relaxed);
            slot.pattern.set(rule.pattern.bytes());
            slot.subject.store(rule.subject as u32, Relaxed);
        }
        self.version.fetch_add(1, Relaxed);
    }

    fn find(&self, subject: Subject, names: [&[u8]; 2]) -> Option<(usize, &RuleSlot)> {
        self.rules.iter().enumerate().find(|(_, rule)| {
            rule.subject.load(Relaxed) == subject as u32
                && names.iter().any(|name| glob(rule.pattern.get().bytes(), name))
        })
    }

    /// Deadline of a file's `fsync`s; zero for none.
    pub(super) fn deadline(&self, path: &[u8]) -> Nanos {
        self.find(Subject::File, [path, b""])
            .map_or(Nanos(0), |(_, rule)| Nanos(rule.deadline_ns.load(Relaxed)))
    }

    /// Whether rules say that clients wait for a thread.
    pub(super) fn ground(&self, name: &[u8], title: &[u8]) -> Ground {
        self.find(Subject::Thread, [name, title])
            .map_or(Ground::Unknown, |(_, rule)| Ground::from_word(rule.ground.load(Relaxed)))
    }

    /// What rules say of a thread, and of its group if it has one.
    pub(super) fn thread(
        &self,
        name: &[u8],
        title: &[u8],
    ) -> (AccountSettings, Option<(Account, AccountSettings)>) {
        let usual = AccountSettings { level: 4, ..AccountSettings::default() };
        let Some((at, rule)) = self.find(Subject::Thread, [name, title]) else {
            return (usual, None);
        };
        let own = AccountSettings { level: rule.level.load(Relaxed).min(7) as u8, ..usual };
        let rate = rule.rate.load(Relaxed);
        if rate == 0 {
            return (own, None);
        }
        let group = (at + 1) as Account;
        let settings = AccountSettings {
            rate: Some(rate as f64),
            burst: rule.burst.load(Relaxed),
            ..AccountSettings::default()
        };
        (AccountSettings { parent: Some(group), ..own }, Some((group, settings)))
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
    /// Group plus one; zero for none.
    pub group: AtomicU32,
    /// Whether rules say that clients wait for it: a [`Ground`].
    pub ground: AtomicU32,
    /// The call of it that waits, plus one.
    pub(super) task: AtomicU32,
    /// What it waits for: a [`super::criticality::Blocker`].
    pub(super) blocked: AtomicU32,
    /// The thread that has it, as far as is known; zero for nobody.
    pub(super) blocked_by: AtomicU32,
    /// Since when it waits.
    pub(super) blocked_ns: AtomicU64,
    /// What was done about it: bits of [`super::waits`].
    pub(super) done: AtomicU32,
    _pad: AtomicU32,
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
    task,
    blocked,
    blocked_by,
    blocked_ns,
    done,
    _pad,
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
        for word in [&self.ground, &self.task, &self.blocked, &self.blocked_by, &self.done] {
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
