//! Every behaviour, against the server as it is and behind the gate.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde::Serialize;

use crate::behaviour::{self, Behaviour};
use crate::bytes::{comparable, difference};
use crate::clients::{self, Printed};
use crate::crowd::{Asker, Crowd};
use crate::database::{Database, Place};
use crate::gate::{Gated, fresh_directory};
use crate::relay::{Conversation, Relay};

/// Places of the gate, and the users that fill them.
const PLACES: u32 = 2;
const CROWD: usize = 6;

/// A place is lent out late and nobody is let pass by a limit: whatever differs is the gate's doing.
const SETTINGS: &str = "hold_ms_max = 600000

[[class]]
name = \"crowd\"
[[rule]]
application = \"crowd-*\"
class = \"crowd\"
";

/// Arguments of `run`.
#[derive(Debug, clap::Args)]
pub struct Options {
    /// Only this database; may be given several times
    #[arg(long)]
    database: Vec<Database>,
    /// Only behaviours whose names contain this
    #[arg(long)]
    only: Option<String>,
    /// Print one JSON document instead of a table
    #[arg(long)]
    json: bool,
}

/// How a behaviour came out.
#[derive(Debug, Serialize)]
#[serde(rename_all = "lowercase", tag = "verdict", content = "why")]
enum Verdict {
    Same,
    Differs(String),
    /// Differs between two servers without a gate.
    Unstable(String),
    Skipped(String),
}

#[derive(Debug, Serialize)]
struct Row {
    database: &'static str,
    behaviour: String,
    about: String,
    byte_for_byte: bool,
    /// Requests of the script's that had to wait for a place.
    held: u64,
    seconds: f64,
    #[serde(flatten)]
    verdict: Verdict,
}

/// Runs the suite; says whether all answers were the same.
pub fn run(options: &Options) -> Result<bool> {
    if !options.json {
        println!("{}", clients::describe());
    }
    let mut rows = Vec::new();
    for database in Database::ALL {
        if !options.database.is_empty() && !options.database.contains(&database) {
            continue;
        }
        if database.is_here() {
            rows.extend(suite(database, options)?);
        }
    }
    let good = |row: &Row| matches!(row.verdict, Verdict::Same | Verdict::Skipped(_));
    let all = rows.iter().all(good);
    if options.json {
        println!("{}", serde_json::to_string_pretty(&rows)?);
    } else {
        let same = rows.iter().filter(|row| matches!(row.verdict, Verdict::Same)).count();
        println!("{same} of {} behaviours are the same behind the gate", rows.len());
    }
    Ok(all)
}

fn suite(database: Database, options: &Options) -> Result<Vec<Row>> {
    let plain = database.start(&Place::default(), 200)?;
    let gated = Gated::start(database, PLACES, SETTINGS, 200)?;
    let scratch = Scratch(fresh_directory()?);
    // Both servers have one, so that scripts meet the same server but for the gate.
    let crowds = [
        Crowd::gather(database, plain.port(), CROWD)?,
        Crowd::gather(database, gated.server.port(), CROWD)?,
    ];
    let mut rows = Vec::new();
    for behaviour in behaviour::of(database)? {
        if options.only.as_ref().is_some_and(|part| !behaviour.name.contains(part.as_str())) {
            continue;
        }
        let begun = Instant::now();
        let held_before = held(&gated)?;
        let verdict = match clients::missing(&behaviour) {
            Some(why) => Verdict::Skipped(why),
            None => {
                let ports = (plain.port(), gated.server.port());
                compare(database, &behaviour, ports, &scratch.0)
                    .unwrap_or_else(|error| Verdict::Differs(format!("{error:#}")))
            }
        };
        let row = Row {
            database: database.name(),
            about: behaviour.about,
            behaviour: behaviour.name,
            byte_for_byte: behaviour.bytes,
            held: held(&gated)? - held_before,
            seconds: begun.elapsed().as_secs_f64(),
            verdict,
        };
        if !options.json {
            show(&row);
        }
        rows.push(row);
    }
    for crowd in crowds {
        crowd.leave()?;
    }
    let all = options.only.is_none();
    ensure!(
        !all || rows.iter().any(|row| row.held > 0),
        "the gate held nobody: nothing was tested"
    );
    if database == Database::MariaDb {
        // A thread that streams the log notices only by sending that its replica is gone.
        let mut writer = Asker::connect(database, gated.server.port(), "writer")?;
        for statement in ["CREATE DATABASE gone", "DROP DATABASE gone", "FLUSH LOGS"] {
            writer.ask(statement)?;
            sleep(Duration::from_millis(50));
        }
    }
    gated.wait("nobody is left", |status| status.number("users") == 0)?;
    Ok(rows)
}

