//! Checks what this machine offers and what is missing, and names the command that mends it.

mod kernel;
mod machine;
mod place;
mod programs;
mod security;

use crate::render::{Ink, Tone, printable};
use serde::{Deserialize, Serialize};
use std::path::Path;

/// State of one thing that was checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// As it should be.
    Ok,
    /// The gate does not work without it.
    Missing,
    /// The gate works, but something is slower, less safe or not available.
    Warning,
}

/// One thing that was checked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// What was checked.
    pub name: String,
    /// How it stands.
    pub state: State,
    /// What was found, and what it is for.
    pub detail: String,
    /// The command that mends it.
    pub mend: Option<String>,
}

impl Finding {
    /// Whether the gate does not work without it.
    pub fn is_missing(&self) -> bool {
        self.state == State::Missing
    }

    fn ok(name: &str, detail: impl Into<String>) -> Finding {
        Finding { name: name.to_owned(), state: State::Ok, detail: detail.into(), mend: None }
    }

    fn missing(name: &str, detail: impl Into<String>, mend: impl Into<String>) -> Finding {
        Finding { state: State::Missing, mend: Some(mend.into()), ..Finding::ok(name, detail) }
    }

    fn warning(name: &str, detail: impl Into<String>, mend: impl Into<String>) -> Finding {
        Finding { state: State::Warning, mend: Some(mend.into()), ..Finding::ok(name, detail) }
    }
}

/// Checks the machine. Changes nothing. `instance_dir` is the directory of instances, `server` a
/// database's program (default: `mariadbd`), `shim` the library to preload.
pub fn examine(instance_dir: &Path, server: Option<&Path>, shim: &Path) -> Vec<Finding> {
    let mut findings = vec![
        machine::kernel(),
        machine::cores(),
        machine::c_library(),
        machine::clock(),
        machine::descriptors(),
        programs::shim(shim),
    ];
    findings.extend(programs::server(server));
    findings.extend(place::run_directory(instance_dir));
    findings.extend(place::instances(instance_dir));
    findings.extend(security::all(shim));
    findings.extend(place::volumes());
    findings.push(programs::sysbench());
    findings.extend(kernel::all());
    findings
}

/// The findings for people. Each problem is followed by the command that mends it.
pub fn text(findings: &[Finding], color: bool) -> String {
    let ink = Ink { color };
    let width = findings.iter().map(|finding| finding.name.chars().count()).max().unwrap_or(0);
    let mut text = String::new();
    for Finding { name, state, detail, mend } in findings {
        let (tone, word) = match state {
            State::Ok => (Tone::Good, "ok     "),
            State::Missing => (Tone::Bad, "MISSING"),
            State::Warning => (Tone::Notice, "warning"),
        };
        let mut lines = detail.lines();
        let first = printable(lines.next().unwrap_or_default());
        text += &format!("{}  {name:<width$}  {first}\n", ink.tone(tone, word));
        let indent = " ".repeat(width + 11);
        for line in lines {
            text += &format!("{indent}{}\n", printable(line));
        }
        for line in mend.iter().flat_map(|mend| mend.lines()) {
            text += &format!("{indent}{} {}\n", ink.faint("mend:"), ink.bold(&printable(line)));
        }
    }
    text.push('\n');
    let missing = findings.iter().filter(|finding| finding.is_missing()).count();
    text += &match missing {
        0 => ink.tone(Tone::Good, "The gate has all that it needs."),
        1 => {
            ink.tone(Tone::Bad, "One thing is missing; the command that mends it stands below it.")
        }
        n => ink.tone(
            Tone::Bad,
            &format!("{n} things are missing; the commands that mend them stand below them."),
        ),
    };
    text.push('\n');
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_is_examined_and_everything_that_is_wrong_has_a_command() {
        let dir = std::env::temp_dir().join(format!("headworks-doctor-{}", std::process::id()));
        let findings = examine(&dir, None, Path::new("/nowhere/libheadworks.so"));
        assert!(!dir.exists(), "examining leaves nothing behind");
        for finding in &findings {
            assert!(!finding.detail.is_empty(), "{finding:?}");
            assert_eq!(finding.mend.is_some(), finding.state != State::Ok, "{finding:?}");
        }
        let named = |name: &str| findings.iter().find(|finding| finding.name == name).unwrap();
        assert!(named("library to preload").is_missing());
        assert_eq!(named("kernel").state, State::Ok);
        let names: std::collections::BTreeSet<&str> =
            findings.iter().map(|finding| finding.name.as_str()).collect();
        assert_eq!(names.len(), findings.len(), "two findings have one name");
    }

    #[test]
    fn the_text_has_commands_below_what_they_mend() {
        let findings = [
            Finding::ok("kernel", "6.1"),
            Finding::missing("server", "no mariadbd", "sudo apt-get install mariadb-server"),
            Finding::warning("clock", "hpet is slow", "a\nb"),
        ];
        assert_eq!(
            text(&findings, false),
            "ok       kernel  6.1\n\
             MISSING  server  no mariadbd\n                 mend: sudo apt-get install mariadb-server\n\
             warning  clock   hpet is slow\n                 mend: a\n                 mend: b\n\n\
             One thing is missing; the command that mends it stands below it.\n"
        );
        assert!(text(&findings[..1], false).ends_with("all that it needs.\n"));
        assert!(text(&findings, true).contains("\x1b["));
    }

    #[test]
    fn findings_are_a_contract_for_machines_too() {
        let finding = Finding::missing("server", "none", "install it");
        let json = serde_json::to_string(&finding).unwrap();
        assert_eq!(
            json,
            r#"{"name":"server","state":"missing","detail":"none","mend":"install it"}"#
        );
        assert_eq!(serde_json::from_str::<Finding>(&json).unwrap(), finding);
    }
}
