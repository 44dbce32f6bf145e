//! Accounts: who is charged for I/O. Each thread that does governed I/O has one
//! ([`super::claim`]), and so has each group of threads that share a rate ([`super::rules`]).

use crate::text::SharedText;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use headworks_policy::Nanos;

/// A thread that inherits stays critical for so long, unless the wait ends before.
pub const INHERITED_FOR: Nanos = Nanos::from_millis(10_000);

/// The holder was known for sure when the wait began. Beside the kind in [`AccountSlot::blocked`].
pub(super) const KNOWN: u32 = 1 << 8;

/// A client waits for the thread.
pub(super) const CRITICAL: u32 = 1 << 9;

/// The lowest bit of the time until which an account inherits: it does so by a guess.
pub(super) const GUESSED: u64 = 1;

/// Until when an account inherits, with the bit of a guess.
pub(super) fn lease(now: Nanos, exact: bool) -> u64 {
    (now + INHERITED_FOR).0 & !GUESSED | if exact { 0 } else { GUESSED }
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
    /// Whether rules say that clients wait for it: a [`super::Foreground`].
    pub foreground_by_rule: AtomicU32,
    /// Whether clients waited for its last call, without inheritance.
    pub(super) foreground: AtomicU32,
    /// The call of it that waits, plus one.
    pub(super) task: AtomicU32,
    /// What it waits for: a [`super::Blocker`], with [`KNOWN`] and [`CRITICAL`].
    pub(super) blocked: AtomicU32,
    /// The thread that has it, as far as is known; zero for none.
    pub(super) blocked_by: AtomicU32,
    /// What was done about it: bits of [`super::waits`].
    pub(super) done: AtomicU32,
    /// Since when it waits.
    pub(super) blocked_ns: AtomicU64,
    /// Class of the session that it serves, plus one; zero for none.
    pub(super) class: AtomicU32,
    /// The rule that says which application its requests are of, from 1; zero for none.
    pub(super) tag: AtomicU32,
    /// Deadline of its `fsync`s; zero for none.
    pub(super) deadline_ns: AtomicU64,
    /// Until when it counts as a client's, because one waits for it.
    pub(super) inherits_until_ns: AtomicU64,
    /// Calls that a client waited for.
    pub critical: AtomicU64,
    /// Calls that no client waited for.
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
    foreground_by_rule,
    foreground,
    task,
    blocked,
    blocked_by,
    done,
    blocked_ns,
    class,
    tag,
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
            &self.foreground_by_rule,
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

    /// It inherits from now on. A guess takes nothing from what is known for sure.
    pub(super) fn extend_lease(&self, now: Nanos, exact: bool) {
        let extend = |until: u64| {
            let known = until > now.0 && until & GUESSED == 0;
            Some(lease(now, exact || known))
        };
        let _ = self.inherits_until_ns.fetch_update(Relaxed, Relaxed, extend);
    }

    /// The thread does not wait any more. Returns whether a client waited by it, and for whom.
    pub(super) fn end_wait(&self) -> (bool, u32) {
        let client = self.blocked.swap(0, Relaxed) & CRITICAL != 0;
        (client, self.blocked_by.swap(0, Relaxed))
    }
}