/// Requests of everybody but the crowd that had to wait for a place.
fn held(gated: &Gated) -> Result<u64> {
    let status = gated.status()?;
    let classes = status.0["classes"].as_array();
    let default = classes.into_iter().flatten().find(|class| class["name"] == "default");
    default.and_then(|class| class["queued"].as_u64()).context("the status has no class `default`")
}

fn show(row: &Row) {
    let (word, why) = match &row.verdict {
        Verdict::Same if row.byte_for_byte => ("same, byte for byte", ""),
        Verdict::Same => ("same", ""),
        Verdict::Differs(why) => ("DIFFERS", why.as_str()),
        Verdict::Unstable(why) => ("UNSTABLE", why.as_str()),
        Verdict::Skipped(why) => ("skipped", why.as_str()),
    };
    println!(
        "{:<11} {:<22} {:>6.1} s {:>5} held  {word}",
        row.database, row.behaviour, row.seconds, row.held
    );
    for line in why.lines() {
        println!("    {line}");
    }
}

struct Scratch(PathBuf);

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

type Heard = (Printed, Vec<Conversation>);

fn hear(database: Database, behaviour: &Behaviour, port: u16, scratch: &Path) -> Result<Heard> {
    let relay = Relay::start(port)?;
    let _ = fs::remove_dir_all(scratch);
    let printed = clients::run(database, behaviour, relay.port(), port, scratch)
        .with_context(|| behaviour.name.clone())?;
    Ok((printed, relay.finish()))
}

/// Against the server as it is, behind the gate, and again as it is: what differs without a gate proves nothing.
fn compare(
    database: Database,
    behaviour: &Behaviour,
    (plain, gated): (u16, u16),
    scratch: &Path,
) -> Result<Verdict> {
    let hear = |port| hear(database, behaviour, port, &scratch.join("run"));
    let (first, behind, second) = (hear(plain)?, hear(gated)?, hear(plain)?);
    if let Some(why) = unlike(database, behaviour, &first, &second) {
        return Ok(Verdict::Unstable(why));
    }
    if first.0.text.trim().is_empty() {
        return Ok(Verdict::Unstable("it prints nothing".to_owned()));
    }
    Ok(unlike(database, behaviour, &first, &behind).map_or(Verdict::Same, Verdict::Differs))
}

fn unlike(database: Database, behaviour: &Behaviour, one: &Heard, other: &Heard) -> Option<String> {
    if one.0.code != other.0.code {
        return Some(format!(
            "exit codes {:?} and {:?}; printed:\n{}\n--- and:\n{}",
            one.0.code, other.0.code, one.0.text, other.0.text
        ));
    }
    if let Some(why) = difference(one.0.text.as_bytes(), other.0.text.as_bytes()) {
        return Some(format!("printed: {why}"));
    }
    if !behaviour.bytes {
        return None;
    }
    if one.1.len() != other.1.len() {
        return Some(format!("{} and {} connections", one.1.len(), other.1.len()));
    }
    one.1.iter().zip(&other.1).find_map(|(one, other)| {
        let why = difference(&comparable(database, one), &comparable(database, other))?;
        Some(format!("sent: {why}"))
    })
}
