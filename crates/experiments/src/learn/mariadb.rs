//! Figure 8 with a real database: MariaDB on a volume of the store, behind the gate, whose own
//! figures are the store's feedback.
//!
//! One server goes through all of it: alone, beside two OLTP-A without a target, with the target,
//! and with the share that was learned, by hand.

use super::host::{App, Did, Fractions, Spec, Stage, soon_unix_ms};
use super::judged::{self, Phase};
use super::one::OLTP_A;
use super::process;
use super::stack::{Outcome, VOLUME_BYTES};
use crate::experiment::{Experiment, Outcome as Reported, RunOptions, Steps};
use crate::progress::Progress;
use crate::running::Running;
use crate::split::Disk;
use crate::sweep::panel::Panel;
use crate::sweep::record::{Record, Run};
use crate::sweep::rounds::{self, Rounds};
use crate::sweep::{self, Claim, Presentation, Seed};
use crate::work::Work;
use crate::{interrupt, running};
use anyhow::{Context, Result, bail, ensure};
use headworks_rig::gated::Instance;
use headworks_rig::{ACCOUNT, Server, machine};
use headworks_store::control::{self, Request, Response};
use headworks_workload::db::Database;
use headworks_workload::driver::{self, Stop};
use headworks_workload::tpcc::{
    Home, LoadOptions, Mix, MixHandle, Pace, Population, Terminal, TerminalOptions, load,
};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::{Duration, Instant};

const ID: &str = "learn-mariadb";
const NAME: &str = "learn";
/// The application of the database.
const DB: &str = "db";

/// Warehouses: two terminals for each, so that rows are seldom what a transaction waits for.
const WAREHOUSES: i64 = 16;
/// What tables are divided by, in a full and in a quick run. The full ones have 400 MB.
const SCALES: [i64; 2] = [4, 32];
const SEED: u64 = 1;
const TERMINALS: usize = 32;

/// Part of what it does alone.
const TARGET: f64 = 0.8;

/// Most of the data is not in it.
const SETTINGS: &[&str] = &["--innodb-buffer-pool-size=64M", "--innodb-log-file-size=256M"];

/// The arms are spans of one run: their names, and their parts of the time.
const ALONE: &str = "alone";
const BESIDE: &str = "beside, no target";
const WITH: &str = "beside, with the target";
const BY_HAND: &str = "beside, the share by hand";
const SPANS: [(&str, f64); 4] = [(ALONE, 0.2), (BESIDE, 0.2), (WITH, 0.4), (BY_HAND, 0.2)];

/// Seconds of all spans, and rounds; for a full and for a quick run.
const TIMES: [(u64, usize); 2] = [(400, 3), (70, 1)];
/// Making the disk and the server, and taking them away.
const AROUND_S: u64 = 30;

pub(super) const EXPERIMENT: Experiment = Experiment {
    id: ID,
    title: "MariaDB with a target on a shared store",
    paper: "Coordinated learning",
    figure: "Figure 8, with a real database",
    expected_s: (TIMES[0].0 + AROUND_S) * TIMES[0].1 as u64 + 180,
    expected_quick_s: TIMES[1].0 + AROUND_S,
    needs: &["mariadb-server-core", "root", "/dev/fuse", "a loop device"],
    bench: &Steps { collect, report },
};

fn config(dir: &Path, goal: &str) -> String {
    let mut text = format!(
        "listen = [\"unix:{}\"]\n[device]\nkind = \"array\"\ndisks = 15\ndepth = 30\nmodel = \"disks\"\n",
        dir.join("store").display()
    );
    let sizes = [4 << 30, VOLUME_BYTES, VOLUME_BYTES];
    for (host, size) in sizes.into_iter().enumerate() {
        text += &format!("[[volume]]\nname = \"h{host}\"\npath = \"memory\"\nsize = {size}\n");
    }
    for (host, name) in [DB, "b", "c"].into_iter().enumerate() {
        text += &format!("[[application]]\nname = \"{name}\"\nvolume = \"h{host}\"\n");
        text += if host == 0 { goal } else { "" };
    }
    text
}

/// The store, and what it is told.
struct Store {
    dir: PathBuf,
    _store: Running,
    file: PathBuf,
}

impl Store {
    fn start(program: &Path, dir: &Path) -> Result<Store> {
        let (store, file) = process::serve(program, dir, &config(dir, ""))?;
        Ok(Store { dir: dir.to_owned(), _store: store, file })
    }

    fn control(&self) -> PathBuf {
        self.dir.join("store.control")
    }

