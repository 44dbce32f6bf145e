//! Runs the arms in turn: a MariaDB with TPC-C's tables, users in this process. Nothing here judges a number.

use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail, ensure};
use headworks_rig::machine::{Load as MachineLoad, Machine};
use headworks_rig::{Server, ServerBuilder};
use headworks_workload::db::{Database, DbError};
use headworks_workload::driver::{self, Progress as Told, RunOptions as Driving, Stop};
use headworks_workload::tpcc::{
    Home, LoadOptions, MixHandle, Pace, Population, Terminal, TerminalOptions, check, load,
};

use super::figure::{AROUND_S, Arm, Figure, LOAD_S, QUICK, ServerKind, Time};
use super::measure::{add_search, add_status, measure};
use crate::interrupt;
use crate::progress::Progress;
use crate::record::{Header, unix_now_s};
use crate::registry::RunOptions;
use crate::shuffle::SplitMix;
use crate::sweep::record::{ArmRecord, Point, Record, Run};
use crate::work::Work;

/// Options of the server in every arm; everything else is MariaDB's default.
const SERVER_OPTIONS: [&str; 5] = [
    "--innodb-buffer-pool-size=5G",
    "--innodb-log-file-size=2G",
    "--max-connections=2000",
    "--back-log=2000",
    "--thread-stack=256K",
];

/// Warehouses of a full and of a quick run. At 32 the tables (3.2 GB) fit into the buffer pool.
const WAREHOUSES: (i64, i64) = (32, 2);

/// What a quick run divides the tables by.
const QUICK_SCALE: i64 = 30;

const STOP_DEADLINE: Duration = Duration::from_secs(120);
const DATABASE: &str = "tpcc";

/// Accounts of the users, the sensitive ones first.
const ACCOUNTS: [&str; 2] = ["ls", "be"];

struct Bench<'a> {
    figure: &'a Figure,
    options: &'a RunOptions,
    headworks: PathBuf,
    time: Time,
    work: &'a Work,
    population: Population,
    progress: Progress,
}

/// Filled tables, for all experiments of one command: filling them takes longer than some of these.
static DATA: Mutex<Option<Data>> = Mutex::new(None);

struct Data {
    work: Work,
    population: Population,
}

/// Removes the tables.
pub(super) fn forget_data() {
    *DATA.lock().unwrap_or_else(PoisonError::into_inner) = None;
}

/// One run to do.
#[derive(Clone, Copy)]
struct Task<'a> {
    arm: &'a Arm,
    at: f64,
}

/// Runs everything.
pub(super) fn collect(figure: &Figure, options: &RunOptions) -> Result<Record> {
    let headworks = options
        .headworks_exe
        .clone()
        .context("no `headworks` program was given to put the gate in front of the server")?;
    ensure!(
        headworks.is_file(),
        "{} does not exist; build it first (cargo build --release)",
        headworks.display()
    );
    let planned = if options.quick { QUICK } else { figure.time };
    let time = Time {
        window_s: options.window_s.unwrap_or(planned.window_s).max(1),
        rounds: options.repeat.unwrap_or(planned.rounds).max(1),
        ..planned
    };
    let (warehouses, scale) =
        if options.quick { (WAREHOUSES.1, QUICK_SCALE) } else { (WAREHOUSES.0, 1) };
    let expected = Duration::from_secs(figure.expected_s(options.quick));
    let population = Population::new(warehouses, scale, 1)?;
    let mut shared = DATA.lock().unwrap_or_else(PoisonError::into_inner);
    let kept = shared.take().filter(|data| data.population == population);
    let filled = kept.is_some();
    let data = match kept {
        Some(data) => data,
        None => Data { work: Work::new(options, 8 << 30)?, population },
    };
    let mut bench = Bench {
        figure,
        options,
        headworks,
        time,
        work: &data.work,
        population,
        progress: Progress::new(&format!("{}: {}", figure.id, figure.title), expected),
    };
    let (began, recorded_at_unix_s, load_before) =
        (Instant::now(), unix_now_s(), MachineLoad::read());
    if !filled {
        bench.prepare()?;
    }
    let arms = bench.rounds()?;
    bench.check()?;
    drop(bench);
    *shared = Some(data);
    Ok(Record {
        header: Header {
            id: figure.id.to_owned(),
            title: figure.title.to_owned(),
            paper: "AppleS".to_owned(),
            figure: figure.figure.to_owned(),
            recorded_at_unix_s,
            quick: options.quick,
            seed: options.seed,
            machine: Machine::describe(),
        },
        counted_s: time.window_s as f64,
        warmup_s: time.warm_up_s as f64,
        took_s: began.elapsed().as_secs_f64(),
        load_before,
        load_after: MachineLoad::read(),
        verdicts: Vec::new(),
        sweep: figure.sweep.0.to_owned(),
        arms,
    })
}

