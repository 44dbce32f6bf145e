//! `headworks tad record` and `headworks tad analyse`: diagrams of running systems.

mod analyse;
mod cli;
mod output;
mod record;
mod text;

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
        RecordCommand::Man(args) => {
            let command = headworks_console::with_examples(Cli::command(), cli::EXAMPLES);
            headworks_console::man::write(command, args, &[]).map(|()| ExitCode::SUCCESS)
        }
    }
}
