//! `headworks tad record` and what reads its recordings: diagrams of running systems.

mod analyse;
mod cli;
mod compare;
mod hosts;
mod output;
mod record;
mod text;
mod watch;

use anyhow::Result;
use clap::CommandFactory;
use cli::{Cli, RecordCommand};
use std::process::ExitCode;

fn main() -> ExitCode {
    headworks_console::main(|| run(&headworks_console::parse::<Cli>(cli::EXAMPLES).command))
}

fn run(command: &RecordCommand) -> Result<ExitCode> {
    match command {
        RecordCommand::Record(args) => record::record(args),
        RecordCommand::Analyse(args) => analyse::analyse(args),
        RecordCommand::Limits(args) => compare::limits(args),
        RecordCommand::Diff(args) => compare::diff(args),
        RecordCommand::Flame(args) => compare::flame(args),
        RecordCommand::Watch(args) => watch::watch(args),
        RecordCommand::Man(args) => {
            let command = headworks_console::with_examples(Cli::command(), cli::EXAMPLES);
            headworks_console::man::write(command, args, &[]).map(|()| ExitCode::SUCCESS)
        }
    }
}
