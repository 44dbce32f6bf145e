//! The same conversations with a database as it is and behind the gate: the answers must be the
//! same.
//!
//! Every *behaviour* is a script for a real client (psql, the mariadb client, a JDBC driver, a Node
//! driver, redis-cli, …). It runs against a server as it is and against the same server behind the
//! gate. There a crowd keeps every permit taken, so that the script's requests are held. What the
//! client prints must be equal, and for protocols that are deterministic also every byte that the
//! server sent. Beyond that, `cut` ends connections after every byte of a conversation, and `kills`
//! kills daemons, backends and clients in a loop. Afterwards no client may be stuck and no permit
//! lost.

mod asker;
mod behaviour;
mod bytes;
mod certificate;
mod clients;
mod crowd;
mod cut;
mod database;
mod gate;
mod kills;
mod many;
mod relay;
mod run;
mod running;
mod worker;

use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};

use crate::database::Subject;

/// Compares a database as it is with the same database behind the gate.
#[derive(Debug, Parser)]
#[command(version, about)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run every behaviour and compare the answers
    Run(run::Options),
    /// Show the behaviours
    List,
    /// End connections after every byte of a conversation
    Cut(cut::Options),
    /// Kill daemons, backends and clients in a loop, under load
    Kills(kills::Options),
    /// Ten thousand connections on one server
    Many(many::Options),
    /// A client of `kills`; for its use only
    #[command(hide = true)]
    Worker(worker::Options),
}

fn main() -> ExitCode {
    let done = match Arguments::parse().command {
        Command::Run(options) => run::run(&options),
        Command::List => list(),
        Command::Cut(options) => cut::run(&options),
        Command::Kills(options) => kills::run(&options),
        Command::Many(options) => many::run(&options),
        Command::Worker(options) => worker::run(&options),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("headworks-conformance: {error:#}");
            ExitCode::from(2)
        }
    }
}

fn list() -> Result<bool> {
    for subject in Subject::all() {
        for behaviour in behaviour::of(subject)? {
            let bytes = if behaviour.bytes { "  (byte for byte)" } else { "" };
            let subject = subject.to_string();
            println!("{subject:<18}{:<22}{}{bytes}", behaviour.name, behaviour.about);
        }
    }
    Ok(true)
}
