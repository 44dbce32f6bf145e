//! Processes of a run: a store, and hosts.

use super::host::{Did, Spec};
use crate::running::{self, Running};
use anyhow::{Context, Result, bail, ensure};
use headworks_store::control::{self, Request, Response};
use headworks_store::governor::Window;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// A store's configuration, in its directory.
pub(super) const FILE: &str = "store.toml";

/// Time for a store to be there.
const START: Duration = Duration::from_secs(20);

/// A program that keeps its time beside other work of the machine, where that is allowed: modelled
/// disks are as late as the threads that carry out what they say.
pub(super) fn steady(program: &Path) -> Command {
    // SAFETY: geteuid has no preconditions.
    if unsafe { libc::geteuid() } != 0 || !Path::new("/usr/bin/chrt").exists() {
        return Command::new(program);
    }
    let mut command = Command::new("/usr/bin/chrt");
    command.args(["--rr", "5"]).arg(program);
    command
}

/// A store with this configuration, in this directory. Also returns the file.
pub(super) fn serve(program: &Path, dir: &Path, config: &str) -> Result<(Running, PathBuf)> {
    fs::create_dir_all(dir)?;
    let (file, log) = (dir.join(FILE), dir.join("store.log"));
    fs::write(&file, config)?;
    let mut command = steady(program);
    command.args(["store", "serve", "--config"]).arg(&file);
    let store = Running::spawn("headworks store", command, &log)?;
    wait_for(&log)?;
    Ok((store, file))
}

/// Has a store read its configuration again.
pub(super) fn reload(control: &Path) -> Result<()> {
    match control::ask(control, &Request::Reload)? {
        Response::Error(error) => bail!("the store does not take its configuration: {error}"),
        _ => Ok(()),
    }
}

fn wait_for(log: &Path) -> Result<()> {
    let begun = Instant::now();
    loop {
        let said = fs::read_to_string(log).unwrap_or_default();
        if said.contains("volumes are served") {
            return Ok(());
        }
        ensure!(begun.elapsed() < START, "the store does not start:\n{said}");
        running::pause(Duration::from_millis(20))?;
    }
}

pub(super) fn one_host(spec: &Spec, file: &Path) -> Result<Vec<Vec<Did>>> {
    fs::write(file, serde_json::to_vec(spec)?)?;
    let mut command = steady(&std::env::current_exe().context("cannot find this program")?);
    let output = running::output(command.arg("learn-host").arg(file))?;
    ensure!(
        output.status.success(),
        "a host failed: {}",
        String::from_utf8_lossy(&output.stderr).trim()
    );
    let lines = output.stdout.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    lines.map(|line| Ok(serde_json::from_slice(line)?)).collect()
}

pub(super) fn windows(control: &Path, application: &str) -> Result<Vec<Window>> {
    let application = application.to_owned();
    match control::ask(control, &Request::Windows { application })? {
        Response::Windows(windows) => Ok(windows),
        other => bail!("the store answers otherwise than expected: {other:?}"),
    }
}
