//! The I/O region: where the calls of governed processes meet their scheduler.
//!
//! A region of its own, beside the gate's, because it serves programs that have no clients, too.
//! It holds the scheduler's state (`headworks_policy::split`), our tally of dirty pages, the calls
//! that wait, and an account for each thread. What is here is mechanism: which call goes next is
//! decided by the scheduler.
//!
//! # Nobody is held for ever
//! There is no daemon in this path. Whoever sleeps looks again by itself, drives the scheduler, and
//! passes after [`IoControl::hold_max`] without progress. A lock that is not to be had, a full
//! table, or nonsense in memory lets the call pass. If a thread died with the lock, the scheduler
//! begins anew and all who wait pass.

pub mod account;
pub mod criticality;
pub mod gone;
mod map;
mod pages;
pub mod places;
pub mod tally;
mod unheld;
pub mod waits;

pub use account::{AccountSlot, Ground, IoRule, Names, RULES, Subject};
pub use criticality::{Blocker, Inheritance};
pub use map::IoMapping;
pub use places::Awaited;
pub use tally::{CHUNK_BYTES, FILES, Piece};
pub use unheld::Unheld;

use crate::lock::{RobustLock, thread_exists, thread_id};
use crate::text::{SharedText, TEXT_BYTES};
use crate::{clock, futex};
use account::RuleTable;
use core::cell::UnsafeCell;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicU32, AtomicU64};
use headworks_policy::Nanos;
use headworks_policy::split::learn::Learner;
use headworks_policy::split::{
    ACCOUNTS, Account, Call, Entry, PAGE_BYTES, SplitKind, SplitState, Step, TASKS, Task, Urgency,
};
use pages::{read_request, returned, stream_request};
use tally::Tally;

/// First bytes of every I/O region.
const MAGIC: u64 = u64::from_le_bytes(*b"hdwrkio\x01");

/// A sleeper looks again after this time at the latest.
const MAX_SLEEP: Nanos = Nanos::from_millis(100);

/// A call could not get the lock. During this time after it, other calls wait for the lock for 2 ms
/// at most.
const BUSY_FOR: Nanos = Nanos::from_millis(1_000);

/// A task that runs for so long may have lost its thread.
const SUSPECT_AFTER: Nanos = Nanos::from_millis(500);

/// Larger than the number of any thread.
const NO_THREAD: u32 = 1 << 30;

/// Longest time without progress, unless set.
const HOLD_MAX: Nanos = Nanos::from_millis(1_000);

#[derive(Debug)]
#[repr(C, align(64))]
struct Header {
    magic: AtomicU64,
    bytes: AtomicU64,
    /// PID namespace in which it was made: numbers of threads mean something there only.
    pid_ns: AtomicU64,
    /// Hash of the layout: a build with another one refuses the region.
    version: AtomicU64,
}
headworks_policy::layout!(Header { magic, bytes, pid_ns, version });

/// Settings and counters that every process reads.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct IoControl {
    kind: AtomicU32,
    off: AtomicU32,
    rotational: AtomicU32,
    hold_max_ms: AtomicU32,
    /// Bytes that background tasks may have dirtied; zero for the scheduler's own default.
    dirty_max: AtomicU64,
    /// Reads of the background at a time; zero for the scheduler's own default.
    reads: AtomicU32,
    _pad: AtomicU32,
    /// Whether the gate tells which threads serve clients, so that all others are background.
    gate_knows: AtomicU32,
    /// Nobody inherits who holds what a client waits for.
    without_inheritance: AtomicU32,
    /// Nothing but a guess tells the kind of device: `fsync`s may correct it.
    learns_device: AtomicU32,
    _pad2: AtomicU32,
    /// Calls that passed because the region's lock was not to be had.
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
    /// Until then nobody looks for a free account.
    accounts_full_until_ns: AtomicU64,
    /// Times the scheduler began anew because a thread died with the lock.
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

