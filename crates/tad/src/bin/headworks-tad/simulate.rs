//! `headworks tad simulate`

use super::input::{self, BadInput};
use super::progress::Progress;
use super::{pictures, results};
use crate::cli::Simulate;
use anyhow::{Context, Result};
use headworks_tad::model::Tad;
use headworks_tad::scenario::Scenario;
use headworks_tad::sim::{self, Outcome};
use headworks_tad::spread::Spread;
use headworks_tad::sweep::Sweep;
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
    /// Means over the seeds, with their confidence intervals.
    clients: Vec<ClientSummary<'a>>,
    /// One for each seed.
    runs: &'a [Outcome],
}

/// Simulates with each seed. This is number `at` of `count` scenarios.
fn all_seeds(
    args: &Simulate,
    tad: &Tad,
    scenario: &Scenario,
    (at, count): (usize, usize),
) -> Result<Vec<Outcome>> {
    let progress = Progress::new();
    let simulate = |run: u32| {
        let seed = args.seed.wrapping_add(u64::from(run));
        let outcome = sim::run(tad, scenario, seed, &mut |fraction| {
            let own = (f64::from(run) + fraction) / f64::from(args.seeds);
            progress
                .set((at as f64 + own) / count as f64, &format!("{} seed {seed}", scenario.name));
        });
        outcome.map_err(|error| {
            BadInput::error(format!(
                "cannot simulate {} with {}: {error}",
                args.system, args.scenario
            ))
        })
    };
    (0..args.seeds).map(simulate).collect()
}

/// What `--json` prints of a value of a sweep.
#[derive(Serialize)]
struct Step<'a> {
    value: &'a str,
    clients: Vec<ClientSummary<'a>>,
    runs: &'a [Outcome],
}

fn sweep(args: &Simulate, tad: &Tad, scenario: &Scenario, text: &str) -> Result<ExitCode> {
    let swept = Sweep::parse(text).map_err(BadInput::error)?;
    let all = swept.scenarios(tad, scenario).map_err(BadInput::error)?;
    let mut steps: Vec<(String, Vec<Outcome>)> = Vec::new();
    for (at, (value, changed)) in all.iter().enumerate() {
        steps.push((value.clone(), all_seeds(args, tad, changed, (at, all.len()))?));
    }
    if args.json {
        let steps: Vec<Step> = steps
            .iter()
            .map(|(value, runs)| Step { value, clients: summary(runs), runs })
            .collect();
        println!("{}", serde_json::to_string_pretty(&steps)?);
    } else {
        print!("{}", results::sweep(&swept.name(), scenario, &steps));
    }
    Ok(ExitCode::SUCCESS)
}

/// A client over all seeds.
#[derive(Serialize)]
struct ClientSummary<'a> {
    name: &'a str,
    throughput_per_s: Spread,
    /// By load.
    latency_ms_p99: Vec<Spread>,
}

fn summary(runs: &[Outcome]) -> Vec<ClientSummary<'_>> {
    let clients = runs.first().map_or(&[][..], |run| &run.clients);
    let of = |id: usize, value: &dyn Fn(&sim::ClientOutcome) -> f64| {
        Spread::of(runs.iter().map(|run| value(&run.clients[id])))
    };
    let summary = |(id, client): (usize, &'_ sim::ClientOutcome)| ClientSummary {
        name: runs[0].clients[id].name.as_str(),
        throughput_per_s: of(id, &|client| client.throughput_per_s),
        latency_ms_p99: (0..client.loads.len())
            .map(|load| of(id, &|client| client.loads[load].latency_ms_p99))
            .collect(),
    };
    clients.iter().enumerate().map(summary).collect()
}

/// `headworks tad simulate`
pub fn simulate(args: &Simulate) -> Result<ExitCode> {
    let tad = input::remedied(&args.system, &args.remedies)?;
    let mut scenario = input::scenario(&args.scenario, &tad)?;
    if let Some(policy) = input::policy(args.policy.as_deref()) {
        scenario.policy = Some(policy);
    }
    if let Some(text) = &args.sweep {
        return sweep(args, &tad, &scenario, text);
    }
    let runs = all_seeds(args, &tad, &scenario, (0, 1))?;
    let record = Record {
        system: &tad.name,
        version: &tad.version,
        scenario: &scenario.name,
        about: &scenario.about,
        maat: args.remedies.maat.as_deref(),
        remedies: &args.remedies.remedy,
        policy: scenario.policy.map(headworks_tad::model::Policy::name),
        clients: summary(&runs),
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
