//! Running the arms and writing down what happened. Nothing here judges a number.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use headworks_rig::gated::Instance;
use headworks_rig::machine::Load;
use headworks_rig::{Programs, Server, ServerBuilder};

use super::workload::{DATABASE, Sysbench, TABLES, Window, read_notebooks};
use super::{AS_IS, EXPERIMENT, GATED, POOL, USERS_FEW, USERS_MANY};
use crate::experiment::RunOptions;
use crate::interrupt::{self, monotonic_us};
use crate::progress::Progress;
use crate::served::measure;
use crate::sweep::record::{Record, Run};
use crate::sweep::rounds::{Arm, Rounds, Task};
use crate::table::thousands;
use crate::work::Work;

/// Options of the server in every arm; everything else is MariaDB's default.
const SERVER_OPTIONS: [&str; 1] = ["--innodb-buffer-pool-size=1G"];

/// What every arm but one serves its connections by, and that one.
const THREADS: &str = "--thread-handling=one-thread-per-connection";
const THREAD_POOL: &str = "--thread-handling=pool-of-threads";

/// How long an orderly shutdown of the server may take.
const STOP_TIMEOUT: Duration = Duration::from_secs(120);

/// How long clients may take to end.
const CLIENTS_TIMEOUT: Duration = Duration::from_secs(120);

/// The sizes of one run.
#[derive(Debug, Clone, Copy)]
struct Plan {
    rounds: usize,
    rows_per_table: u32,
    /// Load without counting, after all clients are connected.
    warm_up: Duration,
    /// The time in which clients count.
    window: Duration,
    /// What filling the tables takes, and what a run takes beside its clients.
    prepare: Duration,
    around: Duration,
}

impl Plan {
    fn new(options: &RunOptions) -> Self {
        let (rounds, rows_per_table, warm_up_s, window_s) =
            if options.quick { (1, 25_000, 2, 5) } else { (3, 250_000, 6, 20) };
        let window_s = options.window_s.map_or(window_s, |asked| asked.max(1));
        Self {
            rounds: options.repeat.unwrap_or(rounds).max(1),
            rows_per_table,
            warm_up: Duration::from_secs(warm_up_s.min(window_s)),
            window: Duration::from_secs(window_s),
            prepare: Duration::from_secs(if options.quick { 2 } else { 12 }),
            around: Duration::from_secs(if options.quick { 3 } else { 4 }),
        }
    }

    /// From the start of the clients to the begin of the window: half a second and 10 ms for each
    /// to connect, and the warm-up.
    fn lead(&self, users: f64) -> Duration {
        Duration::from_millis(500 + 10 * users as u64) + self.warm_up
    }

    /// How long a run will take.
    fn run(&self, users: f64) -> Duration {
        self.lead(users) + self.window + self.around
    }

    /// How long all rounds of these arms will take.
    fn expected(&self, arms: &[Arm]) -> Duration {
        let users = arms.iter().flat_map(|arm| &arm.points);
        self.prepare + users.map(|users| self.run(*users)).sum::<Duration>() * self.rounds as u32
    }
}

/// The arms, each with its numbers of users. Without a gate only if that was asked for.
fn arms(with_gate: bool) -> Vec<Arm> {
    let both = [USERS_MANY, USERS_FEW];
    let mut arms = vec![
        Arm::new(AS_IS, THREADS.to_owned(), &both),
        Arm::new(POOL, THREAD_POOL.to_owned(), &both[..1]),
    ];
    if with_gate {
        arms.push(Arm::new(GATED, THREADS.to_owned(), &both));
    }
    arms
}

/// Runs the whole experiment.
pub(super) fn collect(options: &RunOptions) -> Result<Record> {
    let programs = Programs::find()?;
    let gate = options.gate(EXPERIMENT.id)?;
    let plan = Plan::new(options);
    let work = Work::new(options, 2 << 30)?;
    let sysbench = Sysbench::find(work.path(), plan.rows_per_table)?;
    let mut arms = arms(gate.is_some());
    let workload = format!(
        "sysbench oltp_read_write, text protocol, Pareto distribution, TCP on the same machine, {TABLES} × {} rows",
        thousands(f64::from(plan.rows_per_table))
    );
    let software = format!("{}, {}", server_version(&programs)?, sysbench.version);
    for arm in &mut arms {
        arm.setup.insert("workload".to_owned(), workload.clone());
        arm.setup.insert("software".to_owned(), software.clone());
        if let Some((_, front)) = gate.as_ref().filter(|_| arm.label == GATED) {
            arm.setup.insert("gate".to_owned(), front.join(" "));
        }
    }
    let progress = Progress::new(EXPERIMENT.id, plan.expected(&arms));
    let rounds = Rounds::begin(&EXPERIMENT, options);
    let mut bench = Bench { progress, options, plan, sysbench, work, gate };
    bench.prepare()?;
    let time = (plan.warm_up.as_secs_f64(), plan.window.as_secs_f64());
    rounds.collect(plan.rounds, time, "users", arms, |task| bench.run(task))
}

/// The version without the path that `--version` begins with.
fn server_version(programs: &Programs) -> Result<String> {
    let version = programs.version()?;
    Ok(version.split_once("Ver ").map_or(version.as_str(), |(_, version)| version).to_owned())
}

