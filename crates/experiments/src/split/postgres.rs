//! Figure 2.21 and RCP's Figures 5 and 6: what checkpoints of PostgreSQL do to its commits.

use super::blocked::Sampler;
use super::disk::Disk;
use super::figure::{Arm, Figure, Numbers, Plan, Work, named};
use crate::running;
use crate::sweep::Claim;
use crate::sweep::panel::Panel;
use anyhow::{Context, Result, ensure};
use headworks_rig::{PostgresBuilder, PostgresServer, SUPERUSER, postgres_program};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

/// pgbench's scale: 450 MB.
const SCALE: &str = "30";

/// Transactions a second that arrive, and clients.
const RATE: f64 = 40.0;
const CLIENTS: &str = "8";

/// Of both settings: a checkpoint every 30 s, whose writes are all its own.
const COMMON: &[(&str, &str)] = &[
    ("fsync", "on"),
    ("shared_buffers", "512MB"),
    ("checkpoint_timeout", "30s"),
    ("max_wal_size", "8GB"),
    ("autovacuum", "off"),
    ("log_checkpoints", "on"),
];

/// The paper's settings: PostgreSQL does not pace its checkpoints.
const UNPACED: &[(&str, &str)] = &[
    ("checkpoint_completion_target", "0"),
    ("checkpoint_flush_after", "0"),
    ("bgwriter_flush_after", "0"),
    ("backend_flush_after", "0"),
    ("bgwriter_lru_maxpages", "0"),
];

/// The axis: 0 for the paper's settings, 1 for PostgreSQL's own pacing.
const PAPER: f64 = 0.0;
const DEFAULTS: f64 = 1.0;

/// Makes the data once, on the machine's own disk.
pub(super) fn template(work: &Path) -> Result<PathBuf> {
    let data = work.join("template");
    make(&data, SCALE)?;
    Ok(data)
}

/// Makes the data of a PostgreSQL with pgbench's tables of this scale.
pub(crate) fn make(data: &Path, scale: &str) -> Result<()> {
    let mut server = PostgresServer::builder().data_directory(data).start()?;
    let output = running::output(pgbench(server.port())?.args(["-i", "-q", "-s", scale]))?;
    ensure!(output.status.success(), "pgbench: {}", String::from_utf8_lossy(&output.stderr));
    server.stop(Duration::from_secs(60))?;
    Ok(())
}

fn pgbench(port: u16) -> Result<Command> {
    client("pgbench", SUPERUSER, port)
}

/// One of PostgreSQL's clients, connected by an account.
pub(super) fn client(name: &str, account: &str, port: u16) -> Result<Command> {
    let program = postgres_program(name)
        .with_context(|| format!("{name} is missing: apt-get install postgresql"))?;
    let mut command = Command::new(program);
    command
        .args(["-h", "127.0.0.1", "-U", account, "-p", &port.to_string()])
        .env("PGDATABASE", "postgres")
        .env_remove("LD_PRELOAD")
        .stdin(Stdio::null());
    Ok(command)
}

fn builder(data: &Path, at: f64) -> PostgresBuilder {
    let own = if at == PAPER { UNPACED } else { &[] };
    COMMON
        .iter()
        .chain(own)
        .fold(PostgresServer::builder().data_directory(data), |builder, (name, value)| {
            builder.setting(name, value)
        })
}

/// One run: the server on the fresh disk, and transactions at a fixed rate.
fn one(plan: &Plan<'_>, disk: &Disk, arm: &Arm, at: f64) -> Result<Numbers> {
    let data = plan.copy(&plan.template, disk)?;
    at_a_fixed_rate(plan, arm, builder(&data, at), |_| Ok(()))
}

/// Transactions at a fixed rate. `beside` gets the server's port at the beginning of the window,
/// and the server goes on until it returns.
pub(super) fn at_a_fixed_rate(
    plan: &Plan<'_>,
    arm: &Arm,
    server: PostgresBuilder,
    beside: impl FnOnce(u16) -> Result<()> + Send,
) -> Result<Numbers> {
    let (builder, gate) = plan.behind(arm, server)?;
    let mut server = builder.start_deadline(Duration::from_secs(180)).start()?;
    server.ensure_gated(gate.is_some())?;
    let logs = plan.work.join("logs");
    let _ = fs::remove_dir_all(&logs);
    fs::create_dir(&logs)?;
    let seconds = plan.warm_up_s + plan.window_s;
    let (port, warm_up) = (server.port(), Duration::from_secs(plan.warm_up_s));
    // Backends have the names of their account and database in their titles.
    let sampler = Sampler::start(server.pid(), "app postgres 127.0.0.1", warm_up);
    let (output, waits, done) = thread::scope(|scope| {
        let beside = scope.spawn(move || {
            running::pause(warm_up)?;
            beside(port)
        });
        let output = pgbench(port).and_then(|mut pgbench| {
            pgbench
                .args(["-n", "-N", "-c", CLIENTS, "-j", "2", "-T", &seconds.to_string()])
                .args([&format!("--rate={RATE}"), "--log", "--log-prefix=log"])
                .current_dir(&logs);
            running::output(&mut pgbench)
        });
        (output, sampler.end(), beside.join())
    });
    done.unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
    let output = output?;
    ensure!(output.status.success(), "pgbench: {}", String::from_utf8_lossy(&output.stderr));
    let log = server.log();
    ensure!(server.is_running(), "the server died; its log ends with:\n{}", server.log_tail());
    server.stop(Duration::from_secs(120))?;
    Ok(numbers(plan, &logs, &log)?.into_iter().chain(waits).collect())
}

