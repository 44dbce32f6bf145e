//! RCP's Figures 7 and 8, with InnoDB in place of WiredTiger: what checkpoints do to commits.

use super::disk::Disk;
use super::figure::{Arm, Figure, Numbers, Plan, Work, named};
use super::tails;
use crate::interrupt;
use anyhow::{Context, Result, ensure};
use headworks_rig::{ACCOUNT, Server, ServerBuilder};
use headworks_workload::db::Database;
use headworks_workload::driver::{self, RunOptions, Stop};
use headworks_workload::sysbench::{
    LoadOptions, Oltp, Popularity, Tables, User, UserOptions, load,
};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Four tables of 250,000 rows: 250 MB.
const TABLES: usize = 4;
const ROWS: i64 = 250_000;
const SEED: u64 = 1;

/// Updates a second that arrive, and connections.
const RATE: f64 = 100.0;
const USERS: usize = 16;

/// A checkpoint begins so often: all dirty pages are written and made durable.
const CHECKPOINT_EVERY: Duration = Duration::from_secs(30);

/// Clients make so many pages dirty again while the last ones are written.
const FEW: u64 = 50;

/// The axis: the server writes its files through the page cache; or as it does by default, with
/// `O_DIRECT` and `io_uring`.
const OWN: f64 = 1.0;

const CACHED: &[&str] = &["--innodb-flush-method=fsync", "--innodb-use-native-aio=OFF"];

/// Pages are written at a checkpoint only.
const SETTINGS: &[&str] = &[
    "--innodb-buffer-pool-size=512M",
    "--innodb-log-file-size=1G",
    "--innodb-io-capacity=2000",
    "--innodb-max-dirty-pages-pct=99",
    "--innodb-max-dirty-pages-pct-lwm=0",
    "--innodb-adaptive-flushing=OFF",
];

pub(super) fn builder(data: &Path) -> ServerBuilder {
    Server::builder().data_directory(data).options(SETTINGS)
}

fn tables() -> Result<Tables> {
    Ok(Tables::new(TABLES, ROWS, SEED)?)
}

fn database(server: &Server) -> Result<Database> {
    Ok(format!("mysql://{ACCOUNT}@127.0.0.1:{}/sbtest", server.port()).parse()?)
}

/// Makes the data once, on the machine's own disk.
pub(super) fn template(work: &Path) -> Result<PathBuf> {
    let data = work.join("template");
    let mut server = builder(&data).start()?;
    server.sql("CREATE DATABASE sbtest")?;
    load(&database(&server)?, &tables()?, &LoadOptions::default(), &mut |_, _| true)
        .context("cannot load MariaDB")?;
    server.stop(Duration::from_secs(120))?;
    Ok(data)
}

/// One run: the server on the fresh disk, updates at a fixed rate, and checkpoints.
fn one(plan: &Plan<'_>, disk: &Disk, arm: &Arm, at: f64) -> Result<Numbers> {
    let options = if at == OWN { &[] } else { CACHED };
    let checkpoints = AtomicU64::new(0);
    let latencies = beside(plan, disk, arm, options, CHECKPOINT_EVERY, &|server| {
        if checkpoint(server).is_ok() {
            checkpoints.fetch_add(1, Relaxed);
        }
    })?;
    let checkpoints = named([("checkpoints", checkpoints.into_inner() as f64)]);
    Ok(latencies.into_iter().chain(checkpoints).collect())
}

/// Updates at a fixed rate on a fresh disk, and `work` every so often beside them. `options` are
/// those of the server.
pub(super) fn beside(
    plan: &Plan<'_>,
    disk: &Disk,
    arm: &Arm,
    options: &[&str],
    every: Duration,
    work: &(dyn Fn(&Server) + Sync),
) -> Result<Numbers> {
    let data = plan.copy(&plan.template, disk)?;
    let builder = builder(&data).options(options);
    let (builder, gate) = plan.behind(arm, builder)?;
    let mut server = builder.start_deadline(Duration::from_secs(180)).start()?;
    server.ensure_gated(gate.is_some())?;
    let database = database(&server)?;
    let user = UserOptions {
        workload: Oltp::UpdateNonIndex,
        popularity: Popularity::Uniform,
        tables: tables()?,
        seed: SEED,
    };
    let connect = |number: usize| User::connect(&database, &user, number);
    let latencies = plan.requests(USERS, RATE, User::KINDS, &connect, every, &|| work(&server))?;
    ensure!(server.is_running(), "the server died; its log ends with:\n{}", server.log_tail());
    server.stop(Duration::from_secs(120))?;
    Ok(latencies)
}

/// Requests a second in a closed loop, while nothing else goes on.
pub(super) fn closed_loop(server: &Server, workload: Oltp, seconds: u64) -> Result<f64> {
    let database = database(server)?;
    let (tables, popularity) = (tables()?, Popularity::Uniform);
    let user = UserOptions { workload, popularity, tables, seed: SEED };
    let options = RunOptions {
        users: 8,
        warm_up: Duration::from_millis(100),
        window: Duration::from_secs(seconds),
        ..RunOptions::default()
    };
    let connect = |number: usize| User::connect(&database, &user, number);
    let stop = Stop::default();
    let report = driver::run(&options, User::KINDS, &connect, &stop, &mut |_| {
        if interrupt::check().is_err() {
            stop.stop();
        }
    });
    interrupt::check()?;
    let report = report.context("cannot run the load")?;
    Ok(report.per_s)
}

/// Lets the page cleaner write everything, as before a planned restart or a snapshot.
fn checkpoint(server: &Server) -> Result<()> {
    server.sql("SET GLOBAL innodb_max_dirty_pages_pct = 0")?;
    for _ in 0..250 {
        std::thread::sleep(Duration::from_millis(100));
        let left = server.sql("SHOW GLOBAL STATUS LIKE 'Innodb_buffer_pool_pages_dirty'")?;
        let left = left.rows.first().and_then(|row| row.get(1)?.as_ref()?.parse::<u64>().ok());
        if left.is_none_or(|left| left < FEW) {
            break;
        }
    }
    server.sql("SET GLOBAL innodb_max_dirty_pages_pct = 99")?;
    Ok(())
}

pub(super) const FIG_8: Figure = Figure {
    id: "rcp-mariadb",
    title: "MariaDB's commits beside its checkpoints: what clients wait for first",
    paper: "RCP",
    figure: "Figures 7 and 8, with InnoDB in place of WiredTiger",
    about: "100 updates/s of single rows, 16 connections, 1,000,000 rows; every 30 s all dirty pages are written; \
        a disk, writeback throttle off. 0: innodb_flush_method=fsync; 1: MariaDB's default, O_DIRECT.",
    axis: "files",
    categories: &["flush_method=fsync", "O_DIRECT, the default"],
    times: [(35, 120, 5), (5, 10, 1)],
    around_s: 20,
    arms: tails::ARMS,
    points: &[tails::THIS, OWN],
    quick_points: &[tails::THIS],
    work: Work::Database { template, one },
    rules: "",
    claims: &[
        tails::TAIL
            .paper("P99.99: 5 times (WiredTiger)")
            .note("12,000 requests: the longest one stands for P99.99"),
        tails::NOTHING_LOST,
        tails::AS_MANY_CHECKPOINTS,
    ],
    panels: tails::panels,
};
