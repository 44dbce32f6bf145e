//! Runs the arms in turn. Each run starts a separate server; the clients are threads of this
//! process. Nothing here judges a number.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use headworks_policy::random::Random;
use headworks_rig::SUPERUSER;
use headworks_rig::gated::Status;
use headworks_rig::machine::Load as MachineLoad;
use headworks_workload::db::{Database, DbError};
use headworks_workload::driver::{
    self, Answer, Arrivals, Progress as Told, Report, RunOptions as Driving, Stop,
};

use super::client::{Board, Guest, Place};
use super::windows::Windows;
use super::{Arm, Case, Front, POOLED, tables};
use crate::apples::gate;
use crate::experiment::{Experiment, RunOptions};
use crate::gate_postgres::pooler;
use crate::interrupt;
use crate::neighbours::site::{Kind, Site};
use crate::progress::Progress;
use crate::running::Running;
use crate::sweep::record::{Record, Run};
use crate::sweep::rounds::{self, Rounds};
use crate::work::Work;
use headworks_policy::metrics::{median, percentile};

/// The time to start and stop a server, about.
pub(super) const AROUND_S: u64 = 4;

/// The time to make a server's data, or to measure its capacity.
pub(super) const DATA_S: u64 = 12;

/// Units of the statement that measures how fast the server computes.
const UNITS: f64 = 400_000.0;

/// One point of the record.
pub(super) struct Task {
    pub(super) at: f64,
    pub(super) case: &'static Case,
    /// Open loop: the rate of arrivals, as a part of the capacity.
    pub(super) offered: Option<f64>,
}

/// What to run.
pub(super) struct Plan {
    pub(super) experiment: &'static Experiment,
    pub(super) arms: Vec<Arm>,
    pub(super) tasks: Vec<Task>,
    pub(super) warm_up_s: u64,
    pub(super) window_s: u64,
    /// The length of a series' windows.
    pub(super) bucket_s: u64,
    pub(super) rounds: usize,
    /// The load that measures the capacity, if rates depend on it.
    pub(super) capacity: Option<&'static Case>,
    /// What the points are, for the record.
    pub(super) sweep: String,
}

impl Plan {
    /// The length of a case's runs. An operator's word stands above that of the case.
    fn run_s(&self, case: &Case, options: &RunOptions) -> u64 {
        case.window_s.filter(|_| options.window_s.is_none()).unwrap_or(self.window_s)
    }
}

/// A server's data, and what was measured on it.
struct Data {
    directory: PathBuf,
    units_per_s: f64,
    /// Transactions per second of 16 clients on the server as it is, the latest one last.
    capacity_per_s: Vec<f64>,
}

struct Bench<'a> {
    plan: &'a Plan,
    options: &'a RunOptions,
    headworks: PathBuf,
    work: Work,
    progress: Progress,
    data: BTreeMap<&'static str, Data>,
}

