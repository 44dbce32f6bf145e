//! Running the arms and writing down what happened. Nothing here judges a number.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use headworks_rig::machine::Load;
use headworks_rig::{PostgresBuilder, PostgresServer, SUPERUSER, postgres_program};

use super::arms::{Arm, Config};
use super::pgbench::{self, Window, wall_clock_us};
use super::record::{ArmRecord, Record, Round, Software};
use super::{ID, pooler};
use crate::interrupt::{self, Interrupted, monotonic_us};
use crate::progress::Progress;
use crate::record::{Header, unix_now_s};
use crate::registry::RunOptions;
use crate::shuffle::SplitMix;
use crate::work::Work;

/// Settings of the server in every arm; everything else is PostgreSQL's default.
const SETTINGS: [(&str, &str); 3] =
    [("fsync", "on"), ("shared_buffers", "512MB"), ("max_wal_size", "4GB")];

/// The file name of our library, by which it is found in a server's memory map.
const LIBRARY: &str = "libheadworks";

const STOP_DEADLINE: Duration = Duration::from_secs(120);

/// The sizes of a run.
struct Plan {
    rounds: usize,
    scale: u32,
    warm_up: Duration,
    window: Duration,
}

impl Plan {
    fn new(options: &RunOptions) -> Plan {
        let (rounds, scale, warm_up_s, window_s) =
            if options.quick { (1, 2, 1, 2) } else { (3, 20, 3, 15) };
        let window_s = options.window_s.map_or(window_s, |asked| asked.max(1));
        Plan {
            rounds: options.repeat.unwrap_or(rounds).max(1),
            scale,
            warm_up: Duration::from_secs(warm_up_s.min(window_s)),
            window: Duration::from_secs(window_s),
        }
    }

    /// Time for the clients to connect, and to warm up.
    fn lead(&self, users: usize) -> Duration {
        Duration::from_millis(500 + 10 * users as u64) + self.warm_up
    }

    fn expected(&self, arms: &[Arm]) -> Duration {
        let around = Duration::from_millis(2_500);
        let run = |arm: &Arm| self.lead(arm.config.users()) + self.window + around;
        arms.iter().map(run).sum::<Duration>() * self.rounds as u32
    }
}

/// Runs the whole experiment.
pub(super) fn collect(options: &RunOptions) -> Result<Record> {
    let gate = match &options.headworks_exe {
        _ if options.without_gate => None,
        Some(program) if program.is_file() => Some(program.clone()),
        _ => bail!(
            "the program `headworks`, which makes the gate, is neither beside this one nor in PATH; install it: make install"
        ),
    };
    let arms = Arm::all(gate.is_some());
    let plan = Plan::new(options);
    let work = Work::new(options, 2 << 30)?;
    let parallelism = options.parallelism.unwrap_or_else(default_parallelism);
    let postgres = postgres_program("postgres").context(headworks_rig::POSTGRES_SKIPPED)?;
    let version = Command::new(postgres).arg("--version").env_remove("LD_PRELOAD").output()?;
    let pgbench = pgbench::program()?;
    let pgbouncer = pooler::program()?;
    let experiment = super::EXPERIMENT;
    let mut record = Record {
        header: Header::of(&experiment, options, unix_now_s()),
        software: Software {
            postgres: String::from_utf8_lossy(&version.stdout).trim().to_owned(),
            pgbench: pgbench::version(&pgbench)?,
            pgbouncer: pooler::version(&pgbouncer)?,
        },
        scale: plan.scale,
        warm_up_s: plan.warm_up.as_secs_f64(),
        window_s: plan.window.as_secs_f64(),
        server_settings: SETTINGS.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec(),
        parallelism,
        quota: options.quota,
        verdicts: Vec::new(),
        arms: Vec::new(),
    };
    let progress = Progress::new(ID, plan.expected(&arms));
    let mut bench = Bench { progress, options, plan, work, gate, parallelism, pgbench, pgbouncer };
    bench.prepare()?;
    let mut rounds = bench.run_rounds(&arms)?;
    record.arms = arms
        .into_iter()
        .filter_map(|arm| {
            let rounds = rounds.remove(&arm.name())?;
            Some(ArmRecord { arm, users: arm.config.users(), rounds })
        })
        .collect();
    Ok(record)
}

/// P of the gated arms: 8 × cores.
fn default_parallelism() -> u32 {
    std::thread::available_parallelism().map_or(8, |cores| 8 * cores.get() as u32)
}

struct Bench<'a> {
    progress: Progress,
    options: &'a RunOptions,
    plan: Plan,
    work: Work,
    gate: Option<PathBuf>,
    parallelism: u32,
    pgbench: PathBuf,
    pgbouncer: PathBuf,
}

