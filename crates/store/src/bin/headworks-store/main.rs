//! `headworks store`: the storage server, and the commands about it.

mod cli;
mod doctor;
mod dry_run;
mod explain;
mod follow;
mod picture;
mod serve;
mod show;
mod tunnel;

use anyhow::{Context, Result, bail};
use clap::CommandFactory;
use cli::{Cli, Command, Select};
use headworks_store::config;
use headworks_store::control::{self, Request, Response};
use headworks_store::number::Number;
use std::process::ExitCode;

fn main() -> ExitCode {
    headworks_console::main(|| run(headworks_console::parse::<Cli>(cli::EXAMPLES).command))
}

fn run(command: Command) -> Result<ExitCode> {
    match command {
        Command::Serve(select) => serve::serve(&select.config)?,
        Command::Status(args) => {
            let status = show::fetch(ask(&args.select, &Request::Status)?)?;
            if args.json {
                println!("{}", serde_json::to_string_pretty(&status)?);
            } else {
                print!("{}", show::text(&status));
            }
        }
        Command::Top(args) => top(&args)?,
        Command::Reload(select) => done(ask(&select, &Request::Reload)?)?,
        Command::Set(args) => {
            let (application, key, number) = (args.application, args.key, args.number);
            if let Err(why) = Number::from(key).check(number) {
                bail!("{application}: {}: {why}", key.name());
            }
            done(ask(&args.select, &Request::Set { application, key, number })?)?;
        }
        Command::Post(args) => {
            let cli::Post { select, application, achieved, offered, age_ms } = args;
            done(ask(&select, &Request::Post { application, achieved, offered, age_ms })?)?;
        }
        Command::Follow(args) => {
            let select = args.select.clone();
            follow::run(&args, |post| match ask(&select, &post)? {
                Response::Done(_) => Ok(()),
                other => done(other),
            })?;
        }
        Command::Explain(args) => {
            let status = show::fetch(ask(&args.select, &Request::Status)?)?;
            let Response::Slow(slow) = ask(&args.select, &Request::Slow)? else {
                bail!("the store answers otherwise than this command expects");
            };
            print!("{}", explain::text(&status, &slow, args.application.as_deref())?);
        }
        Command::DryRun(args) => {
            let config = config::load(&args.select.config)?;
            // Without a running store nothing was learned, which is no mistake.
            let status = ask(&args.select, &Request::Status).and_then(show::fetch).ok();
            print!("{}", dry_run::text(&config, status.as_ref(), &args.need)?);
        }
        Command::Draw(args) => {
            let application = args.application.clone();
            match ask(&args.select, &Request::Windows { application })? {
                Response::Windows(windows) => {
                    picture::draw(&args.application, &windows, &args.output)?;
                    println!("{} windows in {}", windows.len(), args.output.display());
                }
                other => done(other)?,
            }
        }
        Command::Doctor(select) => return doctor::run(&select.config),
        Command::Unit(select) => print!("{}", doctor::unit(&select.config)?),
        Command::Tunnel(args) => tunnel::run(&args)?,
        Command::Man(args) => {
            let command = headworks_console::with_examples(Cli::command(), cli::EXAMPLES);
            headworks_console::man::write(command, &args, &[])?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn top(args: &cli::Top) -> Result<()> {
    let mut left = args.count;
    while left != Some(0) {
        let status = show::fetch(ask(&args.select, &Request::Status)?)?;
        print!("{}", show::screen(&status));
        left = left.map(|left| left - 1);
        if left != Some(0) {
            std::thread::sleep(std::time::Duration::from_secs_f64(args.delay));
        }
    }
    Ok(())
}

fn ask(select: &Select, request: &Request) -> Result<Response> {
    let config = config::load(&select.config)?;
    let path = config.control();
    control::ask(&path, request).with_context(|| {
        format!(
            "no store answers at {}\n  start it: headworks store serve --config {}",
            path.display(),
            select.config.display()
        )
    })
}

fn done(response: Response) -> Result<()> {
    match response {
        Response::Done(words) => println!("{words}"),
        Response::Error(words) => bail!("{words}"),
        _ => bail!("the store answers otherwise than this command expects: is it another version?"),
    }
    Ok(())
}
