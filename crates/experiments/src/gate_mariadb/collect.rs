//! Running the arms and writing down what happened. Nothing here judges a number.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use headworks_rig::machine::Load;
use headworks_rig::{Programs, Server, ServerBuilder};

use super::arms::Config;
use super::plan::Plan;
use super::record::{Arm, Record, Round, Software, Workload};
use super::workload::{DATABASE, Sysbench, TABLES, Window, read_notebooks};
use crate::interrupt::{self, Interrupted, monotonic_us};
use crate::progress::Progress;
use crate::record::{Header, unix_now_s};
use crate::registry::RunOptions;
use crate::shuffle::SplitMix;
use crate::work::Work;

/// Options of the server in every arm; everything else is MariaDB's default.
const SERVER_OPTIONS: [&str; 1] = ["--innodb-buffer-pool-size=1G"];

/// The file name of our library, by which it is found in a server's memory map.
const LIBRARY: &str = "libheadworks";

/// How long an orderly shutdown of the server may take.
const STOP_DEADLINE: Duration = Duration::from_secs(120);

/// Runs the whole experiment.
pub(crate) fn collect(options: &RunOptions) -> Result<Record> {
    let programs = Programs::find()?;
    let arms = arms(options)?;
    let plan = Plan::new(options);
    let work = Work::new(options, 2 << 30)?;
    let sysbench = Sysbench::find(work.path(), plan.rows_per_table)?;
    let mut record = Record {
        header: Header::of(&super::EXPERIMENT, options, unix_now_s()),
        software: Software { mariadb: server_version(&programs)?, sysbench: sysbench.version.clone() },
        workload: Workload {
            description: "sysbench oltp_read_write, text protocol, Pareto distribution, TCP on the same machine"
                .to_owned(),
            tables: TABLES,
            rows_per_table: plan.rows_per_table,
            warm_up_s: plan.warm_up.as_secs_f64(),
            window_s: plan.window.as_secs_f64(),
            server_options: SERVER_OPTIONS.map(str::to_owned).to_vec(),
            parallelism: Some(options.parallelism.unwrap_or_else(default_parallelism)),
            quota: options.quota,
        },
        verdicts: Vec::new(),
        arms: Vec::new(),
    };
    let mut bench = Bench {
        progress: Progress::new(super::EXPERIMENT.id, plan.expected(&arms)),
        options,
        plan,
        work,
        sysbench,
    };
    bench.prepare()?;
    let rounds = bench.run_rounds(&arms)?;
    record.arms = Config::ALL
        .into_iter()
        .filter_map(|config| {
            Some(Arm {
                config,
                users: config.users(),
                server_options: config
                    .server_options()
                    .iter()
                    .map(|&option| option.to_owned())
                    .collect(),
                rounds: rounds.get(config.name())?.clone(),
            })
        })
        .collect();
    Ok(record)
}

/// The version without the path that `--version` begins with.
fn server_version(programs: &Programs) -> Result<String> {
    let version = programs.version()?;
    Ok(version.split_once("Ver ").map_or(version.as_str(), |(_, version)| version).to_owned())
}

/// The arms that can run; without a gate only if that was asked for.
fn arms(options: &RunOptions) -> Result<Vec<Config>> {
    match &options.headworks_exe {
        _ if options.without_gate => {
            Ok(Config::ALL.into_iter().filter(|config| !config.is_gated()).collect())
        }
        None => bail!(
            "the program `headworks`, which makes the gate, is neither beside this one nor in PATH; install it: make install"
        ),
        Some(program) => {
            ensure!(
                program.is_file(),
                "{} does not exist; build it first (cargo build --release)",
                program.display()
            );
            Ok(Config::ALL.to_vec())
        }
    }
}

struct Bench<'a> {
    progress: Progress,
    options: &'a RunOptions,
    plan: Plan,
    sysbench: Sysbench,
    work: Work,
}

