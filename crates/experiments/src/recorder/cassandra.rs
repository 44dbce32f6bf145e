//! One node of Cassandra, and clients of one connection to it.
//!
//! `scripts/setup cassandra` fetches both. Their settings are in `crates/experiments/cassandra`.

use std::fs;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use headworks_rig::free_port;

use crate::progress::Progress;
use crate::running::{Running, pause};

/// A directory with `jars` and the load's classes.
const FETCHED: &str = "target/cassandra";
const SETTINGS: &str = include_str!("../../cassandra/cassandra.yaml");
const OPTIONS: &str = include_str!("../../cassandra/jvm.options");
const LOG: &str = include_str!("../../cassandra/logback.xml");
/// Clients that fill the table.
const FILLERS: usize = 16;
const PATIENCE: Duration = Duration::from_secs(120);

/// A node. It is killed when this is dropped.
pub(super) struct Cassandra {
    server: Running,
    port: u16,
    folder: PathBuf,
}

impl Cassandra {
    /// Starts a node with its files in this folder, and fills its table.
    pub(super) fn start(folder: &Path, progress: &Progress) -> Result<Self> {
        let fetched = std::path::absolute(FETCHED)?;
        ensure!(
            fetched.join("Load.class").is_file(),
            "Cassandra is not fetched: run scripts/setup cassandra in a checkout (it takes a JDK and Maven)"
        );
        let (port, storage_port) = (free_port()?, free_port()?);
        let settings = SETTINGS
            .replace("{storage_port}", &storage_port.to_string())
            .replace("{native_port}", &port.to_string());
        for (name, text) in
            [("cassandra.yaml", &*settings), ("jvm.options", OPTIONS), ("logback.xml", LOG)]
        {
            fs::write(folder.join(name), text)?;
        }
        let mut command = java(folder)?;
        command
            .arg(format!("-javaagent:{}", agent(&fetched)?.display()))
            .arg(format!("-Dcassandra.config=file://{}/cassandra.yaml", folder.display()))
            .arg(format!("-Dcassandra.storagedir={}/data", folder.display()))
            .arg("org.apache.cassandra.service.CassandraDaemon");
        let server = Running::spawn("Cassandra", command, &folder.join("cassandra.log"))?;
        let mut own = Self { server, port, folder: folder.to_owned() };
        let begun = Instant::now();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            own.server.check()?;
            ensure!(begun.elapsed() < PATIENCE, "Cassandra does not listen after {PATIENCE:?}");
            progress.tick();
            pause(Duration::from_millis(100))?;
        }
        let log = folder.join("fill.log");
        let fill = own.load("fill", FILLERS)?;
        Running::spawn("the load", fill, &log)?.wait(PATIENCE, progress)?;
        Ok(own)
    }

    pub(super) fn pid(&self) -> u32 {
        self.server.id()
    }

    /// Clients that send one request after another.
    pub(super) fn load(&self, load: &str, clients: usize) -> Result<Command> {
        // The former load's count.
        let _ = fs::remove_file(self.count());
        let mut command = java(&self.folder)?;
        command.args([
            "-Xms128m",
            "-Xmx256m",
            "Load",
            &self.port.to_string(),
            load,
            &clients.to_string(),
        ]);
        command.arg(self.count());
        Ok(command)
    }

    /// Requests that the clients have answers to. They count from their start.
    pub(super) fn answered(&self) -> Result<f64> {
        let text = fs::read_to_string(self.count()).context("the load does not count yet")?;
        text.trim().parse().context("the load's count is no number")
    }

    fn count(&self) -> PathBuf {
        self.folder.join("answered")
    }
}

fn java(folder: &Path) -> Result<Command> {
    let fetched = std::path::absolute(FETCHED)?;
    let mut command = Command::new("java");
    command
        // Later options override those of the file.
        .arg(format!("@{}", folder.join("jvm.options").display()))
        .arg(format!("-Dlogback.configurationFile={}", folder.join("logback.xml").display()))
        .arg("-cp")
        .arg(format!("{}:{}/*", fetched.display(), fetched.join("jars").display()))
        .env_remove("LD_PRELOAD")
        .current_dir(folder);
    Ok(command)
}

/// The agent by which Cassandra measures objects.
fn agent(fetched: &Path) -> Result<PathBuf> {
    let jars = fs::read_dir(fetched.join("jars"))?.flatten().map(|entry| entry.path());
    let named = |path: &PathBuf| {
        path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("jamm-"))
    };
    jars.into_iter().find(named).context("jamm is not among Cassandra's jars")
}