    fn set(&self, goal: &str) -> Result<()> {
        std::fs::write(&self.file, config(&self.dir, goal))?;
        process::reload(&self.control())
    }

    fn need(&self) -> Result<f64> {
        let Response::Status(status) = control::ask(&self.control(), &Request::Status)? else {
            bail!("the store answers otherwise than expected");
        };
        let own = status.applications.iter().find(|own| own.name == DB);
        Ok(own.context("the store does not know the database")?.need)
    }

    fn uri(&self, host: usize) -> String {
        format!("nbd+unix:///h{host}?socket={}", self.dir.join("store").display())
    }
}

fn builder(data: &Path) -> headworks_rig::ServerBuilder {
    Server::builder().data_directory(data).options(SETTINGS)
}

fn database(server: &Server) -> Result<Database> {
    Ok(format!("mysql://{ACCOUNT}@127.0.0.1:{}/tpcc", server.port()).parse()?)
}

/// Makes the data once, on the machine's own disk.
fn template(work: &Path, population: Population) -> Result<PathBuf> {
    let data = work.join("template");
    let mut server = builder(&data).start()?;
    server.sql("CREATE DATABASE tpcc")?;
    let options = LoadOptions { threads: 2, ..LoadOptions::default() };
    let go_on = &mut |_, _| interrupt::check().is_ok();
    load(&database(&server)?, &population, &options, go_on).context("cannot load MariaDB")?;
    server.stop(Duration::from_secs(120))?;
    interrupt::check()?;
    Ok(data)
}

/// Transactions that were answered, at each tenth of a second or so.
type Answered = Mutex<Vec<(Instant, u64)>>;

/// The rate in each second from `begin` on.
fn rates(answered: &[(Instant, u64)], begin: Instant, seconds: u64) -> Vec<f64> {
    let at = |second: u64| {
        let due = begin + Duration::from_secs(second);
        let after = answered.partition_point(|(when, _)| *when <= due);
        let [(t0, n0), (t1, n1)] =
            match (after.checked_sub(1).map(|at| answered[at]), answered.get(after)) {
                (Some(before), Some(after)) => [before, *after],
                (Some(before), None) => return before.1 as f64,
                _ => return 0.0,
            };
        let part =
            due.duration_since(t0).as_secs_f64() / t1.duration_since(t0).as_secs_f64().max(1e-6);
        n0 as f64 + part * (n1 - n0) as f64
    };
    (0..seconds).map(|second| at(second + 1) - at(second)).collect()
}

/// One round: everything on a fresh disk.
fn one(
    program: &Path,
    work: &Path,
    template: &Path,
    population: Population,
    (all_s, seed): (u64, u64),
) -> Result<Vec<(&'static str, Run)>> {
    let store = Store::start(program, &work.join("store"))?;
    let disk = Disk::on(program, work, &store.uri(0), "4G")?;
    let data = disk.copy(template, "data")?;
    let gate = Instance::private(program, NAME)?;
    let front = ["--parallelism".to_owned(), TERMINALS.to_string()];
    let mut server =
        gate.before(builder(&data), front).start_deadline(Duration::from_secs(180)).start()?;
    server.ensure_gated(true)?;
    let mut follow = process::steady(program);
    follow.args(["store", "follow", DB, "--name", NAME, "--config"]).arg(&store.file);
    follow.envs(gate.directory().map(|dir| ("HEADWORKS_RUN_DIR", dir)));
    let _follow = Running::spawn("headworks store follow", follow, &work.join("follow.log"))?;
    let database = database(&server)?;
    let terminals = TerminalOptions {
        population,
        seed,
        mix: MixHandle::new(Mix::STANDARD),
        home: Home::Fixed,
        pace: Pace::default(),
    };
    let connect = |number: usize| Terminal::connect(&database, &terminals, number);
    let options = driver::RunOptions {
        users: TERMINALS,
        warm_up: Duration::ZERO,
        window: Duration::from_secs(all_s + 60),
        ..driver::RunOptions::default()
    };
    let (stop, answered) = (Stop::default(), Answered::default());
    std::thread::scope(|scope| {
        let driven = scope.spawn(|| {
            driver::run(&options, Terminal::KINDS, &connect, &stop, &mut |told| {
                let mut all = answered.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                all.push((Instant::now(), told.answered));
            })
        });
        let spans = spans(&store, work, all_s, seed, &answered);
        stop.stop();
        let driven = driven.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        let runs = spans?;
        driven.context("cannot run the terminals")?;
        ensure!(server.is_running(), "the server died; its log ends with:\n{}", server.log_tail());
        server.stop(Duration::from_secs(120))?;
        Ok(runs)
    })
}

