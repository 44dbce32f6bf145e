//! What a plug-in says of the stages that it schedules.

use serde::{Deserialize, Serialize};

/// A stage whose requests a plug-in in the process puts in order, as the plug-in says itself.
/// Threads show who hands to whom, but not in which order requests are taken.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Scheduled {
    /// Process.
    #[serde(default)]
    pub pid: u32,
    /// The plug-in's name for the stage.
    pub stage: String,
    /// Name of a thread that works there. The others' differ in numbers.
    pub thread: String,
    /// Its threads wait for one of so many permits. Zero: they take what is next themselves.
    pub permits: u32,
    /// The time for which its threads are held is shared by clients, too.
    pub held: bool,
    /// Threads beside them that try requests which may turn out to need more.
    pub tries: u32,
}
