//! What a Java virtual machine's flight recorder says of its threads' waits.

use serde::{Deserialize, Serialize};

/// Waits of a unit's threads for objects of one class, in one function.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Monitor {
    /// Unit that waited.
    pub unit: u32,
    /// Unit whose thread had the monitor, or notified; 0 if it is not known.
    pub waker: u32,
    /// Class: that of the monitor, or of what is built on a park.
    pub class: String,
    /// The application's function that waits.
    pub function: String,
    /// `enter`, `wait` or `park`.
    pub by: String,
    /// Number.
    pub n: u64,
    /// Time.
    pub off_ns: u64,
    /// Longest.
    pub max_ns: u64,
}
