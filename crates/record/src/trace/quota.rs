//! A bound of processor time.

use serde::{Deserialize, Serialize};

/// How much of the processors control groups leave to all recorded processes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Quota {
    /// Folders of the groups.
    pub group: String,
    /// Processors.
    pub processors: f64,
    /// Periods of the recording, and those in which the group was stopped.
    pub periods: u64,
    /// See there.
    pub stopped: u64,
    /// Seconds for which it was.
    pub stopped_s: f64,
}

impl Quota {
    /// Part of the periods in which the group was stopped.
    pub fn part(&self) -> f64 {
        self.stopped as f64 / self.periods.max(1) as f64
    }
}
