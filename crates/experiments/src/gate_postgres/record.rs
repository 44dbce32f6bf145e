//! What the experiment keeps: everything that was measured, before any analysis.

use headworks_rig::machine::Load as MachineLoad;
use serde::{Deserialize, Serialize};

use super::arms::Arm;
use crate::record::{Header, Verdict};

/// `gate-postgres.json`.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Record {
    #[serde(flatten)]
    pub(crate) header: Header,
    pub(crate) software: Software,
    pub(crate) scale: u32,
    pub(crate) warm_up_s: f64,
    pub(crate) window_s: f64,
    /// Settings of the server in every arm, beyond its defaults.
    pub(crate) server_settings: Vec<(String, String)>,
    /// P of the gate, and server connections of PgBouncer.
    pub(crate) parallelism: u32,
    /// ζ given to the gate; `null` when the gate chose.
    pub(crate) quota: Option<f64>,
    /// Computed from `arms`; written last, replaced when the record is analysed again.
    pub(crate) verdicts: Vec<Verdict>,
    pub(crate) arms: Vec<ArmRecord>,
}

/// Versions, in the programs' own words.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Software {
    pub(crate) postgres: String,
    pub(crate) pgbench: String,
    pub(crate) pgbouncer: String,
}

/// One arm with all its rounds.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct ArmRecord {
    #[serde(flatten)]
    pub(crate) arm: Arm,
    pub(crate) users: usize,
    pub(crate) rounds: Vec<Round>,
}

/// One run of one arm.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Round {
    /// Counted from 1.
    pub(crate) round: usize,
    /// Which place in the order of its round this arm had, counted from 1.
    pub(crate) position_in_round: usize,
    pub(crate) library_mapped: bool,
    /// What the gate said of itself at the window's end, without the single connections; `null` without a gate.
    pub(crate) gate: Option<serde_json::Value>,
    pub(crate) load_at_window_begin: MachineLoad,
    pub(crate) load_at_window_end: MachineLoad,
    #[serde(flatten)]
    pub(crate) measured: Measured,
}

/// What the clients were served inside the window.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Measured {
    /// Transactions of each client.
    pub(crate) transactions: Vec<u64>,
    /// Latencies of all of them: three digits of the latency in µs, and how often.
    pub(crate) latencies_us: Vec<(u32, u64)>,
    /// Coefficient of variation of each client's latencies; `null` where there were fewer than two.
    pub(crate) latency_cv: Vec<Option<f64>>,
}
