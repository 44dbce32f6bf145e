//! The I/O region: where the calls of governed processes meet their scheduler.
//!
//! It is separate from the gate's region, because it also serves programs that have no clients. It
//! holds the scheduler's state (`headworks_policy::split`), our tally of dirty pages, the calls
//! that wait, and an account for each thread. What is here is mechanism: which call goes next is
//! decided by the scheduler.
//!
//! # Reading order
//! [`layout`] says what there is. [`calls`] is the life of a call: it enters, waits, is admitted
//! and leaves. Below it are the scheduler's tasks ([`tasks`]), the thread's account ([`claim`]) and
//! whether a client waits for it ([`criticality`], [`inherit`], [`guess`]). [`files`] and [`pages`]
//! are what calls work on.
//!
//! # No call is held for ever
//! There is no daemon in this path. A thread that waits polls, runs the scheduler's dispatch, and
//! passes after [`IoControl::hold_max`] without progress. A call also passes if the lock is busy, a
//! table is full, or the memory holds nonsense. If a thread died with the lock, the scheduler
//! restarts and all who wait pass.

mod account;
mod calls;
mod claim;
mod criticality;
mod files;
pub mod gone;
mod guess;
mod inherit;
mod layout;
mod map;
mod notes;
mod pages;
pub mod places;
mod rules;
pub mod tally;
mod tasks;
mod unheld;
pub mod waits;

pub use account::AccountSlot;
pub use calls::{Order, Ticket, Written};
pub use files::Found;
pub use headworks_policy::split::CallKind;
pub use layout::{IoControl, IoRegion};
pub use map::IoMapping;
pub use notes::{BLOCKER_NAMES, Blocker, Inheritance};
pub use places::CriticalFiles;
pub use rules::{Foreground, IoRule, Names, RULES, Subject};
pub use tally::{CHUNK_BYTES, FILES, Piece};
pub use unheld::Unheld;

use core::sync::atomic::Ordering::Relaxed;
use headworks_policy::Nanos;
use headworks_policy::split::SplitKind;

impl IoRegion {
    /// Another scheduler from now on, for this kind of device. All who wait pass.
    pub fn start(&self, kind: SplitKind, rotational: bool) {
        self.control.rotational.store(rotational.into(), Relaxed);
        self.control.kind.store(kind as u32, Relaxed);
        self.locked(|guarded| self.restart(guarded));
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
}
