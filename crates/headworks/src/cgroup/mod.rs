//! Shares of processor time for the threads that serve users: an optional part of the gate.
//!
//! The gate decides who is inside. Among the threads of those inside the kernel divides processor
//! time evenly, whatever the classes weigh. With `--cgroups` (or `cpu_weights` in the
//! configuration) the threads are put into control groups, one for each class, below the server's
//! own group, and the groups get the weights that [`headworks_policy::cpu_weight`] works out. Both
//! versions of the kernel's interface will do.
//!
//! Making groups takes root's rights, and the daemon has given them up. So it is the root helper
//! (see [`crate::root_helper`]) that does it, if there is one, and it tells the daemon what has
//! become of it.
//!
//! Nothing depends on it: if groups cannot be made, the gate works without them and `headworks
//! status` says why. At the end, or if the daemon is killed, threads go back to where they were and
//! the groups are removed. If both processes are killed, the threads stay in their groups with the
//! last weights, which is a share of processor time and nothing else; the next daemon takes the
//! groups over, and the kernel lets everybody remove them once the server is gone.

mod groups;
mod hierarchy;
mod plan;
mod reports;
mod worker;

pub use hierarchy::{Place, Refusal, locate};
pub use reports::{Reporter, Reports};
pub use worker::Worker;

use headworks_region::Mapping;
use serde::{Deserialize, Serialize};

/// How it stands with the companion.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CgroupStatus {
    /// `active`, or `off` although it was asked for; `starting` and `waiting` before there is a
    /// server.
    pub state: String,
    /// Why it is off.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The command that mends it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mend: Option<String>,
    /// Version of the interface; 0 if there is none.
    pub version: u32,
    /// The groups.
    pub groups: Vec<GroupStatus>,
}

/// One group.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupStatus {
    /// Name of its class.
    pub class: String,
    /// Its directory.
    pub directory: String,
    /// Its weight, where one ordinary thread is 100.
    pub cpu_weight: u32,
    /// Threads in it.
    pub threads: u32,
}

impl CgroupStatus {
    fn off(refusal: &Refusal) -> CgroupStatus {
        CgroupStatus {
            state: "off".to_owned(),
            reason: Some(refusal.reason.clone()),
            mend: refusal.mend.clone(),
            ..CgroupStatus::default()
        }
    }
}

/// Who cares for the groups.
#[derive(Debug, Default)]
pub enum Companion {
    /// Nobody: it was not asked for.
    #[default]
    None,
    /// This process.
    Own(Box<Worker>),
    /// The root helper, which reports.
    Janitor(Reports),
}

impl Companion {
    /// Looks, several times a second.
    pub fn tick(&mut self, region: &Mapping) {
        match self {
            Companion::None => {}
            Companion::Own(worker) => worker.tick(region),
            Companion::Janitor(reports) => {
                let before = reports.latest().state.clone();
                reports.read();
                let latest = reports.latest();
                // The root helper has no log of its own.
                if latest.state == "off" && before != "off" {
                    let reason = latest.reason.as_deref().unwrap_or("for a reason unknown");
                    crate::log::line(&format!("no CPU weights: {reason}"));
                }
            }
        }
    }

    /// How it stands; `None` if it was not asked for.
    pub fn status(&self) -> Option<CgroupStatus> {
        match self {
            Companion::None => None,
            Companion::Own(worker) => Some(worker.status().clone()),
            Companion::Janitor(reports) => Some(reports.latest().clone()),
        }
    }
}
