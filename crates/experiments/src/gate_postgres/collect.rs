//! Runs the arms in turn. Nothing here judges a number.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use headworks_rig::gated::Instance;
use headworks_rig::{PostgresBuilder, PostgresServer, SUPERUSER, postgres_program};

use super::pgbench::{self, Window, wall_clock_us};
use super::{AS_IS, AS_IS_16, EXPERIMENT, GATED, GATED_16, PGBOUNCER, POINTS, pooler};
use crate::experiment::RunOptions;
use crate::interrupt::monotonic_us;
use crate::progress::Progress;
use crate::served::{Plan, measure};
use crate::sweep::record::{Record, Run};
use crate::sweep::rounds::{Arm, Rounds, Task};
use crate::work::Work;

/// Settings of the server in every arm; everything else is PostgreSQL's default.
const SETTINGS: [(&str, &str); 3] =
    [("fsync", "on"), ("shared_buffers", "512MB"), ("max_wal_size", "4GB")];

const STOP_TIMEOUT: Duration = Duration::from_secs(120);

fn plan(options: &RunOptions) -> Plan {
    let (rounds, size, warm_up_s, window_s) =
        if options.quick { (1, 2, 1, 2) } else { (3, 20, 3, 15) };
    let plan = Plan {
        rounds,
        size,
        warm_up: Duration::from_secs(warm_up_s),
        window: Duration::from_secs(window_s),
        prepare: Duration::from_secs(5),
        around: Duration::from_millis(2_500),
    };
    plan.with(options)
}

/// Clients of an arm.
fn users(arm: &str, _: f64) -> usize {
    if [AS_IS_16, GATED_16].contains(&arm) { 16 } else { 256 }
}

fn is_gated(arm: &str) -> bool {
    [GATED, GATED_16].contains(&arm)
}

/// All arms that can run.
fn arms(with_gate: bool) -> Vec<Arm> {
    let arms = [AS_IS, PGBOUNCER, GATED, AS_IS_16, GATED_16].into_iter();
    arms.filter(|arm| with_gate || !is_gated(arm))
        .map(|arm| {
            let possible = |at: &usize| arm != PGBOUNCER || POINTS[*at].1 != "prepared";
            let points = (0..POINTS.len()).filter(possible).map(|at| at as f64);
            Arm::new(arm, format!("{} clients", users(arm, 0.0)), &points.collect::<Vec<_>>())
        })
        .collect()
}

/// Runs the whole experiment.
pub(super) fn collect(options: &RunOptions) -> Result<Record> {
    let gate = options.gate(EXPERIMENT.id)?;
    let plan = plan(options);
    let work = Work::new(options, 2 << 30)?;
    let postgres = postgres_program("postgres").context(headworks_rig::POSTGRES_SKIPPED)?;
    let version = Command::new(postgres).arg("--version").env_remove("LD_PRELOAD").output()?;
    let pgbench = pgbench::program()?;
    let pgbouncer = pooler::program()?;
    let software = [
        String::from_utf8_lossy(&version.stdout).trim().to_owned(),
        pgbench::version(&pgbench)?,
        pooler::version(&pgbouncer)?,
    ];
    let parallelism = options.parallelism();
    let settings = SETTINGS.map(|(name, value)| format!("{name}={value}")).join(", ");
    let mut arms = arms(gate.is_some());
    for arm in &mut arms {
        let mut note = |key: &str, value: String| arm.setup.insert(key.to_owned(), value);
        note("workload", format!("scale {}, {settings}", plan.size));
        note("software", software.join(", "));
        if arm.label == PGBOUNCER {
            note("front", format!("transaction mode, {parallelism} server connections"));
        } else if let Some((_, front)) = gate.as_ref().filter(|_| is_gated(arm.label)) {
            note("front", front.join(" "));
        }
    }
    let progress = Progress::new(EXPERIMENT.id, plan.expected(&arms, users));
    let rounds = Rounds::begin(&EXPERIMENT, options);
    let mut bench = Bench { progress, options, plan, work, gate, pgbench, pgbouncer };
    bench.prepare()?;
    let time = (bench.plan.warm_up.as_secs_f64(), bench.plan.window.as_secs_f64());
    let sweep = "workload and protocol, numbered";
    rounds.collect(bench.plan.rounds, time, sweep, arms, |task| bench.run(task))
}