/// A server that paces its checkpoints, and all else as PostgreSQL has it.
pub(super) fn paced(data: &Path) -> PostgresBuilder {
    builder(data, DEFAULTS).setting("autovacuum", "on")
}

/// A server that makes no checkpoint.
pub(super) fn quiet(data: &Path) -> PostgresBuilder {
    builder(data, DEFAULTS).setting("checkpoint_timeout", "1h")
}

/// Transactions a second in a closed loop. `built_in`: pgbench's script.
pub(super) fn closed_loop(server: &PostgresServer, built_in: &str, seconds: u64) -> Result<f64> {
    let mut load = pgbench(server.port())?;
    load.args(["-n", "-b", built_in, "-c", CLIENTS, "-j", "2", "-T", &seconds.to_string()]);
    let output = running::output(&mut load)?;
    ensure!(output.status.success(), "pgbench: {}", String::from_utf8_lossy(&output.stderr));
    let said = String::from_utf8_lossy(&output.stdout);
    let rate = said.lines().find_map(|line| line.strip_prefix("tps = "));
    let rate = rate.and_then(|line| line.split_whitespace().next()?.parse().ok());
    rate.with_context(|| format!("pgbench tells no rate:\n{said}"))
}

/// The scales of Figure 4, by the directory of the data.
const SCALES: &[f64] = &[10.0, 30.0, 100.0];

fn of_scale(templates: &Path, scale: f64) -> PathBuf {
    templates.join(format!("scale-{scale}"))
}

fn templates(work: &Path) -> Result<PathBuf> {
    for scale in SCALES {
        make(&of_scale(work, *scale), &scale.to_string())?;
    }
    Ok(work.to_owned())
}

fn as_fast_as_it_can(plan: &Plan<'_>, disk: &Disk, arm: &Arm, at: f64) -> Result<Numbers> {
    let data = plan.copy(&of_scale(&plan.template, at), disk)?;
    let (builder, gate) = plan.behind(arm, builder(&data, PAPER))?;
    let mut server = builder.start_deadline(Duration::from_secs(180)).start()?;
    server.ensure_gated(gate.is_some())?;
    closed_loop(&server, "simple-update", plan.warm_up_s)?;
    let per_s = closed_loop(&server, "simple-update", plan.window_s)?;
    server.stop(Duration::from_secs(120))?;
    Ok(named([("per_s", per_s)]))
}

/// The latencies of the window. A transaction that waits for its turn waits from when it was due.
fn numbers(plan: &Plan<'_>, logs: &Path, log: &str) -> Result<Numbers> {
    let mut done: Vec<(f64, f64)> = Vec::new();
    for entry in fs::read_dir(logs)? {
        for line in fs::read_to_string(entry?.path())?.lines() {
            let fields: Vec<&str> = line.split_whitespace().collect();
            let number = |at: usize| fields.get(at).and_then(|word| word.parse::<f64>().ok());
            let (Some(latency_us), Some(s), Some(us)) = (number(2), number(4), number(5)) else {
                continue;
            };
            done.push((s + us / 1e6, latency_us / 1e3));
        }
    }
    let first = done.iter().map(|(at, _)| *at).fold(f64::INFINITY, f64::min);
    let from = first + plan.warm_up_s as f64;
    let mut latencies: Vec<f64> =
        done.iter().filter(|(at, _)| *at >= from).map(|(_, latency)| *latency).collect();
    ensure!(!latencies.is_empty(), "no transaction ended in the window");
    latencies.sort_by(f64::total_cmp);
    let percentile =
        |part: f64| latencies[((latencies.len() as f64 * part) as usize).min(latencies.len() - 1)];
    // The last one may end after the load.
    let checkpoints = log.lines().filter(|line| line.contains("checkpoint starting: time")).count();
    Ok(named([
        ("per_s", latencies.len() as f64 / plan.window_s as f64),
        ("p50_ms", percentile(0.5)),
        ("p99_ms", percentile(0.99)),
        ("p999_ms", percentile(0.999)),
        ("max_ms", percentile(1.0)),
        ("checkpoints", checkpoints as f64),
    ]))
}

