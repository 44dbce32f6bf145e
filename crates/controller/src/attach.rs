//! A gate as a node: a small process beside it passes on what its classes have, and sets the
//! weights that the controller says. The gate goes on with its last weights without it.

use crate::server::Reach;
use crate::wire::{self, Heard, Hearing, Push};
use anyhow::{Context, Result, bail};
use headworks_policy::cluster::Use;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

/// Time between reports, and between attempts to reach a controller.
const PERIOD: Duration = Duration::from_secs(2);

/// How long the gate may take.
const PATIENCE: Duration = Duration::from_secs(2);

/// What a gate takes as a weight.
const WEIGHTS: [f64; 2] = [0.001, 1_000.0];

/// Changes of use that are not worth a line.
const WORTH_A_LINE: f32 = 0.1;

/// A gate, by its control socket.
#[derive(Clone, Debug)]
pub struct Gate {
    /// The socket.
    pub socket: PathBuf,
    /// Its name at the controller.
    pub name: String,
}

/// Serves until it is killed.
///
/// # Errors
/// The gate is gone.
pub fn run(reach: &Reach, gate: &Gate) -> Result<()> {
    loop {
        // A gate that is gone ends it; a controller that is gone does not.
        uses(&gate.socket)?;
        for controller in &reach.controllers {
            match reach.connect(controller).and_then(|stream| talk(stream, reach, gate)) {
                Ok(()) => {}
                Err(error) => eprintln!("headworks controller: {controller}: {error:#}"),
            }
        }
        std::thread::sleep(PERIOD);
    }
}

fn talk(stream: UnixStream, reach: &Reach, gate: &Gate) -> Result<()> {
    let hello = format!("hello {} gate {} {}\n", wire::VERSION, reach.token, gate.name);
    (&stream).write_all(hello.as_bytes())?;
    let (sender, pushes) = channel();
    let lines = BufReader::new(stream.try_clone()?);
    std::thread::spawn(move || {
        let mut hearing = Hearing::default();
        for line in lines.lines() {
            let heard = line
                .map_or_else(|error| Heard::Refused(error.to_string()), |line| hearing.line(&line));
            if heard != Heard::Part && sender.send(heard).is_err() {
                break;
            }
        }
    });
    let mut told = BTreeMap::new();
    loop {
        let now = uses(&gate.socket)?;
        let text = wire::report(
            changes(&told, &now).iter().map(|(name, change)| (name.as_str(), *change)),
        );
        (&stream).write_all(text.as_bytes())?;
        told = now;
        match pushes.recv_timeout(PERIOD) {
            Ok(Heard::Push(push)) => set(&gate.socket, &push, told.keys())?,
            Ok(Heard::Refused(words)) => bail!("{words}"),
            Ok(Heard::Part) | Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => bail!("the controller is gone"),
        }
    }
}

/// What is worth a line, and who has nothing any more.
fn changes(told: &BTreeMap<String, Use>, now: &BTreeMap<String, Use>) -> Vec<(String, Use)> {
    let gone = told.keys().filter(|name| !now.contains_key(*name));
    let nothing = Use { tenant: 0, used: 0.0, wants: false };
    let changed = now.iter().filter(|(name, change)| {
        told.get(*name).is_none_or(|before| {
            before.wants != change.wants
                || (before.used - change.used).abs() > WORTH_A_LINE * before.used
        })
    });
    changed
        .map(|(name, change)| (name.clone(), *change))
        .chain(gone.map(|name| (name.clone(), nothing)))
        .collect()
}

/// What each class of the gate has: part of its permits, and whether sessions are queued.
fn uses(socket: &Path) -> Result<BTreeMap<String, Use>> {
    let status = ask(socket, &json!({ "command": "status" }))?;
    let status = &status["status"];
    let permits = status["parallelism"].as_f64().unwrap_or(1.0).max(1.0);
    let classes = status["classes"].as_array().map_or(&[][..], Vec::as_slice);
    let one = |class: &Value| {
        let used = (class["inside"].as_f64().unwrap_or(0.0) / permits) as f32;
        let wants = class["waiting"].as_u64().unwrap_or(0) > 0;
        let name = class["name"].as_str()?.to_owned();
        (used > 0.0 || wants).then_some((name, Use { tenant: 0, used, wants }))
    };
    Ok(classes.iter().filter_map(one).collect())
}

fn set<'a>(
    socket: &Path,
    push: &Push,
    known: impl Iterator<Item = &'a String> + Clone,
) -> Result<()> {
    let weights: BTreeMap<&str, f64> = push
        .weights
        .iter()
        .filter(|(name, _)| known.clone().any(|known| known == name))
        .map(|(name, weight)| (name.as_str(), weight.clamp(WEIGHTS[0], WEIGHTS[1])))
        .collect();
    if weights.is_empty() {
        return Ok(());
    }
    let answer = ask(socket, &json!({ "command": "weights", "weights": weights }))?;
    match answer["error"].as_str() {
        // A class may have gone: the next report says so.
        Some(words) => {
            eprintln!("headworks controller: the gate does not take the weights: {words}");
            Ok(())
        }
        None => Ok(()),
    }
}

fn ask(socket: &Path, question: &Value) -> Result<Value> {
    let stream = UnixStream::connect(socket).with_context(|| {
        format!("no gate answers at {}\n  see which run: headworks status", socket.display())
    })?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    (&stream).write_all(format!("{question}\n").as_bytes())?;
    let mut answer = String::new();
    BufReader::new(stream).read_line(&mut answer)?;
    Ok(serde_json::from_str(&answer)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_changed_is_worth_a_line() {
        let of = |used, wants| Use { tenant: 0, used, wants };
        let map =
            |all: &[(&str, Use)]| all.iter().map(|(name, of)| ((*name).to_owned(), *of)).collect();
        let told = map(&[("a", of(0.5, true)), ("b", of(0.5, true)), ("c", of(0.1, false))]);
        let now = map(&[("a", of(0.52, true)), ("b", of(0.5, false)), ("d", of(0.1, false))]);
        let said: Vec<String> = changes(&told, &now).into_iter().map(|(name, _)| name).collect();
        assert_eq!(said, ["b", "d", "c"]);
    }
}
