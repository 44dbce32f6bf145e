//! Scheduling at the block level: which of the requests that wait goes to the device next.
//!
//! # Problem
//! A device takes a few requests at a time and serves them in an order that it chooses itself. So a
//! request that is to go later than others must wait in a queue before the device.
//!
//! # The primitive
//! A [`BlockScheduler`] is told of every event in the life of a [`Request`]. It is asked for the
//! next one whenever the device has room ([`BlockScheduler::dispatch`]). The events are block-level
//! hooks of the split framework (Split, Table 2.3): a request is added, merged into another,
//! activated, completed or deactivated. Activated means that its time at the device began to count;
//! deactivated, that it went back to the queue. The scheduler keeps indices of requests, never
//! data, and has no clock: time comes in with every call.
//!
//! # Invariants
//! Every request that was added is dispatched exactly once, or was merged into one that is. A
//! scheduler that holds requests back says until when ([`Dispatch::Wait`]).
//!
//! # Building blocks
//! All schedulers keep their requests in a [`table`], which joins neighbours. They order them by
//! arrival ([`fifo`]), by sector ([`sorted`]) or by deadline ([`expiry`]), or have a queue for each
//! owner ([`owners`]). They can hold a burst back ([`plug`]). Everything has room for [`REQUESTS`]
//! and allocates nothing on a call.

pub mod afq;
pub mod bucket;
pub mod cfq;
pub mod cost;
pub mod deadline;
pub mod expiry;
pub mod fifo;
pub mod kind;
pub mod noop;
pub mod owners;
pub mod plug;
pub mod quanta;
pub mod rcp;
pub mod sfq;
pub mod share;
pub mod sorted;
pub mod table;
#[cfg(test)]
mod testing;

pub use afq::Afq;
pub use bucket::Buckets;
pub use cfq::Cfq;
pub use deadline::Deadline;
pub use kind::SchedulerKind;
pub use noop::Noop;
pub use quanta::Quanta;
pub use rcp::Rcp;
pub use sfq::Sfq;
pub use share::Share;

use crate::Nanos;

/// Bytes of a sector, the unit of addresses and lengths here and in the kernel's block layer.
pub const SECTOR_BYTES: u64 = 512;

/// Requests that one queue can hold at a time. Further ones wait before the queue.
pub const REQUESTS: usize = 1024;

/// Names a request in its queue: below [`REQUESTS`], used again after the request is completed.
pub type Index = u16;

/// What a request asks of the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operation {
    /// Bytes from the device.
    Read,
    /// Bytes to the device, perhaps only into its volatile cache.
    Write,
    /// All completed writes become durable.
    Flush,
    /// The range is no longer needed.
    Discard,
    /// The range reads as zeros from then on.
    WriteZeroes,
}

/// How urgent the submitter is, as `ioprio_set(2)` has it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum IoClass {
    /// Before all other classes.
    RealTime,
    /// In proportion to the level.
    #[default]
    BestEffort,
    /// Only when no other class wants the device.
    Idle,
}

/// A request of the block level. No data: a scheduler has no use for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// What is asked.
    pub operation: Operation,
    /// First sector. Zero for a flush.
    pub sector: u64,
    /// Sectors. Zero for a flush.
    pub sectors: u32,
    /// The write is durable when it completes (forced unit access).
    pub fua: bool,
    /// Its program waits for it: a read, or a write of a synchronous call.
    pub sync: bool,
    /// Who is charged: a process, a connection or an interned set of causes. Zero: unknown.
    pub cause: u32,
    /// Whether a client waits for the cause.
    pub class: IoClass,
    /// Level within the class, 0 (highest) to 7.
    pub level: u8,
    /// When it should complete at the latest, if its submitter said.
    pub deadline: Option<Nanos>,
    /// What comes before it in the same request of the client has been done; see
    /// [`BlockScheduler::most_sectors`].
    pub continues: bool,
}

impl Request {
    /// A request without an account, at the middle level. Reads and flushes are waited for.
    pub const fn new(operation: Operation, sector: u64, sectors: u32) -> Self {
        Request {
            operation,
            sector,
            sectors,
            fua: false,
            sync: matches!(operation, Operation::Read | Operation::Flush),
            cause: 0,
            class: IoClass::BestEffort,
            level: 4,
            deadline: None,
            continues: false,
        }
    }

