//! Figure 2.20: what checkpoints of SQLite do to its transactions.
//!
//! SQLite is Debian's `sqlite3`. One process writes: it reads each transaction from its standard
//! input, and prints a line when the transaction has ended. A second process makes the checkpoints;
//! in the paper a thread did.

use super::disk::Disk;
use super::figure::{Arm, Figure, Numbers, Plan, Work, named, shorter, sibling};
use crate::running;
use crate::sweep::Claim;
use crate::sweep::panel::Panel;
use anyhow::{Context, Result, bail, ensure};
use headworks_rig::{find_program, gated::LIBRARY};
use headworks_workload::db::{DbError, ErrorKind};
use headworks_workload::driver::{Client, Request};
use headworks_workload::random::Random;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Rows of 1 KB: 130 MB.
const ROWS: i64 = 100_000;
const SEED: u64 = 1;

/// Transactions a second that arrive.
const RATE: f64 = 20.0;

/// Rows that a transaction updates. Each is on a different page, and is a frame of the log.
const UPDATES: u64 = 4;

/// How often the number of frames is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// What each answer ends with.
const END: &str = "end";

fn sqlite() -> Result<PathBuf> {
    find_program("sqlite3").context("sqlite3 is missing: apt-get install sqlite3")
}

/// Makes the data once, on the machine's own disk.
fn template(work: &Path) -> Result<PathBuf> {
    let data = work.join("template.db");
    let sql = format!(
        "PRAGMA journal_mode=WAL; CREATE TABLE t(id INTEGER PRIMARY KEY, v BLOB); \
        WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {ROWS}) \
        INSERT INTO t SELECT i, randomblob(1000) FROM n;"
    );
    let output = running::output(Command::new(sqlite()?).arg(&data).arg(sql))?;
    ensure!(output.status.success(), "sqlite3: {}", String::from_utf8_lossy(&output.stderr));
    Ok(data)
}

/// A `sqlite3` that has a database open. It is killed when this is dropped.
struct Shell {
    process: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
}

impl Shell {
    /// Starts one; its messages go into a file.
    fn start(mut command: Command, database: &Path, messages: &Path) -> Result<Shell> {
        let mut process = command
            .args(["-batch", "-bail"])
            .arg(database)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(File::create(messages)?)
            .spawn()
            .context("cannot start sqlite3")?;
        let to = process.stdin.take().context("no pipe to sqlite3")?;
        let from = process.stdout.take().context("no pipe from sqlite3")?;
        let mut shell = Shell { process, to, from: BufReader::new(from) };
        // Only the second process makes checkpoints: a commit never makes one.
        let settings = "PRAGMA synchronous=FULL; PRAGMA wal_autocheckpoint=0;\n.timeout 60000";
        if let Err(error) = shell.ask(settings) {
            bail!("{error}:\n{}", fs::read_to_string(messages)?);
        }
        Ok(shell)
    }

    /// Carries statements out, and returns the last line of what they print.
    fn ask(&mut self, sql: &str) -> io::Result<String> {
        self.to.write_all(format!("{sql}\nSELECT '{END}';\n").as_bytes())?;
        let mut last = String::new();
        loop {
            let mut line = String::new();
            if self.from.read_line(&mut line)? == 0 {
                return Err(io::Error::other("sqlite3 has ended"));
            }
            if line.trim_end() == END {
                return Ok(last);
            }
            last = line;
        }
    }

    fn is_governed(&self) -> Result<bool> {
        Ok(fs::read_to_string(format!("/proc/{}/maps", self.process.id()))?.contains(LIBRARY))
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The one that writes.
struct Writer<'a> {
    shell: Shell,
    random: Random,
    /// Frames that are in the log.
    frames: &'a AtomicU64,
}

impl Client for Writer<'_> {
    fn next(&mut self) -> Request {
        Request { kind: 0, before: Duration::ZERO, after: Duration::ZERO }
    }

    fn attempt(&mut self) -> Result<(), DbError> {
        let update = |row| format!("UPDATE t SET v = randomblob(1000) WHERE id = {row};");
        let updates: String = (0..UPDATES).map(|_| update(self.random.within(1, ROWS))).collect();
        self.shell
            .ask(&format!("BEGIN; {updates} COMMIT;"))
            .map_err(|error| DbError::new(ErrorKind::Server, error.to_string()))?;
        self.frames.fetch_add(UPDATES, Relaxed);
        Ok(())
    }
}

