//! The shared-memory region: where the preloaded library, the daemon and the command line meet.
//!
//! The region is a file in memory that each process maps. It holds the policy's state, one slot for
//! each session, the permits that bound how many sessions run, settings, and counters. This crate
//! is mechanism: `headworks-policy` decides the order of admission.
//!
//! Every function here runs inside the database's process and keeps three rules: no allocation, no
//! unbounded wait, no trust in what the memory says. So indices are checked. Below P, a session's
//! path writes no shared cache line.

// The tests' regions are made by code that the tests in `tests` share.
#[cfg(test)]
#[allow(dead_code)]
#[path = "../tests/common/mod.rs"]
mod common;
#[cfg(test)]
extern crate self as headworks_region;

pub mod admission;
pub mod cause;
pub mod clock;
pub mod control;
pub mod declared_locks;
pub mod entered;
pub mod file;
pub mod futex;
pub mod handed;
pub mod held;
pub mod histograms;
pub mod io;
pub mod known_servers;
pub mod layout;
pub mod lock;
pub mod map;
pub mod pause;
mod permits;
pub mod process;
pub mod protocol;
mod queued;
mod repair;
pub mod ring;
pub mod rules;
pub mod session;
mod slots;
pub mod snapshot;
pub mod text;
pub mod thread;
mod waiting;

pub use control::Mode;
pub use entered::{Entered, PassReason};
pub use file::RegionError;
pub use layout::Region;
pub use map::{Mapping, View};
pub use permits::{Waker, set_waker};
pub use protocol::Protocol;
pub use session::{Pause, SessionSlot, State};
pub use waiting::Wait;