impl Bench<'_> {
    fn prepare(&mut self) -> Result<()> {
        let seconds = if self.options.quick { LOAD_S.1 } else { LOAD_S.0 };
        let title = format!("filling {} warehouses", self.population.warehouses);
        self.progress.step(&title, Duration::from_secs(seconds));
        // Durable only at the end: the shutdown writes everything.
        let mut server = self.server(None).option("--innodb-flush-log-at-trx-commit=0").start()?;
        server.sql(&format!("CREATE DATABASE {DATABASE}"))?;
        for account in ACCOUNTS {
            server.sql(&format!("CREATE USER {account}@'%'"))?;
            server.sql(&format!("GRANT ALL ON {DATABASE}.* TO {account}@'%'"))?;
        }
        let options = LoadOptions { threads: 4, ..LoadOptions::default() };
        load(&database(&server, "be")?, &self.population, &options, &mut |_, _| {
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
        let mut server = self.server(None).start()?;
        let conditions = check(database(&server, "be")?.connect()?.as_mut())?;
        server.stop(STOP_DEADLINE)?;
        let broken: Vec<_> = conditions.iter().filter(|condition| !condition.holds).collect();
        ensure!(broken.is_empty(), "the data is not consistent: {broken:?}");
        Ok(())
    }

    fn rounds(&mut self) -> Result<Vec<ArmRecord>> {
        let figure = self.figure;
        let arms = figure.arms.iter();
        let mut tasks: Vec<Task<'_>> =
            arms.flat_map(|arm| arm.points.iter().map(move |&at| Task { arm, at })).collect();
        let mut random = SplitMix::new(self.options.seed);
        let mut runs: Vec<(&str, f64, Run)> = Vec::new();
        for round in 1..=self.time.rounds {
            random.shuffle(&mut tasks);
            for task in &tasks {
                let label = task.arm.label;
                let title = format!("round {round}/{} · {label} · {}", self.time.rounds, task.at);
                let run = self
                    .run(*task, round as u64, &title)
                    .with_context(|| format!("{label} at {} in round {round}", task.at))?;
                runs.push((label, task.at, run));
            }
        }
        let arms = figure.arms.iter().map(|arm| ArmRecord {
            arm: arm.label.to_owned(),
            setup: [("server".to_owned(), describe(arm.server))].into(),
            points: arm
                .points
                .iter()
                .map(|&at| {
                    let of = runs.iter().filter(|run| run.0 == arm.label && run.1 == at);
                    Point { at, runs: of.map(|run| run.2.clone()).collect() }
                })
                .collect(),
        });
        Ok(arms.collect())
    }

    /// Reads the tables whose rows are drawn at random, so that no arm pays for having been started last.
    fn warm(&self, server: &Server) -> Result<()> {
        for sum in ["LENGTH(s_data)) FROM {}.stock", "LENGTH(c_data)) FROM {}.customer"] {
            interrupt::check()?;
            self.progress.tick();
            server.sql(&format!("SELECT SUM({}", sum.replace("{}", DATABASE)))?;
        }
        Ok(())
    }

    fn run(&mut self, task: Task<'_>, round: u64, title: &str) -> Result<Run> {
        interrupt::check()?;
        let (warm_up_s, window_s) = match task.arm.time {
            Some(own) if !self.options.quick => own,
            _ => (self.time.warm_up_s, self.time.window_s),
        };
        let expected = Duration::from_secs(warm_up_s + window_s + AROUND_S);
        self.progress.step(title, expected);
        let mut server = self.server(Some(task)).start()?;
        self.warm(&server)?;
        let users = task.arm.load.count(task.at);
        let sensitive = task.arm.load.sensitive;
        let databases = ACCOUNTS
            .map(|account| database(&server, account))
            .into_iter()
            .collect::<Result<Vec<_>>>()?;
        let terminals = TerminalOptions {
            population: self.population,
            seed: self.options.seed.wrapping_add(round),
            mix: MixHandle::new(task.arm.load.mix),
            home: Home::Fixed,
            pace: Pace::default(),
        };
        let how = Driving {
            users,
            warm_up: Duration::from_secs(warm_up_s),
            window: Duration::from_secs(window_s),
            trace: true,
            ..Driving::default()
        };
        let connect = |number: usize| -> Result<Terminal, DbError> {
            Terminal::connect(&databases[usize::from(number >= sensitive)], &terminals, number)
        };
        let (stop, flipped) = (Stop::default(), AtomicBool::new(false));
        let report = driver::run(&how, Terminal::KINDS, &connect, &stop, &mut |told: &Told| {
            self.progress.tick();
            if interrupt::check().is_err() {
                stop.stop();
            }
            if let Some(then) = task.arm.load.then
                && told.elapsed >= how.warm_up
                && !flipped.swap(true, Ordering::Relaxed)
            {
                terminals.mix.set(then);
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
            bail!("a transaction was given up: {failure}");
        }
        let mut run = measure(&report, sensitive, round);
        if matches!(task.arm.server, ServerKind::Gate(_)) {
            let (status, search) = self.gate(task.arm.server)?;
            add_status(&mut run, &status);
            add_search(&mut run, &search);
        }
        server.stop(STOP_DEADLINE)?;
        Ok(run)
    }

    /// What the gate says of itself and of its search for P. An arm whose gate is not closed, though it should be, or
    /// whose control groups are not there, would measure nothing.
    fn gate(&self, server: ServerKind) -> Result<(serde_json::Value, serde_json::Value)> {
        let ask = |arguments: &[&str]| -> Result<serde_json::Value> {
            let output = Command::new(&self.headworks)
                .args(arguments)
                .args(["--json", "--name", &instance()])
                .output()?;
            serde_json::from_slice(&output.stdout).with_context(|| {
                let said = String::from_utf8_lossy(&output.stderr).into_owned();
                format!("`headworks {}` gives no answer: {said}", arguments.join(" "))
            })
        };
        let status = ask(&["status"])?;
        let wants = |text: &str| matches!(server, ServerKind::Gate(c) if c.contains(text));
        ensure!(
            status["mode"] == "enforce" && status["gate"] == "closed" || wants("\"observe\""),
            "the gate is {} in mode {}: it does not hold anybody",
            status["gate"],
            status["mode"]
        );
        ensure!(
            !wants("cpu_weights = true") || status["cgroup"]["state"] == "active",
            "there are no control groups with CPU weights: {}; `headworks doctor` says what gives them",
            status["cgroup"]["reason"]
        );
        Ok((status, ask(&["explain", "parallelism"])?))
    }

    fn server(&self, task: Option<Task<'_>>) -> ServerBuilder {
        let builder = Server::builder()
            .data_directory(self.work.path().join("data"))
            .cache(self.work.path().join("template"))
            .options(SERVER_OPTIONS)
            .remove_when_orphaned(self.work.path())
            .start_deadline(Duration::from_secs(120));
        let kind = task.map_or(ServerKind::Plain(&[]), |task| task.arm.server);
        match kind {
            ServerKind::Plain(options) => std::env::vars_os()
                .map(|(name, _)| name)
                .filter(|name| name.to_string_lossy().starts_with("HEADWORKS"))
                .fold(builder.options(options), ServerBuilder::env_remove),
            ServerKind::Gate(config) => {
                let at = task.map_or(0.0, |task| task.at);
                let path = self.work.path().join("gate.toml");
                // A configuration that cannot be written shows when the gate does not find it.
                let _ = fs::write(&path, config.replace("{x}", &at.to_string()));
                let words = ["run", "--name", &instance(), "--config"].map(OsString::from);
                let prefix = std::iter::once(self.headworks.clone().into()).chain(words);
                builder.prefix(prefix.chain([path.into(), "--".into()]))
            }
        }
    }
}

fn describe(server: ServerKind) -> String {
    match server {
        ServerKind::Plain([]) => "MariaDB as it is".to_owned(),
        ServerKind::Plain(options) => options.join(" "),
        ServerKind::Gate(config) => config.trim().to_owned(),
    }
}

/// Name of the gate's instance.
fn instance() -> String {
    format!("apples-{}", std::process::id())
}

fn database(server: &Server, account: &str) -> Result<Database> {
    let address = format!("mysql://{account}@127.0.0.1:{}/{DATABASE}", server.port());
    Ok(address.parse::<Database>()?)
}
