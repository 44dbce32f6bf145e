//! Split-level scheduling: one scheduler that sees an I/O at the system call, in memory and at the
//! block level.
//!
//! # Problem
//! A scheduler at the block level does not know who caused a write, and cannot reorder it once a
//! journal has entangled it with others. A scheduler at the system call does not know what a call
//! will cost. A scheduler that hears of all three levels can do both (Split, chapter 2).
//!
//! # The primitive
//! A [`Scheduler`] implements the hooks that it needs (Split, Table 2.3); the others do nothing. It
//! holds *tasks*: system calls before they run, and reads before they go to the device. An entry
//! hook answers [`Entry::Go`] or [`Entry::Wait`]. A task that waits goes on when
//! [`Scheduler::dispatch`] names it. Writes at the block level are never held, because a journal
//! may need them for another account's `fsync`.
//!
//! # Rules for the driver of a scheduler
//! * After each hook, [`dispatch`](Scheduler::dispatch) is called until it answers
//!   [`Step::Wait`] or [`Step::Idle`], and again at the time that it names.
//! * Each admitted task is followed by its return hook, whatever the call's result.
//! * A task that gives up (its hold was too long, its thread died) is withdrawn by
//!   [`cancel`](Scheduler::cancel).
//!
//! # A scheduler in a few lines
//! The fair scheduler (Split, Figure 2.10): writes wait at the call, reads at the block level, and
//! the account that has cost the device least goes next.
//!
//! ```
//! use headworks_policy::Nanos;
//! use headworks_policy::block::{IoClass, Operation, Request};
//! use headworks_policy::split::{Account, Call, Entry, Scheduler, Step, Task};
//! use std::collections::{BTreeMap, VecDeque};
//!
//! #[derive(Default)]
//! struct Fair {
//!     queues: BTreeMap<Account, VecDeque<Task>>,
//!     cost: BTreeMap<Account, u64>,
//! }
//!
//! impl Scheduler for Fair {
//!     fn name(&self) -> &'static str {
//!         "fair"
//!     }
//!     fn write_entry(&mut self, _: Nanos, task: Task, call: &Call) -> Entry {
//!         self.queues.entry(call.account).or_default().push_back(task);
//!         Entry::Wait
//!     }
//!     fn req_add(&mut self, _: Nanos, task: Task, request: &Request) -> Entry {
//!         if request.operation == Operation::Write {
//!             return Entry::Go;
//!         }
//!         self.queues.entry(request.cause as Account).or_default().push_back(task);
//!         Entry::Wait
//!     }
//!     fn req_complete(&mut self, _: Nanos, _: Task, request: &Request, service: Nanos) {
//!         *self.cost.entry(request.cause as Account).or_default() += service.0;
//!     }
//!     fn dispatch(&mut self, _: Nanos) -> Step {
//!         let cost = &self.cost;
//!         let waiting = self.queues.iter_mut().filter(|(_, queue)| !queue.is_empty());
//!         let least = waiting.min_by_key(|(account, _)| cost.get(*account).copied());
//!         least.and_then(|(_, queue)| queue.pop_front()).map_or(Step::Idle, Step::Admit)
//!     }
//! }
//!
//! let mut fair = Fair::default();
//! let call = |account| Call { account, ..Call::default() };
//! let read = Request {
//!     operation: Operation::Read,
//!     sector: 0,
//!     sectors: 8,
//!     fua: false,
//!     sync: true,
//!     cause: 1,
//!     class: IoClass::BestEffort,
//!     level: 4,
//!     deadline: None,
//!     continues: false,
//! };
//! fair.req_complete(Nanos(9), 9, &read, Nanos(5));
//! assert_eq!(fair.write_entry(Nanos(10), 0, &call(1)), Entry::Wait);
//! assert_eq!(fair.write_entry(Nanos(11), 1, &call(2)), Entry::Wait);
//! assert_eq!(fair.dispatch(Nanos(12)), Step::Admit(1), "account 2 has cost nothing so far");
//! assert_eq!(fair.dispatch(Nanos(12)), Step::Admit(0));
//! ```