/// Runs everything.
pub(super) fn collect(plan: &Plan, options: &RunOptions) -> Result<Record> {
    ensure!(!plan.tasks.is_empty(), "no case's name contains the filter");
    let run_s = |task: &Task| plan.warm_up_s + plan.run_s(task.case, options) + AROUND_S;
    let runs = |task: &Task| plan.arms.iter().filter(|arm| fits(task, arm)).count() as u64;
    let round_s: u64 = plan.tasks.iter().map(|task| run_s(task) * runs(task)).sum();
    let expected = Duration::from_secs(round_s * plan.rounds as u64 + 2 * DATA_S);
    let experiment = plan.experiment;
    let mut bench = Bench {
        plan,
        options,
        headworks: options.headworks()?,
        work: Work::new(options, 4 << 30)?,
        progress: Progress::new(&format!("{}: {}", experiment.id, experiment.title), expected),
        data: BTreeMap::new(),
    };
    let rounds = Rounds::begin(experiment, options);
    for arm in &plan.arms {
        bench.prepare(arm.kind).with_context(|| arm.kind.name())?;
    }
    let mut random = Random::new(options.seed);
    let mut found: Vec<(&str, f64, Run)> = Vec::new();
    for round in 1..=plan.rounds {
        for task in &plan.tasks {
            // The machine's pace drifts, so a capacity holds for the next runs only.
            if let Some(case) = plan.capacity {
                bench.measure_capacities(case, round)?;
            }
            // The machine's pace drifts, so the arms of one case follow each other.
            let mut order: Vec<&Arm> = plan.arms.iter().filter(|arm| fits(task, arm)).collect();
            random.shuffle(&mut order);
            for arm in order {
                let part = task.offered.map_or(String::new(), |part| format!(" at {part}"));
                let title = format!(
                    "round {round}/{} · {}{part} · {}",
                    plan.rounds, task.case.name, arm.label
                );
                bench.progress.step(&title, Duration::from_secs(run_s(task)));
                let run = bench.run(arm, task, round).with_context(|| title)?;
                found.push((arm.label, task.at, run));
            }
        }
    }
    let arms = plan.arms.iter().map(|arm| {
        let points: Vec<f64> =
            plan.tasks.iter().filter(|task| fits(task, arm)).map(|task| task.at).collect();
        let front = match arm.front {
            Front::Nothing => "as it is".to_owned(),
            Front::Gate(config) => {
                format!("behind the gate: {}", config.trim().replace('\n', "; "))
            }
            Front::PgBouncer => format!("behind PgBouncer, {POOLED} connections"),
        };
        rounds::Arm::new(arm.label, format!("{}, {front}", arm.kind.name()), &points)
    });
    let seconds = (plan.warm_up_s as f64, plan.window_s as f64);
    Ok(rounds.record(seconds, &plan.sweep, arms.collect(), &found))
}

fn fits(task: &Task, arm: &Arm) -> bool {
    task.case.only.is_none_or(|kind| kind == arm.kind)
}

/// The name of a data directory. MariaDB's pool works on the same files as its threads.
fn engine(kind: Kind) -> &'static str {
    match kind {
        Kind::MariaDb | Kind::MariaDbPool => "mariadb",
        Kind::PostgreSql => "postgresql",
    }
}

/// How the clients connect.
fn database(kind: Kind, port: u16) -> Result<Database, DbError> {
    match kind {
        Kind::MariaDb | Kind::MariaDbPool => {
            let (account, name) = (headworks_rig::ACCOUNT, headworks_rig::DATABASE);
            format!("mysql://{account}@127.0.0.1:{port}/{name}").parse()
        }
        Kind::PostgreSql => format!("postgresql://{SUPERUSER}@127.0.0.1:{port}/postgres").parse(),
    }
}

