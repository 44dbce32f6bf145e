//! pgbench: the clients of the experiment, and the logs they leave.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, ensure};
use headworks_rig::{SUPERUSER, postgres_program};

use super::arms::Arm;
use super::record::Measured;
use crate::progress::Progress;
use crate::running::Running;

/// Threads of pgbench. Each of them polls the sockets of all of its clients for every answer, which with few threads costs
/// more than a select does, and favours a server that answers many at once. Real clients are programs of their own.
const CLIENT_THREADS: &str = "16";

/// The window in which transactions count, in µs since 1970: pgbench's logs use that clock.
#[derive(Debug, Clone, Copy)]
pub(super) struct Window {
    pub(super) begin_us: u64,
    pub(super) end_us: u64,
}

/// µs since 1970.
pub(super) fn wall_clock_us() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_micros() as u64)
}

/// Finds pgbench.
pub(super) fn program() -> Result<PathBuf> {
    postgres_program("pgbench").context("pgbench is not installed (apt-get install postgresql)")
}

/// pgbench's own words for its version.
pub(super) fn version(program: &Path) -> Result<String> {
    let output = Command::new(program).arg("--version").env_remove("LD_PRELOAD").output()?;
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

fn command(program: &Path, port: u16) -> Command {
    let mut command = Command::new(program);
    command
        .args(["-h", "127.0.0.1", "-U", SUPERUSER, "-p", &port.to_string()])
        .env_remove("LD_PRELOAD")
        .env("PGDATABASE", "postgres");
    command
}

/// Makes and fills the tables.
pub(super) fn prepare(
    program: &Path,
    port: u16,
    scale: u32,
    log: &Path,
    progress: &Progress,
) -> Result<()> {
    let mut command = command(program, port);
    command.args(["-i", "-q", "-s", &scale.to_string()]);
    Running::spawn("pgbench", command, log)?.wait(Duration::from_secs(1_800), progress)
}

/// Starts the clients, which log every transaction into the directory `logs`.
pub(super) fn start(
    program: &Path,
    port: u16,
    arm: Arm,
    time: Duration,
    seed: u64,
    logs: &Path,
) -> Result<Running> {
    let _ = fs::remove_dir_all(logs);
    fs::create_dir(logs).with_context(|| format!("cannot create {}", logs.display()))?;
    let mut command = command(program, port);
    command
        .args(["-n", "-j", CLIENT_THREADS, "-M", arm.mode.name(), "-b", arm.load.name()])
        .args(["-c", &arm.config.users().to_string()])
        .args(["-T", &time.as_secs_f64().ceil().to_string()])
        .arg(format!("--random-seed={seed}"))
        .args(["--log", "--log-prefix=log"])
        .current_dir(logs);
    Running::spawn("pgbench", command, &logs.with_extension("out"))
}

/// Reads the logs of all threads.
pub(super) fn read_logs(logs: &Path, users: usize, window: Window) -> Result<Measured> {
    let mut clients = vec![Client::default(); users];
    let mut latencies: BTreeMap<u32, u64> = BTreeMap::new();
    let mut files = 0;
    for entry in fs::read_dir(logs)? {
        files += 1;
        let text = fs::read_to_string(entry?.path())?;
        for line in text.lines() {
            let (client, latency_us, done_us) =
                parse(line).with_context(|| format!("pgbench logged `{line}`"))?;
            if (window.begin_us..window.end_us).contains(&done_us) {
                clients.get_mut(client).context("a client too many")?.add(latency_us);
                *latencies.entry(three_digits(latency_us)).or_default() += 1;
            }
        }
    }
    ensure!(files > 0, "pgbench left no log in {}", logs.display());
    Ok(Measured {
        transactions: clients.iter().map(|client| client.count).collect(),
        latencies_us: latencies.into_iter().collect(),
        latency_cv: clients.iter().map(Client::variation).collect(),
    })
}

/// Client, latency and time of the end, of a line such as `0 199 2241 0 1175850568 995598`.
fn parse(line: &str) -> Option<(usize, u32, u64)> {
    let mut fields = line.split_whitespace();
    let client = fields.next()?.parse().ok()?;
    let latency = fields.nth(1)?.parse().ok()?;
    let seconds: u64 = fields.nth(1)?.parse().ok()?;
    let micros: u64 = fields.next()?.parse().ok()?;
    Some((client, latency, seconds * 1_000_000 + micros))
}

/// The latency with its first three digits, so that records stay small; half a percent off at most.
fn three_digits(us: u32) -> u32 {
    let mut unit = 1;
    while us / unit >= 1_000 {
        unit *= 10;
    }
    (us + unit / 2) / unit * unit
}

/// Sums over one client's latencies.
#[derive(Debug, Clone, Default)]
struct Client {
    count: u64,
    sum_ms: f64,
    squares_ms2: f64,
}

impl Client {
    fn add(&mut self, latency_us: u32) {
        let ms = f64::from(latency_us) / 1_000.0;
        self.count += 1;
        self.sum_ms += ms;
        self.squares_ms2 += ms * ms;
    }

    fn variation(&self) -> Option<f64> {
        if self.count < 2 {
            return None;
        }
        let count = self.count as f64;
        let mean = self.sum_ms / count;
        let variance = (self.squares_ms2 - count * mean * mean) / (count - 1.0);
        (mean > 0.0).then(|| variance.max(0.0).sqrt() / mean)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logs_are_read_and_only_the_window_counts() {
        let logs = std::env::temp_dir().join(format!("headworks-pgbench-{}", std::process::id()));
        fs::create_dir_all(&logs).unwrap();
        fs::write(logs.join("log.1"), "0 0 1000 0 10 0\n0 1 3000 0 10 999999\n0 2 9 0 11 0\n")
            .unwrap();
        fs::write(logs.join("log.1.1"), "1 0 123456 0 10 5\n1 1 7 0 9 999999\n").unwrap();
        let window = Window { begin_us: 10_000_000, end_us: 11_000_000 };
        let measured = read_logs(&logs, 3, window).unwrap();
        assert_eq!(measured.transactions, [2, 1, 0]);
        assert_eq!(measured.latencies_us, [(1_000, 1), (3_000, 1), (123_000, 1)]);
        // Mean 2 ms, variance ((-1)² + 1²) / 1 = 2 ms².
        assert!((measured.latency_cv[0].unwrap() - 2f64.sqrt() / 2.0).abs() < 1e-9);
        assert_eq!(measured.latency_cv[1..], [None, None]);
        fs::write(logs.join("log.1"), "0 0 failed 0 10 0\n").unwrap();
        assert!(read_logs(&logs, 3, window).is_err());
        fs::remove_dir_all(&logs).unwrap();
    }

    #[test]
    fn three_digits_are_kept() {
        for (us, kept) in [(7, 7), (999, 999), (1_004, 1_000), (1_005, 1_010), (123_456, 123_000)] {
            assert_eq!(three_digits(us), kept);
        }
    }
}
