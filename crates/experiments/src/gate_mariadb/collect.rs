//! Running the arms and writing down what happened. Nothing here judges a number.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use headworks_rig::gated::Instance;
use headworks_rig::{Programs, Server, ServerBuilder};

use super::workload::{DATABASE, Sysbench, TABLES, Window, read_notebooks};
use super::{AS_IS, EXPERIMENT, GATED, POOL, USERS_FEW, USERS_MANY};
use crate::experiment::RunOptions;
use crate::interrupt::{self, monotonic_us};
use crate::progress::Progress;
use crate::served::{Plan, measure};
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

fn plan(options: &RunOptions) -> Plan {
    let (rounds, size, [warm_up, window, prepare, around]) =
        if options.quick { (1, 25_000, [2, 5, 2, 3]) } else { (3, 250_000, [6, 20, 12, 4]) };
    let [warm_up, window, prepare, around] =
        [warm_up, window, prepare, around].map(Duration::from_secs);
    Plan { rounds, size, warm_up, window, prepare, around }.with(options)
}

/// Clients of an arm at a point.
fn users(_: &str, at: f64) -> usize {
    at as usize
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
    let plan = plan(options);
    let work = Work::new(options, 2 << 30)?;
    let sysbench = Sysbench::find(work.path(), plan.size)?;
    let mut arms = arms(gate.is_some());
    let workload = format!(
        "sysbench oltp_read_write, text protocol, Pareto distribution, TCP on the same machine, {TABLES} × {} rows",
        thousands(f64::from(plan.size))
    );
    let software = format!("{}, {}", server_version(&programs)?, sysbench.version);
    for arm in &mut arms {
        arm.setup.insert("workload".to_owned(), workload.clone());
        arm.setup.insert("software".to_owned(), software.clone());
        if let Some((_, front)) = gate.as_ref().filter(|_| arm.label == GATED) {
            arm.setup.insert("gate".to_owned(), front.join(" "));
        }
    }
    let progress = Progress::new(EXPERIMENT.id, plan.expected(&arms, users));
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
        let title = format!("loading {TABLES} tables of {} rows", self.plan.size);
        self.progress.step(&title, self.plan.prepare);
        let mut server = self.server(AS_IS).start()?;
        server.sql(&format!("CREATE DATABASE {DATABASE}"))?;
        self.sysbench.prepare(server.port(), &self.progress)?;
        server.stop(STOP_TIMEOUT)?;
        Ok(())
    }

    fn run(&mut self, task: Task<'_>) -> Result<Run> {
        let users = users(task.arm, task.at);
        self.progress.step(task.title, self.plan.run(users));
        let mut server = self.server(task.arm).start()?;
        server.ensure_gated(task.arm == GATED)?;
        warm_buffer_pool(&server, &self.progress)?;

        let begin_us = monotonic_us() + self.plan.lead(users).as_micros() as u64;
        let window = Window { begin_us, end_us: begin_us + self.plan.window.as_micros() as u64 };
        let notebooks = self.work.path().join("notebooks");
        // Every arm of a round draws the same keys.
        let seed = (self.options.seed as u32).wrapping_add(task.round as u32);
        let time = self.plan.clients(users);
        let mut clients =
            self.sysbench.start(server.port(), users, seed, window, time, &notebooks)?;
        let gate = self.gate.as_ref().filter(|_| task.arm == GATED).map(|(gate, _)| gate);
        let measured = self.plan.watch(&mut clients, begin_us, gate, &self.progress);
        let loads = measured.map_err(|error| {
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
        let full = plan(&options).expected(&arms(true), users).as_secs();
        assert!(full.abs_diff(EXPERIMENT.expected_s) <= 30, "{full}");
        options.quick = true;
        let quick = plan(&options).expected(&arms(true), users).as_secs();
        assert!(quick.abs_diff(EXPERIMENT.expected_quick_s) <= 10, "{quick}");
    }

    #[test]
    fn a_short_window_shortens_the_warm_up() {
        let options = RunOptions { window_s: Some(1), ..RunOptions::new("") };
        assert_eq!(plan(&options).warm_up, Duration::from_secs(1));
        let options = RunOptions { window_s: Some(60), ..RunOptions::new("") };
        assert_eq!(plan(&options).warm_up, Duration::from_secs(6));
    }
}
