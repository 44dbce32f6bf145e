//! Systems and scenarios that the command line names: files, or built-in ones.

use crate::cli::Remedies;
use headworks_tad::file::{self, FileError, Loaded};
use headworks_tad::maat;
use headworks_tad::model::{Policy, Tad};
use headworks_tad::remedy::apply;
use headworks_tad::scenario::Scenario;
use headworks_tad::{scenarios, systems};
use std::path::Path;

/// Error message for an unusable file, name or option.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct BadInput(pub String);

impl BadInput {
    pub fn error(error: impl std::fmt::Display) -> anyhow::Error {
        anyhow::Error::new(BadInput(error.to_string()))
    }
}

/// A system, as it is.
pub fn system(name: &str) -> anyhow::Result<Tad> {
    let text = text(name, "system", systems::text(name), &names(systems::names()))?;
    told(file::read_tad(name, &text))
}

/// A system, with remedies applied: those of its file first.
pub fn remedied(name: &str, remedies: &Remedies) -> anyhow::Result<Tad> {
    let mut tad = system(name)?;
    if let Some(letters) = &remedies.maat {
        tad = maat::remedied(&tad, letters).map_err(|error| {
            BadInput::error(format!(
                "--maat: {error}\n  what each letter does: headworks tad show {name}"
            ))
        })?;
    }
    for each in &remedies.remedy {
        let hint = format!("  what can be applied: headworks tad check {}", quoted(name));
        let read = file::read_remedies("--remedy", &format!("remedies = [{each}]"), &tad);
        let read = read.map_err(|errors| BadInput::error(format!("{errors}\n{hint}")))?;
        for remedy in &read {
            apply(&mut tad, remedy)
                .map_err(|error| BadInput::error(format!("--remedy {each}: {error}\n{hint}")))?;
        }
    }
    Ok(tad)
}

/// Quotes a word for a shell.
pub fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,%+@".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

/// A scenario for a system.
pub fn scenario(name: &str, tad: &Tad) -> anyhow::Result<Scenario> {
    let known = names(scenarios::all().iter().map(|scenario| scenario.name));
    let included = scenarios::find(name);
    let text = text(name, "scenario", included.map(|scenario| scenario.text), &known)?;
    told(file::read_scenario(name, &text, tad)).map_err(|error| match included {
        Some(of) => BadInput::error(format!(
            "{error}\n  the scenario {name} is written for the system {}: headworks tad simulate {} --scenario {name}",
            of.system, of.system
        )),
        None => error,
    })
}

/// The policy of a name that the command line checked.
pub fn policy(name: Option<&str>) -> Option<Policy> {
    name.and_then(Policy::from_name)
}

/// The text of a built-in system or scenario, or of a file. A file with the name of a built-in one
/// is given as `./name`.
fn text(
    name: &str,
    what: &str,
    included: Option<&'static str>,
    known: &str,
) -> anyhow::Result<String> {
    if let Some(text) = included {
        return Ok(text.to_owned());
    }
    let path = Path::new(name);
    if !path.exists() {
        return Err(BadInput::error(format!(
            "there is no {what} `{name}`: no file has that name, and no built-in one ({known})\n  \
             all of them: headworks tad list"
        )));
    }
    std::fs::read_to_string(path).map_err(|error| {
        BadInput::error(format!(
            "cannot read {name}: {error}\n  check its permissions: ls -l {name}"
        ))
    })
}

/// Warnings are printed; errors end the command.
fn told<T>(read: Result<Loaded<T>, file::FileErrors>) -> anyhow::Result<T> {
    match read {
        Ok(loaded) => {
            warn(&loaded.warnings);
            Ok(loaded.value)
        }
        Err(errors) => Err(BadInput::error(errors)),
    }
}

fn warn(warnings: &[FileError]) {
    for warning in warnings {
        eprintln!("headworks: warning: {warning}");
    }
}

fn names(names: impl Iterator<Item = &'static str>) -> String {
    names.collect::<Vec<_>>().join(", ")
}
