//! Runs the arms in turn on a separate volume.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail, ensure};
use headworks_rig::{Server, ServerBuilder};
use headworks_workload::db::{Database, DbError};
use headworks_workload::driver::{self, Progress as Told, RunOptions as Driving, Stop};
use headworks_workload::tpcc::{
    Home, LoadOptions, Mix, MixHandle, Pace, Population, Terminal, TerminalOptions, check, load,
};

use super::volume::Volume;
use super::{
    AROUND_S, AT, EXPERIMENT, GATE, ID, LOAD_S, PAIRS, Pair, QUICK_S, ROUNDS, USERS, WARM_UP_S,
    WINDOW_S, round_s,
};
use crate::apples::gate;
use crate::apples::measure::measure;
use crate::experiment::RunOptions;
use crate::interrupt;
use crate::progress::Progress;
use crate::sweep::record::{Record, Run};
use crate::sweep::rounds::{Arm, Rounds};
use crate::work::Work;

const MODEL: &str = "ssd-c";
const DATABASE: &str = "tpcc";
const STOP_DEADLINE: Duration = Duration::from_secs(180);

/// The size of the data.
#[derive(Debug, Clone, Copy)]
struct Scale {
    warehouses: i64,
    /// TPC-C's row counts are divided by this.
    divisor: i64,
    pool: &'static str,
    log: &'static str,
    volume_bytes: u64,
}

/// Tables of 1.6 GB, and of 70 MB in a quick run. The buffer pool holds a quarter.
const FULL: Scale =
    Scale { warehouses: 16, divisor: 1, pool: "400M", log: "512M", volume_bytes: 8 << 30 };
const QUICK: Scale =
    Scale { warehouses: 2, divisor: 3, pool: "20M", log: "64M", volume_bytes: 1 << 30 };

struct Bench<'a> {
    options: &'a RunOptions,
    headworks: PathBuf,
    scale: Scale,
    population: Population,
    warm_up_s: u64,
    window_s: u64,
    // Dropped before the directory that it lies in.
    volume: Volume,
    work: Work,
    progress: Progress,
}

/// Runs everything.
pub(super) fn collect(options: &RunOptions) -> Result<Record> {
    let headworks = options.headworks()?;
    let headworks = fs::canonicalize(headworks)?;
    let scale = if options.quick { QUICK } else { FULL };
    let (warm_up_s, planned_s, rounds) =
        if options.quick { (QUICK_S.0, QUICK_S.1, 1) } else { (WARM_UP_S, WINDOW_S, ROUNDS) };
    let window_s = options.window_s.unwrap_or(planned_s).max(1);
    let rounds = options.repeat.unwrap_or(rounds).max(1);
    let load_s = if options.quick { LOAD_S.1 } else { LOAD_S.0 };
    let expected_s = load_s + round_s(warm_up_s + window_s) * rounds as u64;
    let work = Work::new(options, scale.volume_bytes)?;
    let volume = Volume::mount(&headworks, &work.path().join("volume"), MODEL, scale.volume_bytes)?;
    let mut bench = Bench {
        options,
        headworks,
        scale,
        population: Population::new(scale.warehouses, scale.divisor, 1)?,
        warm_up_s,
        window_s,
        volume,
        work,
        progress: Progress::new(
            &format!("{ID}: {}", EXPERIMENT.title),
            Duration::from_secs(expected_s),
        ),
    };
    let schedule = Rounds::begin(&EXPERIMENT, options);
    bench.prepare()?;
    let offered = bench.volume.offered()?;
    let arms =
        PAIRS.iter().flat_map(|pair| [false, true].map(|gated| arm(pair, gated, &offered, scale)));
    let seconds = (warm_up_s as f64, window_s as f64);
    let record = schedule.collect(rounds, seconds, "users", arms.collect(), |task| {
        bench.progress.step(task.title, Duration::from_secs(warm_up_s + window_s + AROUND_S));
        let is_run = |pair: &&Pair| [pair.plain, pair.gated].contains(&task.arm);
        let pair = PAIRS.iter().find(is_run).context("no such arm")?;
        bench.run(pair.scheduler, task.arm == pair.gated, task.round)
    })?;
    bench.check()?;
    Ok(record)
}

