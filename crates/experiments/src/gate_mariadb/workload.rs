//! sysbench: the clients of the experiment, and the notebooks they leave.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use headworks_rig::{ACCOUNT, find_program};

use crate::progress::Progress;
use crate::running::Running;
use crate::served::Client;

const SCRIPT: &str = include_str!("workload.lua");

/// Tables of sysbench's schema.
pub(crate) const TABLES: u32 = 4;

/// The database that holds them.
pub(crate) const DATABASE: &str = "sbtest";

/// sysbench with our script, for one size of tables.
#[derive(Debug)]
pub(crate) struct Sysbench {
    program: PathBuf,
    pub(crate) version: String,
    script: PathBuf,
    directory: PathBuf,
    rows_per_table: u32,
}

/// The window in which clients count, in µs of `CLOCK_MONOTONIC`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Window {
    pub(crate) begin_us: u64,
    pub(crate) end_us: u64,
}

impl Sysbench {
    /// Finds sysbench and puts the script into `directory`.
    pub(crate) fn find(directory: &Path, rows_per_table: u32) -> Result<Self> {
        let program = find_program("sysbench")
            .context("sysbench is not installed (apt-get install sysbench)")?;
        let output = Command::new(&program).arg("--version").env_remove("LD_PRELOAD").output()?;
        let version = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        ensure!(
            version.starts_with("sysbench 1."),
            "sysbench 1.0 or later is needed, found: {version}"
        );
        let script = directory.join("workload.lua");
        fs::write(&script, SCRIPT).with_context(|| format!("cannot write {}", script.display()))?;
        Ok(Self { program, version, script, directory: directory.to_owned(), rows_per_table })
    }

    /// Creates and fills the tables.
    pub(crate) fn prepare(&self, port: u16, progress: &Progress) -> Result<()> {
        let mut command = self.command(port, TABLES as usize);
        command.arg("prepare");
        let log = self.directory.join("sysbench-prepare.log");
        let mut running = Running::spawn("sysbench", command, &log)?;
        running.wait(Duration::from_secs(1800), progress)
    }

    /// Starts the clients. They leave their notebooks in the directory `notebooks`.
    pub(crate) fn start(
        &self,
        port: u16,
        users: usize,
        seed: u32,
        window: Window,
        time: Duration,
        notebooks: &Path,
    ) -> Result<Running> {
        let _ = fs::remove_dir_all(notebooks);
        fs::create_dir(notebooks)
            .with_context(|| format!("cannot create {}", notebooks.display()))?;
        let mut command = self.command(port, users);
        command
            .arg(format!("--time={}", time.as_secs_f64().ceil()))
            .arg(format!("--rand-seed={}", seed.max(1)))
            .arg("run")
            .env("HEADWORKS_WINDOW_BEGIN_US", window.begin_us.to_string())
            .env("HEADWORKS_WINDOW_END_US", window.end_us.to_string())
            .env("HEADWORKS_NOTEBOOKS", notebooks);
        Running::spawn("sysbench", command, &self.directory.join("sysbench.log"))
    }

    fn command(&self, port: u16, threads: usize) -> Command {
        let mut command = Command::new(&self.program);
        command
            .arg(&self.script)
            .args([
                "--db-driver=mysql",
                "--db-ps-mode=disable",
                "--mysql-host=127.0.0.1",
                "--mysql-password=",
            ])
            .arg(format!("--mysql-port={port}"))
            .arg(format!("--mysql-user={ACCOUNT}"))
            .arg(format!("--mysql-db={DATABASE}"))
            .arg(format!("--tables={TABLES}"))
            .arg(format!("--table-size={}", self.rows_per_table))
            .arg(format!("--threads={threads}"))
            .args(["--rand-type=pareto", "--events=0"])
            .env_remove("LD_PRELOAD")
            .env_remove("LUA_PATH")
            .current_dir(&self.directory);
        command
    }
}

