//! The gate of a figure's servers.

use std::path::Path;

use anyhow::{Result, ensure};
use headworks_rig::gated::{Instance, Status};
use serde_json::Value;

use super::figure::ServerKind;

/// The gate's instance.
pub(crate) fn instance(headworks: &Path) -> Instance {
    Instance::shared(headworks, format!("apples-{}", std::process::id()))
}

/// What it says of itself and of its search for P. An arm whose gate is not closed, though it
/// should be, or whose control groups are not there, would measure nothing.
pub(super) fn look(gate: &Instance, server: ServerKind) -> Result<(Value, Value)> {
    let wants = |text: &str| matches!(server, ServerKind::Gate(c) if c.contains(text));
    let Status(status) =
        if wants("\"dry-run\"") { gate.status()? } else { gate.enforcing_status()? };
    ensure!(
        !wants("cpu_weights = true") || status["cgroup"]["state"] == "active",
        "there are no control groups with CPU weights: {}; `headworks doctor` says what gives them",
        status["cgroup"]["reason"]
    );
    Ok((status, gate.ask(&["explain", "parallelism"])?))
}

/// Puts a P in force for some seconds.
pub(super) fn try_out(gate: &Instance, parallelism: f64, seconds: u64) -> Result<()> {
    let (p, s) = (parallelism.to_string(), seconds.to_string());
    gate.order(&["set", "--parallelism", &p, "--for", &s]).map(drop)
}
