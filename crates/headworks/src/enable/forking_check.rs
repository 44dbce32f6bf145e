//! Checks that a service's server does not fork into the background.
//!
//! The library governs a program that is started, not a process that a server forks. A child that
//! serves no accepted connection is not governed (`hooks::lifecycle::forked`). A server that forks,
//! exits, and serves by its child would therefore run without the gate, and without a warning.

use super::plan::Place;
use super::unit::Unit;
use crate::profile::{Check, Profile, SettingsFrom};
use crate::run::detaches;
use anyhow::{Result, bail};
use std::ffi::{OsStr, OsString};
use std::io::Read;
use std::path::Path;

/// Refuses a service whose server forks into the background. Returns a note if that is unknown.
pub fn check(
    place: &Place,
    unit: &Unit,
    profile: &Profile,
    instance: &str,
) -> Result<Option<String>> {
    let words = unit.words();
    let named = |word: &String, name: &String| file_name(word) == OsStr::new(name);
    if words.iter().any(|word| profile.starters.iter().any(|name| named(word, name))) {
        // The script starts the server as a separate program, whether or not that forks.
        return Ok(None);
    }
    let kind = unit.last("Type").unwrap_or("simple");
    // A server that reports readiness to the service manager does not fork, whatever its
    // configuration says.
    if profile.checks.contains(&Check::Foreground) && !kind.starts_with("notify") {
        foreground(place, unit, profile)?;
    }
    if kind != "forking" {
        return Ok(None);
    }
    let server = words.iter().find(|word| profile.knows(Path::new(word)));
    let Some(program) = server.or(words.first()) else { return Ok(None) };
    if is_script(place, program) {
        return Ok(Some(format!(
            "Type=forking: a server that {program} starts is behind the gate, one that then forks itself is not; after \
             the restart, and with a client connected: headworks status --name {instance}"
        )));
    }
    let mend = match profile.settings {
        SettingsFrom::Redis => {
            "Type=notify, and an ExecStart= with: --supervised systemd --daemonize no"
        }
        SettingsFrom::Memcached => "Type=simple, and an ExecStart= without: -d",
        SettingsFrom::Mongodb => "Type=simple, and an ExecStart= without: --fork",
        _ => {
            "Type=simple (or notify), and an ExecStart= without what makes it fork, as --daemonize"
        }
    };
    bail!(
        "{} has Type=forking: {program} forks, leaves, and serves by a process to which the gate does not go along; \
         nothing was changed\n  make it stay: {}   # [Service], {mend}\n  then enable it again",
        unit.name,
        editing(place, unit)
    )
}

/// Refuses a server that its own command line, or its configuration, makes fork.
fn foreground(place: &Place, unit: &Unit, profile: &Profile) -> Result<()> {
    for command in unit.commands() {
        let Some(at) = command.iter().position(|word| profile.knows(Path::new(word))) else {
            continue;
        };
        // Paths refer to the image.
        let arguments: Vec<OsString> = command[at + 1..]
            .iter()
            .map(|word| match word.starts_with('/') {
                true => place.below(word).into(),
                false => word.into(),
            })
            .collect();
        if let Some(mend) = detaches(profile, &arguments) {
            bail!(
                "{} starts {} so that it forks and leaves (its command line or its configuration says so), and serves \
                 by a process to which the gate does not go along; nothing was changed\n  {mend}\n  \
                 to change its command: {}\n  then enable it again",
                unit.name,
                command[at],
                editing(place, unit)
            );
        }
    }
    Ok(())
}

/// How to edit the unit.
fn editing(place: &Place, unit: &Unit) -> String {
    if place.is_machine() {
        return format!("sudo systemctl edit {}", unit.name);
    }
    let path = place.below(&format!("/etc/systemd/system/{}.d/stay.conf", unit.name));
    format!("editor {}", path.display())
}

fn file_name(word: &str) -> &OsStr {
    Path::new(word).file_name().unwrap_or_default()
}

/// Whether a program is a script, or the shell that runs one: it starts separate programs.
fn is_script(place: &Place, program: &str) -> bool {
    let shell = ["sh", "bash", "dash"].iter().any(|shell| file_name(program) == *shell);
    let mut start = [0; 2];
    let file = std::fs::File::open(place.below(program));
    shell || file.and_then(|mut file| file.read_exact(&mut start)).is_ok_and(|()| start == *b"#!")
}
