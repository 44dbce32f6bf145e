//! A client of `kills`, which checks every answer. It is a separate process, so that it can be
//! killed.
//!
//! It asks in an endless loop: a value that only the right answer has, a transaction whose changes
//! cancel out, and every now and then a lock. It prints a line for each round, and ends with a
//! message if an answer is wrong. An error is no wrong answer, since servers are killed meanwhile:
//! the client then reconnects.

use std::io::Write;
use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};

use crate::asker::Asker;
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
            bail!("no answer within a minute");
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// One round; `false` if the connection ended or the server refused.
fn rounds(asker: &mut Asker, options: &Options, round: &mut u64) -> Result<bool> {
    *round += 1;
    let stamp = u64::from(options.number) * 1_000_000_007 + *round;
    let Some(language) = Language::of(options.database) else {
        // Under a name that no other client has: what a predecessor asked for before it was killed
        // may be done later.
        let Ok(right) = asker.stamp(std::process::id(), stamp) else { return Ok(false) };
        ensure!(right, "wrote {stamp}, but read another value back");
        return tell(*round);
    };
    let Ok(answer) = asker.ask(&format!("{} {stamp}", language.echo)) else { return Ok(false) };
    if answer != stamp.to_string() {
        bail!("asked for {stamp}, answered {answer}");
    }
    let (from, to) = (stamp as u32 % ACCOUNTS, (stamp as u32 / 7) % ACCOUNTS);
    // In order, so that two transfers cannot deadlock.
    let (low, high) = (from.min(to), from.max(to));
    let mut steps = vec![
        language.begin.to_owned(),
        (language.add)(low, -1),
        (language.add)(high, 1),
        language.commit.to_owned(),
    ];
    if round.is_multiple_of(5) {
        steps.insert(0, language.lock.to_owned());
        steps.push(language.unlock.to_owned());
    }
    for step in steps {
        if asker.ask(&step).is_err() {
            return Ok(false);
        }
    }
    tell(*round)
}

fn tell(round: u64) -> Result<bool> {
    let mut out = std::io::stdout();
    writeln!(out, "{round}")?;
    out.flush()?;
    Ok(true)
}

/// How a database is asked for what the workers and their accounts need. Stores without
/// transactions have no accounts: each of their workers writes its own numbers ([`Asker::stamp`]).
pub struct Language {
    echo: &'static str,
    begin: &'static str,
    commit: &'static str,
    lock: &'static str,
    unlock: &'static str,
    add: fn(u32, i32) -> String,
}

impl Language {
    fn of(database: Database) -> Option<Language> {
        let sql_add = |id, by| format!("UPDATE account SET amount = amount + {by} WHERE id = {id}");
        Some(match database {
            Database::MariaDb | Database::MariaDbPool => Language {
                echo: "SELECT",
                begin: "BEGIN",
                commit: "COMMIT",
                lock: "SELECT GET_LOCK('l', 5)",
                unlock: "SELECT RELEASE_LOCK('l')",
                add: sql_add,
            },
            Database::PostgreSql => Language {
                echo: "SELECT",
                begin: "BEGIN",
                commit: "COMMIT",
                lock: "SELECT pg_advisory_lock(7)",
                unlock: "SELECT pg_advisory_unlock(7)",
                add: sql_add,
            },
            // No client changes what it watches, so a transaction is never refused for that.
            Database::Redis => Language {
                echo: "ECHO",
                begin: "MULTI",
                commit: "EXEC",
                lock: "WATCH quiet",
                unlock: "BLPOP empty 0.01",
                add: |id, by| format!("INCRBY account:{id} {by}"),
            },
            Database::Memcached | Database::MongoDb => return None,
        })
    }
}

/// Makes the accounts, each with this amount, where there are any.
pub fn prepare(database: Database, asker: &mut Asker, amount: u32) -> Result<()> {
    if Language::of(database).is_none() {
        return Ok(());
    }
    if database != Database::Redis {
        let engine = if database.is_mariadb() { " ENGINE=InnoDB" } else { "" };
        asker.ask(&format!("CREATE TABLE account (id INT PRIMARY KEY, amount INT){engine}"))?;
    }
    for id in 0..ACCOUNTS {
        asker.ask(&match database {
            Database::Redis => format!("SET account:{id} {amount}"),
            _ => format!("INSERT INTO account VALUES ({id}, {amount})"),
        })?;
    }
    Ok(())
}

/// What all accounts have together; `None` where there are none.
pub fn sum(database: Database, asker: &mut Asker) -> Result<Option<i64>> {
    if Language::of(database).is_none() {
        return Ok(None);
    }
    if database != Database::Redis {
        return Ok(Some(asker.ask("SELECT SUM(amount) FROM account")?.parse()?));
    }
    let names: String = (0..ACCOUNTS).map(|id| format!(" account:{id}")).collect();
    let amounts = asker.ask(&format!("MGET{names}"))?;
    let amounts = amounts.split(' ').map(|amount| amount.parse::<i64>());
    Ok(Some(amounts.sum::<Result<i64, _>>()?))
}
