//! How a program begins and ends, and how it becomes another of ours.

use crate::examples::with_examples;
use anyhow::{Context, anyhow};
use clap::Parser;
use std::convert::Infallible;
use std::ffi::OsString;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// Runs a program. An error that it returns is written to standard error.
pub fn main(run: impl FnOnce() -> anyhow::Result<ExitCode>) -> ExitCode {
    // A reader that closes our output early (`headworks status | head`) ends us quietly.
    // SAFETY: restores the default action before any thread exists.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
    match run() {
        Ok(code) => code,
        Err(error) => {
            eprintln!("headworks: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Reads the command line. Help and mistakes end the process.
pub fn parse<C: Parser>(examples: &[(&str, &[&str])]) -> C {
    let matches = with_examples(C::command(), examples).get_matches();
    C::from_arg_matches(&matches).unwrap_or_else(|error| error.exit())
}

/// Another program of ours: beside this one, else in `PATH`.
pub fn find_program(name: &str) -> Option<PathBuf> {
    let own = std::env::current_exe().ok();
    let beside = own.as_deref().and_then(Path::parent).map(Path::to_owned);
    let path = std::env::var_os("PATH").unwrap_or_default();
    beside
        .into_iter()
        .chain(std::env::split_paths(&path).filter(|directory| directory.is_absolute()))
        .map(|directory| directory.join(name))
        .find(|file| is_executable(file))
}

/// The program `file` of ours, which is `command` for users.
pub fn program(file: &str, command: &str) -> anyhow::Result<Command> {
    find_program(file).map(Command::new).ok_or_else(|| {
        let own = std::env::current_exe().unwrap_or_else(|_| "headworks".into());
        anyhow!(
            "`{command}` is the program {file}, which is neither beside {} nor in PATH\n  \
             install it: make install (where it was built: make build)",
            own.display()
        )
    })
}

/// Becomes that program: signals, exit code and streams are its own.
pub fn become_program(
    file: &str,
    command: &str,
    arguments: &[OsString],
) -> anyhow::Result<Infallible> {
    let mut program = program(file, command)?;
    let error = program.args(arguments).exec();
    Err(error).with_context(|| {
        let file = Path::new(program.get_program()).display();
        format!("cannot start {file}; install it again: make install")
    })
}

fn is_executable(file: &Path) -> bool {
    std::fs::metadata(file)
        .is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

/// Columns of the terminal, within reason.
pub fn terminal_width() -> usize {
    crossterm::terminal::size().map_or(100, |(columns, _)| usize::from(columns)).clamp(60, 200)
}