impl Bench<'_> {
    fn prepare(&mut self) -> Result<()> {
        let scale = self.plan.scale;
        self.progress.step(&format!("loading scale {scale}"), Duration::from_secs(5));
        let mut server = self.server(Config::Ungated).start()?;
        let log = self.work.path().join("prepare.out");
        pgbench::prepare(&self.pgbench, server.port(), scale, &log, &self.progress)?;
        server.end(libc::SIGINT, STOP_DEADLINE)?;
        Ok(())
    }

    fn run_rounds(&mut self, arms: &[Arm]) -> Result<BTreeMap<String, Vec<Round>>> {
        let mut rounds: BTreeMap<String, Vec<Round>> = BTreeMap::new();
        let mut random = SplitMix::new(self.options.seed);
        let mut order = arms.to_vec();
        for round in 1..=self.plan.rounds {
            random.shuffle(&mut order);
            for (place, &arm) in order.iter().enumerate() {
                let title = format!("round {round}/{} · {}", self.plan.rounds, arm.name());
                let run = self.run_arm(arm, round, place + 1, &title).map_err(|error| {
                    // Who interrupts does not need to be told where.
                    if error.is::<Interrupted>() {
                        error
                    } else {
                        error.context(format!("{} in round {round}", arm.name()))
                    }
                })?;
                rounds.entry(arm.name()).or_default().push(run);
            }
        }
        Ok(rounds)
    }

    fn run_arm(&mut self, arm: Arm, round: usize, position: usize, title: &str) -> Result<Round> {
        interrupt::check()?;
        self.progress.step(&format!("{title} · starting"), Duration::from_millis(1_500));
        let mut server = self.server(arm.config).start()?;
        let library_mapped = server.has_mapped(LIBRARY)?;
        ensure!(
            library_mapped == arm.config.is_gated(),
            "our library is{} in the server's memory",
            if library_mapped { "" } else { " not" }
        );
        // Every run finds the same: no rows to be cleaned up, no checkpoint that is due.
        sql(server.port(), "VACUUM; CHECKPOINT; SELECT sum(abalance) FROM pgbench_accounts")?;
        let (_pooler, port) = if arm.config == Config::Pgbouncer {
            let directory = self.work.path();
            let (pooler, port) =
                pooler::start(&self.pgbouncer, directory, server.port(), self.parallelism)?;
            (Some(pooler), port)
        } else {
            (None, server.port())
        };
        let lead = self.plan.lead(arm.config.users());
        let begin_us = wall_clock_us() + lead.as_micros() as u64;
        let window = Window { begin_us, end_us: begin_us + self.plan.window.as_micros() as u64 };
        let monotonic_begin_us = monotonic_us() + lead.as_micros() as u64;
        // pgbench counts its time from when all clients are connected, so that this always outlasts the window.
        let time = lead + self.plan.window + Duration::from_secs(1);
        let logs = self.work.path().join("logs");
        self.progress.step(&format!("{title} · warming up"), lead);
        // Every arm of a round draws the same keys.
        let seed = self.options.seed.wrapping_add(round as u64);
        let mut clients = pgbench::start(&self.pgbench, port, arm, time, seed, &logs)?;
        clients.wait_until(monotonic_begin_us, &self.progress)?;
        let load_at_window_begin = Load::read();
        self.progress.step(&format!("{title} · measuring"), self.plan.window);
        let monotonic_end_us = monotonic_begin_us + self.plan.window.as_micros() as u64;
        clients.wait_until(monotonic_end_us, &self.progress)?;
        let load_at_window_end = Load::read();
        let gate = self.gate_status(arm.config)?;
        self.progress.step(&format!("{title} · stopping"), Duration::from_secs(1));
        clients.wait(Duration::from_secs(120), &self.progress)?;
        ensure!(server.is_running(), "the server died; its log ends with:\n{}", server.log_tail());
        server.end(libc::SIGINT, STOP_DEADLINE)?;
        Ok(Round {
            round,
            position_in_round: position,
            library_mapped,
            gate,
            load_at_window_begin,
            load_at_window_end,
            measured: pgbench::read_logs(&logs, arm.config.users(), window)?,
        })
    }

    /// What the gate says of itself. An arm whose gate is not closed would measure nothing.
    fn gate_status(&self, config: Config) -> Result<Option<serde_json::Value>> {
        let Some(program) = self.gate.as_ref().filter(|_| config.is_gated()) else {
            return Ok(None);
        };
        let output = Command::new(program)
            .args(["status", "--json", "--name", &instance(config)])
            .output()?;
        let mut status: serde_json::Value =
            serde_json::from_slice(&output.stdout).context("the gate does not tell its state")?;
        ensure!(
            status["mode"] == "enforce" && status["gate"] == "closed",
            "the gate is {} in mode {}: it does not hold anybody",
            status["gate"],
            status["mode"]
        );
        if let Some(status) = status.as_object_mut() {
            status.remove("connections");
        }
        Ok(Some(status))
    }

    fn server(&self, config: Config) -> PostgresBuilder {
        let mut builder = PostgresServer::builder()
            .data_directory(self.work.path().join("data"))
            .remove_when_orphaned(self.work.path());
        for (name, value) in SETTINGS {
            builder = builder.setting(name, value);
        }
        match &self.gate {
            Some(program) if config.is_gated() => {
                let mut prefix: Vec<OsString> = vec![program.into(), "run".into(), "--name".into()];
                prefix.push(instance(config).into());
                // Fixed: a search would still be under way in a window of seconds.
                prefix.extend(["--parallelism".into(), self.parallelism.to_string().into()]);
                if let Some(quota) = self.options.quota {
                    prefix.extend(["--quota".into(), quota.to_string().into()]);
                }
                prefix.push("--".into());
                builder.prefix(prefix)
            }
            // Not even a setting of ours reaches a server without the gate.
            _ => std::env::vars_os()
                .map(|(name, _)| name)
                .filter(|name| name.to_string_lossy().starts_with("HEADWORKS"))
                .fold(builder, PostgresBuilder::env_remove),
        }
    }
}

/// Name of the gate's instance in an arm.
fn instance(config: Config) -> String {
    format!("pg-{}-{}", std::process::id(), config.name())
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
    ensure!(output.status.success(), "psql: {}", String::from_utf8_lossy(&output.stderr));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_registry_promises_what_the_plan_expects() {
        let mut options = RunOptions::new("");
        let full = Plan::new(&options).expected(&Arm::all(true)).as_secs();
        let experiment = super::super::EXPERIMENT;
        assert!(full.abs_diff(experiment.expected_s) <= 60, "{full}");
        options.quick = true;
        let quick = Plan::new(&options).expected(&Arm::all(true)).as_secs();
        assert!(quick.abs_diff(experiment.expected_quick_s) <= 20, "{quick}");
    }
}