/// One run: transactions at a fixed rate, and a checkpoint whenever so many pages are dirty.
fn one(plan: &Plan<'_>, disk: &Disk, arm: &Arm, at: f64) -> Result<Numbers> {
    let data = plan.copy(&plan.template, disk)?;
    let messages = |name: &str| plan.work.join(format!("sqlite-{name}.log"));
    let command = plan.command(arm, &sqlite()?, "sqlite")?;
    let writer = Shell::start(command, &data, &messages("writer"))?;
    let checkpointer =
        Shell::start(sibling(writer.process.id(), &sqlite()?)?, &data, &messages("checkpointer"))?;
    for shell in [&writer, &checkpointer] {
        ensure!(shell.is_governed()? == arm.io.is_some(), "a process has the wrong scheduler");
    }
    let (frames, checkpoints) = (AtomicU64::new(0), AtomicU64::new(0));
    let writer = Mutex::new(Some(writer));
    let connect = |_| {
        let shell = writer.lock().unwrap_or_else(PoisonError::into_inner).take();
        let shell = shell.ok_or_else(|| DbError::usage("only one process writes"))?;
        Ok(Writer { shell, random: Random::new(SEED), frames: &frames })
    };
    // The other process, and the frames that were in the log at its last checkpoint.
    let checkpointer = Mutex::new((checkpointer, 0));
    let checkpoint = || {
        let mut checkpointer = checkpointer.lock().unwrap_or_else(PoisonError::into_inner);
        let (shell, before) = &mut *checkpointer;
        let now = frames.load(Relaxed);
        if (now - *before) as f64 >= at {
            *before = now;
            let done = shell.ask("PRAGMA wal_checkpoint(PASSIVE);");
            checkpoints.fetch_add(done.is_ok_and(|line| line.starts_with("0|")).into(), Relaxed);
        }
    };
    let latencies = plan.requests(1, RATE, &["update"], &connect, LOOK_EVERY, &checkpoint)?;
    let checkpoints = named([("checkpoints", checkpoints.load(Relaxed) as f64)]);
    Ok(latencies.into_iter().chain(checkpoints).collect())
}

const NOTHING: &str = "mq-deadline";
const BFQ: &str = "bfq";
const SPLIT_DEADLINE: &str = "split-deadline";

/// The point of the paper's figure that is quoted.
const QUOTED: f64 = 1_000.0;

pub(super) const FIG_20: Figure = Figure {
    id: "split-sqlite",
    title: "SQLite's transactions beside its checkpoints",
    paper: "Split and Maat",
    figure: "Figure 2.20; section 2.7.1.1",
    about: "sqlite3 with a write-ahead log and synchronous=FULL: 20 transactions/s of 4 random rows out of 100,000 of 1 \
        KB; another process makes a checkpoint whenever so many pages were logged; a disk, writeback throttle off. \
        Deadlines of 100 ms for the log and 10 s for the database.",
    axis: "dirty pages before a checkpoint",
    categories: &[],
    times: [(35, 120, 5), (5, 40, 1)],
    around_s: 8,
    arms: &[
        Arm::new(NOTHING, "hdd", "mq-deadline"),
        Arm::new(BFQ, "hdd", "bfq").full_only(),
        Arm::new(SPLIT_DEADLINE, "hdd", "mq-deadline").io("split-deadline"),
    ],
    points: &[250.0, 500.0, QUOTED, 2_000.0],
    quick_points: &[QUOTED],
    work: Work::Database { template, one },
    rules: "[[io.file]]\npath = \"*-wal\"\nfsync_ms = 100\n\
        [[io.file]]\npath = \"*\"\nfsync_ms = 10000\n",
    claims: &[
        Claim::new("1,000 pages: the tail is shorter")
            .paper("P99.9: 4 times (Figure 2.20)")
            .ours("P99.9 under mq-deadline / P99.9", |seed| {
                shorter(seed, &[NOTHING], SPLIT_DEADLINE, QUOTED, "p999_ms")
            })
            .at_least(4.0),
        Claim::new("the tail does not follow the threshold")
            .paper("much smaller tail latencies at each threshold")
            .ours("P99.9 at 2,000 pages / at 250", |seed| {
                seed.ratio(SPLIT_DEADLINE, "p999_ms", 2_000.0, 250.0)
            })
            .at_most(2.0)
            .note("not in a quick run"),
        Claim::new("all that is offered is done")
            .paper("not given")
            .ours("lowest part of the transactions that were over in time", |seed| {
                let parts = seed.all(SPLIT_DEADLINE, "answered_part");
                parts.into_iter().fold(f64::INFINITY, f64::min)
            })
            .at_least(0.99),
        Claim::new("1,000 pages: as many checkpoints")
            .paper("not given")
            .ours("checkpoints / those under mq-deadline", |seed| {
                seed.get(SPLIT_DEADLINE, QUOTED, "checkpoints")
                    / seed.get(NOTHING, QUOTED, "checkpoints")
            })
            .at_least(0.99),
    ],
    panels: || {
        let panel = |title, key| {
            let panel = Panel::sweep(title, "ms").logarithmic();
            panel.lines([NOTHING, BFQ, SPLIT_DEADLINE], key)
        };
        vec![panel("P99", "p99_ms"), panel("P99.9", "p999_ms"), panel("Longest", "max_ms")]
    },
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transaction_logs_as_many_frames_as_rows_and_a_checkpoint_writes_them() {
        let Ok(program) = sqlite() else {
            println!("skipped: no sqlite3 (apt-get install sqlite3)");
            return;
        };
        let dir = std::env::temp_dir().join(format!("headworks-sqlite-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        let data = template(&dir).unwrap();
        let start = |name| Shell::start(Command::new(&program), &data, &dir.join(name)).unwrap();
        let (shell, mut checkpointer) = (start("writer"), start("checkpointer"));
        assert!(sibling(shell.process.id(), &program).is_ok() && !shell.is_governed().unwrap());
        let frames = AtomicU64::new(0);
        let mut writer = Writer { shell, random: Random::new(SEED), frames: &frames };
        writer.attempt().unwrap();
        let line = checkpointer.ask("PRAGMA wal_checkpoint(PASSIVE);").unwrap();
        assert_eq!((line.trim_end(), frames.into_inner()), ("0|4|4", UPDATES));
        assert!(checkpointer.ask("SELECT nonsense;").is_err(), "it has ended");
        fs::remove_dir_all(&dir).unwrap();
    }
}
