//! Runs or reports experiments without the `headworks` program around them.
//!
//! ```text
//! cargo run --example bench -- run out/try --quick --without-gate
//! cargo run --example bench -- run out/try --quick --gate target/release/headworks
//! cargo run --example bench -- report out/try
//! ```

use anyhow::{Context, Result, bail};
use headworks_experiments::{Outcome, RunOptions, list, report, run};

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let task = arguments.next().context("say `run DIR`, `report DIR` or `list`")?;
    let outcomes: Vec<Outcome> = match task.as_str() {
        "list" => {
            for experiment in list() {
                println!("{}: {}", experiment.id, experiment.title);
            }
            return Ok(());
        }
        "report" => report(arguments.next().context("which directory?")?.as_ref())?,
        "run" => {
            let mut options = RunOptions::new(arguments.next().context("which directory?")?);
            let mut ids = Vec::new();
            while let Some(argument) = arguments.next() {
                match argument.as_str() {
                    "--quick" => options.quick = true,
                    "--without-gate" => options.without_gate = true,
                    "--gate" => options.headworks_exe = arguments.next().map(Into::into),
                    "--parallelism" => {
                        options.parallelism = arguments.next().map(|p| p.parse()).transpose()?
                    }
                    "--quota" => {
                        options.quota = arguments.next().map(|quota| quota.parse()).transpose()?
                    }
                    "--window" => {
                        options.window_s =
                            arguments.next().map(|seconds| seconds.parse()).transpose()?
                    }
                    "--repeat" => {
                        options.repeat =
                            arguments.next().map(|rounds| rounds.parse()).transpose()?
                    }
                    "--seed" => {
                        options.seed = arguments.next().map_or(Ok(1), |seed| seed.parse())?
                    }
                    id if !id.starts_with('-') => ids.push(id.to_owned()),
                    "--only" => options.only = arguments.next(),
                    other => bail!("unknown option {other}"),
                }
            }
            if ids.is_empty() {
                ids.push("gate-mariadb".to_owned());
            }
            run(&ids, &options)?
        }
        other => bail!("unknown task {other}"),
    };
    for outcome in outcomes {
        print!("{}", outcome.text);
    }
    Ok(())
}