/// The example of `docs/adding-a-scheduler.md`.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/adding-a-scheduler.md")]
struct AddingAScheduler;

pub mod afq;
mod bits;
pub mod call_kind;
pub mod cause;
pub mod cost;
pub mod deadline;
mod dirty;
pub mod kind;
pub mod learn;
pub mod pacer;
pub mod rcp;
mod strides;
pub mod token;
pub mod trust;
mod waiting;

pub use afq::Afq;
pub use call_kind::CallKind;
pub use cause::CauseSet;
pub use cost::DeviceCost;
pub use deadline::Deadline;
pub use kind::{SplitKind, SplitState};
pub use rcp::Rcp;
pub use token::{ScsToken, Token};

use crate::Nanos;
use crate::block::Request;

/// Tasks that can wait or run at a time. A call beyond passes.
pub const TASKS: usize = 512;

/// Accounts that are told apart. Account 0 is shared by all threads that have no other.
pub const ACCOUNTS: usize = 1024;

/// Bytes of a page of the page cache.
pub const PAGE_BYTES: u64 = 4096;

/// Longest contiguous piece of dirty data that is written at once: 64 pages.
pub const PIECE_BYTES: u64 = 64 * PAGE_BYTES;

/// An `fsync` of more, or a durable write of more, is not small.
pub const SMALL_BYTES: u64 = 2 * PIECE_BYTES;

/// Names a task while it waits or runs: below [`TASKS`].
pub type Task = u16;

/// Who is charged: below [`ACCOUNTS`].
pub type Account = u16;

/// A system call, as a scheduler sees it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Call {
    /// Who calls.
    pub account: Account,
    /// The file, or the directory of a call that makes an entry.
    pub file: u32,
    /// Bytes to be written; for an `fsync` those that are dirty in the file.
    pub bytes: u64,
    /// For an `fsync`, pieces that they are in; for a write, those that are dirty in its file. A
    /// piece is contiguous and at most [`PIECE_BYTES`] long.
    pub pieces: u32,
    /// Time within which the call should be over; zero for no matter.
    pub deadline: Nanos,
    /// Whether a client's request waits for it.
    pub criticality: Criticality,
    /// Not zero: the call is a write to the device itself (`O_DIRECT`, `O_DSYNC`).
    pub direct: u32,
}

impl Call {
    /// Whether it writes to the device itself.
    pub fn is_direct(&self) -> bool {
        self.direct != 0
    }
}

/// Whether a client's request waits for a call (RCP, section 3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u32)]
pub enum Criticality {
    /// It does: the call is critical.
    #[default]
    Critical = 0,
    /// It does not.
    Background = 1,
    /// A client seems to wait for something that a background task has.
    Guessed = 2,
}

impl crate::layout::Layout for Criticality {
    const HASH: u64 = crate::layout::start(size_of::<Criticality>(), align_of::<Criticality>());
}

impl Criticality {
    /// From the word in memory.
    pub fn from_word(word: u32) -> Criticality {
        match word {
            1 => Criticality::Background,
            2 => Criticality::Guessed,
            _ => Criticality::Critical,
        }
    }
}

crate::layout!(Call { account, file, bytes, pieces, deadline, criticality, direct });

/// Pages that a write made dirty.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Dirtied {
    /// Who wrote.
    pub account: Account,
    /// Who had made the pages dirty that were dirty already.
    pub previous: CauseSet,
    /// The file.
    pub file: u32,
    /// Bytes of pages that were clean.
    pub new_bytes: u64,
    /// Device time that they will probably cost, by the preliminary model (section 2.5.3).
    pub cost: Nanos,
}