/// Reads the notebooks of all users, who must all have been connected before the window began.
pub(crate) fn read_notebooks(
    notebooks: &Path,
    users: usize,
    window: Window,
) -> Result<Vec<Client>> {
    (0..users)
        .map(|user| {
            let path = notebooks.join(format!("user-{user}"));
            let text = fs::read_to_string(&path)
                .with_context(|| format!("client {user} wrote no latency log ({}): it ended too early", path.display()))?;
            let (client, ready_us) =
                parse_notebook(&text).with_context(|| format!("cannot parse the latency log of client {user}"))?;
            ensure!(
                ready_us < window.begin_us,
                "client {user} was connected only {} ms after the measurement began; the machine is too busy",
                (ready_us - window.begin_us) / 1000
            );
            Ok(client)
        })
        .collect()
}

fn parse_notebook(text: &str) -> Result<(Client, u64)> {
    let value = |key: &str| -> Result<&str> {
        text.lines()
            .find_map(|line| line.split_once(' ').filter(|(name, _)| *name == key))
            .map(|(_, value)| value)
            .with_context(|| format!("the latency log has no `{key}`"))
    };
    let latencies_us = value("latencies_us")?
        .split_whitespace()
        .map(|number| Ok(number.parse::<f64>()? as u32))
        .collect::<Result<Vec<u32>>>()?;
    let transactions: usize = value("transactions")?.parse()?;
    ensure!(
        transactions == latencies_us.len(),
        "the latency log has {} latencies for {transactions} transactions",
        latencies_us.len()
    );
    let client = Client {
        requests: value("requests")?.parse()?,
        retries: value("retries")?.parse()?,
        latencies_us,
    };
    Ok((client, value("ready_us")?.parse()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notebooks_are_read_and_damage_is_noticed() {
        let text = "ready_us 1500\nrequests 41\nretries 1\ntransactions 2\nlatencies_us 700 1300\n";
        let expected = Client { requests: 41, retries: 1, latencies_us: vec![700, 1300] };
        assert_eq!(parse_notebook(text).unwrap(), (expected, 1500));
        let idle = "ready_us 1\nrequests 0\nretries 0\ntransactions 0\nlatencies_us \n";
        assert_eq!(parse_notebook(idle).unwrap().0, Client::default());
        assert!(parse_notebook(&text.replace("transactions 2", "transactions 3")).is_err());
        assert!(parse_notebook("ready_us 1\n").is_err());
    }

    /// The number behind a name in sysbench's own report.
    fn reported(log: &str, name: &str) -> u64 {
        let line = log.lines().find_map(|line| line.trim().strip_prefix(name)).expect(name);
        line.split_whitespace().next().unwrap().parse().unwrap()
    }

    #[test]
    fn notebooks_over_a_whole_run_agree_with_what_sysbench_reports() {
        if !headworks_rig::mariadb_or_skip() {
            return;
        }
        let directory =
            std::env::temp_dir().join(format!("headworks-workload-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        let Ok(sysbench) = Sysbench::find(&directory, 1000) else {
            println!("skipped: sysbench is not installed (apt-get install sysbench)");
            return;
        };
        let server = headworks_rig::Server::start().unwrap();
        server.sql(&format!("CREATE DATABASE {DATABASE}")).unwrap();
        let progress = Progress::new("test", Duration::ZERO);
        sysbench.prepare(server.port(), &progress).unwrap();
        // So few rows that many transactions meet a deadlock and are repeated.
        let always = Window { begin_us: 0, end_us: 1 << 52 };
        let notebooks = directory.join("notebooks");
        let time = Duration::from_secs(2);
        let mut running = sysbench.start(server.port(), 24, 1, always, time, &notebooks).unwrap();
        running.wait(Duration::from_secs(60), &progress).unwrap();
        let log = fs::read_to_string(directory.join("sysbench.log")).unwrap();
        let after_connecting = Window { begin_us: u64::MAX, ..always };
        let clients = read_notebooks(&notebooks, 24, after_connecting).unwrap();

        let transactions: usize = clients.iter().map(|client| client.latencies_us.len()).sum();
        let retries: u64 = clients.iter().map(|client| client.retries).sum();
        let requests: u64 = clients.iter().map(|client| client.requests).sum();
        assert_eq!(transactions as u64, reported(&log, "total number of events:"), "{log}");
        assert_eq!(retries, reported(&log, "ignored errors:"), "{log}");
        assert_eq!(requests, reported(&log, "queries:") + retries, "{log}");
        assert!(
            retries > 0,
            "nothing was repeated, so the count of repeated attempts was not tested"
        );
        fs::remove_dir_all(&directory).unwrap();
    }
}