    /// First sector after it.
    pub const fn end(&self) -> u64 {
        self.sector + self.sectors as u64
    }
}

/// What [`BlockScheduler::add`] did with a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Added {
    /// It waits.
    Queued,
    /// It was joined to the one named, which waits and now covers both: its range grew at the back.
    /// To complete that one completes both.
    MergedBack(Index),
    /// The same, at the front.
    MergedFront(Index),
}

impl Added {
    /// Whose completion completes the request that was added as `own`.
    pub const fn index_or(self, own: Index) -> Index {
        match self {
            Added::Queued => own,
            Added::MergedBack(index) | Added::MergedFront(index) => index,
        }
    }
}

/// The next step of the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dispatch {
    /// This one goes to the device.
    Request(Index),
    /// Nothing goes before this time, unless something is added or completed.
    Wait(Nanos),
    /// Nothing waits.
    Idle,
}

/// A scheduler of the block level.
///
/// A volume's queue orders flushes itself, against the writes that they cover. All others come
/// here. Only [`Sfq`] and [`Quanta`] share flushes out, too ([`BlockScheduler::shares_flushes`]).
pub trait BlockScheduler: Send {
    /// Name, as configuration has it.
    fn name(&self) -> &'static str;

    /// A request came. `index` names it until it is completed.
    fn add(&mut self, now: Nanos, index: Index, request: &Request) -> Added;

    /// The next one for the device, which has room.
    fn dispatch(&mut self, now: Nanos) -> Dispatch;

    /// The device was given `index`.
    fn activated(&mut self, now: Nanos, index: Index) {
        let _ = (now, index);
    }

    /// The device could not take `index`, which waits again, at its old place.
    fn deactivated(&mut self, now: Nanos, index: Index);

    /// The device finished `index`; `service` is the time it had it.
    fn completed(&mut self, now: Nanos, index: Index, service: Nanos) {
        let _ = (now, index, service);
    }

    /// Whether flushes come here, too, and go by their applications' shares. Otherwise a queue
    /// gives them to the device at once.
    fn shares_flushes(&self) -> bool {
        false
    }

    /// Most sectors of a read or a write that are to go to the device at once. A queue adds no
    /// more than these, and the rest once they are done.
    fn most_sectors(&self, now: Nanos) -> u32 {
        let _ = now;
        u32::MAX
    }

    /// Requests that wait: added, not merged, not dispatched.
    fn waiting(&self) -> usize;

    /// Requests of causes that are `critical` are waited for from here on (RCP, section 4.2.2).
    /// Those that are queued go as if they had come so. Returns how many: none if the scheduler
    /// knows no criticality.
    fn promote(&mut self, now: Nanos, critical: &mut dyn FnMut(u32) -> bool) -> usize {
        let _ = (now, critical);
        0
    }

    /// Requests of `cause` that come from then on are due this long after they come, reads and
    /// writes. Says whether the scheduler keeps to it: one without deadlines does not, nor one
    /// that has no room for another cause.
    fn set_cause_deadlines(&mut self, cause: u32, read: Nanos, write: Nanos) -> bool {
        let _ = (cause, read, write);
        false
    }

    /// The application `cause` has this share from then on; without one, the usual. Says whether
    /// the scheduler keeps to it: one without shares does not, nor one that has no room for
    /// another application.
    fn set_share(&mut self, cause: u32, share: Option<Share>) -> bool {
        let _ = (cause, share);
        false
    }

    /// The device has at most this many requests from then on, and at most `best_effort` of
    /// best-effort applications; at least one of each. Says whether the scheduler keeps to it.
    fn set_depth(&mut self, depth: u32, best_effort: u32) -> bool {
        let _ = (depth, best_effort);
        false
    }

    /// Best effort has at most so many millionths of the device's time from then on, by what
    /// requests are charged. None: no bound. Says whether the scheduler keeps to it.
    fn set_pace(&mut self, millionths: Option<u32>) -> bool {
        let _ = millionths;
        false
    }

    /// Requests are charged these prices from now on. Returns whether this scheduler charges any.
    fn set_prices(&mut self, prices: &cost::Prices) -> bool {
        let _ = prices;
        false
    }
}