struct Bench<'a> {
    progress: Progress,
    options: &'a RunOptions,
    plan: Plan,
    sysbench: Sysbench,
    work: Work,
    gate: Option<(Instance, Vec<String>)>,
}

impl Bench<'_> {
    fn prepare(&mut self) -> Result<()> {
        let title = format!("loading {TABLES} tables of {} rows", self.plan.rows_per_table);
        self.progress.step(&title, self.plan.prepare);
        let mut server = self.server(AS_IS).start()?;
        server.sql(&format!("CREATE DATABASE {DATABASE}"))?;
        self.sysbench.prepare(server.port(), &self.progress)?;
        server.stop(STOP_TIMEOUT)?;
        Ok(())
    }

    fn run(&mut self, task: Task<'_>) -> Result<Run> {
        let users = task.at as usize;
        self.progress.step(task.title, self.plan.run(task.at));
        let mut server = self.server(task.arm).start()?;
        server.ensure_gated(task.arm == GATED)?;
        warm_buffer_pool(&server, &self.progress)?;

        let lead = self.plan.lead(task.at);
        let begin_us = monotonic_us() + lead.as_micros() as u64;
        let window = Window { begin_us, end_us: begin_us + self.plan.window.as_micros() as u64 };
        let notebooks = self.work.path().join("notebooks");
        // Every arm of a round draws the same keys.
        let seed = (self.options.seed as u32).wrapping_add(task.round as u32);
        // sysbench counts its time from when all clients are connected, so that this always
        // outlasts the window.
        let time = lead + self.plan.window + Duration::from_secs(1);
        let mut clients =
            self.sysbench.start(server.port(), users, seed, window, time, &notebooks)?;
        let measured = (|| {
            clients.wait_until(window.begin_us, &self.progress)?;
            let begin = Load::read();
            clients.wait_until(window.end_us, &self.progress)?;
            let end = Load::read();
            if let Some((gate, _)) = self.gate.as_ref().filter(|_| task.arm == GATED) {
                gate.enforcing_status()?;
            }
            clients.wait(CLIENTS_TIMEOUT, &self.progress)?;
            Ok([begin, end])
        })();
        let loads = measured.map_err(|error: anyhow::Error| {
            if server.is_running() {
                error
            } else {
                let tail = server.log_tail();
                error.context(format!("the server died; its log ends with:\n{tail}"))
            }
        })?;
        server.stop(STOP_TIMEOUT)?;
        let clients = read_notebooks(&notebooks, users, window).context("the clients")?;
        Ok(measure(&clients, self.plan.window.as_secs_f64(), loads))
    }

    fn server(&self, arm: &str) -> ServerBuilder {
        let gate = self.gate.as_ref().filter(|_| arm == GATED);
        let prefix = gate.map_or(Vec::new(), |(gate, options)| gate.prefix(options));
        Server::builder()
            .data_directory(self.work.path().join("data"))
            .cache(self.work.path().join("template"))
            .options(SERVER_OPTIONS)
            .option(if arm == POOL { THREAD_POOL } else { THREADS })
            .remove_when_orphaned(self.work.path())
            .start_deadline(Duration::from_secs(120))
            .behind(&prefix)
    }
}

/// Reads every page that the clients will, and lets the server finish what the last arm left to be
/// purged.
fn warm_buffer_pool(server: &Server, progress: &Progress) -> Result<()> {
    for table in 1..=TABLES {
        interrupt::check()?;
        progress.tick();
        server.sql(&format!(
            "SELECT SUM(LENGTH(c) + LENGTH(pad)) FROM {DATABASE}.sbtest{table} FORCE INDEX (PRIMARY)"
        ))?;
        server.sql(&format!(
            "SELECT COUNT(*) FROM {DATABASE}.sbtest{table} FORCE INDEX (k_{table}) WHERE k >= 0"
        ))?;
    }
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(15) {
        let status = server.sql("SHOW GLOBAL STATUS LIKE 'Innodb_history_list_length'")?;
        let length = status.rows.first().and_then(|row| row.get(1)?.as_ref()?.parse::<u64>().ok());
        if length.is_none_or(|length| length < 1000) {
            break;
        }
        interrupt::check()?;
        progress.tick();
        std::thread::sleep(Duration::from_millis(100));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_registry_promises_what_the_plan_expects() {
        let mut options = RunOptions::new("");
        let full = Plan::new(&options).expected(&arms(true)).as_secs();
        assert!(full.abs_diff(EXPERIMENT.expected_s) <= 30, "{full}");
        options.quick = true;
        let quick = Plan::new(&options).expected(&arms(true)).as_secs();
        assert!(quick.abs_diff(EXPERIMENT.expected_quick_s) <= 10, "{quick}");
    }

    #[test]
    fn a_short_window_shortens_the_warm_up() {
        let options = RunOptions { window_s: Some(1), ..RunOptions::new("") };
        assert_eq!(Plan::new(&options).warm_up, Duration::from_secs(1));
        let options = RunOptions { window_s: Some(60), ..RunOptions::new("") };
        assert_eq!(Plan::new(&options).warm_up, Duration::from_secs(6));
    }
}