/// A host of OLTP-A, which is idle in the first span.
fn neighbour(
    store: &Store,
    number: usize,
    name: &str,
    (idle_s, all_s): (u64, u64),
    seed: u64,
    begin_unix_ms: u64,
) -> Spec {
    let stages = vec![
        Stage { until_s: idle_s, part: 0.0, cost: 1.0 },
        Stage { until_s: all_s, part: 1.0, cost: 1.0 },
    ];
    Spec {
        uri: store.uri(number),
        bytes: VOLUME_BYTES,
        fractions: Fractions::None,
        apps: vec![App { name: name.to_owned(), kind: OLTP_A, posts: false, stages }],
        seed: seed * 100 + number as u64,
        begin_unix_ms,
    }
}

/// Goes through the spans of a round.
fn spans(
    store: &Store,
    work: &Path,
    all_s: u64,
    seed: u64,
    answered: &Answered,
) -> Result<Vec<(&'static str, Run)>> {
    // Connected, and what is always needed is in memory.
    running::pause(Duration::from_secs(5))?;
    let begin_unix_ms = soon_unix_ms();
    let now_ms = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH)?.as_millis();
    let begin = Instant::now() + Duration::from_millis(begin_unix_ms.saturating_sub(now_ms as u64));
    let mut ends_s = Vec::new();
    let mut so_far = 0.0;
    for (_, part) in SPANS {
        so_far += part;
        ends_s.push((so_far * all_s as f64).round() as u64);
    }
    let spans_s = (ends_s[0], all_s);
    let host =
        |number: usize, name: &str| neighbour(store, number, name, spans_s, seed, begin_unix_ms);
    let until = |second: u64| {
        let end = begin + Duration::from_secs(second);
        running::pause(end.saturating_duration_since(Instant::now()))
    };
    let all = |seconds: u64| {
        let answered = answered.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        rates(&answered, begin, seconds)
    };
    std::thread::scope(|scope| {
        let (spec, path) = (host(1, "b"), work.join("b.json"));
        let b = scope.spawn(move || process::one_host(&spec, &path));
        let (spec, path) = (host(2, "c"), work.join("c.json"));
        let c = scope.spawn(move || process::one_host(&spec, &path));
        let mut target = f64::NAN;
        let mut watch = || -> Result<()> {
            until(ends_s[0])?;
            let alone = &all(ends_s[0])[..];
            // The first seconds fill the buffer pool.
            let late = &alone[alone.len() / 2..];
            target = TARGET * late.iter().sum::<f64>() / late.len() as f64;
            until(ends_s[1])?;
            store.set(&format!("target = {target:.3}\nlimit = 0.95\n"))?;
            until(ends_s[2])?;
            store.set(&format!("share = {:.4}\n", store.need()?.clamp(0.02, 0.95)))?;
            until(ends_s[3])
        };
        let watched = watch();
        let mut did = Vec::new();
        for host in [b, c] {
            did.push(host.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?);
        }
        watched?;
        let own = all(all_s);
        let second = |at: usize| {
            let rate = own.get(at).copied().unwrap_or(0.0);
            let others = did.iter().map(|host| host[at][0].clone());
            [Did { rate, accesses: Vec::new() }].into_iter().chain(others).collect()
        };
        let seconds = (0..all_s as usize).map(second).collect();
        let windows = [DB, "b", "c"].map(|name| process::windows(&store.control(), name));
        let windows = windows.into_iter().collect::<Result<Vec<_>>>()?;
        Ok(judge(&Outcome { seconds, windows }, &ends_s, target))
    })
}

