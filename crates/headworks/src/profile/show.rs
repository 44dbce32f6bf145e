//! `headworks profile list` and `show`.

use super::{Profile, Profiles};
use crate::cli::ProfileCommand;
use anyhow::Result;
use headworks_region::io::{Foreground, Subject};
use std::fmt::Write;

/// Carries out the command.
pub fn run(command: &ProfileCommand) -> Result<()> {
    let profiles = Profiles::read()?;
    match command {
        ProfileCommand::List { json: true } => {
            println!("{}", serde_json::to_string_pretty(profiles.all())?);
        }
        ProfileCommand::List { json: false } => print!("{}", list(profiles.all())),
        ProfileCommand::Show { name, json, toml } => {
            let profile = profiles.asked(name)?;
            if *toml {
                print!("{}", profile.text()?);
            } else if *json {
                println!("{}", serde_json::to_string_pretty(&profile)?);
            } else {
                print!("{}", text(&profile));
            }
        }
    }
    Ok(())
}

fn list(profiles: &[Profile]) -> String {
    let width = profiles.iter().map(|profile| profile.name.len()).max().unwrap_or(0);
    let mut out = String::new();
    for profile in profiles {
        let programs = match profile.servers.as_slice() {
            [] => "every other program".to_owned(),
            servers => servers.join(", "),
        };
        let _ = writeln!(
            out,
            "{:width$}  {}: {programs}; framing {}, {} serve connections; {}",
            profile.name,
            profile.title,
            profile.framing,
            profile.served_by,
            profile.origin()
        );
    }
    out
}

fn text(profile: &Profile) -> String {
    let words = |words: &[String]| if words.is_empty() { "-".to_owned() } else { words.join(", ") };
    let mut rows = vec![
        ("profile", format!("{} ({})", profile.name, profile.title)),
        ("from", profile.origin()),
        ("programs", words(&profile.servers)),
        ("not through", words(&profile.starters)),
        ("framing", profile.framing.clone()),
        ("served by", format!("one of its {} for each connection", profile.served_by)),
        ("accepts by", words(&profile.calls.accept)),
        ("receives by", words(&profile.calls.receive)),
        ("sends by", words(&profile.calls.send)),
        ("sleeps in", words(&profile.calls.sleep)),
        ("locks by", format!("what the framing knows; words: {}", words(&profile.locks.acquire))),
        ("unlocks by", format!("what the framing knows; words: {}", words(&profile.locks.release))),
        ("units", words(&profile.units)),
        ("package", profile.package.clone().unwrap_or_else(|| "-".to_owned())),
        (
            "stopped by",
            match &profile.stop_command {
                Some(command) => format!("{} or: {command}", profile.stop_signal),
                None => profile.stop_signal.clone(),
            },
        ),
    ];
    for bypass in &profile.bypass {
        let conditions: Vec<String> =
            bypass.conditions.iter().map(|(key, text)| format!("{key} {text}")).collect();
        rows.push(("never held", format!("{} ({})", conditions.join(", "), bypass.reason)));
    }
    for rule in &profile.io {
        let pattern = rule.pattern.to_display();
        rows.push(match (rule.subject, rule.foreground) {
            (Subject::Thread, Foreground::No) => ("background", pattern),
            (Subject::Thread, _) => ("foreground", pattern),
            _ => ("fsyncs of", format!("{pattern} within {}", rule.deadline)),
        });
    }
    rows.extend(profile.notes.iter().map(|note| ("note", note.clone())));
    rows.iter().map(|(name, value)| format!("{name:<12} {value}\n")).collect()
}
