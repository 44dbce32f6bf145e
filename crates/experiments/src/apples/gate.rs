//! Asking the gate, by its own program.

use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::figure::ServerKind;

/// The gate of a server.
pub(super) struct Gate<'a> {
    /// The program.
    pub(super) headworks: &'a Path,
    /// What it should be.
    pub(super) server: ServerKind,
}

/// Name of the gate's instance.
pub(crate) fn instance() -> String {
    format!("apples-{}", std::process::id())
}

/// What stands before the command of a server behind a gate with this configuration, which is written to `path`, and
/// with these options of `headworks run`.
pub(crate) fn prefix(
    headworks: &Path,
    path: &Path,
    config: &str,
    options: &[&str],
) -> Result<Vec<OsString>> {
    fs::write(path, config).with_context(|| format!("cannot write {}", path.display()))?;
    let words = ["run", "--name", &instance(), "--config"].map(OsString::from);
    let words = std::iter::once(headworks.into()).chain(words).chain([path.into()]);
    Ok(words.chain(options.iter().map(OsString::from)).chain(["--".into()]).collect())
}

impl Gate<'_> {
    /// What it says of itself and of its search for P. An arm whose gate is not closed, though it should be, or
    /// whose control groups are not there, would measure nothing.
    pub(super) fn look(&self) -> Result<(Value, Value)> {
        let status = self.ask(&["status"])?;
        let wants = |text: &str| matches!(self.server, ServerKind::Gate(c) if c.contains(text));
        ensure!(
            status["mode"] == "enforce" && status["gate"] == "closed" || wants("\"observe\""),
            "the gate is {} in mode {}: it does not hold anybody",
            status["gate"],
            status["mode"]
        );
        ensure!(
            !wants("cpu_weights = true") || status["cgroup"]["state"] == "active",
            "there are no control groups with CPU weights: {}; `headworks doctor` says what gives them",
            status["cgroup"]["reason"]
        );
        Ok((status, self.ask(&["explain", "parallelism"])?))
    }

    /// Puts a P in force for some seconds.
    pub(super) fn try_out(&self, parallelism: f64, seconds: u64) -> Result<()> {
        let (p, s) = (parallelism.to_string(), seconds.to_string());
        self.run(&["set", "--parallelism", &p, "--for", &s]).map(drop)
    }

    fn ask(&self, arguments: &[&str]) -> Result<Value> {
        ask(self.headworks, arguments)
    }

    fn run(&self, arguments: &[&str]) -> Result<Vec<u8>> {
        tell(self.headworks, arguments)
    }
}

/// What the gate answers, whatever state it is in.
pub(crate) fn ask(headworks: &Path, arguments: &[&str]) -> Result<Value> {
    let answer = tell(headworks, &[arguments, &["--json"]].concat())?;
    serde_json::from_slice(&answer)
        .with_context(|| format!("`headworks {}` gives no JSON", arguments.join(" ")))
}

fn tell(headworks: &Path, arguments: &[&str]) -> Result<Vec<u8>> {
    let output = Command::new(headworks).args(arguments).args(["--name", &instance()]).output()?;
    ensure!(
        output.status.success(),
        "`headworks {}` fails: {}",
        arguments.join(" "),
        String::from_utf8_lossy(&output.stderr).trim()
    );
    Ok(output.stdout)
}
