//! The verdict on each target, in the words of status, metrics and the log.

use headworks_policy::learn::allocate;
use headworks_policy::learn::need::Verdict;
use serde::{Deserialize, Serialize};

/// How a target fares, in words for status, metrics and the log.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "is")]
pub enum Fares {
    /// It has no target.
    BestEffort,
    /// Nothing was posted, or not for long enough.
    Unknown,
    /// Within 5 %, or above.
    Met,
    /// Behind, and on its way.
    Behind {
        /// Part of the target that is missing.
        shortfall: f64,
    },
    /// The store has not the room.
    NoRoom {
        /// Part of the target that is missing.
        shortfall: f64,
        /// Share that it would need.
        need: f64,
    },
    /// It waits for something else than storage.
    NotStorage {
        /// Part of the target that is missing.
        shortfall: f64,
    },
    /// All that is asked of it is served, and that is less than its target.
    Sated {
        /// Part of the target for which there is no demand.
        shortfall: f64,
    },
    /// It works, and nothing is posted, or no longer.
    Silent,
}

impl From<Verdict> for Fares {
    fn from(verdict: Verdict) -> Fares {
        match verdict {
            Verdict::Unknown => Fares::Unknown,
            Verdict::Met => Fares::Met,
            Verdict::Behind { shortfall } => Fares::Behind { shortfall },
            Verdict::NoRoom { shortfall, need } => Fares::NoRoom { shortfall, need },
            Verdict::NotStorage { shortfall } => Fares::NotStorage { shortfall },
            Verdict::Sated { shortfall } => Fares::Sated { shortfall },
        }
    }
}

impl Fares {
    /// The state in a word, without its numbers.
    pub fn word(&self) -> &'static str {
        match self {
            Fares::BestEffort => "best effort",
            Fares::Unknown => "no dft",
            Fares::Met => "met",
            Fares::Behind { .. } => "behind",
            Fares::NoRoom { .. } => "NO ROOM",
            Fares::NotStorage { .. } => "NOT STORAGE",
            Fares::Sated { .. } => "no demand for more",
            Fares::Silent => "NO POSTS",
        }
    }
}

/// What is said when a target begins to fare otherwise.
pub(super) fn words(
    name: &str,
    fares: &Fares,
    promise: f64,
    limit: f64,
    starved: bool,
) -> Option<String> {
    Some(match fares {
        Fares::Met => format!("{name}: its target is met"),
        Fares::Silent => format!(
            "{name}: it works, and nothing is posted that it achieves: it keeps its share for {} s, \
             then it has a fair part\n  post each second: headworks store post {name} --achieved \
             NUMBER; or headworks store follow {name}",
            allocate::Settings::default().lease.0 / 1_000_000_000,
        ),
        Fares::NoRoom { shortfall, need } if *need > 1.0 => format!(
            "{name}: its target cannot be met: {:.0} % are missing, and the whole store would not be \
             enough\n  see whether its target, and what is posted, are right: headworks store explain \
             {name}",
            100.0 * shortfall,
        ),
        Fares::NoRoom { shortfall, need } => format!(
            "{name}: its target cannot be met: {:.0} % are missing. It would need {:.0} % of the store, and \
             may have {:.0} %\n  see who has the rest: headworks store explain",
            100.0 * shortfall,
            100.0 * need,
            100.0 * need.min(limit) * promise,
        ),
        Fares::NotStorage { shortfall } if *shortfall > 0.99 => format!(
            "{name}: it is served, and nothing of its target is achieved, by what is posted\n  look at \
             what is posted, and in which unit: headworks store explain {name}",
        ),
        Fares::NotStorage { shortfall } if starved => format!(
            "{name}: {:.0} % of its target are missing, and storage is not the reason: processors are \
             short on the store's machine\n  see who uses them: top",
            100.0 * shortfall,
        ),
        Fares::NotStorage { shortfall } => format!(
            "{name}: {:.0} % of its target are missing, and storage is not the reason: neither a larger share \
             nor fewer requests of others help\n  look at its processors, its locks and its clients",
            100.0 * shortfall,
        ),
        Fares::BestEffort | Fares::Unknown | Fares::Behind { .. } | Fares::Sated { .. } => {
            return None;
        }
    })
}
