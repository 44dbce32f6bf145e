//! A server behind the gate.

use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use headworks_rig::gated::{self, Instance};

use crate::certificate::Certificate;
use crate::database::{Database, Place};
use crate::running::Running;

/// How long anything that has to happen may take on a busy machine.
pub const DEADLINE: Duration = Duration::from_secs(30);

/// A server behind the gate.
pub type Gated = gated::Gated<Running>;

/// The `headworks` that was built beside this program.
fn headworks() -> Result<PathBuf> {
    let own = std::env::current_exe()?;
    let path = own.with_file_name("headworks");
    ensure!(
        path.is_file() && own.with_file_name("libheadworks.so").is_file(),
        "no headworks and libheadworks.so beside {}: build both by `cargo build --workspace`",
        own.display()
    );
    Ok(path)
}

/// Starts a server behind a gate with P = `parallelism`. Lines for the section `[gate]` and more
/// sections come from `settings`.
pub fn start(
    database: Database,
    parallelism: u32,
    settings: &str,
    connections: u32,
    certificate: Option<&Certificate>,
) -> Result<Gated> {
    let instance = Instance::private(headworks()?, "conformance")?;
    let config = instance.directory().context("a private directory")?.join("headworks.toml");
    fs::write(&config, format!("[gate]\nparallelism = {parallelism}\n{settings}"))?;
    let mut options: Vec<OsString> = vec!["--config".into(), config.into()];
    if let Some(profile) = database.profile() {
        options.extend(["--profile".into(), profile.into()]);
    }
    let place = Place { gate: Some((&instance, options)), certificate };
    let server = database.start(&place, connections)?;
    server.ensure_gated()?;
    Ok(Gated { server, instance })
}
