//! What the scheduler of an instance's files tells `io top`, `status`, `top` and the exporters.

use super::{unheld, unseen, waits};
use crate::instance::Instance;
use headworks_region::clock;
use headworks_region::io::BLOCKER_NAMES;
use headworks_region::io::{IoMapping, RULES};
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::atomic::Ordering::Relaxed;

/// Counters of an account.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Account {
    pub thread: u32,
    pub name: String,
    pub priority: u32,
    pub limited: bool,
    pub writes: u64,
    pub written_bytes: u64,
    pub fsyncs: u64,
    pub fsync_ns: u64,
    pub reads: u64,
    pub read_bytes: u64,
    pub held: u64,
    pub held_ns: u64,
    /// A call of it is held at this moment.
    pub waits: bool,
    pub written_back_pieces: u64,
    /// With `rcp`: calls that a client waited for, and others.
    pub critical: u64,
    pub background: u64,
    /// With `rcp`: times a client waited for something that this thread held.
    pub inherited: u64,
}

impl Account {
    /// Whether it made calls.
    pub fn has_calls(&self) -> bool {
        self.writes + self.fsyncs + self.reads + self.held > 0
    }

    pub fn since(&self, before: &Account) -> Account {
        let less = |now: u64, before: u64| now.saturating_sub(before);
        Account {
            name: self.name.clone(),
            writes: less(self.writes, before.writes),
            written_bytes: less(self.written_bytes, before.written_bytes),
            fsyncs: less(self.fsyncs, before.fsyncs),
            fsync_ns: less(self.fsync_ns, before.fsync_ns),
            reads: less(self.reads, before.reads),
            read_bytes: less(self.read_bytes, before.read_bytes),
            held: less(self.held, before.held),
            held_ns: less(self.held_ns, before.held_ns),
            written_back_pieces: less(self.written_back_pieces, before.written_back_pieces),
            critical: less(self.critical, before.critical),
            background: less(self.background, before.background),
            inherited: less(self.inherited, before.inherited),
            ..*self
        }
    }
}

/// Counters since the start, and what is unusual. Rates are taken from two of these.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Files {
    pub instance: String,
    /// Time of the machine's monotonic clock.
    pub at_s: f64,
    pub scheduler: String,
    pub on: bool,
    pub disk: bool,
    pub waiting: usize,
    /// Calls that passed, and why.
    pub lock_busy: u64,
    pub tasks_full: u64,
    pub hold_limit: u64,
    pub files_full: u64,
    pub accounts_full: u64,
    pub restarted: u64,
    pub panics: u64,
    /// With `rcp`: which waits passed on a client's criticality.
    pub inheritance: Inheritance,
    /// What clients waited for, by cause.
    pub waits: BTreeMap<&'static str, waits::Sum>,
    /// What cannot be held.
    pub rings: Vec<unheld::Rings>,
    /// Processes whose writes no hook sees.
    pub unseen: Vec<unseen::Unseen>,
    pub mapped_files: u64,
    pub accounts: Vec<Account>,
}

/// What clients waited for.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Inheritance {
    /// Times a thread inherited criticality, by the cause of the wait.
    pub by_cause: BTreeMap<&'static str, u64>,
    /// Held calls that went on because a client waited for them.
    pub promoted: u64,
    pub longest_chain: u32,
}

impl Inheritance {
    fn of(region: &IoMapping) -> Self {
        let counts = &region.inheritance;
        let by_cause = BLOCKER_NAMES
            .iter()
            .zip(&counts.by_blocker)
            .filter(|(name, _)| !name.is_empty())
            .map(|(name, count)| (*name, count.load(Relaxed)))
            .collect();
        Inheritance {
            by_cause,
            promoted: counts.promoted.load(Relaxed),
            longest_chain: counts.longest_chain.load(Relaxed),
        }
    }