/// What a call does. The values are those of a task's kind in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum CallKind {
    /// Writes to the page cache.
    Write = 0,
    /// Makes a file durable.
    Fsync = 1,
    /// Makes, renames, truncates or removes a file.
    Create = 2,
    /// Makes a directory.
    MakeDirectory = 3,
    /// A read that is not in the page cache: a request of the block level.
    Read = 4,
    /// A read, cached or not, for schedulers of system calls.
    ReadCall = 5,
    /// Begins the writeback of a range in the background. It makes nothing durable.
    WriteRange = 6,
    /// A read of a stream: the kernel has read ahead, or does so because of it.
    ReadStream = 7,
    /// Writes to the device itself (`O_DIRECT`).
    WriteDirect = 8,
    /// A small write that is durable when it returns (`O_DSYNC`, `O_SYNC`).
    Commit = 9,
}

impl CallKind {
    fn from_word(word: u32) -> CallKind {
        match word {
            0 => CallKind::Write,
            1 => CallKind::Fsync,
            2 => CallKind::Create,
            3 => CallKind::MakeDirectory,
            4 => CallKind::Read,
            5 => CallKind::ReadCall,
            6 => CallKind::WriteRange,
            7 => CallKind::ReadStream,
            8 => CallKind::WriteDirect,
            _ => CallKind::Commit,
        }
    }

    /// Whether it writes to the device itself.
    fn is_direct(self) -> bool {
        matches!(self, CallKind::WriteDirect | CallKind::Commit)
    }
}

/// A task's word: its state in the lower two bits, and above them a count that changes whenever
/// its thread is to look.
const FREE: u32 = 0;
const WAITING: u32 = 1;
const RUNNING: u32 = 2;
/// It runs without the scheduler's leave, which does not hear of its return.
const PASSED: u32 = 3;
const STATE: u32 = 3;
const CHANGE: u32 = 4;

#[derive(Debug)]
#[repr(C, align(64))]
struct TaskSlot {
    word: AtomicU32,
    /// Pieces to write back that its thread has not begun.
    orders: AtomicU32,
    tid: AtomicU32,
    kind: AtomicU32,
    account: AtomicU32,
    file: AtomicU32,
    urgency: AtomicU32,
    pieces: AtomicU32,
    _pad: AtomicU32,
    since_ns: AtomicU64,
    progress_ns: AtomicU64,
}

headworks_policy::layout!(TaskSlot {
    word,
    orders,
    tid,
    kind,
    account,
    file,
    urgency,
    pieces,
    _pad,
    since_ns,
    progress_ns
});

impl TaskSlot {
    /// What was entered, as far as its return needs it.
    fn call(&self) -> (CallKind, Call) {
        let kind = CallKind::from_word(self.kind.load(Relaxed));
        let call = Call {
            account: self.account.load(Relaxed) as Account,
            file: self.file.load(Relaxed),
            urgency: Urgency::from_word(self.urgency.load(Relaxed)),
            pieces: self.pieces.load(Relaxed),
            direct: kind.is_direct().into(),
            ..Call::default()
        };
        (kind, call)
    }
}

#[derive(Debug)]
#[repr(C)]
struct Guarded {
    split: SplitState,
    tally: Tally,
    learner: Learner,
    /// Where the search for a free task begins.
    next_task: u32,
    /// Where the search for a free account begins.
    next_account: u32,
}

headworks_policy::layout!(Guarded { split, tally, learner, next_task, next_account });

/// See the module. All zero bytes, but for the header, are a region that holds nobody.
#[derive(Debug)]
#[repr(C)]
pub struct IoRegion {
    header: Header,
    /// Settings and counters.
    pub control: IoControl,
    /// I/O that cannot be held.
    pub unheld: Unheld,
    lock: RobustLock,
    rules: RuleTable,
    tasks: [TaskSlot; TASKS],
    /// Account 0 is shared, then come the groups of the rules, then the threads.
    pub accounts: [AccountSlot; ACCOUNTS],
    /// Who waits for whom, for the scheduler `rcp`.
    pub inheritance: Inheritance,
    /// What clients waited for.
    pub waits: waits::ClientWaits,
    /// Where dirty pages lie, for a volume.
    pub places: places::Places,
    /// Of the files in the tally's slots: an index that was kept is checked without the lock.
    generations: [AtomicU32; FILES],
    /// The ends of their paths.
    names: [SharedText; FILES],
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

/// A call that the scheduler knows. Goes back by [`IoRegion::leave`].
#[derive(Debug)]
#[must_use]
pub struct Ticket {
    task: Option<Task>,
    kind: CallKind,
    /// As the scheduler sees it.
    pub call: Call,
    entered: Nanos,
    admitted: Nanos,
}

/// What the thread of a call does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Makes the call.
    Go,
    /// Begins to write back so many pieces.
    WriteBack(u32),
    /// Has nothing new to do: waits for what it began.
    Nothing,
}

