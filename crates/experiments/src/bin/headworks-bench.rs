//! `headworks bench`: experiments on the command line.

use anyhow::Result;
use clap::{CommandFactory, Parser, Subcommand};
use std::path::PathBuf;
use std::process::ExitCode;

/// Run experiments and draw their results
#[derive(Debug, Parser)]
#[command(name = "headworks-bench", bin_name = "headworks bench", version)]
#[command(after_help = "Examples:\n  headworks bench list\n  \
    headworks bench run gate-mariadb --quick --out out/demo")]
struct Cli {
    /// What to do
    #[command(subcommand)]
    command: BenchCommand,
}

/// Examples of the commands.
const EXAMPLES: &[(&str, &[&str])] = &[
    ("list", &["headworks bench list --json"]),
    (
        "run",
        &[
            "headworks bench run gate-mariadb --quick",
            "headworks bench run gate-mariadb --seed 7 --repeat 5 --out out/record",
            "headworks bench run rcp-postgres --quick --at 1   # with PostgreSQL's own pacing",
        ],
    ),
    ("report", &["headworks bench report out/demo       # draws again what was measured"]),
];

/// What to do with experiments.
#[derive(Debug, Subcommand)]
enum BenchCommand {
    /// Name every experiment, the figure it answers, and what it needs
    List {
        /// For machines
        #[arg(long)]
        json: bool,
    },
    /// Run experiments
    Run {
        /// Names of experiments, as `bench list` shows them
        #[arg(required = true)]
        ids: Vec<String>,
        /// Minutes instead of the full record
        #[arg(long)]
        quick: bool,
        /// Seed of the order of the arms
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// Rounds of each arm
        #[arg(long)]
        repeat: Option<usize>,
        /// Seconds measured in each run of each arm
        #[arg(long, value_name = "SECONDS")]
        window: Option<u64>,
        /// Only cases whose name contains this (gate-day, gate-locks) or arms (gate-open, files)
        #[arg(long, value_name = "TEXT")]
        only: Option<String>,
        /// Only these points of the axis, such as 0,1 (experiments on files)
        #[arg(long, value_name = "POINTS", value_delimiter = ',', allow_hyphen_values = true)]
        at: Vec<f64>,
        /// P of the gated arms [default: what `run` chooses]
        #[arg(long)]
        parallelism: Option<u32>,
        /// ζ of the gated arms [default: what `run` chooses]
        #[arg(long)]
        quota: Option<u32>,
        /// Leave out the arms that need the gate
        #[arg(long)]
        without_gate: bool,
        /// Directory for the results
        #[arg(long, default_value = "out/bench")]
        out: PathBuf,
    },
    /// Run a load on files (what the experiments of I/O schedulers start as a program)
    #[command(hide = true)]
    Files {
        /// Tasks, seconds of warm-up and of the run, as JSON
        spec: PathBuf,
    },
    /// Be a host of a store (what the experiments of learning start as a program)
    #[command(hide = true)]
    LearnHost {
        /// Its volume and its applications, as JSON
        spec: PathBuf,
    },
    /// Be a random system (what the experiment of the recorder starts as a program)
    #[command(hide = true)]
    RandomServer {
        /// Its seed, and what tells its threads apart
        words: Vec<String>,
    },
    /// Be a server with a planted bottleneck (what an experiment starts as a program)
    #[command(hide = true)]
    PlantedServer {
        /// What is planted, and whether it is mended
        words: Vec<String>,
    },
    /// Analyse and draw records again, without running anything
    Report {
        /// Directory of an earlier run
        dir: PathBuf,
    },
    /// Write the manual pages (what `headworks man` starts)
    #[command(hide = true)]
    Man(headworks_console::man::Man),
}

fn main() -> ExitCode {
    headworks_console::main(|| bench(headworks_console::parse::<Cli>(EXAMPLES).command))
}

fn bench(command: BenchCommand) -> Result<ExitCode> {
    match command {
        BenchCommand::List { json } => {
            let list = headworks_experiments::list();
            if json {
                println!("{}", serde_json::to_string_pretty(list)?);
            } else {
                for experiment in list {
                    println!(
                        "{}\n  {}\n  {}, {}; takes {} s, with --quick {} s\n  needs {}\n",
                        experiment.id,
                        experiment.title,
                        experiment.paper,
                        experiment.figure,
                        experiment.expected_s,
                        experiment.expected_quick_s,
                        experiment.needs.join(", ")
                    );
                }
            }
        }
        BenchCommand::Run {
            ids,
            quick,
            seed,
            repeat,
            window,
            only,
            at,
            parallelism,
            quota,
            without_gate,
            out,
        } => {
            let mut options = headworks_experiments::RunOptions::new(out);
            options.quick = quick;
            options.seed = seed;
            options.repeat = repeat;
            options.window_s = window;
            options.only = only;
            options.at = at;
            options.parallelism = parallelism;
            options.quota = quota.map(f64::from);
            options.without_gate = without_gate;
            options.headworks_exe = headworks_console::find_program("headworks");
            match headworks_experiments::run(&ids, &options) {
                Ok(outcomes) => {
                    for outcome in outcomes {
                        println!("{}", outcome.text);
                    }
                }
                Err(error) if error.is::<headworks_experiments::Interrupted>() => {
                    eprintln!("headworks: {error:#}");
                    return Ok(ExitCode::from(130));
                }
                Err(error) => return Err(error),
            }
        }
        BenchCommand::Files { spec } => println!("{}", headworks_experiments::file_load(&spec)?),
        BenchCommand::LearnHost { spec } => headworks_experiments::learn_host(&spec)?,
        BenchCommand::RandomServer { words } => headworks_experiments::random_server(&words),
        BenchCommand::PlantedServer { words } => headworks_experiments::planted_server(&words),
        BenchCommand::Report { dir } => {
            for outcome in headworks_experiments::report(&dir)? {
                println!("{}", outcome.text);
            }
        }
        BenchCommand::Man(args) => {
            let command = headworks_console::with_examples(Cli::command(), EXAMPLES);
            headworks_console::man::write(command, &args, &[])?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_has_an_example_that_names_it() {
        let faults = headworks_console::faults(Cli::command(), "bench", EXAMPLES);
        assert!(faults.is_empty(), "{faults:?}");
    }
}