/// Dirty pages that were deleted before they were written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Freed {
    /// Who had made them dirty.
    pub causes: CauseSet,
    /// The file.
    pub file: u32,
    /// Bytes of the pages.
    pub bytes: u64,
    /// What was charged for them, as device time.
    pub cost: Nanos,
}

/// Dirty pages that were written to the device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cleaned {
    /// Who had made them dirty.
    pub causes: CauseSet,
    /// The file.
    pub file: u32,
    /// Bytes of the pages.
    pub bytes: u64,
    /// What was charged for them when they became dirty, as device time.
    pub charged: Nanos,
    /// What writing them cost, by the device's model in the order in which they were written.
    pub cost: Nanos,
}

/// What an entry hook answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
    /// The call runs, or the request goes to the device.
    Go,
    /// It waits until `dispatch` names it.
    Wait,
}

/// What `dispatch` answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// This task goes on.
    Admit(Task),
    /// The thread of this task, which waits in `fsync`, starts to write so many pieces of the
    /// file's dirty data. When they are on the device, it says so by [`Scheduler::written_back`].
    Writeback {
        /// Whose file.
        task: Task,
        /// How many; above zero.
        pieces: u32,
    },
    /// Nothing before this time, unless another hook is called.
    Wait(Nanos),
    /// Nothing waits.
    Idle,
}

/// Level of accounts for which no rule gives one.
pub const USUAL_LEVEL: u8 = 4;

/// Groups that an account may be in.
pub const GROUPS: usize = 3;

/// What configuration says of an account.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct AccountSettings {
    /// Priority, 0 (highest) to 7; its weight is 8 − level.
    pub level: u8,
    /// Normalized bytes a second; none for no limit.
    pub rate: Option<f64>,
    /// Normalized bytes that may be saved up; zero for a second's worth.
    pub burst: u64,
    /// Accounts of groups that are charged as well and limit this one: of its threads, its class,
    /// its control group. A group's own are not looked at.
    pub groups: [Option<Account>; GROUPS],
}

/// A split-level scheduler: the hooks of Table 2.3. Time never runs backwards by more than threads
/// that read the clock at once can make it.
#[allow(unused_variables)]
pub trait Scheduler: Send {
    /// Name, as configuration has it.
    fn name(&self) -> &'static str;

    /// What configuration says of an account.
    fn set_account(&mut self, now: Nanos, account: Account, settings: &AccountSettings) {}

    /// The account is another thread's from now on.
    fn forget_account(&mut self, account: Account) {}

    /// Forgets accounts for which tasks may wait here although their threads have ended. Says
    /// whether there were any: a task that waits may then be entered again.
    fn forget_ended(&mut self, now: Nanos, lives: &dyn Fn(Account) -> bool) -> bool {
        false
    }

    /// System call: before a write of any kind.
    fn write_entry(&mut self, now: Nanos, task: Task, call: &Call) -> Entry {
        Entry::Go
    }
    /// System call: a write has returned.
    fn write_return(&mut self, now: Nanos, task: Task, call: &Call) {}
    /// System call: before a small write that is durable when it returns (`O_DSYNC`). To a
    /// scheduler for which it is no commit, it is a direct write.
    fn commit_entry(&mut self, now: Nanos, task: Task, call: &Call) -> Entry {
        self.write_entry(now, task, call)
    }
    /// System call: that has returned; `took` is the time since it was admitted.
    fn commit_return(&mut self, now: Nanos, task: Task, call: &Call, took: Nanos) {
        self.write_return(now, task, call);
    }
    /// A thread of a held call woke by so much later than it should have.
    fn woke_late(&mut self, by: Nanos) {}
    /// A call begins of which the end is not seen (`io_uring`, `libaio`). Says whether it is a
    /// commit. If not, nothing has changed.
    fn commits_unseen(&mut self, now: Nanos, call: &Call) -> bool {
        false
    }
    /// System call: before `fsync`, `fdatasync` and their like.
    fn fsync_entry(&mut self, now: Nanos, task: Task, call: &Call) -> Entry {
        Entry::Go
    }
    /// System call: an `fsync` has returned; `took` is the time since it was admitted.
    fn fsync_return(&mut self, now: Nanos, task: Task, call: &Call, took: Nanos) {}
    /// System call: before the writeback of a range begins, which makes nothing durable. The
    /// scheduler is not told of its return.
    fn range_entry(&mut self, now: Nanos, task: Task, call: &Call) -> Entry {
        Entry::Go
    }
    /// System call: before a file is made, renamed, truncated or removed.
    fn creat_entry(&mut self, now: Nanos, task: Task, call: &Call) -> Entry {
        Entry::Go
    }
    /// System call: that has returned.
    fn creat_return(&mut self, now: Nanos, task: Task, call: &Call) {}
    /// System call: before a directory is made.
    fn mkdir_entry(&mut self, now: Nanos, task: Task, call: &Call) -> Entry {
        Entry::Go
    }
    /// System call: that has returned.
    fn mkdir_return(&mut self, now: Nanos, task: Task, call: &Call) {}

