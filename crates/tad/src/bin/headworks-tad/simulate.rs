//! `headworks tad simulate`

use super::input::{self, BadInput};
use super::progress::Progress;
use super::{pictures, results};
use crate::cli::Simulate;
use anyhow::{Context, Result};
use headworks_tad::sim::{self, Outcome};
use serde::Serialize;
use std::process::ExitCode;

/// The JSON of `--json` and `result.json`.
#[derive(Serialize)]
struct Record<'a> {
    system: &'a str,
    version: &'a str,
    scenario: &'a str,
    about: &'a str,
    /// Letters of the remedies, if any.
    maat: Option<&'a str>,
    /// Other remedies.
    remedies: &'a [String],
    /// Policy of every pluggable queue; none if each keeps its own.
    policy: Option<&'static str>,
    /// One for each seed.
    runs: &'a [Outcome],
}

/// `headworks tad simulate`
pub fn simulate(args: &Simulate) -> Result<ExitCode> {
    let tad = input::remedied(&args.system, &args.remedies)?;
    let mut scenario = input::scenario(&args.scenario, &tad)?;
    if let Some(policy) = input::policy(args.policy.as_deref()) {
        scenario.policy = Some(policy);
    }
    let progress = Progress::new();
    let mut runs = Vec::new();
    for run in 0..args.seeds {
        let seed = args.seed.wrapping_add(u64::from(run));
        let outcome = sim::run(&tad, &scenario, seed, &mut |fraction| {
            let all = (f64::from(run) + fraction) / f64::from(args.seeds);
            progress.set(all, &format!("{} seed {seed}", scenario.name));
        });
        runs.push(outcome.map_err(|error| {
            BadInput::error(format!(
                "cannot simulate {} with {}: {error}",
                args.system, args.scenario
            ))
        })?);
    }
    drop(progress);
    let record = Record {
        system: &tad.name,
        version: &tad.version,
        scenario: &scenario.name,
        about: &scenario.about,
        maat: args.remedies.maat.as_deref(),
        remedies: &args.remedies.remedy,
        policy: scenario.policy.map(headworks_tad::model::Policy::name),
        runs: &runs,
    };
    if let Some(dir) = &args.output {
        let cannot = || {
            format!(
                "cannot write to {}: name a directory that you may write, with free space (df -h)",
                dir.display()
            )
        };
        std::fs::create_dir_all(dir).with_context(cannot)?;
        let text = serde_json::to_string_pretty(&record)? + "\n";
        std::fs::write(dir.join("result.json"), text).with_context(cannot)?;
        for (name, picture) in pictures::all(&runs[0])? {
            std::fs::write(dir.join(name), picture).with_context(cannot)?;
        }
    }
    if args.json {
        println!("{}", serde_json::to_string_pretty(&record)?);
    } else {
        print!("{}", results::text(&scenario, &args.remedies, &runs));
        if let Some(dir) = &args.output {
            println!(
                "\nWritten to {}: result.json and pictures of seed {}",
                dir.display(),
                args.seed
            );
        }
    }
    Ok(ExitCode::SUCCESS)
}
