//! RCP's Figures 7 and 8: what checkpoints of WiredTiger, the engine of MongoDB, do to its clients.

use super::disk::Disk;
use super::figure::{Arm, Figure, Numbers, Plan, Work, named};
use super::tails;
use anyhow::{Context, Result, ensure};
use headworks_rig::{LoopBuilder, LoopKind, LoopServer};
use headworks_workload::ycsb::{Address, Core, Records, User, UserOptions, load};
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Records of 1 KB, and the engine's cache: 40 % of them.
const RECORDS: u64 = 200_000;
const CACHE_MB: &str = "88";
const SEED: u64 = 1;

/// Clients, as in the paper, and the requests that arrive in a second.
const USERS: usize = 150;
const RATE: f64 = 150.0;

/// A checkpoint begins so long after the last one has ended.
const CHECKPOINT_EVERY_S: &str = "15";

const TIMEOUT: Duration = Duration::from_secs(120);

/// A small server, as WiredTiger is a library.
const SOURCE: &str = include_str!("wiredtiger.c");

/// The server's program in the directory of temporary files.
const PROGRAM: &str = "wiredtiger-server";

fn builder(work: &Path, data: &Path, checkpoint_every_s: &str) -> LoopBuilder {
    LoopServer::builder(LoopKind::Redis)
        .program(work.join(PROGRAM))
        .options([data.as_os_str()])
        .options([CACHE_MB, checkpoint_every_s])
}

fn address(server: &LoopServer) -> Result<Address> {
    Ok(format!("redis://{}", server.address()).parse()?)
}

/// Sends a command of one word; returns the answer's line, which is empty if the server has ended.
fn ask(server: &LoopServer, word: &str) -> Result<String> {
    let mut stream = TcpStream::connect(server.address())?;
    write!(stream, "*1\r\n${}\r\n{word}\r\n", word.len())?;
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line)?;
    Ok(line)
}

/// Compiles the server. It has the library in it, so that the functions of the library's threads
/// have names.
fn compile(work: &Path) -> Result<()> {
    let source = work.join("wiredtiger-server.c");
    fs::write(&source, SOURCE)?;
    let compiled = Command::new("cc")
        .args(["-O2", "-o"])
        .args([&work.join(PROGRAM), &source])
        .args(["-l:libwiredtiger.a", "-lpthread", "-ldl", "-lrt"])
        .status()
        .context("cc is missing: make setup-bench")?;
    ensure!(compiled.success(), "cannot compile a server with WiredTiger: make setup-bench");
    Ok(())
}

/// Compiles the server, and makes its data on the machine's own disk.
fn template(work: &Path) -> Result<PathBuf> {
    compile(work)?;
    let data = work.join("template");
    fs::create_dir(&data)?;
    let mut server = builder(work, &data, "0").start()?;
    load(&address(&server)?, RECORDS, SEED, 2, &mut |_| true).context("cannot load WiredTiger")?;
    end(&mut server)?;
    Ok(data)
}

/// Ends the server, after a checkpoint.
fn end(server: &mut LoopServer) -> Result<()> {
    ask(server, "SHUTDOWN")?;
    let begun = Instant::now();
    while server.is_running() {
        ensure!(begun.elapsed() < TIMEOUT, "WiredTiger does not end:\n{}", server.log_tail());
        sleep(Duration::from_millis(50));
    }
    Ok(())
}

/// A number that the server counts.
pub(crate) fn counted(server: &LoopServer, what: &str) -> Result<f64> {
    let line = ask(server, "INFO")?;
    let mut words = line.trim().trim_start_matches('+').split(' ');
    let number = words.find_map(|word| word.strip_prefix(what)?.strip_prefix(':')?.parse().ok());
    number.with_context(|| format!("the server answered {line:?}"))
}

/// A server with a cache of so many megabytes and a checkpoint every so many seconds, in this
/// directory. `fill` writes its documents, while nothing is made durable.
pub(crate) fn filled(
    work: &Path,
    cache_mb: &str,
    every_s: &str,
    fill: impl FnOnce(&LoopServer) -> Result<()>,
) -> Result<LoopServer> {
    compile(work)?;
    let data = work.join("documents");
    fs::create_dir(&data)?;
    let server = |every_s: &str| {
        let builder = LoopServer::builder(LoopKind::Redis).program(work.join(PROGRAM));
        let words = builder.options([data.as_os_str()]).options([cache_mb, every_s]);
        words.remove_when_orphaned(work).start()
    };
    let mut filling = server("0")?;
    fill(&filling)?;
    end(&mut filling)?;
    server(every_s)
}

/// One run: the server on the fresh disk, requests at a fixed rate, and checkpoints.
fn one(plan: &Plan<'_>, disk: &Disk, arm: &Arm, _: f64) -> Result<Numbers> {
    let data = plan.copy(&plan.template, disk)?;
    let (builder, gate) = plan.behind(arm, builder(plan.work, &data, CHECKPOINT_EVERY_S))?;
    let mut server = builder.start_deadline(TIMEOUT).start()?;
    server.ensure_gated(gate.is_some())?;
    let address = address(&server)?;
    let core = Core::A;
    let records = Records::loaded(RECORDS);
    let user = UserOptions { core, popularity: core.popularity(), records, seed: SEED };
    let connect = |number: usize| User::connect(&address, &user, number);
    let latencies = plan.requests(USERS, RATE, User::KINDS, &connect, TIMEOUT, &|| ())?;
    ensure!(server.is_running(), "the server died; its log ends with:\n{}", server.log_tail());
    let checkpoints = counted(&server, "checkpoints")?;
    Ok(latencies.into_iter().chain(named([("checkpoints", checkpoints)])).collect())
}

pub(super) const FIG_7: Figure = Figure {
    id: "rcp-wiredtiger",
    title: "WiredTiger's requests beside its checkpoints: what clients wait for first",
    paper: "RCP",
    figure: "Figures 7 and 8",
    about: "YCSB A at 150 requests/s, 150 clients, 200,000 records of 1 KB, a cache of 40 % of them, updates \
        durable when they are answered, a checkpoint 15 s after the last one; a disk, writeback throttle off.",
    axis: "load",
    categories: &["YCSB A"],
    times: [(35, 120, 5), (5, 15, 1)],
    around_s: 15,
    arms: tails::ARMS,
    points: &[tails::THIS],
    quick_points: &[tails::THIS],
    work: Work::Database { template, one },
    rules: "",
    claims: &[
        tails::TAIL
            .paper("P99.99: about 5 s to 310 ms")
            .note("18,000 requests: P99.99 is the second longest"),
        tails::NOTHING_LOST.paper("12 % to 201 % more requests/s"),
        tails::AS_MANY_CHECKPOINTS,
    ],
    panels: tails::panels,
};