/// Pages that were given up, for [`IoRegion::cleaned`].
#[derive(Clone, Copy, Debug, Default)]
pub struct Written {
    /// Pieces that were written, or not found.
    pub pieces: u32,
    /// What the tally knew of them.
    pub taken: tally::Unmarked,
}

impl IoRegion {
    /// Everything under the lock; `None` if it is not to be had.
    fn locked<T>(&self, work: impl FnOnce(&mut Guarded) -> T) -> Option<T> {
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
            // Whoever had the lock died: nothing under it is trusted.
            self.control.restarted.fetch_add(1, Relaxed);
            self.begin_anew(guarded);
        }
        Some(work(guarded))
    }

    /// The scheduler begins anew; all who wait pass.
    #[cold]
    fn begin_anew(&self, guarded: &mut Guarded) {
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
            end_wait(slot, PASSED);
        }
        for slot in &self.accounts {
            slot.rules.store(u32::MAX, Relaxed);
        }
    }

    /// Another scheduler from now on, for this kind of device. All who wait pass.
    pub fn start(&self, kind: SplitKind, rotational: bool) {
        self.control.rotational.store(rotational.into(), Relaxed);
        self.control.kind.store(kind as u32, Relaxed);
        self.locked(|guarded| self.begin_anew(guarded));
    }

    /// Longest time without progress; zero for the usual one.
    pub fn set_hold_max(&self, time: Nanos) {
        let ms = u32::try_from(time.0 / 1_000_000).unwrap_or(u32::MAX);
        self.control.hold_max_ms.store(ms, Relaxed);
    }

    /// Bytes that background tasks may have dirtied, from the next [`IoRegion::start`] on; zero for
    /// the scheduler's own default.
    pub fn set_dirty_max(&self, bytes: u64) {
        self.control.dirty_max.store(bytes, Relaxed);
    }

    /// Reads of the background that run while clients read or commit, from the next
    /// [`IoRegion::start`] on; zero for the scheduler's own default.
    pub fn set_reads(&self, count: u32) {
        self.control.reads.store(count, Relaxed);
    }

    /// Whether threads that hold what a client waits for inherit.
    pub fn set_inheritance(&self, on: bool) {
        self.control.without_inheritance.store((!on).into(), Relaxed);
    }

    /// Replaces the rules. Accounts follow at their next call; files when they are next opened or
    /// synced.
    pub fn set_rules(&self, rules: &[IoRule]) {
        self.rules.set(rules);
    }

    /// The slot of a file and its generation; `path` is asked for the first time. `None` if there
    /// is no room: the file is not governed.
    pub fn file(
        &self,
        device: u64,
        inode: u64,
        path: impl FnOnce(&mut [u8; 256]) -> usize,
    ) -> Option<(u16, u32)> {
        let now = clock::now();
        let version = self.rules.version();
        let found = self.locked(|guarded| {
            let (at, fresh) = guarded.tally.file(device, inode, now)?;
            let state = guarded.tally.state(at)?;
            let generation = state.generation;
            let stale = fresh || state.rules != version;
            self.generations[at].store(generation, Relaxed);
            if fresh && guarded.split.scheduler().trusts(now, at as u32) {
                // That was another file.
                guarded.split.scheduler().guessed(now, at as u32, false);
            }
            Some((at, stale, generation))
        })?;
        let Some((at, stale, generation)) = found else {
            self.control.files_full.fetch_add(1, Relaxed);
            return None;
        };
        if stale {
            let mut text = [0; 256];
            let length = path(&mut text).min(256);
            let deadline = self.rules.deadline(&text[..length]);
            self.names[at].set(&text[length.saturating_sub(TEXT_BYTES)..length]);
            self.locked(|guarded| {
                if let Some(state) = guarded.tally.state_mut(at)
                    && state.generation == generation
                {
                    (state.deadline, state.rules) = (deadline, version);
                }
            });
        }
        Some((at as u16, generation))
    }

    /// A file's last name was removed. Its dirty pages count as given up, also if it is still open:
    /// then the charge for them is lost.
    pub fn removed(&self, device: u64, inode: u64) {
        let Some(at) = self.locked(|guarded| guarded.tally.find_file(device, inode)).flatten()
        else {
            return;
        };
        self.freed(at as u16, 0, u64::MAX);
        self.locked(|guarded| {
            guarded.tally.give_up(at);
            let generation = guarded.tally.state(at).map_or(0, |state| state.generation);
            self.generations[at].store(generation, Relaxed);
        });
    }

    /// A file has another name: other rules may be its own when it is next looked up.
    pub fn renamed(&self, device: u64, inode: u64) {
        self.locked(|guarded| {
            let at = guarded.tally.find_file(device, inode)?;
            guarded.tally.state_mut(at)?.rules = u32::MAX;
            Some(())
        });
    }

    /// Whether the slot is still that file's.
    pub fn is_current(&self, file: u16, generation: u32) -> bool {
        self.generations
            .get(usize::from(file))
            .is_some_and(|current| current.load(Relaxed) == generation)
    }

    /// Whether the scheduler wants to hear of such calls before they run.
    pub fn holds(&self, kind: CallKind) -> bool {
        let scheduler = self.control.kind();
        match kind {
            CallKind::Fsync | CallKind::Write | CallKind::WriteDirect | CallKind::Commit => true,
            CallKind::WriteRange => matches!(scheduler, SplitKind::Rcp | SplitKind::Deadline),
            CallKind::ReadStream => {
                matches!(scheduler, SplitKind::Afq | SplitKind::Token | SplitKind::Rcp)
            }
            CallKind::ReadCall => scheduler == SplitKind::ScsToken,
            CallKind::Read => {
                matches!(scheduler, SplitKind::Afq | SplitKind::Token | SplitKind::Rcp)
            }
            CallKind::Create | CallKind::MakeDirectory => {
                !matches!(scheduler, SplitKind::Deadline | SplitKind::Rcp)
            }
        }
    }

    /// A call of `bytes` is about to run. It may run if the ticket has been [admitted]
    /// (IoRegion::is_admitted); else its thread follows [`IoRegion::next_order`].
    pub fn enter(&self, kind: CallKind, account: Account, file: u16, bytes: u64) -> Ticket {
        let now = clock::now();
        let urgency = self.urgency(account);
        let direct = kind.is_direct().into();
        let call = Call { account, file: file.into(), bytes, urgency, direct, ..Call::default() };
        let mut ticket = Ticket { task: None, kind, call, entered: now, admitted: now };
        self.locked(|guarded| self.enter_locked(guarded, now, &mut ticket));
        ticket
    }

    fn enter_locked(&self, guarded: &mut Guarded, now: Nanos, ticket: &mut Ticket) {
        if let Some(file) = guarded.tally.state(ticket.call.file as usize) {
            ticket.call.deadline = file.deadline;
            if matches!(ticket.kind, CallKind::Fsync | CallKind::WriteRange) {
                // What was given are pages of a mapping, which the tally does not know.
                ticket.call.bytes = ticket.call.bytes.max(file.pages * PAGE_BYTES);
            }
            if matches!(ticket.kind, CallKind::Fsync | CallKind::Write | CallKind::WriteRange) {
                ticket.call.pieces = u32::try_from(file.pieces).unwrap_or(u32::MAX);
            }
        }
        if matches!(ticket.kind, CallKind::Fsync | CallKind::Commit) {
            ticket.call.deadline = self.deadline(ticket.call.account, ticket.call.deadline);
        }
        let begin = guarded.next_task as usize;
        let in_turn = |step: usize| (begin + step) % TASKS;
        let is_free = |at: &usize| self.tasks[*at].word.load(Relaxed) & STATE == FREE;
        if ticket.call.urgency != Urgency::Critical
            && guarded.split.scheduler().trusts(now, ticket.call.file)
        {
            ticket.call.urgency = Urgency::Critical;
        }
        let Some(at) = (0..TASKS).map(in_turn).find(is_free) else {
            self.control.tasks_full.fetch_add(1, Relaxed);
            return;
        };
        guarded.next_task = (at + 1) as u32 % TASKS as u32;
        let slot = &self.tasks[at];
        slot.tid.store(thread_id(), Relaxed);
        slot.kind.store(ticket.kind as u32, Relaxed);
        slot.account.store(ticket.call.account.into(), Relaxed);
        slot.file.store(ticket.call.file, Relaxed);
        slot.urgency.store(ticket.call.urgency as u32, Relaxed);
        slot.pieces.store(ticket.call.pieces, Relaxed);
        slot.orders.store(0, Relaxed);
        slot.since_ns.store(now.0, Relaxed);
        slot.progress_ns.store(now.0, Relaxed);
        let task = at as Task;
        ticket.task = Some(task);
        // A call that returned while the lock was busy may have left a waiter with this number.
        guarded.split.scheduler().cancel(now, task);
        let mut entry = ask(guarded, now, task, ticket);
        if entry == Entry::Wait && self.forget_ended(guarded, now) {
            guarded.split.scheduler().cancel(now, task);
            entry = ask(guarded, now, task, ticket);
        }
        let state = if entry == Entry::Go { RUNNING } else { WAITING };
        slot.word.store(state, Release);
        self.note_call(&ticket.call, (state == WAITING).then_some(task));
        if state == WAITING {
            self.pump(guarded, now);
        }
    }

    /// Whether the call may run.
    pub fn is_admitted(&self, ticket: &Ticket) -> bool {
        ticket.slot(self).is_none_or(|slot| slot.word.load(Acquire) & STATE != WAITING)
    }

    /// Drives the scheduler until it has nothing more to say. Returns when to ask again.
    fn pump(&self, guarded: &mut Guarded, now: Nanos) -> Nanos {
        // Each step admits a task or orders pieces: more steps are nonsense in memory.
        for _ in 0..4 * TASKS {
            match guarded.split.scheduler().dispatch(now) {
                Step::Admit(task) => {
                    if let Some(slot) = self.tasks.get(usize::from(task)) {
                        self.goes(guarded, now, task, slot);
                    }
                }
                Step::Writeback { task, pieces } => {
                    if let Some(slot) = self.tasks.get(usize::from(task)) {
                        slot.orders.fetch_add(pieces, Relaxed);
                        slot.progress_ns.store(now.0, Relaxed);
                        slot.word.fetch_add(CHANGE, Release);
                        futex::wake(&slot.word, 1);
                    }
                }
                Step::Wait(until) => return until,
                Step::Idle => break,
            }
        }
        Nanos(u64::MAX)
    }

    /// The scheduler lets a call go. If its thread passed while the lock was busy, nobody else
    /// would give the turn back. Says whether the thread waited for it.
    fn goes(&self, guarded: &mut Guarded, now: Nanos, task: Task, slot: &TaskSlot) -> bool {
        slot.since_ns.store(now.0, Relaxed);
        let waited = end_wait(slot, RUNNING);
        if !waited {
            let (kind, call) = slot.call();
            returned(guarded, now, task, kind, &call, Nanos(0));
        }
        waited
    }

    /// What the thread of a call that waits does next. Sleeps until there is something, unless the
    /// thread is `busy` with pieces that it began to write.
    pub fn next_order(&self, ticket: &Ticket, busy: bool) -> Order {
        let (Some(task), Some(slot)) = (ticket.task, ticket.slot(self)) else { return Order::Go };
        let mut until = Nanos(0);
        loop {
            let word = slot.word.load(Acquire);
            if word & STATE != WAITING {
                return Order::Go;
            }
            let orders = slot.orders.swap(0, Relaxed);
            if orders > 0 {
                return Order::WriteBack(orders);
            }
            let now = clock::now();
            if self.may_block_clients(now, ticket.call.account, task) {
                return Order::Go;
            }
            let (on, parent_is_gone) = (self.control.is_on(), gone::parent_is_gone());
            if busy && !parent_is_gone {
                return Order::Nothing;
            }
            let idle = now.since(Nanos(slot.progress_ns.load(Relaxed)));
            let hold_max = self.control.hold_max();
            if idle >= hold_max || parent_is_gone || !on {
                if on && !parent_is_gone {
                    self.control.hold_limit.fetch_add(1, Relaxed);
                }
                self.locked(|guarded| {
                    guarded.split.scheduler().cancel(now, task);
                    // Unless it was admitted just now.
                    end_wait(slot, PASSED);
                    self.pump(guarded, now);
                });
                end_wait(slot, PASSED);
                return Order::Go;
            }
            let left = hold_max.since(idle).min(self.longest_sleep());
            let sleep = if until > now { until.since(now).min(left) } else { Nanos(0) };
            if sleep > Nanos(0) {
                futex::wait(&slot.word, word, sleep);
            }
            let now = clock::now();
            until = self
                .locked(|guarded| {
                    self.reap(guarded, now);
                    self.forget_ended(guarded, now);
                    self.pump(guarded, now)
                })
                .unwrap_or(now + Nanos::from_millis(1))
                .max(now + Nanos::from_micros(50));
        }
    }

    /// Counts the time for which the call was held, and returns it. To be called when it runs.
    pub fn admitted(&self, ticket: &mut Ticket) -> Nanos {
        ticket.admitted = clock::now();
        let held = ticket.admitted.since(ticket.entered);
        if let Some(slot) = self.accounts.get(usize::from(ticket.call.account)) {
            slot.held.fetch_add(1, Relaxed);
            slot.held_ns.fetch_add(held.0, Relaxed);
        }
        held
    }

    /// The real `fsync` begins: what is written from now on belongs to the next one.
    pub fn begins_flush(&self, ticket: &Ticket) -> tally::Unmarked {
        self.locked(|guarded| guarded.tally.flush(ticket.call.file as usize)).unwrap_or_default()
    }

    /// Calls that wait now. Those of dead threads are left out: the next one that waits frees them.
    pub fn waiting(&self) -> usize {
        let waits = |slot: &&TaskSlot| slot.word.load(Relaxed) & STATE == WAITING;
        let lives = |slot: &&TaskSlot| thread_exists(slot.tid.load(Relaxed));
        self.tasks.iter().filter(waits).filter(lives).count()
    }

    /// What the tally knows of a file, for tests and `io top`.
    pub fn file_state(&self, file: u16) -> Option<tally::FileState> {
        self.locked(|guarded| guarded.tally.state(usize::from(file)).copied())?
    }
}