fn judge(outcome: &Outcome, ends_s: &[u64], target: f64) -> Vec<(&'static str, Run)> {
    let trace = judged::trace(outcome);
    let one = |(number, (name, _)): (usize, &(&'static str, f64))| {
        let from = if number == 0 { 0 } else { ends_s[number - 1] };
        let mut run = Run { load: Some(machine::Load::read()), ..Run::default() };
        let phase = Phase {
            name: "run",
            seconds: from as usize..ends_s[number] as usize,
            goals: vec![(0, target)],
            others: vec![1, 2],
        };
        judged::judge(&trace, &phase, &mut run.numbers);
        run.numbers.insert("target_per_s".to_owned(), target);
        judged::series(outcome, &[DB, "b", "c"].map(str::to_owned), &mut run);
        (*name, run)
    };
    SPANS.iter().enumerate().map(one).collect()
}

fn collect(options: &RunOptions) -> Result<Record> {
    // SAFETY: geteuid has no preconditions.
    ensure!(unsafe { libc::geteuid() } == 0, "{ID}: mounting a volume needs root");
    let program = options.headworks()?;
    let (all_s, rounds) = TIMES[usize::from(options.quick)];
    let all_s = options.window_s.unwrap_or(all_s).max(40);
    let rounds = options.repeat.unwrap_or(rounds).max(1);
    let scale = SCALES[usize::from(options.quick)];
    let population = Population::new(WAREHOUSES, scale, SEED)?;
    let each = Duration::from_secs(all_s + AROUND_S);
    let title = format!("{ID}: {}", EXPERIMENT.title);
    let mut progress = Progress::new(&title, each * rounds as u32);
    let schedule = Rounds::begin(&EXPERIMENT, options);
    let work = Work::new(options, 2 << 30)?;
    progress.step("making the data", Duration::from_secs(60));
    let template = template(work.path(), population)?;
    let mut runs = Vec::new();
    for round in 1..=rounds as u64 {
        progress.step(&format!("round {round}/{rounds}"), each);
        let seed = options.seed + round - 1;
        let spans = one(&program, work.path(), &template, population, (all_s, seed))?;
        runs.extend(spans.into_iter().map(|(arm, run)| (arm, 0.0, Run { seed, ..run })));
    }
    let arms = SPANS.map(|(name, _)| rounds::Arm::new(name, "MariaDB".to_owned(), &[0.0]));
    Ok(schedule.record((0.0, all_s as f64), "", arms.into(), &runs))
}

fn get(seed: &Seed<'_>, arm: &str, key: &str) -> f64 {
    seed.get(arm, 0.0, key)
}

const CLAIMS: &[Claim] = &[
    Claim::new("without a target little of it is left beside two OLTP-A")
        .paper("13 % under CFQ, 2.3 % under deadline")
        .ours("of the target", |seed| get(seed, BESIDE, "run_of_target"))
        .at_most(0.95),
    Claim::new("the target is met within 20 s")
        .paper("1,000 s and 2,000 s")
        .ours("s", |seed| get(seed, WITH, "run_settled_s"))
        .at_most(20.0),
    Claim::new("on the mean it is the target")
        .ours("mean / target", |seed| get(seed, WITH, "run_of_target"))
        .between(0.98, 1.02),
    Claim::new("it is held: hardly more minutes are short than with the same share by hand")
        .ours("part of 60 s windows beyond those of the share by hand", |seed| {
            get(seed, WITH, "run_short_part") - get(seed, BY_HAND, "run_short_part")
        })
        .at_most(0.05),
    Claim::new("best effort has the rest")
        .ours("others / others under the share by hand", |seed| {
            get(seed, WITH, "run_others_per_s") / get(seed, BY_HAND, "run_others_per_s")
        })
        .at_least(0.95),
];

fn report(directory: &Path, fresh: bool) -> Result<Reported> {
    let record = sweep::read(directory, ID)?;
    let panel =
        |title: &str, unit: &str, key: &str| Panel::time(title, unit).at("", WITH, 0.0, key);
    let show = Presentation {
        id: ID,
        figure: EXPERIMENT.figure,
        about: "A load after TPC-C (16 small warehouses, 32 terminals that do not think) on MariaDB, whose data directory is a \
            volume of the store, and two OLTP-A on two hosts. MariaDB is behind the gate, and `headworks store \
            follow` tells the store the gate's turns a second. The target is 0.8 of what it does alone.",
        caption: format!(
            "One run: alone, beside, with the target, by hand; {} s",
            record.counted_s
        ),
        claims: CLAIMS,
        columns: &[
            ("mean / target", "run_of_target"),
            ("settled s", "run_settled_s"),
            ("held", "run_held_part"),
            ("sigma 5 s", "run_sigma_part"),
            ("others/s", "run_others_per_s"),
            ("target/s", "target_per_s"),
        ],
        panels: vec![
            panel("MariaDB", "transactions/s", "db_per_s"),
            panel("OLTP-A", "1/s", "b_per_s"),
            panel("Share granted", "%", "db_share_percent"),
            panel("Share asked for", "%", "db_ask_percent"),
        ],
        ..Presentation::default()
    };
    sweep::report(&show, record, directory, fresh)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_those_of_whole_seconds() {
        let begin = Instant::now();
        let at = |tenths: u64| (begin + Duration::from_millis(100 * tenths), 3 * tenths);
        let answered: Vec<_> = (0..40).map(|number| at(number * 3 / 2)).collect();
        let rates = rates(&answered, begin, 5);
        assert!(rates.iter().all(|rate| (rate - 30.0).abs() < 1e-6), "{rates:?}");
    }
}
