//! RCP's Figure 9: what snapshots of Redis do to its requests.

use super::disk::Disk;
use super::figure::{Arm, Figure, Numbers, Plan, Work, named};
use super::tails::{self, NOTHING, RCP};
use crate::running;
use crate::sweep::Claim;
use anyhow::{Context, Result, ensure};
use headworks_rig::{LoopBuilder, LoopKind, LoopServer, find_program};
use headworks_workload::ycsb::{Address, Core, Records, User, UserOptions, load};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Records of 1 KB.
const RECORDS: u64 = 200_000;
const SEED: u64 = 1;
const USERS: usize = 16;

/// Requests a second that arrive.
const RATE: f64 = 400.0;

/// A snapshot begins so often.
const SNAPSHOT_EVERY: Duration = Duration::from_secs(15);

const TIMEOUT: Duration = Duration::from_secs(120);

/// The axis: when Redis syncs its log.
const EVERY_SECOND: f64 = 0.0;
const ALWAYS: f64 = 1.0;

fn builder(directory: &Path) -> LoopBuilder {
    LoopServer::builder(LoopKind::Redis).options(["--dir"]).options([directory])
}

/// Sends one command; returns the answer.
fn ask(server: &LoopServer, words: &[&str]) -> Result<String> {
    let program =
        find_program("redis-cli").context("redis-cli is missing: apt-get install redis-tools")?;
    let port = server.port().to_string();
    let output = Command::new(program).args(["-p", &port]).args(words).output()?;
    let answer = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    ensure!(output.status.success(), "redis-cli {}: {answer}", words.join(" "));
    Ok(answer)
}

fn wait(server: &LoopServer, section: &str, line: &str) -> Result<()> {
    let begun = Instant::now();
    while !ask(server, &["INFO", section])?.lines().any(|said| said.trim() == line) {
        ensure!(begun.elapsed() < TIMEOUT, "Redis never said `{line}`:\n{}", server.log_tail());
        sleep(Duration::from_millis(50));
    }
    Ok(())
}

/// A snapshot with all records, on the machine's own disk.
pub(super) fn template(work: &Path) -> Result<PathBuf> {
    let data = work.join("template");
    fs::create_dir(&data)?;
    let server = builder(&data).start()?;
    let address: Address = format!("redis://{}", server.address()).parse()?;
    load(&address, RECORDS, SEED, 2, &mut |_| true).context("cannot load Redis")?;
    ask(&server, &["SAVE"])?;
    Ok(data)
}

/// One run: the server on the fresh disk, requests at a fixed rate, and a snapshot now and then.
fn one(plan: &Plan<'_>, disk: &Disk, arm: &Arm, at: f64) -> Result<Numbers> {
    let sync = if at == ALWAYS { "always" } else { "everysec" };
    beside(plan, disk, arm, sync, SNAPSHOT_EVERY, &|server| {
        // The last one may still be written.
        let _ = ask(server, &["BGSAVE"]);
    })
}

/// Starts a snapshot and returns when it is on the disk.
pub(super) fn snapshot(server: &LoopServer) -> Result<()> {
    ask(server, &["BGSAVE"])?;
    wait(server, "persistence", "rdb_bgsave_in_progress:0")
}

/// Requests at a fixed rate on a fresh disk, and `work` every so often beside them. `sync` is the
/// setting `appendfsync`.
pub(super) fn beside(
    plan: &Plan<'_>,
    disk: &Disk,
    arm: &Arm,
    sync: &str,
    every: Duration,
    work: &(dyn Fn(&LoopServer) + Sync),
) -> Result<Numbers> {
    let data = disk.dir().join("redis");
    fs::create_dir(&data)?;
    fs::copy(plan.template.join("dump.rdb"), data.join("dump.rdb"))?;
    let (builder, gate) = plan.behind(arm, builder(&data))?;
    let mut server = builder.start_deadline(TIMEOUT).start()?;
    server.ensure_gated(gate.is_some())?;
    wait(&server, "persistence", "loading:0")?;
    ask(&server, &["CONFIG", "SET", "appendfsync", sync])?;
    ask(&server, &["CONFIG", "SET", "appendonly", "yes"])?;
    wait(&server, "persistence", "aof_rewrite_in_progress:0")?;
    // Nothing but the server's own writes is on its way to the disk.
    let synced = running::output(Command::new("sync").arg("-f").arg(&data))?;
    ensure!(synced.status.success(), "cannot write the data to the disk");

    let address: Address = format!("redis://{}", server.address()).parse()?;
    let core = Core::A;
    let records = Records::loaded(RECORDS);
    let user = UserOptions { core, popularity: core.popularity(), records, seed: SEED };
    let connect = |number: usize| User::connect(&address, &user, number);
    let latencies = plan.requests(USERS, RATE, User::KINDS, &connect, every, &|| work(&server))?;
    ensure!(server.is_running(), "the server died; its log ends with:\n{}", server.log_tail());
    // A child that still saves would keep the disk busy.
    wait(&server, "persistence", "rdb_bgsave_in_progress:0")?;
    let log = server.log();
    let snapshots = log.lines().filter(|line| line.contains("DB saved on disk")).count();
    Ok(latencies.into_iter().chain(named([("snapshots", snapshots as f64)])).collect())
}

pub(super) const FIG_9: Figure = Figure {
    id: "rcp-redis",
    title: "Requests of Redis beside its snapshots: what clients wait for first",
    paper: "RCP",
    figure: "Figure 9",
    about: "YCSB A at 400 requests/s, 16 users, 200,000 records of 1 KB, a log of commands, and a snapshot every \
        15 s; a disk, writeback throttle off. 0: appendfsync everysec; 1: appendfsync always.",
    axis: "appendfsync",
    categories: &["everysec", "always"],
    times: [(35, 120, 5), (5, 15, 1)],
    around_s: 11,
    arms: tails::ARMS,
    points: &[EVERY_SECOND, ALWAYS],
    quick_points: &[ALWAYS],
    work: Work::Database { template, one },
    rules: "",
    claims: &[
        Claim::new("synced always: P99.9 falls while it saves")
            .paper("2 to 20 times")
            .ours("P99.9 of the best rival / P99.9", |seed| tails::better(seed, ALWAYS, "p999_ms"))
            .at_least(2.0),
        Claim::new("synced every second: P99.9 falls while it saves")
            .paper("2 to 20 times")
            .ours("P99.9 of the best rival / P99.9", |seed| {
                tails::better(seed, EVERY_SECOND, "p999_ms")
            })
            .at_least(2.0)
            .note("not in a quick run"),
        Claim::new("synced always: as many snapshots")
            .paper("not given")
            .ours("snapshots / those under mq-deadline", |seed| {
                seed.get(RCP, ALWAYS, "snapshots") / seed.get(NOTHING, ALWAYS, "snapshots")
            })
            .at_least(0.99),
    ],
    panels: tails::panels,
};