fn arm(pair: &Pair, gated: bool, offered: &[String], scale: Scale) -> Arm {
    let label = if gated { pair.gated } else { pair.plain };
    let server = if gated { GATE.trim() } else { "MariaDB as it is" };
    let mut arm = Arm::new(label, server.to_owned(), &[AT]);
    let mut note = |key: &str, value| arm.setup.insert(key.to_owned(), value);
    note("scheduler", pair.scheduler.to_owned());
    note("device", format!("{MODEL}, buffer pool {}", scale.pool));
    if !offered.iter().any(|name| name == pair.scheduler) {
        note(
            "skipped",
            format!("{label}: skipped, this kernel offers {} only", offered.join(", ")),
        );
        arm.points.clear();
    }
    arm
}

impl Bench<'_> {
    fn prepare(&mut self) -> Result<()> {
        let title = format!("filling {} warehouses on the volume", self.population.warehouses);
        let seconds = if self.options.quick { 30 } else { 300 };
        self.progress.step(&title, Duration::from_secs(seconds));
        self.volume.choose("none")?;
        // Durable only at the end: the shutdown writes everything.
        let mut server =
            self.server(false)?.option("--innodb-flush-log-at-trx-commit=0").start()?;
        server.sql(&format!("CREATE DATABASE {DATABASE}"))?;
        server.sql("CREATE USER be@'%'")?;
        server.sql(&format!("GRANT ALL ON {DATABASE}.* TO be@'%'"))?;
        let options = LoadOptions { threads: 4, ..LoadOptions::default() };
        load(&database(&server)?, &self.population, &options, &mut |_, _| {
            self.progress.tick();
            interrupt::check().is_ok()
        })?;
        interrupt::check()?;
        server.stop(STOP_DEADLINE)?;
        Ok(())
    }

    /// Checks TPC-C's consistency conditions after all runs.
    fn check(&mut self) -> Result<()> {
        self.progress.step("checking the data", Duration::from_secs(5));
        self.volume.choose("none")?;
        let mut server = self.server(false)?.start()?;
        let conditions = check(database(&server)?.connect()?.as_mut())?;
        server.stop(STOP_DEADLINE)?;
        let broken: Vec<_> = conditions.iter().filter(|condition| !condition.holds).collect();
        ensure!(broken.is_empty(), "the data is not consistent: {broken:?}");
        Ok(())
    }

    fn run(&mut self, scheduler: &str, gated: bool, round: u64) -> Result<Run> {
        self.volume.choose(scheduler)?;
        let mut server = self.server(gated)?.start()?;
        let database = database(&server)?;
        let terminals = TerminalOptions {
            population: self.population,
            seed: self.options.seed.wrapping_add(round),
            mix: MixHandle::new(Mix::STANDARD),
            home: Home::Fixed,
            pace: Pace::default(),
        };
        let how = Driving {
            users: USERS,
            warm_up: Duration::from_secs(self.warm_up_s),
            window: Duration::from_secs(self.window_s),
            trace: true,
            ..Driving::default()
        };
        let connect = |number: usize| -> Result<Terminal, DbError> {
            Terminal::connect(&database, &terminals, number)
        };
        let stop = Stop::default();
        let report = driver::run(&how, Terminal::KINDS, &connect, &stop, &mut |_: &Told| {
            self.progress.tick();
            if interrupt::check().is_err() {
                stop.stop();
            }
        });
        interrupt::check()?;
        let report = report.map_err(|error| {
            if server.is_running() {
                anyhow!(error)
            } else {
                anyhow!("the server died; its log ends with:\n{}", server.log_tail())
            }
        })?;
        if let Some(failure) = &report.first_failure {
            bail!("a transaction failed for good: {failure}");
        }
        let run = measure(&report, 0, round);
        if gated {
            gate::instance(&self.headworks).enforcing_status()?;
        }
        server.stop(STOP_DEADLINE)?;
        Ok(run)
    }

    fn server(&self, gated: bool) -> Result<ServerBuilder> {
        let Scale { pool, log, .. } = self.scale;
        let builder = Server::builder()
            .data_directory(self.volume.directory().join("data"))
            .cache(self.work.path().join("template"))
            .options([
                format!("--innodb-buffer-pool-size={pool}"),
                format!("--innodb-log-file-size={log}"),
            ])
            .options(["--max-connections=500", "--back-log=500", "--thread-stack=256K"])
            .remove_when_orphaned(self.work.path())
            .start_deadline(Duration::from_secs(180));
        if !gated {
            return Ok(builder);
        }
        let path = self.work.path().join("gate.toml");
        let gate = gate::instance(&self.headworks);
        Ok(builder.prefix(gate.prefix_with_config(&path, GATE, &[])?))
    }
}

fn database(server: &Server) -> Result<Database> {
    Ok(format!("mysql://be@127.0.0.1:{}/{DATABASE}", server.port()).parse::<Database>()?)
}
