//! What an I/O region consists of, and its lock. The other files say what is done with it.

use super::account::AccountSlot;
use super::notes::Inheritance;
use super::places::Places;
use super::rules::RuleTable;
use super::tally::{FILES, Tally};
use super::unheld::Unheld;
use super::waits::ClientWaits;
use crate::lock::RobustLock;
use crate::text::SharedText;
use crate::{clock, futex};
use core::cell::UnsafeCell;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicU32, AtomicU64};
use headworks_policy::Nanos;
use headworks_policy::split::learn::Learner;
use headworks_policy::split::{
    ACCOUNTS, Account, Call, CallKind, Criticality, SplitKind, SplitState, TASKS,
};

/// A call could not get the lock. During this time after it, other calls wait for the lock for 2 ms
/// at most.
const BUSY_FOR: Nanos = Nanos::from_millis(1_000);

/// Longest time without progress, unless set.
const HOLD_MAX: Nanos = Nanos::from_millis(1_000);

#[derive(Debug)]
#[repr(C, align(64))]
pub(super) struct Header {
    pub(super) magic: AtomicU64,
    pub(super) bytes: AtomicU64,
    /// PID namespace in which it was made: numbers of threads mean something there only.
    pub(super) pid_ns: AtomicU64,
    /// Hash of the layout: a build with another one refuses the region.
    pub(super) version: AtomicU64,
}
headworks_policy::layout!(Header { magic, bytes, pid_ns, version });

/// Settings and counters that every process reads.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct IoControl {
    pub(super) kind: AtomicU32,
    off: AtomicU32,
    pub(super) rotational: AtomicU32,
    pub(super) hold_max_ms: AtomicU32,
    /// Bytes that background tasks may have dirtied; zero for the scheduler's own default.
    pub(super) dirty_max: AtomicU64,
    /// Reads of the background at a time; zero for the scheduler's own default.
    pub(super) reads: AtomicU32,
    _pad: AtomicU32,
    /// Whether the gate tells which threads serve clients, so that all others are background.
    gate_knows: AtomicU32,
    /// A thread that holds what a client waits for does not inherit its criticality.
    pub(super) without_inheritance: AtomicU32,
    /// Nothing but a guess tells the kind of device: `fsync`s may correct it.
    pub(super) learns_device: AtomicU32,
    _pad2: AtomicU32,
    /// Calls that passed because the region's lock was busy.
    pub lock_busy: AtomicU64,
    /// Until this time, calls wait for the lock for 2 ms at most.
    lock_busy_until_ns: AtomicU64,
    /// Calls that passed because all tasks were in use.
    pub tasks_full: AtomicU64,
    /// Calls that passed because nothing happened for the longest hold.
    pub hold_limit: AtomicU64,
    /// Files that are not governed because the table of files is full of dirty ones.
    pub files_full: AtomicU64,
    /// Times that all accounts were found to be in use. Threads without one share account 0 then.
    pub accounts_full: AtomicU64,
    /// No search for a free account is made before this time.
    pub(super) accounts_full_until_ns: AtomicU64,
    /// Times the scheduler restarted because a thread died with the lock.
    pub restarted: AtomicU64,
    /// Errors inside the library.
    pub panics: AtomicU64,
}

headworks_policy::layout!(IoControl {
    kind,
    off,
    rotational,
    hold_max_ms,
    dirty_max,
    reads,
    _pad,
    gate_knows,
    without_inheritance,
    learns_device,
    _pad2,
    lock_busy,
    lock_busy_until_ns,
    tasks_full,
    hold_limit,
    files_full,
    accounts_full,
    accounts_full_until_ns,
    restarted,
    panics
});

/// Of [`IoControl::gate_knows`]; zero: nothing is known of clients.
const KNOWS: u32 = 1;
const CANNOT_KNOW: u32 = 2;

impl IoControl {
    /// Whether the scheduler wants to hear of such calls before they run.
    #[inline]
    pub fn hears(&self, kind: CallKind) -> bool {
        self.kind().hears(kind)
    }

