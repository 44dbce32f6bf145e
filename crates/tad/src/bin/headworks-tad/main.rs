//! `headworks tad`: diagrams on the command line.

mod check;
mod cli;
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

use anyhow::Result;
use clap::CommandFactory;
use cli::{Cli, TadCommand};
use input::BadInput;
use std::process::ExitCode;

/// Exit code for an invalid file, name or goal, unlike that for findings.
const BAD: u8 = 2;

fn main() -> ExitCode {
    headworks_console::main(|| run(&headworks_console::parse::<Cli>(cli::EXAMPLES).command))
}

/// Does what the command line says.
fn run(command: &TadCommand) -> Result<ExitCode> {
    let done = match command {
        TadCommand::List(args) => list::list(args),
        TadCommand::Show(args) => list::show(args),
        TadCommand::Render(args) => picture::render(args),
        TadCommand::Check(args) => check::check(args),
        TadCommand::Explain(args) => check::explain(args),
        TadCommand::Simulate(args) => simulate::simulate(args),
        TadCommand::Fix(args) => fix::fix(args),
        TadCommand::SearchGaps(args) => gaps::search(args),
        TadCommand::Man(args) => {
            let command = headworks_console::with_examples(Cli::command(), cli::EXAMPLES);
            headworks_console::man::write(command, args, &[]).map(|()| ExitCode::SUCCESS)
        }
    };
    match done {
        Err(error) if error.is::<BadInput>() => {
            eprintln!("headworks: {error:#}");
            Ok(ExitCode::from(BAD))
        }
        other => other,
    }
}
