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

use anyhow::Result;
use clap::CommandFactory;
use cli::{Cli, TadCommand};
use input::BadInput;
use std::process::ExitCode;

/// Exit code for an invalid file, name or goal, unlike that for findings.
const BAD: u8 = 2;

/// The program that records. It needs rights that the others do not, so it is apart.
const RECORDER: &str = "headworks-record";
/// Its commands.
const RECORDS: [&str; 6] = ["record", "analyse", "limits", "diff", "flame", "watch"];

fn main() -> ExitCode {
    headworks_console::main(|| {
        let words: Vec<_> = std::env::args_os().skip(1).collect();
        if let Some(name) = words.iter().find(|word| *word != "help").and_then(|word| word.to_str())
            && RECORDS.contains(&name)
        {
            let command = format!("headworks tad {name}");
            match headworks_console::become_program(RECORDER, &command, &words)? {}
        }
        run(&headworks_console::parse::<Cli>(cli::EXAMPLES).command)
    })
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
        TadCommand::Record
        | TadCommand::Analyse
        | TadCommand::Limits
        | TadCommand::Diff
        | TadCommand::Flame
        | TadCommand::Watch => {
            match headworks_console::become_program(RECORDER, "headworks tad record", &[])? {}
        }
        TadCommand::Man(args) => manuals(args),
    };
    match done {
        Err(error) if error.is::<BadInput>() => {
            eprintln!("headworks: {error:#}");
            Ok(ExitCode::from(BAD))
        }
        other => other,
    }
}

/// Writes the manual pages, and has the recorder write its own.
fn manuals(args: &headworks_console::man::Man) -> Result<ExitCode> {
    let command = headworks_console::with_examples(Cli::command(), cli::EXAMPLES);
    headworks_console::man::write(command, args, &RECORDS)?;
    match headworks_console::program(RECORDER, "headworks tad record") {
        Ok(mut recorder) => {
            if !recorder.arg("man").arg(&args.dir).status()?.success() {
                return Ok(ExitCode::FAILURE);
            }
        }
        Err(error) => eprintln!("headworks: no manual pages of `tad record`: {error:#}"),
    }
    Ok(ExitCode::SUCCESS)
}
