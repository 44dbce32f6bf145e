//! What the experiment keeps: everything that was measured, before any analysis.

use headworks_rig::machine::Load;
use serde::{Deserialize, Serialize};

use super::arms::Config;
use crate::record::{Header, Verdict};

/// `gate-mariadb.json`.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Record {
    #[serde(flatten)]
    pub(crate) header: Header,
    pub(crate) software: Software,
    pub(crate) workload: Workload,
    /// Computed from `arms`; written last, replaced when the record is analysed again.
    pub(crate) verdicts: Vec<Verdict>,
    pub(crate) arms: Vec<Arm>,
}

/// Versions, in the programs' own words.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Software {
    pub(crate) mariadb: String,
    pub(crate) sysbench: String,
}

/// What the clients did.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Workload {
    pub(crate) description: String,
    pub(crate) tables: u32,
    pub(crate) rows_per_table: u32,
    pub(crate) warm_up_s: f64,
    pub(crate) window_s: f64,
    /// Options of the server in every arm.
    pub(crate) server_options: Vec<String>,
    /// P given to the gate; `null` when the gate chose.
    pub(crate) parallelism: Option<u32>,
    /// ζ given to the gate; `null` when the gate chose.
    pub(crate) quota: Option<f64>,
}

/// One arm with all its rounds.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Arm {
    pub(crate) config: Config,
    pub(crate) users: usize,
    /// Options of the server in this arm only.
    pub(crate) server_options: Vec<String>,
    pub(crate) rounds: Vec<Round>,
}

/// One run of one arm.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Round {
    /// Counted from 1.
    pub(crate) round: usize,
    /// Which place in the order of its round this arm had, counted from 1.
    pub(crate) position_in_round: usize,
    pub(crate) window_s: f64,
    pub(crate) server_start_s: f64,
    pub(crate) server_stop_s: f64,
    /// Whether our library was in the server's memory.
    pub(crate) library_mapped: bool,
    /// What the gate said of itself at the window's end (`headworks status --json` without the
    /// single connections); `null` without a gate.
    #[serde(default)]
    pub(crate) gate: Option<serde_json::Value>,
    /// The machine before the clients started, at the window's begin, and at its end.
    pub(crate) load_before: Load,
    pub(crate) load_at_window_begin: Load,
    pub(crate) load_at_window_end: Load,
    pub(crate) clients: Vec<Client>,
}

/// What one user was served inside the window.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Client {
    /// Statements answered.
    pub(crate) requests: u64,
    /// Attempts refused with an error that a retry mends, such as a deadlock.
    pub(crate) retries: u64,
    /// Latency of every transaction that committed, from the begin of its first attempt.
    pub(crate) latencies_us: Vec<u32>,
}