    /// System call: before a read, whether cached or not. Not a hook of the split framework, which
    /// schedules reads below the cache, but of system-call scheduling, its rival.
    fn read_entry(&mut self, now: Nanos, task: Task, call: &Call) -> Entry {
        Entry::Go
    }

    /// Memory: pages became dirty, or dirty ones were written over.
    fn buffer_dirty(&mut self, now: Nanos, dirtied: &Dirtied) {}
    /// Memory: dirty pages were deleted.
    fn buffer_free(&mut self, now: Nanos, freed: &Freed) {}
    /// Memory: dirty pages were written. Where the block level is not seen, this stands for the
    /// completion of their requests.
    fn buffer_clean(&mut self, now: Nanos, cleaned: &Cleaned) {}

    /// Block: a request came.
    fn req_add(&mut self, now: Nanos, task: Task, request: &Request) -> Entry {
        Entry::Go
    }
    /// Block: the device finished a request after `service`.
    fn req_complete(&mut self, now: Nanos, task: Task, request: &Request, service: Nanos) {}

    /// What happens next.
    fn dispatch(&mut self, now: Nanos) -> Step {
        Step::Idle
    }

    /// Of the pieces that [`Step::Writeback`] asked for, so many are on the device or were not
    /// there. `left` are dirty and not begun.
    fn written_back(&mut self, now: Nanos, task: Task, pieces: u32, left: u32) {}

    /// A request of a client waits for this task, which waits here; or it probably does, if
    /// that is not `sure`. Says whether the task goes on at once: it is then admitted without a
    /// word of `dispatch`.
    fn promote(&mut self, now: Nanos, task: Task, sure: bool) -> bool {
        false
    }

    /// A thread of a client has waited so long for a lock whose holder is not known. Says whether
    /// this task, which waits here, may be the holder's and goes on at once.
    fn may_block_clients(&mut self, now: Nanos, task: Task, waited: Nanos) -> bool {
        false
    }

    /// Whether a task waits for its turn to write. Whenever data of any task is written, it comes
    /// nearer to that turn.
    fn waits_in_turn(&self, task: Task) -> bool {
        false
    }

    /// [`may_block_clients`](Scheduler::may_block_clients) let a call on this file go. `right`: a
    /// client went on soon after the call.
    fn guessed(&mut self, now: Nanos, file: u32, right: bool) {}

    /// How critical calls on this file are because of such guesses; none if they tell nothing.
    fn trusts(&self, now: Nanos, file: u32) -> Option<Criticality> {
        None
    }

    /// A task that waits will wait no more.
    fn cancel(&mut self, now: Nanos, task: Task) {}

    /// Tasks that wait.
    fn waiting(&self) -> usize {
        0
    }
}

/// Everything goes at once.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Noop(u8);

crate::layout!(Noop { 0 });

impl Scheduler for Noop {
    fn name(&self) -> &'static str {
        "noop"
    }
}