    /// The scheduler that is in force.
    pub fn kind(&self) -> SplitKind {
        SplitKind::from_word(self.kind.load(Relaxed))
    }

    /// Whether calls go to the scheduler at all.
    pub fn is_on(&self) -> bool {
        self.off.load(Relaxed) == 0 && self.kind() != SplitKind::Noop
    }

    /// Whether the gate tells which threads serve clients, so that all others are background.
    pub fn gate_knows(&self) -> bool {
        self.gate_knows.load(Relaxed) == KNOWS
    }

    /// The gate tells that from now on, unless it was [found](IoControl::gate_cannot_know) that it
    /// cannot.
    pub fn gate_learns(&self) {
        if self.gate_knows.load(Relaxed) == 0 {
            let _ = self.gate_knows.compare_exchange(0, KNOWS, Relaxed, Relaxed);
        }
    }

    /// A thread serves several clients at once: no thread is background for not serving any.
    pub fn gate_cannot_know(&self) {
        self.gate_knows.store(CANNOT_KNOW, Relaxed);
    }

    /// Lets all calls pass from now on, or no longer.
    pub fn set_off(&self, off: bool) {
        self.off.store(off.into(), Relaxed);
    }

    /// Longest time without progress after which a call passes.
    pub fn hold_max(&self) -> Nanos {
        match self.hold_max_ms.load(Relaxed) {
            0 => HOLD_MAX,
            ms => Nanos::from_millis(ms.into()),
        }
    }

    /// Whether small `fsync`s may correct the kind of device. Not where an operator has named it.
    pub fn learn_device(&self, on: bool) {
        self.learns_device.store(on.into(), Relaxed);
    }

    /// Whether the device is a disk.
    pub fn rotational(&self) -> bool {
        self.rotational.load(Relaxed) != 0
    }
}

/// A task's word: its state in the lower two bits, and above them a count that changes whenever
/// its thread is to look.
pub(super) const FREE: u32 = 0;
pub(super) const WAITING: u32 = 1;
pub(super) const RUNNING: u32 = 2;
/// It runs without the scheduler's leave, which does not hear of its return.
pub(super) const PASSED: u32 = 3;
pub(super) const STATE: u32 = 3;
pub(super) const CHANGE: u32 = 4;

#[derive(Debug)]
#[repr(C, align(64))]
pub(super) struct TaskSlot {
    pub word: AtomicU32,
    /// Pieces to write back that its thread has not begun.
    pub orders: AtomicU32,
    pub tid: AtomicU32,
    pub kind: AtomicU32,
    pub account: AtomicU32,
    pub file: AtomicU32,
    pub criticality: AtomicU32,
    pub pieces: AtomicU32,
    _pad: AtomicU32,
    pub since_ns: AtomicU64,
    pub progress_ns: AtomicU64,
}

headworks_policy::layout!(TaskSlot {
    word,
    orders,
    tid,
    kind,
    account,
    file,
    criticality,
    pieces,
    _pad,
    since_ns,
    progress_ns
});

impl TaskSlot {
    /// [`FREE`], [`WAITING`], [`RUNNING`] or [`PASSED`].
    pub fn state(&self) -> u32 {
        self.word.load(Acquire) & STATE
    }

    /// If the task waits, it goes on in this state. Says whether it waited.
    pub fn end_wait(&self, state: u32) -> bool {
        let next = |word: u32| {
            (word & STATE == WAITING).then(|| (word & !STATE).wrapping_add(CHANGE) | state)
        };
        let waited = self.word.fetch_update(Release, Relaxed, next).is_ok();
        if waited {
            futex::wake(&self.word, 1);
        }
        waited
    }

    /// What was entered, as far as its return needs it.
    pub fn call(&self) -> (CallKind, Call) {
        let kind = CallKind::from_word(self.kind.load(Relaxed));
        let call = Call {
            account: self.account.load(Relaxed) as Account,
            file: self.file.load(Relaxed),
            criticality: Criticality::from_word(self.criticality.load(Relaxed)),
            pieces: self.pieces.load(Relaxed),
            direct: kind.is_direct().into(),
            ..Call::default()
        };
        (kind, call)
    }
}

