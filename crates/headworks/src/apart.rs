//! Commands that are separate programs, as with git and cargo. So the program that runs beside a
//! database stays small.

use anyhow::Result;
use std::convert::Infallible;
use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::process::{Command, ExitCode};

/// `headworks NAME …` is `headworks-NAME …`.
pub const NAMES: [&str; 5] = ["bench", "controller", "hbase", "store", "tad"];

/// Which of them a command line asks for, and with what arguments.
pub fn asked(words: &[OsString]) -> Option<(&'static str, Vec<OsString>)> {
    let known = |word: &OsStr| NAMES.into_iter().find(|name| word == *name);
    match words {
        [help, name, rest @ ..] if help == "help" => {
            Some((known(name)?, [std::slice::from_ref(help), rest].concat()))
        }
        [name, rest @ ..] => Some((known(name)?, rest.to_vec())),
        [] => None,
    }
}

/// Becomes the program: signals, exit code and streams are its own.
pub fn run(name: &str, arguments: &[OsString]) -> Result<Infallible> {
    headworks_console::become_program(&file(name), &format!("headworks {name}"), arguments)
}

/// Has each of them write its manual pages. A program that is not installed is named; that is not a
/// failure.
pub fn write_manuals(dir: &Path) -> Result<ExitCode> {
    for name in NAMES {
        match command(name) {
            Ok(mut command) => {
                let status = command.arg("man").arg(dir).status()?;
                if !status.success() {
                    return Ok(ExitCode::FAILURE);
                }
            }
            Err(error) => eprintln!("headworks: no manual pages of `{name}`: {error:#}"),
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn command(name: &str) -> Result<Command> {
    headworks_console::program(&file(name), &format!("headworks {name}"))
}

fn file(name: &str) -> String {
    format!("headworks-{name}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked_by(words: &[&str]) -> Option<(&'static str, Vec<OsString>)> {
        asked(&words.iter().map(OsString::from).collect::<Vec<_>>())
    }

    #[test]
    fn only_the_first_word_names_a_program() {
        let words = |words: &[&str]| words.iter().map(OsString::from).collect::<Vec<_>>();
        assert_eq!(
            asked_by(&["tad", "check", "--", "x"]),
            Some(("tad", words(&["check", "--", "x"])))
        );
        assert_eq!(asked_by(&["help", "bench", "run"]), Some(("bench", words(&["help", "run"]))));
        assert_eq!(asked_by(&["bench"]), Some(("bench", vec![])));
        for other in
            [&["run", "--", "tad"][..], &["help"], &["help", "run"], &["--help", "tad"], &[]]
        {
            assert_eq!(asked_by(other), None, "{other:?}");
        }
    }
}
