//! Every behaviour, against the server as it is and behind the gate.

use std::collections::BTreeSet;
use std::fs;
use std::mem::replace;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{scope, sleep};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use headworks_rig::gated::RunDirectory;
use serde::Serialize;

use crate::asker::{Asker, CROWD_ADDRESS};
use crate::behaviour::{self, Behaviour};
use crate::bytes::{comparable, difference};
use crate::certificate::Certificate;
use crate::clients::{self, Printed};
use crate::crowd::Crowd;
use crate::database::{Database, Place, Subject};
use crate::gate::{self, DEADLINE, Gated};
use crate::relay::{Conversation, Relay};
use crate::running::Running;

/// Places of the gate, and the users that fill them.
const PLACES: u32 = 2;
const CROWD: usize = 6;

/// No limit lets a request pass, so whatever differs is the gate's doing. The crowd is a separate
/// class, by name or, where the protocol has none, by address.
fn settings() -> String {
    format!(
        "hold_ms_max = 600000
count = \"admitted\"

[[class]]
name = \"default\"
weight = 1000
[[class]]
name = \"crowd\"
[[rule]]
application = \"crowd-*\"
class = \"crowd\"
[[rule]]
address = \"{CROWD_ADDRESS}\"
class = \"crowd\"
"
    )
}

/// Arguments of `run`.
#[derive(Debug, clap::Args)]
pub struct Options {
    /// Only this database; may be given several times
    #[arg(long)]
    database: Vec<Database>,
    /// Only clients that encrypt, or only such that do not
    #[arg(long)]
    tls: Option<bool>,
    /// Only behaviours whose names contain this
    #[arg(long)]
    only: Option<String>,
    /// Print one JSON document instead of a table
    #[arg(long)]
    json: bool,
}

/// How often a behaviour is compared until it is told to be unstable.
const ATTEMPTS: u32 = 3;

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
    database: String,
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
    for subject in Subject::all() {
        let wanted = options.database.is_empty() || options.database.contains(&subject.database);
        if wanted && options.tls.is_none_or(|tls| tls == subject.tls) && subject.is_here() {
            rows.extend(suite(subject, options).with_context(|| subject.to_string())?);
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

/// The two servers of a suite: as it is, and gated. Each has its crowd, so that scripts meet the
/// same server but for the gate.
struct Pair {
    // The crowds leave first, then the servers stop, then the certificate goes.
    crowds: [Crowd; 2],
    plain: Running,
    gated: Gated,
    scratch: RunDirectory,
    _certificate: Option<Certificate>,
}

impl Pair {
    fn start(subject: Subject) -> Result<Pair> {
        let database = subject.database;
        let certificate = subject.tls.then(Certificate::make).transpose()?;
        let place = Place { certificate: certificate.as_ref(), ..Place::default() };
        let plain = database.start(&place, 200)?;
        let gated = gate::start(database, PLACES, &settings(), 200, certificate.as_ref())?;
        let crowds = [
            Crowd::gather(database, plain.port(), CROWD)?,
            Crowd::gather(database, gated.server.port(), CROWD)?,
        ];
        crowds.iter().for_each(|crowd| crowd.rest(true));
        let scratch = RunDirectory::new()?;
        Ok(Pair { crowds, plain, gated, scratch, _certificate: certificate })
    }
}

fn suite(subject: Subject, options: &Options) -> Result<Vec<Row>> {
    let mut pair = Pair::start(subject)?;
    let mut rows = Vec::new();
    let mut framings = BTreeSet::new();
    for behaviour in behaviour::of(subject)? {
        if options.only.as_ref().is_some_and(|part| !behaviour.name.contains(part.as_str())) {
            continue;
        }
        let begun = Instant::now();
        let held_before = held(&pair.gated)?;
        let verdict = match clients::missing(subject.database, &behaviour) {
            Some(why) => Verdict::Skipped(why),
            None => settled(subject, &behaviour, &mut pair, &mut framings)?,
        };
        let row = Row {
            database: subject.to_string(),
            about: behaviour.about,
            behaviour: behaviour.name,
            byte_for_byte: behaviour.bytes,
            held: held(&pair.gated)?.saturating_sub(held_before),
            seconds: begun.elapsed().as_secs_f64(),
            verdict,
        };
        if !options.json {
            show(&row);
        }
        rows.push(row);
    }
    ensure!(
        pair.crowds.iter().all(|crowd| crowd.requests() > 0),
        "the background load sent no requests: nothing was tested"
    );
    // A part of the behaviours may happen not to be held.
    if options.only.is_none() {
        let held = rows.iter().map(|row| row.held).sum();
        really_gated(subject, held, &framings, &pair.gated)?;
    }
    if subject.tls && !options.json {
        let said = Vec::from_iter(framings).join("; ");
        println!("{subject:<18}the status says of encrypted connections: {said}");
    }
    leave(subject.database, pair)?;
    Ok(rows)
}

/// What the status says of an encrypted connection that is followed.
const FOLLOWED: &str = "tls";

/// Whether the comparison means something: requests were held, and encrypted connections were
/// followed.
fn really_gated(
    subject: Subject,
    held: u64,
    framings: &BTreeSet<String>,
    gated: &Gated,
) -> Result<()> {
    ensure!(held > 0, "the gate held no request: nothing was tested; choose a smaller P");
    if subject.tls {
        let left_alone = gated.status()?.counter("opaque_tls");
        ensure!(left_alone == 0, "the gate bypassed {left_alone} encrypted connections");
        let said: Vec<&str> = framings.iter().map(String::as_str).collect();
        ensure!(said == [FOLLOWED], "the status says of encryption: {said:?}");
    }
    Ok(())
}

/// All clients leave; no session may be left.
fn leave(database: Database, pair: Pair) -> Result<()> {
    for crowd in pair.crowds {
        crowd.leave()?;
    }
    if database.is_mariadb() {
        // A thread that streams the log notices only by sending that its replica is gone.
        let mut writer = Asker::connect(database, pair.gated.server.port(), "writer")?;
        for statement in ["CREATE DATABASE gone", "DROP DATABASE gone", "FLUSH LOGS"] {
            writer.ask(statement)?;
            sleep(Duration::from_millis(50));
        }
    }
    pair.gated.wait("no session is left", DEADLINE, |status| status.number("users") == 0)?;
    let status = pair.gated.status()?;
    for name in ["panic", "hold_limit", "concurrent_use"] {
        ensure!(status.counter(name) == 0, "{name}: {:#}", status.0);
    }
    Ok(())
}

/// Requests that had to wait for a permit, without the crowd's.
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
        "{:<18}{:<22} {:>6.1} s {:>5} held  {word}",
        row.database, row.behaviour, row.seconds, row.held
    );
    for line in why.lines() {
        println!("    {line}");
    }
}
type Heard = (Printed, Vec<Conversation>);