impl Ticket {
    fn slot<'a>(&self, region: &'a IoRegion) -> Option<&'a TaskSlot> {
        region.tasks.get(usize::from(self.task?))
    }

    /// Whether the scheduler admitted it and is to hear of its return.
    fn is_running(&self, region: &IoRegion) -> bool {
        self.slot(region).is_some_and(|slot| slot.word.load(Relaxed) & STATE == RUNNING)
    }
}

/// Asks the scheduler whether a call may run.
fn ask(guarded: &mut Guarded, now: Nanos, task: Task, ticket: &Ticket) -> Entry {
    let (scheduler, call) = (guarded.split.scheduler(), &ticket.call);
    match ticket.kind {
        CallKind::Write | CallKind::WriteDirect => scheduler.write_entry(now, task, call),
        CallKind::Fsync => scheduler.fsync_entry(now, task, call),
        CallKind::Commit => scheduler.commit_entry(now, task, call),
        CallKind::WriteRange => scheduler.range_entry(now, task, call),
        CallKind::Create => scheduler.creat_entry(now, task, call),
        CallKind::MakeDirectory => scheduler.mkdir_entry(now, task, call),
        CallKind::Read => scheduler.req_add(now, task, &read_request(call)),
        CallKind::ReadStream => scheduler.req_add(now, task, &stream_request(call)),
        CallKind::ReadCall => scheduler.read_entry(now, task, call),
    }
}

/// A task that waits goes on, in this state. Says whether it waited.
fn end_wait(slot: &TaskSlot, state: u32) -> bool {
    let next =
        |word: u32| (word & STATE == WAITING).then(|| (word & !STATE).wrapping_add(CHANGE) | state);
    let waited = slot.word.fetch_update(Release, Relaxed, next).is_ok();
    if waited {
        futex::wake(&slot.word, 1);
    }
    waited
}
