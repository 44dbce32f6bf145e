//! Rules: what configuration says of threads and files.
//!
//! They give a thread a priority, a limit that it shares with all threads of its rule (the rule's
//! *group*), and a deadline for its `fsync`s. They give a file a deadline for its `fsync`s.

use crate::rules::glob;
use crate::text::{SharedText, Text};
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicU32, AtomicU64};
use headworks_policy::Nanos;
use headworks_policy::split::{Account, AccountSettings, GROUPS, USUAL_LEVEL};

/// Rules that a region can hold. The group of rule i has account i + 1.
pub const RULES: usize = 32;

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
    pub foreground: Foreground,
    /// The application of a storage server that the threads' requests are of, if the rule says so.
    pub application: Text,
}

/// Whether clients wait for what a thread does (RCP, section 4.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u32)]
pub enum Foreground {
    /// The gate says.
    #[default]
    ByGate = 0,
    /// They do.
    Yes = 1,
    /// They do not.
    No = 2,
}

impl Foreground {
    pub(super) fn from_word(word: u32) -> Foreground {
        match word {
            1 => Foreground::Yes,
            2 => Foreground::No,
            _ => Foreground::ByGate,
        }
    }
}

/// The same in shared memory.
#[derive(Debug)]
#[repr(C)]
pub(super) struct RuleSlot {
    subject: AtomicU32,
    level: AtomicU32,
    foreground: AtomicU32,
    _pad: AtomicU32,
    deadline_ns: AtomicU64,
    rate: AtomicU64,
    burst: AtomicU64,
    pattern: SharedText,
    application: SharedText,
}

headworks_policy::layout!(RuleSlot {
    subject,
    level,
    foreground,
    _pad,
    deadline_ns,
    rate,
    burst,
    pattern,
    application
});

/// All rules, and a number that changes with them.
#[derive(Debug)]
#[repr(C)]
pub(super) struct RuleTable {
    version: AtomicU32,
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
            slot.foreground.store(rule.foreground as u32, Relaxed);
            slot.deadline_ns.store(rule.deadline.0, Relaxed);
            slot.rate.store(rule.rate, Relaxed);
            slot.burst.store(rule.burst, Relaxed);
            slot.pattern.set(rule.pattern.bytes());
            slot.application.set(rule.application.bytes());
            slot.subject.store(rule.subject as u32, Relaxed);
        }
        let subjects = rules.iter().take(RULES).fold(0, |all, rule| all | 1 << rule.subject as u32);
        self.subjects.store(subjects, Relaxed);
        self.version.fetch_add(1, Release);
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
        self.version.load(Acquire) & !(1 << 31)
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
    pub(super) fn foreground(&self, names: &Names) -> Foreground {
        let said = |subject| {
            let (_, rule) = self.of_thread(subject, names)?;
            Some(Foreground::from_word(rule.foreground.load(Relaxed)))
        };
        let mut all = OF_THREADS.into_iter().filter_map(said);
        all.find(|said| *said != Foreground::ByGate).unwrap_or_default()
    }

    /// The number of the rule, from 1, that says which application a thread is of; zero if none
    /// does.
    pub(super) fn tag(&self, names: &Names) -> u16 {
        let says = |subject| {
            let (at, rule) = self.of_thread(subject, names)?;
            // Below RULES.
            (!rule.application.get().bytes().is_empty()).then_some(at as u16 + 1)
        };
        OF_THREADS.into_iter().find_map(says).unwrap_or(0)
    }

    /// The application that this rule names.
    pub(super) fn application(&self, tag: u16) -> Option<Text> {
        let rule = self.rules.get(usize::from(tag).checked_sub(1)?)?;
        let used = rule.subject.load(Relaxed) != Subject::Nothing as u32;
        Some(rule.application.get()).filter(|name| used && !name.bytes().is_empty())
    }

    /// Deadline of a thread's `fsync`s; zero for none.
    pub(super) fn thread_deadline(&self, names: &Names) -> Nanos {
        let said = |subject| {
            let (_, rule) = self.of_thread(subject, names)?;
            Some(Nanos(rule.deadline_ns.load(Relaxed)))
        };
        let mut all = OF_THREADS.into_iter().filter_map(said);
        all.find(|deadline| *deadline > Nanos(0)).unwrap_or_default()
    }

    /// What rules say of a thread. Tells of each group that it is in.
    pub(super) fn thread(
        &self,
        names: &Names,
        mut tell: impl FnMut(Account, &AccountSettings),
    ) -> AccountSettings {
        let mut own = AccountSettings::default();
        let mut level = None;
        for (subject, group) in OF_THREADS.into_iter().zip(&mut own.groups) {
            let Some((at, rule)) = self.of_thread(subject, names) else { continue };
            let given = u8::try_from(rule.level.load(Relaxed)).ok();
            level = level.or(given.filter(|level| *level <= 7));
            let rate = rule.rate.load(Relaxed);
            if rate > 0 {
                *group = Some((at + 1) as Account);
                let (level, burst) = (USUAL_LEVEL, rule.burst.load(Relaxed));
                let rate = Some(rate as f64);
                let settings = AccountSettings { level, rate, burst, groups: [None; GROUPS] };
                tell((at + 1) as Account, &settings);
            }
        }
        own.level = level.unwrap_or(USUAL_LEVEL);
        own
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(subject: Subject, pattern: &str, rate: u64, level: Option<u8>) -> IoRule {
        let (deadline, burst, foreground) = (Nanos(0), 0, Foreground::ByGate);
        let pattern = Text::new(pattern.as_bytes());
        let application = Text::EMPTY;
        IoRule { subject, pattern, deadline, level, rate, burst, foreground, application }
    }

    #[test]
    fn a_thread_is_of_the_application_that_its_first_rule_with_one_names() {
        let of = |name: &str| Text::new(name.as_bytes());
        let with = |subject, pattern, application| IoRule {
            application: of(application),
            ..rule(subject, pattern, 0, None)
        };
        // SAFETY: made of integers, for which zero bytes are valid.
        let table: Box<RuleTable> = Box::new(unsafe { core::mem::zeroed() });
        table.set(&[
            with(Subject::Thread, "flusher*", "upkeep"),
            with(Subject::Class, "checkout", "orders"),
            rule(Subject::Thread, "*", 0, Some(3)),
        ]);
        let names = |name, class| Names { name: of(name), class: of(class), ..Names::default() };
        let tags = [("flusher-1", "checkout"), ("worker", "checkout"), ("worker", "reports")];
        assert_eq!(tags.map(|(name, class)| table.tag(&names(name, class))), [1, 2, 0]);
        let application = |tag| table.application(tag).map(|name| name.bytes().to_vec());
        assert_eq!(application(2).as_deref(), Some(&b"orders"[..]));
        assert_eq!([0, 3, 9, 1_000].map(application), [const { None }; 4]);
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
            let mut told = Vec::new();
            let own = table.thread(&names(name, class, cgroup), |group, _| told.push(group));
            assert_eq!(own.groups.into_iter().flatten().collect::<Vec<_>>(), told);
            (own.groups, own.level)
        };
        assert_eq!(of("copy 1", "reports", "/batch.slice/x"), ([Some(2), Some(3), Some(1)], 5));
        assert_eq!(of("x", "reports", "/"), ([None, Some(3), None], 5));
        assert_eq!(of("x", "other", "/batch.slice/x"), ([None, None, Some(1)], 1));
        assert_eq!(of("copy 1", "", "/batch.slice/x"), ([Some(2), None, Some(1)], 6));
        assert_eq!(of("x", "", ""), ([None; 3], USUAL_LEVEL));
    }
}