impl Bench<'_> {
    fn prepare(&mut self) -> Result<()> {
        let rows = self.plan.rows_per_table;
        self.progress
            .step(&format!("loading {TABLES} tables of {rows} rows"), self.plan.expected_prepare);
        let mut server = self.server(Config::Ungated).start()?;
        server.sql(&format!("CREATE DATABASE {DATABASE}"))?;
        self.sysbench.prepare(server.port(), &self.progress)?;
        server.stop(STOP_DEADLINE)?;
        Ok(())
    }

    fn run_rounds(&mut self, arms: &[Config]) -> Result<BTreeMap<&'static str, Vec<Round>>> {
        let mut rounds: BTreeMap<&'static str, Vec<Round>> = BTreeMap::new();
        let mut random = SplitMix::new(self.options.seed);
        let mut order = arms.to_vec();
        for round in 1..=self.plan.rounds {
            random.shuffle(&mut order);
            for (place, config) in order.iter().enumerate() {
                let title = format!("round {round}/{} · {}", self.plan.rounds, config.name());
                let run = self.run_arm(*config, round, place + 1, &title).map_err(|error| {
                    // Who interrupts does not need to be told where.
                    if error.is::<Interrupted>() {
                        error
                    } else {
                        error.context(format!("{} in round {round}", config.name()))
                    }
                })?;
                rounds.entry(config.name()).or_default().push(run);
            }
        }
        Ok(rounds)
    }

    fn run_arm(
        &mut self,
        config: Config,
        round: usize,
        position: usize,
        title: &str,
    ) -> Result<Round> {
        interrupt::check()?;
        self.progress.step(&format!("{title} · starting"), self.plan.expected_start);
        let begun = Instant::now();
        let mut server = self.server(config).start()?;
        let server_start_s = begun.elapsed().as_secs_f64();
        let library_mapped = server.has_mapped(LIBRARY)?;
        ensure!(
            library_mapped == config.is_gated(),
            "{}: our library is{} in the server's memory",
            config.name(),
            if library_mapped { "" } else { " not" }
        );
        warm_buffer_pool(&server, &self.progress)?;

        let load_before = Load::read();
        let lead = self.plan.lead(config.users());
        let begin_us = monotonic_us() + lead.as_micros() as u64;
        let window = Window { begin_us, end_us: begin_us + self.plan.window.as_micros() as u64 };
        let notebooks = self.work.path().join("notebooks");
        // Every arm of a round draws the same keys.
        let seed = (self.options.seed as u32).wrapping_add(round as u32);
        // sysbench counts its time from when all clients are connected, so that this always outlasts the window.
        let time = lead + self.plan.window + Duration::from_secs(1);
        self.progress.step(&format!("{title} · warming up"), lead);
        let mut clients =
            self.sysbench.start(server.port(), config.users(), seed, window, time, &notebooks)?;
        let measured = (|| {
            clients.wait_until(window.begin_us, &self.progress)?;
            let load_at_window_begin = Load::read();
            self.progress.step(&format!("{title} · measuring"), self.plan.window);
            clients.wait_until(window.end_us, &self.progress)?;
            let load_at_window_end = Load::read();
            let gate = self.gate_status(config)?;
            self.progress.step(&format!("{title} · stopping"), self.plan.expected_stop);
            clients.wait(Duration::from_secs(120), &self.progress)?;
            Ok((load_at_window_begin, load_at_window_end, gate))
        })();
        let (load_at_window_begin, load_at_window_end, gate) =
            measured.map_err(|error: anyhow::Error| {
                if server.is_running() {
                    error
                } else {
                    error.context(format!(
                        "the server died; its log ends with:\n{}",
                        server.log_tail()
                    ))
                }
            })?;
        let stopped = server.stop(STOP_DEADLINE)?;
        Ok(Round {
            round,
            position_in_round: position,
            window_s: self.plan.window.as_secs_f64(),
            server_start_s,
            server_stop_s: stopped.took.as_secs_f64(),
            library_mapped,
            gate,
            load_before,
            load_at_window_begin,
            load_at_window_end,
            clients: read_notebooks(&notebooks, config.users(), window)?,
        })
    }

    /// What the gate says of itself. An arm whose gate is not closed would measure nothing.
    fn gate_status(&self, config: Config) -> Result<Option<serde_json::Value>> {
        let Some(program) = self.options.headworks_exe.as_ref().filter(|_| config.is_gated())
        else {
            return Ok(None);
        };
        let output = std::process::Command::new(program)
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

    fn server(&self, config: Config) -> ServerBuilder {
        let builder = Server::builder()
            .data_directory(self.work.path().join("data"))
            .cache(self.work.path().join("template"))
            .options(SERVER_OPTIONS)
            .options(config.server_options().iter().copied())
            .remove_when_orphaned(self.work.path())
            .start_deadline(Duration::from_secs(120));
        match &self.options.headworks_exe {
            Some(program) if config.is_gated() => {
                let mut prefix: Vec<OsString> = vec![program.into(), "run".into(), "--name".into()];
                prefix.push(instance(config).into());
                // Fixed: a search would still be under way in a window of seconds.
                let parallelism = self.options.parallelism.unwrap_or_else(default_parallelism);
                prefix.extend(["--parallelism".into(), parallelism.to_string().into()]);
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
                .fold(builder, ServerBuilder::env_remove),
        }
    }
}

/// Name of the gate's instance in an arm.
fn instance(config: Config) -> String {
    format!("demo-{}-{}", std::process::id(), config.name())
}

/// Reads every page that the clients will, and lets the server finish what the last arm left to be purged.
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

/// P of the gated arms: 8 × cores.
fn default_parallelism() -> u32 {
    std::thread::available_parallelism().map_or(8, |cores| 8 * cores.get() as u32)
}
