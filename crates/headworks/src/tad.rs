//! `headworks tad`: diagrams on the command line.

mod check;
mod fix;
mod gaps;
mod input;
mod list;
mod picture;
mod pictures;
mod progress;
mod results;
mod simulate;
mod spark;

use crate::cli::TadCommand;
use anyhow::Result;
use input::BadInput;
use std::process::ExitCode;

/// Exit code for a file, a name or a goal that is wrong: other than that for what was found.
const BAD: u8 = 2;

/// Does what the command line says.
pub fn run(command: &TadCommand) -> Result<ExitCode> {
    let done = match command {
        TadCommand::List(args) => list::list(args),
        TadCommand::Show(args) => list::show(args),
        TadCommand::Render(args) => picture::render(args),
        TadCommand::Check(args) => check::check(args),
        TadCommand::Explain(args) => check::explain(args),
        TadCommand::Simulate(args) => simulate::simulate(args),
        TadCommand::Fix(args) => fix::fix(args),
        TadCommand::SearchGaps(args) => gaps::search(args),
    };
    match done {
        Err(error) if error.is::<BadInput>() => {
            eprintln!("headworks: {error:#}");
            Ok(ExitCode::from(BAD))
        }
        other => other,
    }
}