impl Bench<'_> {
    /// Makes a server's data, unless it exists.
    fn prepare(&mut self, kind: Kind) -> Result<()> {
        if self.data.contains_key(engine(kind)) {
            return Ok(());
        }
        interrupt::check()?;
        self.progress
            .step(&format!("making the data of {}", engine(kind)), Duration::from_secs(DATA_S));
        let home = self.work.path().join(engine(kind));
        std::fs::create_dir_all(&home)?;
        let directory = home.join("data");
        let site = Site::launch(kind, &[], self.work.path(), Some(&directory))?;
        site.prepare()?;
        let mut session = database(kind, site.port())?.connect()?;
        tables::make(session.as_mut())?;
        let statement = tables::long(session.dialect(), UNITS);
        let mut times_s = Vec::new();
        for _ in 0..3 {
            let begun = Instant::now();
            session.query(&statement, &[])?;
            times_s.push(begun.elapsed().as_secs_f64());
        }
        let units_per_s = UNITS / median(&times_s).unwrap_or(f64::NAN);
        self.data.insert(engine(kind), Data { directory, units_per_s, capacity_per_s: Vec::new() });
        Ok(())
    }

    /// Measures the capacity of each server as it is.
    fn measure_capacities(&mut self, case: &'static Case, round: usize) -> Result<()> {
        for kind in [Kind::MariaDb, Kind::PostgreSql] {
            if !self.data.contains_key(engine(kind)) {
                continue;
            }
            let arm = Arm::new("capacity", kind, Front::Nothing, true);
            self.progress
                .step(&format!("capacity of {}", kind.name()), Duration::from_secs(DATA_S));
            let run = self.run(&arm, &Task { at: 0.0, case, offered: None }, round)?;
            let per_s = run.numbers.get("transactions_per_s").copied();
            if let (Some(data), Some(per_s)) = (self.data.get_mut(engine(kind)), per_s) {
                data.capacity_per_s.push(per_s);
            }
        }
        Ok(())
    }

    /// One run: starts a server, lets the clients work, and measures.
    fn run(&self, arm: &Arm, task: &Task, round: usize) -> Result<Run> {
        interrupt::check()?;
        let prefix = match arm.front {
            Front::Gate(config) => {
                let path = self.work.path().join("gate.toml");
                gate::instance(&self.headworks).prefix_with_config(&path, config, &[])?
            }
            _ => Vec::new(),
        };
        let data = &self.data[engine(arm.kind)];
        let site = Site::launch(arm.kind, &prefix, self.work.path(), Some(&data.directory))?;
        tables::make_ready(database(arm.kind, site.port())?.connect()?.as_mut())?;
        let (pooler, port) = match arm.front {
            Front::PgBouncer => {
                let (program, directory) = (pooler::program()?, self.work.path());
                let (pooler, port) = pooler::start(&program, directory, site.port(), POOLED)?;
                (Some(pooler), port)
            }
            _ => (None, site.port()),
        };
        let database = database(arm.kind, port)?;
        let capacity_per_s = data.capacity_per_s.last().copied();
        let offered_per_s = task.offered.and_then(|part| Some(part * capacity_per_s?));
        let window_s = self.plan.run_s(task.case, self.options);
        let how = Driving {
            users: task.case.clients(),
            arrivals: offered_per_s
                .map_or(Arrivals::Closed, |rate_per_s| Arrivals::Queued { rate_per_s }),
            warm_up: Duration::from_secs(self.plan.warm_up_s),
            window: Duration::from_secs(window_s),
            seed: self.options.seed.wrapping_add(round as u64),
            trace: true,
            ..Driving::default()
        };
        let board = Board::new(data.units_per_s);
        let (report, gate_says) =
            self.drive(arm, task.case, &how, &database, &board, (pooler, site))?;
        let failures: u64 = report.failures.values().sum();
        ensure!(failures == 0, "{failures} requests failed, such as: {:?}", report.first_failure);
        let mut run = measure(task.case, &report, &board, self.plan.bucket_s);
        run.numbers.extend(gate_says);
        if let (Some(offered_per_s), Some(capacity_per_s)) = (offered_per_s, capacity_per_s) {
            run.numbers.insert("offered_per_s".to_owned(), offered_per_s);
            run.numbers.insert("capacity_per_s".to_owned(), capacity_per_s);
            run.numbers.insert("overdue".to_owned(), report.overdue as f64);
        }
        Ok(Run { seed: round as u64, ..run })
    }

    /// Lets the clients work. The server is stopped at the end of the window, because clients may
    /// be in statements that take minutes.
    fn drive(
        &self,
        arm: &Arm,
        case: &Case,
        how: &Driving,
        database: &Database,
        board: &Board,
        servers: (Option<Running>, Site),
    ) -> Result<(Report, BTreeMap<String, f64>)> {
        let names: Vec<&str> = case.groups.iter().map(|group| group.name).collect();
        let places: Vec<Place> = places(case, how.window);
        let connect = |number: usize| -> Result<Guest<'_>, DbError> {
            Guest::connect(places[number], database, board, Random::stream(how.seed, number as u64))
        };
        let stop = Stop::default();
        let mut gate_says = BTreeMap::new();
        let mut servers = Some(servers);
        let report = driver::run(how, &names, &connect, &stop, &mut |told: &Told| {
            self.progress.tick();
            if interrupt::check().is_err() {
                stop.stop();
            }
            if servers.is_some() && (told.elapsed >= told.total || stop.is_stopped()) {
                if arm.is_gated() {
                    gate_says = ask_gate(&self.headworks).unwrap_or_default();
                }
                board.end();
                // First the pooler, which would keep its clients waiting for the server.
                servers = None;
            }
        });
        interrupt::check()?;
        let report = report.map_err(|error| {
            let log = servers.as_ref().map_or(String::new(), |(_, site)| site.log_tail());
            anyhow!("{error}; the server's log ends with:\n{log}")
        })?;
        Ok((report, gate_says))
    }
}