struct Bench<'a> {
    progress: Progress,
    options: &'a RunOptions,
    plan: Plan,
    work: Work,
    gate: Option<(Instance, Vec<String>)>,
    pgbench: PathBuf,
    pgbouncer: PathBuf,
}

impl Bench<'_> {
    fn prepare(&mut self) -> Result<()> {
        let scale = self.plan.size;
        self.progress.step(&format!("loading scale {scale}"), self.plan.prepare);
        let mut server = self.server(AS_IS).start()?;
        let log = self.work.path().join("prepare.out");
        pgbench::prepare(&self.pgbench, server.port(), scale, &log, &self.progress)?;
        server.stop(STOP_TIMEOUT)?;
        Ok(())
    }

    fn run(&mut self, task: Task<'_>) -> Result<Run> {
        let users = users(task.arm, task.at);
        self.progress.step(task.title, self.plan.run(users));
        let mut server = self.server(task.arm).start()?;
        server.ensure_gated(is_gated(task.arm))?;
        // Every run finds the same: no rows to be cleaned up, no checkpoint that is due.
        sql(server.port(), "VACUUM; CHECKPOINT; SELECT sum(abalance) FROM pgbench_accounts")?;
        let (_pooler, port) = if task.arm == PGBOUNCER {
            let (directory, pool) = (self.work.path(), self.options.parallelism());
            let (pooler, port) = pooler::start(&self.pgbouncer, directory, server.port(), pool)?;
            (Some(pooler), port)
        } else {
            (None, server.port())
        };
        let lead = self.plan.lead(users);
        let window_us = self.plan.window.as_micros() as u64;
        let begin_us = wall_clock_us() + lead.as_micros() as u64;
        let window = Window { begin_us, end_us: begin_us + window_us };
        let monotonic_begin_us = monotonic_us() + lead.as_micros() as u64;
        let time = self.plan.clients(users);
        let logs = self.work.path().join("logs");
        // Every arm of a round draws the same keys.
        let seed = self.options.seed.wrapping_add(task.round);
        let what = POINTS[task.at as usize];
        let mut clients = pgbench::start(&self.pgbench, port, what, users, time, seed, &logs)?;
        let gate = self.gate.as_ref().filter(|_| is_gated(task.arm)).map(|(gate, _)| gate);
        let loads = self.plan.watch(&mut clients, monotonic_begin_us, gate, &self.progress)?;
        ensure!(server.is_running(), "the server died; its log ends with:\n{}", server.log_tail());
        server.stop(STOP_TIMEOUT)?;
        let clients = pgbench::read_logs(&logs, users, window)?;
        Ok(measure(&clients, self.plan.window.as_secs_f64(), loads))
    }

    fn server(&self, arm: &str) -> PostgresBuilder {
        let gate = self.gate.as_ref().filter(|_| is_gated(arm));
        let prefix = gate.map_or(Vec::new(), |(gate, options)| gate.prefix(options));
        let builder = PostgresServer::builder()
            .data_directory(self.work.path().join("data"))
            .remove_when_orphaned(self.work.path())
            .behind(&prefix);
        SETTINGS.iter().fold(builder, |builder, (name, value)| builder.setting(name, value))
    }
}

/// Runs statements by psql, one after the other.
fn sql(port: u16, statements: &str) -> Result<()> {
    let psql = postgres_program("psql").context("psql is not installed")?;
    let mut command = Command::new(psql);
    command.args(["-X", "-q", "-At", "-v", "ON_ERROR_STOP=1", "-h", "127.0.0.1", "-U", SUPERUSER]);
    command.args(["-p", &port.to_string(), "postgres"]).env_remove("LD_PRELOAD");
    for statement in statements.split("; ") {
        command.args(["-c", statement]);
    }
    let output = command.output()?;
    ensure!(output.status.success(), "psql failed: {}", String::from_utf8_lossy(&output.stderr));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_registry_promises_what_the_plan_expects() {
        let mut options = RunOptions::new("");
        let full = plan(&options).expected(&arms(true), users).as_secs();
        assert!(full.abs_diff(EXPERIMENT.expected_s) <= 60, "{full}");
        options.quick = true;
        let quick = plan(&options).expected(&arms(true), users).as_secs();
        assert!(quick.abs_diff(EXPERIMENT.expected_quick_s) <= 20, "{quick}");
    }
}
