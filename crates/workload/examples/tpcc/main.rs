//! TPC-C from the command line: load, run, check.

mod table;

use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::{Args, Parser, Subcommand, ValueEnum};
use headworks_workload::db::{Database, Isolation, Protocol};
use headworks_workload::driver::{self, Arrivals, Report, RunOptions, Stop};
use headworks_workload::tpcc::{
    Condition, Home, LoadOptions, Mix, MixHandle, Pace, Population, Terminal, TerminalOptions,
    check, load,
};
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;

/// A workload after TPC-C for MariaDB, MySQL and PostgreSQL.
#[derive(Debug, Parser)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Create and fill the tables.
    Load(Load),
    /// Let terminals work, then check the data.
    Run(Run),
    /// Check consistency conditions 1 to 4.
    Check(Common),
}

#[derive(Debug, Args)]
struct Common {
    /// mysql://user:password@host:port/database or postgres://…
    #[arg(long)]
    database: Database,
    /// Print JSON instead of a table.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
struct Load {
    #[command(flatten)]
    common: Common,
    /// Number of warehouses, about 100 MB each.
    #[arg(long)]
    warehouses: i64,
    /// Divide customers, orders and items by this (1 to 100). Anything but 1 is not TPC-C.
    #[arg(long, default_value_t = 1)]
    scale: i64,
    /// Connections that load.
    #[arg(long, default_value_t = 4)]
    threads: usize,
    /// Remove existing tables first.
    #[arg(long)]
    replace: bool,
    /// Declare the foreign keys.
    #[arg(long)]
    foreign_keys: bool,
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

#[derive(Debug, Args)]
struct Run {
    #[command(flatten)]
    common: Common,
    /// Number of terminals, each with a connection.
    #[arg(long, default_value_t = 16)]
    terminals: usize,
    /// Must be what was loaded; need not be given.
    #[arg(long)]
    warehouses: Option<i64>,
    /// Measured seconds.
    #[arg(long, default_value_t = 30.0)]
    seconds: f64,
    /// Seconds before.
    #[arg(long, default_value_t = 5.0)]
    warm_up: f64,
    /// Open loop: transactions per second over all terminals.
    #[arg(long)]
    rate: Option<f64>,
    /// Let them arrive at random instead of evenly.
    #[arg(long, requires = "rate")]
    poisson: bool,
    #[arg(long, value_enum, default_value = "standard")]
    mix: MixName,
    /// Choose a random warehouse for each transaction, as tpcc-mysql does.
    #[arg(long)]
    any_warehouse: bool,
    /// Prepare statements in the server.
    #[arg(long)]
    prepared: bool,
    #[arg(long, value_enum, default_value = "server-default")]
    isolation: IsolationName,
    /// Keying and think time as a multiple of the specification's.
    #[arg(long, default_value_t = 0.0)]
    pace: f64,
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Do not check the data afterwards.
    #[arg(long)]
    no_check: bool,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum MixName {
    Standard,
    DeckOf23,
    ReadMostly,
    WriteHeavy,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum IsolationName {
    ServerDefault,
    ReadCommitted,
    RepeatableRead,
    Serializable,
}

/// What `run --json` prints.
#[derive(Debug, Serialize)]
struct Record {
    workload: String,
    server: String,
    population: Population,
    protocol: Protocol,
    isolation: Isolation,
    mix: Mix,
    home: Home,
    pace: Pace,
    seed: u64,
    /// Without keying and think time, and unaudited, so it is not the specification's tpmC.
    new_orders_per_minute: f64,
    report: Report,
    checks: Vec<Condition>,
}

fn main() -> Result<()> {
    match Cli::parse().command {
        Command::Load(options) => load_it(&options),
        Command::Run(options) => run_it(&options),
        Command::Check(common) => check_it(&common),
    }
}

fn bar(template: &str, length: u64) -> Result<ProgressBar> {
    Ok(ProgressBar::new(length).with_style(ProgressStyle::with_template(template)?))
}

fn load_it(options: &Load) -> Result<()> {
    let population = Population::new(options.warehouses, options.scale, options.seed)?;
    let how = LoadOptions {
        threads: options.threads,
        replace: options.replace,
        foreign_keys: options.foreign_keys,
    };
    let bar = bar("{wide_bar} {percent}% {human_pos} rows, {eta} left {msg}", population.rows())?;
    load(&options.common.database, &population, &how, &mut |done, total| {
        bar.set_position(done);
        if done == total {
            bar.set_message("(indexes)");
        }
        true
    })
    .context("loading failed; --replace removes what is there")?;
    bar.finish_and_clear();
    if options.common.json {
        println!("{}", serde_json::to_string_pretty(&population)?);
    } else {
        println!("{}, W = {}", population.name(), population.warehouses);
    }
    Ok(())
}

fn run_it(options: &Run) -> Result<()> {
    let (protocol, isolation) = (
        if options.prepared { Protocol::Prepared } else { Protocol::Text },
        match options.isolation {
            IsolationName::ServerDefault => Isolation::ServerDefault,
            IsolationName::ReadCommitted => Isolation::ReadCommitted,
            IsolationName::RepeatableRead => Isolation::RepeatableRead,
            IsolationName::Serializable => Isolation::Serializable,
        },
    );
    let database = options.common.database.clone().protocol(protocol).isolation(isolation);
    let population = Population::discover(database.connect()?.as_mut())?;
    if let Some(wanted) = options.warehouses
        && wanted != population.warehouses
    {
        bail!("{} warehouses are loaded, not {wanted}", population.warehouses);
    }
    let mix = match options.mix {
        MixName::Standard => Mix::STANDARD,
        MixName::DeckOf23 => Mix::DECK_OF_23,
        MixName::ReadMostly => Mix::READ_MOSTLY,
        MixName::WriteHeavy => Mix::WRITE_HEAVY,
    };
    let terminals = TerminalOptions {
        population,
        seed: options.seed,
        mix: MixHandle::new(mix),
        home: if options.any_warehouse { Home::Any } else { Home::Fixed },
        pace: Pace::new(options.pace)?,
    };
    let arrivals = match (options.rate, options.poisson) {
        (None, _) => Arrivals::Closed,
        (Some(rate_per_s), false) => Arrivals::Even { rate_per_s },
        (Some(rate_per_s), true) => Arrivals::Poisson { rate_per_s },
    };
    let how = RunOptions {
        users: options.terminals,
        arrivals,
        warm_up: seconds(options.warm_up)?,
        window: seconds(options.seconds)?,
        seed: options.seed,
        ..RunOptions::default()
    };
    let bar = bar("{wide_bar} {msg}", (how.warm_up + how.window).as_millis() as u64)?;
    let report = driver::run(
        &how,
        Terminal::KINDS,
        &|number| Terminal::connect(&database, &terminals, number),
        &Stop::default(),
        &mut |progress| {
            bar.set_position(progress.elapsed.as_millis() as u64);
            bar.set_message(if progress.connected < how.users {
                format!("{} of {} terminals connected", progress.connected, how.users)
            } else {
                format!("{} transactions", progress.answered)
            });
        },
    )?;
    bar.finish_and_clear();
    let checks = if options.no_check { Vec::new() } else { check(database.connect()?.as_mut())? };
    let record = Record {
        workload: population.name(),
        server: database.version()?,
        population,
        protocol,
        isolation,
        mix,
        home: terminals.home,
        pace: terminals.pace,
        seed: options.seed,
        new_orders_per_minute: report.per_minute(0),
        report,
        checks,
    };
    if options.common.json {
        println!("{}", serde_json::to_string_pretty(&record)?);
    } else {
        println!("{}, W = {}; {}", record.workload, population.warehouses, record.server);
        table::report(&record.report, record.new_orders_per_minute);
        table::checks(&record.checks);
    }
    verdict(&record.checks)
}

fn check_it(common: &Common) -> Result<()> {
    let checks = check(common.database.connect()?.as_mut())?;
    if common.json {
        println!("{}", serde_json::to_string_pretty(&checks)?);
    } else {
        table::checks(&checks);
    }
    verdict(&checks)
}

fn verdict(checks: &[Condition]) -> Result<()> {
    if checks.iter().any(|condition| !condition.holds) {
        bail!("the data is not consistent");
    }
    Ok(())
}

fn seconds(seconds: f64) -> Result<Duration> {
    Duration::try_from_secs_f64(seconds).with_context(|| format!("not a time: {seconds} s"))
}