/// What each client does.
fn places(case: &Case, window: Duration) -> Vec<Place> {
    let of = |(group, each): (usize, &super::Group)| {
        let (act, from, until) = (each.act, window.mul_f64(each.from), window.mul_f64(each.until));
        let until = if each.until < 1.0 { until } else { Duration::MAX };
        (0..each.clients).map(move |number| Place { act, group, number, from, until })
    };
    case.groups.iter().enumerate().flat_map(of).collect()
}

/// The gate's state at the end of a run: `gate_p`, `gate_closed`, `gate_stall_bonus`.
fn ask_gate(headworks: &Path) -> Result<BTreeMap<String, f64>> {
    let Status(status) = gate::instance(headworks).status()?;
    let mut numbers = BTreeMap::new();
    for (key, name) in [("gate_p", "parallelism"), ("gate_stall_bonus", "stall_bonus")] {
        if let Some(value) = status[name].as_f64() {
            numbers.insert(key.to_owned(), value);
        }
    }
    numbers.insert("gate_closed".to_owned(), f64::from(u8::from(status["gate"] == "closed")));
    Ok(numbers)
}

/// Numbers of each group: `{group}_per_s`, `_p50_ms`, `_p99_ms` and `_max_ms`. The last one
/// includes requests without an answer. Numbers of waiters: `late_p50_ms`, `late_p95_ms`,
/// `late_max_ms`.
/// Series: `{group}_per_s` and `_p99_ms`.
fn measure(case: &Case, report: &Report, board: &Board, bucket_s: u64) -> Run {
    let mut numbers = BTreeMap::new();
    let mut series = BTreeMap::new();
    let window_s = report.options.window.as_secs();
    let mut users = &report.users[..];
    for (number, group) in case.groups.iter().enumerate() {
        let (these, others) = users.split_at(group.clients.min(users.len()));
        users = others;
        let answers = || these.iter().flat_map(|user| &user.trace);
        let mut latencies: Vec<u32> = answers().map(|answer: &Answer| answer.latency_us).collect();
        latencies.sort_unstable();
        let windows =
            Windows::new(answers(), bucket_s as u32 * 1_000, (window_s / bucket_s) as usize);
        let key = |what: &str| format!("{}_{what}", group.name);
        let worked_s = (group.until - group.from) * window_s as f64;
        let count = if group.act.is_slow() {
            Windows::new(answers(), window_s as u32 * 1_000, 1).per_s[0] * window_s as f64
        } else {
            latencies.len() as f64
        };
        numbers.insert(key("per_s"), count / worked_s);
        for (what, quantile) in [("p50_ms", 0.5), ("p99_ms", 0.99)] {
            if let Some(us) = percentile(&latencies, quantile) {
                numbers.insert(key(what), f64::from(us) / 1e3);
            }
        }
        let most = latencies.last().map_or(0.0, |&us| f64::from(us) / 1e3);
        numbers.insert(key("max_ms"), most.max(board.pending_ms(number)));
        series.insert(key("per_s"), windows.per_s);
        series.insert(key("p99_ms"), windows.p99_ms);
    }
    let late = board.late_ms();
    for (key, quantile) in [("late_p50_ms", 0.5), ("late_p95_ms", 0.95), ("late_max_ms", 1.0)] {
        let rank = (quantile * late.len() as f64).ceil() as usize;
        if let Some(ms) = late.get(rank.max(1) - 1) {
            numbers.insert(key.to_owned(), *ms);
        }
    }
    let load = Some(MachineLoad::at_rest());
    Run { numbers, series, bucket_s: bucket_s as f64, load, ..Run::default() }
}