fn hear(subject: Subject, behaviour: &Behaviour, port: u16, scratch: &Path) -> Result<Heard> {
    let relay = Relay::start(port)?;
    let _ = fs::remove_dir_all(scratch);
    let printed = clients::run(subject, behaviour, relay.port(), port, scratch)
        .with_context(|| behaviour.name.clone())?;
    Ok((printed, relay.finish()))
}

/// A comparison says nothing if the server without a gate did not do the same twice. It is then
/// made again, with new servers: a table that a script left behind would meet its next run.
/// MariaDB's pool of threads, seen through the relay, now and then ends in the middle of a large
/// result by TLS.
fn settled(
    subject: Subject,
    behaviour: &Behaviour,
    pair: &mut Pair,
    framings: &mut BTreeSet<String>,
) -> Result<Verdict> {
    let mut attempt = 1;
    loop {
        let verdict = compare(subject, behaviour, pair, framings)
            .unwrap_or_else(|error| Verdict::Differs(format!("{error:#}")));
        if attempt == ATTEMPTS || !matches!(verdict, Verdict::Unstable(_)) {
            return Ok(verdict);
        }
        attempt += 1;
        leave(subject.database, replace(pair, Pair::start(subject)?))?;
    }
}

/// Against the server as it is, behind the gate, and again as it is: what differs without a gate
/// proves nothing. Notes what the status says of encryption meanwhile.
fn compare(
    subject: Subject,
    behaviour: &Behaviour,
    pair: &Pair,
    framings: &mut BTreeSet<String>,
) -> Result<Verdict> {
    let Pair { crowds: [plain_crowd, gated_crowd], plain, gated, .. } = pair;
    let scratch = pair.scratch.join("run");
    let hear = |server: &Running, crowd: &Crowd| {
        crowd.rest(false);
        let heard = hear(subject, behaviour, server.port_for(subject.tls), &scratch);
        crowd.rest(true);
        heard
    };
    let first = hear(plain, plain_crowd)?;
    let ended = AtomicBool::new(false);
    let behind = scope(|threads| {
        let watcher = subject.tls.then(|| threads.spawn(|| encryptions(gated, &ended)));
        let heard = hear(&gated.server, gated_crowd);
        ended.store(true, Ordering::Relaxed);
        match watcher.map(|watcher| watcher.join()) {
            Some(Ok(seen)) => framings.extend(seen?),
            Some(Err(_)) => bail!("the watcher of the status panicked"),
            None => {}
        }
        heard
    })?;
    let second = hear(plain, plain_crowd)?;
    if let Some(why) = unlike(subject.database, behaviour, &first, &second) {
        return Ok(Verdict::Unstable(why));
    }
    if first.0.text.trim().is_empty() {
        return Ok(Verdict::Unstable("it prints nothing".to_owned()));
    }
    let why = unlike(subject.database, behaviour, &first, &behind);
    Ok(why.map_or(Verdict::Same, Verdict::Differs))
}

/// How the status says that encrypted connections are followed, until the end.
fn encryptions(gated: &Gated, ended: &AtomicBool) -> Result<BTreeSet<String>> {
    let mut seen = BTreeSet::new();
    while !ended.load(Ordering::Relaxed) {
        let status = gated.status()?;
        let connections = status.0["connections"].as_array();
        let kinds = connections.into_iter().flatten().filter_map(|user| user["tls"].as_str());
        seen.extend(kinds.filter(|kind| !kind.is_empty()).map(str::to_owned));
        sleep(Duration::from_millis(50));
    }
    Ok(seen)
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
