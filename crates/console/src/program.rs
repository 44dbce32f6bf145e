//! How a program begins and ends, and where the others are.

use crate::examples::with_examples;
use clap::Parser;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

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

fn is_executable(file: &Path) -> bool {
    std::fs::metadata(file)
        .is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

/// Columns of the terminal, within reason.
pub fn terminal_width() -> usize {
    crossterm::terminal::size().map_or(100, |(columns, _)| usize::from(columns)).clamp(60, 200)
}