const NOTHING: &str = "mq-deadline";
const BFQ: &str = "bfq";
const CFQ: &str = "cfq";
const SPLIT_DEADLINE: &str = "split-deadline";
const RCP_ARM: &str = "rcp";

const ABOUT: &str = "pgbench -N at 40 transactions/s, 8 clients, scale 30, a checkpoint every 30 s; a disk, \
    writeback throttle off. 0: checkpoint_completion_target = 0 and flush_after = 0, the paper's settings; 1: \
    PostgreSQL's own pacing.";

fn panels(arms: &'static [&'static str]) -> Vec<Panel> {
    vec![
        Panel::sweep("Median", "ms").lines(arms, "p50_ms").tenfold(),
        Panel::sweep("P99", "ms").lines(arms, "p99_ms").tenfold(),
        Panel::sweep("Longest", "ms").lines(arms, "max_ms").tenfold(),
    ]
}

pub(super) const FIG_SPLIT: Figure = Figure {
    id: "split-postgres",
    title: "PostgreSQL's commits beside its checkpoints",
    paper: "Split and Maat",
    figure: "Figure 2.21; section 2.7.1.2",
    about: ABOUT,
    axis: "settings",
    categories: &["the paper's settings", "PostgreSQL's own pacing"],
    times: [(35, 120, 5), (5, 30, 1)],
    around_s: 15,
    arms: &[
        Arm::new(NOTHING, "hdd", "mq-deadline"),
        Arm::new(BFQ, "hdd", "bfq").full_only(),
        Arm::new("none", "hdd", "none").full_only(),
        Arm::new("kyber", "hdd", "kyber").full_only(),
        Arm::new("mq-deadline, throttle on", "hdd", "mq-deadline").throttle().full_only(),
        Arm::new("split-deadline, throttle on", "hdd", "mq-deadline")
            .throttle()
            .io("split-deadline")
            .full_only(),
        Arm::new(SPLIT_DEADLINE, "hdd", "mq-deadline").io("split-deadline"),
    ],
    points: &[PAPER, DEFAULTS],
    quick_points: &[PAPER],
    work: Work::Database { template, one },
    rules: "",
    claims: &[
        Claim::new("the paper's settings: P99 falls")
            .paper("P99 from about 4,000 to 100 ms (Figure 2.21)")
            .ours("P99 under mq-deadline / P99", |seed| {
                seed.get(NOTHING, PAPER, "p99_ms") / seed.get(SPLIT_DEADLINE, PAPER, "p99_ms")
            })
            .at_least(40.0),
        Claim::new("the paper's settings: all that is offered is done")
            .paper("not given")
            .ours("transactions/s / those under mq-deadline", |seed| {
                seed.get(SPLIT_DEADLINE, PAPER, "per_s") / seed.get(NOTHING, PAPER, "per_s")
            })
            .at_least(1.0),
        Claim::new("the paper's settings: checkpoints are as frequent")
            .paper("not given")
            .ours("checkpoints / those under mq-deadline", |seed| {
                seed.get(SPLIT_DEADLINE, PAPER, "checkpoints")
                    / seed.get(NOTHING, PAPER, "checkpoints")
            })
            .at_least(0.99),
        Claim::new("PostgreSQL's own pacing: P99 falls")
            .paper("not given")
            .ours("P99 under mq-deadline / P99", |seed| {
                seed.get(NOTHING, DEFAULTS, "p99_ms") / seed.get(SPLIT_DEADLINE, DEFAULTS, "p99_ms")
            })
            .at_least(2.0)
            .note("not in a quick run"),
    ],
    panels: || panels(&[NOTHING, BFQ, SPLIT_DEADLINE]),
};