    /// One line: rates per second, by cause.
    pub(super) fn line(&self, before: &Inheritance, seconds: f64) -> String {
        let per = |now: u64, before: u64| now.saturating_sub(before) as f64 / seconds.max(1e-3);
        let causes: Vec<String> = self
            .by_cause
            .iter()
            .map(|(name, count)| (name, per(*count, *before.by_cause.get(name).unwrap_or(&0))))
            .filter(|(_, rate)| *rate > 0.0)
            .map(|(name, rate)| format!("{name} {rate:.1}"))
            .collect();
        format!(
            "inherited/s: {}; {:.1} held calls/s went on; longest chain {}",
            if causes.is_empty() { "none".to_owned() } else { causes.join(", ") },
            per(self.promoted, before.promoted),
            self.longest_chain,
        )
    }
}

impl Files {
    /// Of an instance; `None` if its files are not scheduled, or its region cannot be opened.
    pub fn read(instance: &Instance) -> Option<Files> {
        let region = instance.io_path().exists().then(|| instance.open_io().ok())??;
        Some(Files::of(instance, &region))
    }

    /// The account that this thread had here, if its counters only rose since.
    pub fn of_thread(&self, later: &Account) -> Option<&Account> {
        let same = |account: &&Account| {
            (account.thread, &account.name) == (later.thread, &later.name)
                && account.writes + account.fsyncs + account.reads
                    <= later.writes + later.fsyncs + later.reads
        };
        self.accounts.iter().find(same)
    }

    /// Calls that passed, by why: for machines, how many, for people.
    pub fn passed(&self) -> [(&'static str, u64, &'static str); 7] {
        [
            ("hold-limit", self.hold_limit, "calls passed after the longest hold"),
            ("lock-busy", self.lock_busy, "calls passed because the lock was busy"),
            ("calls-full", self.tasks_full, "calls passed because the table of calls was full"),
            (
                "files-full",
                self.files_full,
                "times a file was not governed because the table of files was full",
            ),
            (
                "accounts-full",
                self.accounts_full,
                "times threads shared an account because all were in use",
            ),
            (
                "restarted",
                self.restarted,
                "times the scheduler was reset because a thread died inside",
            ),
            (
                "panics",
                self.panics,
                "processes whose files are not governed after an internal error",
            ),
        ]
    }

    pub(super) fn of(instance: &Instance, region: &IoMapping) -> Files {
        let control = &region.control;
        let waiting: Vec<u32> = region.waiting_threads().collect();
        let accounts = region.accounts.iter().skip(RULES + 1).filter_map(|slot| {
            let thread = slot.tid.load(Relaxed);
            (thread != 0).then(|| Account {
                thread,
                name: slot.name.get().to_display(),
                priority: slot.level.load(Relaxed),
                limited: slot.group.load(Relaxed) != 0,
                writes: slot.writes.load(Relaxed),
                written_bytes: slot.written_bytes.load(Relaxed),
                fsyncs: slot.fsyncs.load(Relaxed),
                fsync_ns: slot.fsync_ns.load(Relaxed),
                reads: slot.reads.load(Relaxed),
                read_bytes: slot.read_bytes.load(Relaxed),
                held: slot.held.load(Relaxed),
                held_ns: slot.held_ns.load(Relaxed),
                waits: waiting.contains(&thread),
                written_back_pieces: slot.written_back.load(Relaxed),
                critical: slot.critical.load(Relaxed),
                background: slot.background.load(Relaxed),
                inherited: slot.inherited.load(Relaxed),
            })
        });
        Files {
            instance: instance.name.clone(),
            at_s: clock::now().as_millis_f64() / 1e3,
            scheduler: control.kind().name().to_owned(),
            on: control.is_on(),
            disk: control.rotational(),
            waiting: waiting.len(),
            lock_busy: control.lock_busy.load(Relaxed),
            tasks_full: control.tasks_full.load(Relaxed),
            hold_limit: control.hold_limit.load(Relaxed),
            files_full: control.files_full.load(Relaxed),
            accounts_full: control.accounts_full.load(Relaxed),
            restarted: control.restarted.load(Relaxed),
            panics: control.panics.load(Relaxed),
            inheritance: Inheritance::of(region),
            waits: waits::sums(region),
            rings: unheld::rings(instance, region),
            unseen: unseen::processes(instance, region),
            mapped_files: region.unheld.mapped_files.load(Relaxed),
            accounts: accounts.collect(),
        }
    }
}
