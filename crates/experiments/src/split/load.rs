//! The program under a scheduler: a process that runs a load on files.

use anyhow::{Context, Result};
use headworks_workload::files::{self, Report, Task};
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::time::Duration;

/// What such a process is told.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Load {
    pub tasks: Vec<Task>,
    pub warm_up_ms: u64,
    pub window_ms: u64,
}

/// Runs the load of a file and returns its reports, as JSON.
pub fn file_load(spec: &Path) -> Result<String> {
    let text = std::fs::read_to_string(spec)
        .with_context(|| format!("cannot read the load {}", spec.display()))?;
    let load: Load = serde_json::from_str(&text).context(
        "cannot parse the load: the two programs are of different builds (cargo build --workspace)",
    )?;
    let time = Duration::from_millis;
    let reports: Vec<Report> =
        files::run(&load.tasks, time(load.warm_up_ms), time(load.window_ms))?;
    Ok(serde_json::to_string(&reports)?)
}
