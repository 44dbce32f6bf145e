//! Built-in systems and scenarios.

use super::input::{self, BadInput};
use crate::cli::{List, Show};
use anyhow::Result;
use headworks_tad::remedy::Problem;
use headworks_tad::{file, scenarios, systems};
use serde::Serialize;
use std::process::ExitCode;

#[derive(Serialize)]
struct System {
    name: &'static str,
    version: String,
    about: String,
    requests: Vec<String>,
    /// Letters that `--maat` takes, by problem.
    remedies: Vec<(&'static str, Vec<String>)>,
    scenarios: Vec<Scenario>,
}

#[derive(Serialize)]
struct Scenario {
    name: &'static str,
    about: String,
}

fn systems() -> Result<Vec<System>> {
    systems::names()
        .map(|name| {
            let tad = input::system(name)?;
            let letters = |problem: &Problem| -> Vec<String> {
                let known = tad.remedies.get(problem).into_iter().flatten();
                known.map(|each| each.letter.clone()).collect()
            };
            let of = scenarios::all().iter().filter(|scenario| scenario.system == name);
            let scenarios = of.map(|scenario| {
                let read = file::read_scenario(scenario.name, scenario.text, &tad)?;
                Ok(Scenario { name: scenario.name, about: read.value.about })
            });
            Ok(System {
                name,
                version: tad.version.clone(),
                about: tad.about.clone(),
                requests: tad.requests.iter().map(|request| request.name.clone()).collect(),
                remedies: Problem::ALL
                    .iter()
                    .map(|problem| (problem.name(), letters(problem)))
                    .filter(|(_, letters)| !letters.is_empty())
                    .collect(),
                scenarios: scenarios.collect::<Result<_>>()?,
            })
        })
        .collect()
}

/// `headworks tad list`
pub fn list(args: &List) -> Result<ExitCode> {
    let systems = systems()?;
    if args.json {
        println!("{}", serde_json::to_string_pretty(&systems)?);
        return Ok(ExitCode::SUCCESS);
    }
    for system in systems {
        println!("{} ({})\n  {}", system.name, system.version, system.about);
        println!("  requests: {}", system.requests.join(", "));
        for (problem, letters) in system.remedies {
            println!("  remedies of {problem}: {}", letters.join(", "));
        }
        for scenario in system.scenarios {
            println!("  scenario {}\n    {}", scenario.name, scenario.about);
        }
        println!();
    }
    println!("Print one:  headworks tad show NAME");
    Ok(ExitCode::SUCCESS)
}

/// `headworks tad show`
pub fn show(args: &Show) -> Result<ExitCode> {
    let name = args.name.as_str();
    let text = systems::text(name).or_else(|| scenarios::find(name).map(|found| found.text));
    let Some(text) = text else {
        return Err(BadInput::error(format!(
            "there is no built-in system or scenario `{name}`\n  all of them: headworks tad list"
        )));
    };
    print!("{text}");
    Ok(ExitCode::SUCCESS)
}
