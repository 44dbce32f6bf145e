//! Shares of processor time for the threads that serve users: an optional part of the gate.
//!
//! The gate decides which sessions are admitted. Among their threads the kernel divides processor
//! time evenly, whatever the classes' weights. With `--cgroups` (or `cpu_weights` in the
//! configuration) the threads go into control groups, one for each class, below the server's own
//! group. The groups get the weights that [`headworks_policy::cpu_weight`] computes. Both versions
//! of the kernel's interface work.
//!
//! Making groups takes root's rights, which the daemon has given up. So the root helper (see
//! [`crate::root_helper`]) does it, if there is one, and reports to the daemon.
//!
//! Nothing depends on it: if groups cannot be made, the gate works without them and
//! `headworks status` says why. At the end, or if the daemon is killed, threads go back to their
//! group and the class groups are removed. If both processes are killed, the threads stay in their
//! groups with the last weights, which affects only processor time. The next daemon takes the
//! groups over. If the server is gone too, the groups are empty, and the next daemon removes them.

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

/// State of the control groups.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CgroupStatus {
    /// `active`, or `off` if they failed; `starting` and `waiting` before there is a server.
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

/// Who manages the groups.
#[derive(Debug, Default)]
pub enum Companion {
    /// No process: groups were not asked for.
    #[default]
    None,
    /// This process.
    Own(Box<Worker>),
    /// The root helper, which reports.
    Janitor(Reports),
}

impl Companion {
    /// Called several times a second.
    pub fn tick(&mut self, region: &Mapping) {
        match self {
            Companion::None => {}
            Companion::Own(worker) => worker.tick(region),
            Companion::Janitor(reports) => {
                let before = reports.latest().state.clone();
                reports.read();
                let latest = reports.latest();
                // The root helper has no log.
                if latest.state == "off" && before != "off" {
                    let reason = latest.reason.as_deref().unwrap_or("for a reason unknown");
                    crate::log::line(&format!("no CPU weights: {reason}"));
                }
            }
        }
    }

    /// The state; `None` if groups were not asked for.
    pub fn status(&self) -> Option<CgroupStatus> {
        match self {
            Companion::None => None,
            Companion::Own(worker) => Some(worker.status().clone()),
            Companion::Janitor(reports) => Some(reports.latest().clone()),
        }
    }
}
