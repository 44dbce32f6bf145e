//! Runs the arms in turn on a volume of their own.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail, ensure};
use headworks_rig::machine::Load as MachineLoad;
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
use crate::record::unix_now_s;
use crate::sweep::record::{ArmRecord, Point, Record, Run};
use crate::work::Work;
use headworks_policy::random::Random;

const MODEL: &str = "ssd-c";
const DATABASE: &str = "tpcc";
const STOP_DEADLINE: Duration = Duration::from_secs(180);

/// How much lies on the volume.
#[derive(Debug, Clone, Copy)]
struct Scale {
    warehouses: i64,
    /// What the tables are divided by.
    divisor: i64,
    pool: &'static str,
    log: &'static str,
    volume_bytes: u64,
}

/// 1.6 GB of tables and 70 MB; the pool holds a quarter.
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
    let (began, recorded_at_unix_s, load_before) =
        (Instant::now(), unix_now_s(), MachineLoad::at_rest());
    bench.prepare()?;
    let offered = bench.volume.offered()?;
    let runs = bench.rounds(&offered, rounds)?;
    bench.check()?;
    Ok(Record {
        header: EXPERIMENT.header(options, recorded_at_unix_s),
        counted_s: window_s as f64,
        warmup_s: warm_up_s as f64,
        took_s: began.elapsed().as_secs_f64(),
        load_before,
        load_after: MachineLoad::at_rest(),
        verdicts: Vec::new(),
        sweep: "users".to_owned(),
        arms: PAIRS
            .iter()
            .flat_map(|pair| [false, true].map(|gated| arm(pair, gated, &offered, scale, &runs)))
            .collect(),
    })
}

fn label(pair: &Pair, gated: bool) -> &'static str {
    if gated { pair.gated } else { pair.plain }
}

fn arm(
    pair: &Pair,
    gated: bool,
    offered: &[String],
    scale: Scale,
    runs: &[(&'static str, Run)],
) -> ArmRecord {
    let label = label(pair, gated);
    let mut setup = BTreeMap::from([
        ("scheduler".to_owned(), pair.scheduler.to_owned()),
        ("device".to_owned(), format!("{MODEL}, buffer pool {}", scale.pool)),
        ("server".to_owned(), if gated { GATE.trim() } else { "MariaDB as it is" }.to_owned()),
    ]);
    let mut points = Vec::new();
    if offered.iter().any(|name| name == pair.scheduler) {
        let of = runs.iter().filter(|run| run.0 == label).map(|run| run.1.clone());
        points.push(Point { at: AT, runs: of.collect() });
    } else {
        let why = format!("{label}: skipped, this kernel offers {} only", offered.join(", "));
        setup.insert("skipped".to_owned(), why);
    }
    ArmRecord { arm: label.to_owned(), setup, points }
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

    /// The consistency conditions, after everything.
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

    fn rounds(&mut self, offered: &[String], rounds: usize) -> Result<Vec<(&'static str, Run)>> {
        let there = PAIRS.iter().filter(|pair| offered.iter().any(|name| name == pair.scheduler));
        let mut tasks: Vec<(&Pair, bool)> =
            there.flat_map(|pair| [(pair, false), (pair, true)]).collect();
        let mut random = Random::new(self.options.seed);
        let mut runs = Vec::new();
        for round in 1..=rounds {
            random.shuffle(&mut tasks);
            for (pair, gated) in &tasks {
                let label = label(pair, *gated);
                let title = format!("round {round}/{rounds} · {label}");
                let seconds = self.warm_up_s + self.window_s + AROUND_S;
                self.progress.step(&title, Duration::from_secs(seconds));
                let run = self
                    .run(pair.scheduler, *gated, round as u64)
                    .with_context(|| format!("{label} in round {round}"))?;
                runs.push((label, run));
            }
        }
        Ok(runs)
    }

    fn run(&mut self, scheduler: &str, gated: bool, round: u64) -> Result<Run> {
        interrupt::check()?;
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
