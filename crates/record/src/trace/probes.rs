//! What probes, stops of threads and agents say, beyond sleeps.

use serde::{Deserialize, Serialize};

/// Calls of a lock's function, from a short window of probes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Call {
    /// Unit.
    pub unit: u32,
    /// Function.
    pub function: String,
    /// Address that it was given.
    pub object: u64,
    /// Calls.
    pub n: u64,
}

/// What stops of one stage's threads did to the waits of another.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Injection {
    /// Units that wait.
    pub waiters: Vec<u32>,
    /// Units that were stopped.
    pub stopped: Vec<u32>,
    /// Waits of the first for the second without stops: number and time.
    pub before: (u64, u64),
    /// And with stops.
    pub during: (u64, u64),
    /// Time for which the threads stood still.
    pub stood_ns: u64,
}

/// Hand-overs between threads of a virtual machine, counted by the agent in it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Handed {
    /// Process.
    pub pid: u32,
    /// Name of the threads that gave, with # for numbers.
    pub from: String,
    /// And of those that took.
    pub to: String,
    /// `pool`, `queue` or `virtual thread`.
    pub over: String,
    /// Number.
    pub n: u64,
}

/// A thread of a program that does nothing waits for a lock that another one has.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Held {
    /// Unit that waits.
    pub unit: u32,
    /// Unit that has it.
    pub owner: u32,
    /// Address of the lock.
    pub object: u64,
}
