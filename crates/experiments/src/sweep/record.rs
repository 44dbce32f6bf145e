//! What an experiment over arms and points keeps: the numbers of every run, before any analysis.

use std::collections::BTreeMap;

use headworks_rig::machine::Load;
use serde::{Deserialize, Serialize};

use crate::record::{Header, Verdict};

/// `ID.json`.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Record {
    #[serde(flatten)]
    pub(crate) header: Header,
    /// Time of a run that counts, and that before it.
    pub(crate) counted_s: f64,
    pub(crate) warmup_s: f64,
    /// How long all runs took.
    pub(crate) took_s: f64,
    /// The machine before and after.
    pub(crate) load_before: Load,
    pub(crate) load_after: Load,
    /// Computed from `arms`; replaced when the record is analysed again.
    pub(crate) verdicts: Vec<Verdict>,
    /// What the points are.
    pub(crate) sweep: String,
    pub(crate) arms: Vec<ArmRecord>,
}

#[cfg(test)]
impl Record {
    /// One that has these arms, for tests.
    pub(crate) fn of(arms: Vec<ArmRecord>) -> Self {
        let header = Header {
            id: String::new(),
            title: String::new(),
            paper: String::new(),
            figure: String::new(),
            recorded_at_unix_s: 0,
            quick: false,
            seed: 1,
            machine: headworks_rig::machine::Machine::describe(),
        };
        Self {
            header,
            counted_s: 1.0,
            warmup_s: 0.0,
            took_s: 1.0,
            load_before: Load::read(),
            load_after: Load::read(),
            verdicts: Vec::new(),
            sweep: String::new(),
            arms,
        }
    }
}

/// One arm.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct ArmRecord {
    pub(crate) arm: String,
    /// What it is, beyond its name: in the order of the keys.
    #[serde(flatten)]
    pub(crate) setup: BTreeMap<String, String>,
    pub(crate) points: Vec<Point>,
}

/// One point of an arm.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Point {
    pub(crate) at: f64,
    pub(crate) runs: Vec<Run>,
}

/// One run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Run {
    /// Its seed, or the number of its round.
    pub(crate) seed: u64,
    /// Over the counted time; units are in the keys.
    pub(crate) numbers: BTreeMap<String, f64>,
    /// Over all of the time, a value for each bucket; units are in the keys.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) series: BTreeMap<String, Vec<f64>>,
    /// Length of a bucket.
    pub(crate) bucket_s: f64,
    /// The machine at its end, if others than the experiment could disturb it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) load: Option<Load>,
}
