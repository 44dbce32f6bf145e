//! A private PostgreSQL: its own directory, port and socket, all removed when it is dropped.

use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use crate::builder::{Builder, Kind, Place};
use crate::process::Process;
use crate::programs::find_program;

/// What a test prints when it skips because there is no PostgreSQL on the machine.
pub const POSTGRES_SKIPPED: &str =
    "skipped: postgres is not installed (apt-get install postgresql)";

/// The superuser that every PostgreSQL of the rig has, without a password.
pub const SUPERUSER: &str = "app";

/// One of PostgreSQL's programs, from Debian's directories or the `PATH`: the newest version.
pub fn postgres_program(name: &str) -> Option<PathBuf> {
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let newest = versions
        .filter_map(|entry| Some((entry.file_name().to_str()?.parse::<u32>().ok()?, entry.path())))
        .filter(|(_, path)| path.join("bin").join(name).is_file())
        .max();
    newest.map(|(_, path)| path.join("bin").join(name)).or_else(|| find_program(name))
}

/// Whether PostgreSQL is installed; prints why a test is skipped when it is not.
pub fn postgres_or_skip() -> bool {
    let found = postgres_program("postgres").is_some() && postgres_program("initdb").is_some();
    if !found {
        println!("{POSTGRES_SKIPPED}");
    }
    found
}

/// A running PostgreSQL. Its process is the postmaster.
pub type PostgresServer = Process<PostgreSql>;

/// How to start a PostgreSQL.
pub type PostgresBuilder = Builder<PostgreSql>;

/// PostgreSQL.
#[derive(Debug, Clone)]
pub struct PostgreSql;

impl Builder<PostgreSql> {
    /// A setting of the server, as `-c name=value`.
    #[must_use]
    pub fn setting(self, name: &str, value: &str) -> Self {
        self.options(["-c".to_owned(), format!("{name}={value}")])
    }
}

impl PostgresServer {
    /// A server to be configured.
    pub fn builder() -> PostgresBuilder {
        Builder::new(PostgreSql)
    }
}

impl Kind for PostgreSql {
    /// SIGINT ends sessions; SIGTERM would wait for them; SIGQUIT leaves a crash to be recovered
    /// from.
    const STOP_SIGNALS: &'static [i32] = &[libc::SIGINT, libc::SIGQUIT];

    const REFUSES_ROOT: bool = true;

    fn program(&self) -> Result<PathBuf> {
        postgres_program("postgres").context(POSTGRES_SKIPPED)
    }

    fn initialise(&self, place: &Place) -> Result<bool> {
        let data = &place.data_directory;
        if data.exists() {
            return Ok(false);
        }
        let mut command = Command::new(postgres_program("initdb").context(POSTGRES_SKIPPED)?);
        command
            .args(["-U", SUPERUSER, "-A", "trust", "--no-sync", "-E", "UTF8", "--locale=C"])
            .arg("-D")
            .arg(data)
            .env_remove("LD_PRELOAD")
            .current_dir("/");
        if let Some(owner) = place.owner {
            if let Some(parent) = data.parent() {
                owner.take(parent)?;
            }
            owner.run_as(&mut command);
        }
        let output = command.output().context("initdb")?;
        if !output.status.success() {
            bail!("initdb failed: {}", String::from_utf8_lossy(&output.stderr));
        }
        Ok(true)
    }

    fn arguments(&self, place: &Place) -> Vec<OsString> {
        let (data, sockets) = (&place.data_directory, &place.run_directory);
        let mut line: Vec<OsString> = vec!["-D".into(), data.into(), "-k".into(), sockets.into()];
        line.extend(["-p".into(), place.port.to_string().into()]);
        for setting in ["listen_addresses=127.0.0.1", "fsync=off", "max_connections=500"] {
            line.extend(["-c".into(), setting.into()]);
        }
        line
    }

    fn prepare(&self, command: &mut Command, place: &Place, prefixed: bool) {
        command.current_dir("/").env("TZ", "UTC");
        if let Some(owner) = place.owner.filter(|_| !prefixed) {
            owner.run_as(command);
        }
    }

    fn ready(&self, server: &PostgresServer) -> Result<()> {
        let said = server.log().contains("database system is ready to accept connections");
        ensure!(said, "PostgreSQL did not become ready");
        Ok(())
    }
}