#[derive(Debug)]
#[repr(C)]
pub(super) struct Guarded {
    pub split: SplitState,
    pub tally: Tally,
    pub learner: Learner,
    /// Where the search for a free task begins.
    pub next_task: u32,
    /// Where the search for a free account begins.
    pub next_account: u32,
}

headworks_policy::layout!(Guarded { split, tally, learner, next_task, next_account });

/// See the module. A region of zero bytes behind its header holds no call.
#[derive(Debug)]
#[repr(C)]
pub struct IoRegion {
    pub(super) header: Header,
    /// Settings and counters.
    pub control: IoControl,
    /// I/O that cannot be held.
    pub unheld: Unheld,
    pub(super) lock: RobustLock,
    pub(super) rules: RuleTable,
    pub(super) tasks: [TaskSlot; TASKS],
    /// Account 0 is shared, then come the groups of the rules, then the threads.
    pub accounts: [AccountSlot; ACCOUNTS],
    /// Who waits for whom, for the scheduler `rcp`.
    pub inheritance: Inheritance,
    /// What clients waited for.
    pub waits: ClientWaits,
    /// Where dirty pages lie, for a volume.
    pub places: Places,
    /// Of the files in the tally's slots: an index that was kept is checked without the lock.
    pub(super) generations: [AtomicU32; FILES],
    /// The ends of their paths.
    pub(super) names: [SharedText; FILES],
    guarded: UnsafeCell<Guarded>,
}

headworks_policy::layout!(IoRegion {
    header,
    control,
    unheld,
    lock,
    rules,
    tasks,
    accounts,
    inheritance,
    waits,
    places,
    generations,
    names,
    guarded
});

// SAFETY: all fields are atomics but `guarded`, which is only used under `lock`.
unsafe impl Sync for IoRegion {}

impl IoRegion {
    /// Runs `work` on everything under the lock; `None` if the lock is busy.
    pub(super) fn locked<T>(&self, work: impl FnOnce(&mut Guarded) -> T) -> Option<T> {
        let busy = &self.control.lock_busy_until_ns;
        let was_busy = |now: Nanos| now < Nanos(busy.load(Relaxed));
        let Some(held) = self.lock.acquire(was_busy) else {
            self.control.lock_busy.fetch_add(1, Relaxed);
            // A process was stopped while it held the lock. The next calls give up sooner.
            busy.store((clock::now() + BUSY_FOR).0, Relaxed);
            return None;
        };
        // SAFETY: the lock is held, and every byte pattern is a valid `Guarded`: integers only.
        let guarded = unsafe { &mut *self.guarded.get() };
        if held.inherited {
            // The lock's owner died. What it left half done is not trusted.
            self.control.restarted.fetch_add(1, Relaxed);
            self.restart(guarded);
        }
        Some(work(guarded))
    }

    /// The scheduler restarts; all who wait pass.
    #[cold]
    pub(super) fn restart(&self, guarded: &mut Guarded) {
        // SAFETY: made of integers, for which zero bytes are valid. In place, as the callers are
        // threads of other people's programs, whose stacks may be small.
        unsafe { core::ptr::write_bytes(&raw mut guarded.split, 0, 1) };
        guarded.split.start(self.control.kind(), self.control.rotational());
        match self.control.dirty_max.load(Relaxed) {
            0 => {}
            bytes => guarded.split.set_dirty_max(bytes),
        }
        match self.control.reads.load(Relaxed) {
            0 => {}
            count => guarded.split.set_reads(count),
        }
        for slot in &self.tasks {
            // The new scheduler knows none of them.
            slot.end_wait(PASSED);
        }
        for slot in &self.accounts {
            slot.rules.store(u32::MAX, Relaxed);
        }
    }
}
