//! pgbench: the clients of the experiment, and the logs they leave.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, ensure};
use headworks_rig::{SUPERUSER, postgres_program};

use crate::progress::Progress;
use crate::running::Running;
use crate::served::Client;

/// Threads of pgbench. For every answer, each of them polls the sockets of all of its clients. With
/// few threads that costs more than a select does, and favours a server that answers many at once.
/// Real clients are separate programs.
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
    (load, mode): (&str, &str),
    users: usize,
    time: Duration,
    seed: u64,
    logs: &Path,
) -> Result<Running> {
    let _ = fs::remove_dir_all(logs);
    fs::create_dir(logs).with_context(|| format!("cannot create {}", logs.display()))?;
    let mut command = command(program, port);
    command
        .args(["-n", "-j", CLIENT_THREADS, "-M", mode, "-b", load])
        .args(["-c", &users.to_string()])
        .args(["-T", &time.as_secs_f64().ceil().to_string()])
        .arg(format!("--random-seed={seed}"))
        .args(["--log", "--log-prefix=log"])
        .current_dir(logs);
    Running::spawn("pgbench", command, &logs.with_extension("out"))
}

/// Reads the logs of all threads.
pub(super) fn read_logs(logs: &Path, users: usize, window: Window) -> Result<Vec<Client>> {
    let mut clients = vec![Client::default(); users];
    let mut files = 0;
    for entry in fs::read_dir(logs)? {
        files += 1;
        let text = fs::read_to_string(entry?.path())?;
        for line in text.lines() {
            let (client, latency_us, done_us) = parse(line)
                .with_context(|| format!("cannot parse this line of pgbench's log: `{line}`"))?;
            if (window.begin_us..window.end_us).contains(&done_us) {
                let client = clients
                    .get_mut(client)
                    .context("pgbench's log names a client that was not started")?;
                client.requests += 1;
                client.latencies_us.push(latency_us);
            }
        }
    }
    ensure!(files > 0, "pgbench wrote no log in {}", logs.display());
    Ok(clients)
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
        let clients = read_logs(&logs, 3, window).unwrap();
        assert_eq!(clients[0].latencies_us, [1_000, 3_000]);
        assert_eq!(clients[1].latencies_us, [123_456]);
        assert_eq!(clients.iter().map(|client| client.requests).collect::<Vec<_>>(), [2, 1, 0]);
        fs::write(logs.join("log.1"), "0 0 failed 0 10 0\n").unwrap();
        assert!(read_logs(&logs, 3, window).is_err());
        fs::remove_dir_all(&logs).unwrap();
    }
}
