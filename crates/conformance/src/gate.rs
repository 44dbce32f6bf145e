//! A server behind the gate, and what the gate says of it.

use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use crate::certificate::Certificate;
use crate::database::{Database, Place};
use crate::running::Running;

/// How long anything that has to happen may take on a busy machine.
pub const DEADLINE: Duration = Duration::from_secs(30);

const NAME: &str = "conformance";

/// A server behind the gate.
#[derive(Debug)]
pub struct Gated {
    // Dropped first: the server stops while its instance is still there.
    pub server: Running,
    directory: Directory,
    headworks: PathBuf,
}

/// Removed when dropped.
#[derive(Debug)]
struct Directory(PathBuf);

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// The `headworks` that was built beside this program.
pub fn headworks() -> Result<PathBuf> {
    let own = std::env::current_exe()?;
    let path = own.with_file_name("headworks");
    ensure!(
        path.is_file() && own.with_file_name("libheadworks.so").is_file(),
        "no headworks and libheadworks.so beside {}: build both by `cargo build --workspace`",
        own.display()
    );
    Ok(path)
}

/// A directory for servers' accounts, too.
pub fn fresh_directory() -> Result<PathBuf> {
    let parent = if PathBuf::from("/dev/shm").is_dir() {
        PathBuf::from("/dev/shm")
    } else {
        std::env::temp_dir()
    };
    let path = parent.join(format!("headworks-conformance-{}", std::process::id()));
    for number in 0..1000 {
        let path = path.with_extension(number.to_string());
        match fs::create_dir(&path) {
            Ok(()) => {
                let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
                fs::set_permissions(&path, mode)?;
                return Ok(path);
            }
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error).context(format!("cannot make {}", path.display())),
        }
    }
    bail!("too many directories {}.*: remove them", path.display())
}

impl Gated {
    /// Starts a server behind a gate with `parallelism` places. Lines for the section `[gate]` and more sections come
    /// from `settings`.
    pub fn start(
        database: Database,
        parallelism: u32,
        settings: &str,
        connections: u32,
        certificate: Option<&Certificate>,
    ) -> Result<Gated> {
        let headworks = headworks()?;
        let directory = Directory(fresh_directory()?);
        let config = directory.0.join("headworks.toml");
        fs::write(&config, format!("[gate]\nparallelism = {parallelism}\n{settings}"))?;
        let mut prefix: Vec<OsString> =
            vec![headworks.clone().into(), "run".into(), "--name".into(), NAME.into()];
        if let Some(profile) = database.profile() {
            prefix.extend(["--profile".into(), profile.into()]);
        }
        prefix.extend(["--config".into(), config.into(), "--".into()]);
        let place = Place {
            prefix,
            certificate,
            environment: vec![("HEADWORKS_RUN_DIR".into(), directory.0.clone().into())],
            directory: Some(&directory.0),
        };
        let server = database.start(&place, connections)?;
        ensure!(server.is_gated()?, "the library is not in the server:\n{}", server.log_tail());
        Ok(Gated { server, directory, headworks })
    }

    /// Runs a command of headworks for this instance.
    pub fn headworks(&self, arguments: &[&str]) -> Result<Output> {
        let mut command = Command::new(&self.headworks);
        command.args(arguments).args(["--name", NAME]);
        command.env("HEADWORKS_RUN_DIR", &self.directory.0);
        command.output().with_context(|| format!("headworks {}", arguments.join(" ")))
    }

    /// What `headworks status` says.
    pub fn status(&self) -> Result<Status> {
        let output = self.headworks(&["status", "--json"])?;
        ensure!(
            output.status.success(),
            "headworks status: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        Ok(Status(serde_json::from_slice(&output.stdout)?))
    }

    /// Waits until the status is as wanted.
    pub fn wait(&self, what: &str, wanted: impl Fn(&Status) -> bool) -> Result<()> {
        let begun = Instant::now();
        loop {
            let status = self.status()?;
            if wanted(&status) {
                return Ok(());
            }
            ensure!(
                begun.elapsed() < DEADLINE,
                "not within {DEADLINE:?}: {what}; status {:#}",
                status.0
            );
            sleep(Duration::from_millis(20));
        }
    }
}

/// One status.
#[derive(Debug)]
pub struct Status(pub Value);

impl Status {
    /// A number of the whole gate; zero if there is none of this name.
    pub fn number(&self, key: &str) -> u64 {
        self.0[key].as_u64().unwrap_or(0)
    }

    /// A counter of the gate.
    pub fn counter(&self, name: &str) -> u64 {
        self.0["counters"][name].as_u64().unwrap_or(0)
    }
}
