//! A client of `kills`: a process of its own, so that it can be killed, which checks every answer.
//!
//! It asks in an endless loop: a value that only the right answer has, a transaction that leaves what it counts as it
//! was, and every now and then a lock. It prints a line for each round, and ends with a message if an answer is wrong.
//! Errors are answers, too, while others are killed: then it connects anew.

use std::io::Write;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

use crate::crowd::Asker;
use crate::database::Database;

/// Arguments of `worker`.
#[derive(Debug, clap::Args)]
pub struct Options {
    #[arg(long)]
    database: Database,
    #[arg(long)]
    port: u16,
    #[arg(long)]
    number: u32,
}

/// Accounts of the table that transfers go between.
pub const ACCOUNTS: u32 = 50;

/// Runs until it is killed or its standard output is closed.
pub fn run(options: &Options) -> Result<bool> {
    let mut round = 0u64;
    let mut failing_since: Option<Instant> = None;
    loop {
        if let Ok(mut asker) = Asker::connect(options.database, options.port, "worker") {
            while rounds(&mut asker, options, &mut round)? {
                failing_since = None;
            }
        }
        let since = *failing_since.get_or_insert_with(Instant::now);
        if since.elapsed() > Duration::from_secs(60) {
            bail!("no answer for a minute");
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// One round; `false` if the connection ended or the server refused.
fn rounds(asker: &mut Asker, options: &Options, round: &mut u64) -> Result<bool> {
    *round += 1;
    let stamp = u64::from(options.number) * 1_000_000_007 + *round;
    let Ok(answer) = asker.ask(&format!("SELECT {stamp}")) else { return Ok(false) };
    if answer != stamp.to_string() {
        bail!("asked for {stamp}, answered {answer}");
    }
    let (from, to) = (stamp as u32 % ACCOUNTS, (stamp as u32 / 7) % ACCOUNTS);
    // In order, so that two transfers cannot deadlock.
    let (low, high) = (from.min(to), from.max(to));
    let mut steps = vec![
        "BEGIN".to_owned(),
        format!("UPDATE account SET amount = amount - 1 WHERE id = {low}"),
        format!("UPDATE account SET amount = amount + 1 WHERE id = {high}"),
        "COMMIT".to_owned(),
    ];
    if round.is_multiple_of(5) {
        let lock = match options.database {
            Database::MariaDb => ("SELECT GET_LOCK('l', 5)", "SELECT RELEASE_LOCK('l')"),
            Database::PostgreSql => ("SELECT pg_advisory_lock(7)", "SELECT pg_advisory_unlock(7)"),
        };
        steps.insert(0, lock.0.to_owned());
        steps.push(lock.1.to_owned());
    }
    for step in steps {
        if asker.ask(&step).is_err() {
            return Ok(false);
        }
    }
    let mut out = std::io::stdout();
    writeln!(out, "{round}")?;
    out.flush()?;
    Ok(true)
}