pub(super) const FIG_RCP: Figure = Figure {
    id: "rcp-postgres",
    title: "PostgreSQL's commits beside its checkpoints: what clients wait for first",
    paper: "RCP",
    figure: "Figures 5 and 6",
    about: ABOUT,
    axis: "settings",
    categories: &["the paper's settings", "PostgreSQL's own pacing"],
    times: [(35, 120, 5), (5, 15, 1)],
    around_s: 15,
    arms: &[
        Arm::new(NOTHING, "hdd", "mq-deadline"),
        Arm::new(BFQ, "hdd", "bfq").full_only(),
        Arm::new(CFQ, "hdd", "none").volume("cfq").full_only(),
        Arm::new(SPLIT_DEADLINE, "hdd", "mq-deadline").io("split-deadline").full_only(),
        Arm::new(RCP_ARM, "hdd", "mq-deadline").io("rcp"),
        Arm::new(RCP_VOLUME, "hdd", "none").io_and_volume("rcp"),
    ],
    points: &[PAPER, DEFAULTS],
    quick_points: &[PAPER],
    work: Work::Database { template, one },
    rules: "",
    claims: &[
        Claim::new("the paper's settings: P99 against the scheduler that is like CFQ")
            .paper("84 ms against 3,581 ms")
            .ours("P99 under cfq / P99", |seed| {
                seed.get(CFQ, PAPER, "p99_ms") / seed.get(RCP_ARM, PAPER, "p99_ms")
            })
            .at_least(42.0),
        Claim::new("the paper's settings: no commit takes long")
            .paper("at most 300 ms on an SSD")
            .ours("longest, ms", |seed| seed.get(RCP_ARM, PAPER, "max_ms"))
            .at_most(300.0)
            .note("on a disk of 10 ms an access"),
        Claim::new("PostgreSQL's own pacing: P99.9 falls")
            .paper("not given")
            .ours("P99.9 under mq-deadline / P99.9", |seed| {
                seed.get(NOTHING, DEFAULTS, "p999_ms") / seed.get(RCP_ARM, DEFAULTS, "p999_ms")
            })
            .at_least(2.0)
            .note("not in a quick run"),
        Claim::new("the paper's settings: checkpoints are as frequent")
            .paper("log size as without (Figure 5)")
            .ours("checkpoints / those under mq-deadline", |seed| {
                seed.get(RCP_ARM, PAPER, "checkpoints") / seed.get(NOTHING, PAPER, "checkpoints")
            })
            .at_least(0.99),
    ],
    panels: || panels(&[NOTHING, CFQ, SPLIT_DEADLINE, RCP_ARM, RCP_VOLUME]),
};

pub(super) const FIG_4: Figure = Figure {
    id: "rcp-scales",
    title: "PostgreSQL's throughput beside its checkpoints",
    paper: "RCP",
    figure: "Figure 4",
    about: "pgbench -N in a closed loop, 8 clients; a checkpoint every 30 s that PostgreSQL does not pace; a disk, \
        writeback throttle off.",
    axis: "scale",
    categories: &[],
    times: [(35, 120, 3), (5, 15, 1)],
    around_s: 25,
    arms: &[
        Arm::new(NOTHING, "hdd", "mq-deadline"),
        Arm::new(CFQ, "hdd", "none").volume("cfq").full_only(),
        Arm::new(RCP_ARM, "hdd", "mq-deadline").io("rcp"),
    ],
    points: SCALES,
    quick_points: &[10.0],
    work: Work::Database { template: templates, one: as_fast_as_it_can },
    rules: "",
    claims: &[
        Claim::new("more transactions than under the scheduler that is like CFQ, smallest scale")
            .paper("1.15 to 1.37 times what any other scheme has")
            .ours("transactions/s / those under cfq", |seed| {
                seed.get(RCP_ARM, SCALES[0], "per_s") / seed.get(CFQ, SCALES[0], "per_s")
            })
            .at_least(1.15),
        Claim::new("not fewer than without a scheduler, smallest scale")
            .paper("not given")
            .ours("transactions/s / those under mq-deadline", |seed| {
                seed.get(RCP_ARM, SCALES[0], "per_s") / seed.get(NOTHING, SCALES[0], "per_s")
            })
            .at_least(1.0),
    ],
    panels: || {
        vec![Panel::sweep("Transactions", "per second").lines([NOTHING, CFQ, RCP_ARM], "per_s")]
    },
};

/// The device's own queue, too, has what clients wait for first.
const RCP_VOLUME: &str = "rcp, volume";

const NO_INHERITANCE: &str = "rcp without inheritance";
const NO_LIMIT: &str = "rcp, half of the memory dirty";

pub(super) const FIG_10: Figure = Figure {
    id: "rcp-parts",
    title: "What each part of rcp is worth to PostgreSQL's commits",
    paper: "RCP",
    figure: "Figure 10",
    about: ABOUT,
    arms: &[
        Arm::new(RCP_ARM, "hdd", "mq-deadline").io("rcp"),
        Arm::new(NO_INHERITANCE, "hdd", "mq-deadline").io("rcp").options("inheritance = false\n"),
        Arm::new(NO_LIMIT, "hdd", "mq-deadline")
            .io("rcp")
            .options("background_dirty_percent = 50\n"),
    ],
    points: &[PAPER],
    claims: &[Claim::new("inheritance shortens the tail")
        .paper("6 to 45 % of P99.9 by each part")
        .ours("P99.9 without it / P99.9", |seed| {
            seed.get(NO_INHERITANCE, PAPER, "p999_ms") / seed.get(RCP_ARM, PAPER, "p999_ms")
        })
        .at_least(1.06)],
    panels: || panels(&[RCP_ARM, NO_INHERITANCE, NO_LIMIT]),
    ..FIG_RCP
};
