//! A gate as a node: a small process beside it passes on what its classes have, and sets the
//! weights that the controller says. The gate goes on with its last weights without it. A
//! controller that says nothing is left, and the next one is asked.

use crate::server::Reach;
use crate::wire::{self, Heard, Hearing, Push};
use anyhow::{Context, Result, bail};
use headworks_policy::cluster::Use;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::Duration;

/// Time between reports, and between attempts to reach a controller.
const PERIOD: Duration = Duration::from_secs(2);

/// How long the gate may take.
const PATIENCE: Duration = Duration::from_secs(2);

/// What a gate takes as a weight.
const WEIGHTS: [f64; 2] = [0.001, 1_000.0];

/// Part of a gate that a class had whose requests were over at each look.
const A_LITTLE: f32 = 0.001;

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
    // The largest fence that this node has heard, of all controllers.
    let fence = Arc::new(AtomicU64::new(0));
    let mut said: BTreeMap<&str, String> = BTreeMap::new();
    loop {
        // A gate that is gone ends it; a controller that is gone does not.
        ask(&gate.socket, &json!({ "command": "status" }))?;
        for controller in &reach.controllers {
            let ended =
                reach.connect(controller).and_then(|stream| talk(stream, reach, gate, &fence));
            let Err(error) = ended;
            let words = format!("{error:#}");
            // A controller that waits for its turn says so at each attempt.
            if said.get(&**controller) != Some(&words) {
                eprintln!("headworks controller: {controller}: {words}");
                said.insert(controller, words);
            }
        }
        std::thread::sleep(PERIOD);
    }
}

/// Talks to a controller until one of them has enough of it.
fn talk(
    stream: UnixStream,
    reach: &Reach,
    gate: &Gate,
    fence: &Arc<AtomicU64>,
) -> Result<Infallible> {
    let heard = fence.load(Relaxed);
    (&stream).write_all(wire::hello("gate", &reach.token, &gate.name, heard).as_bytes())?;
    let (sender, pushes) = channel();
    let hears = stream.try_clone()?;
    let fence = Arc::clone(fence);
    std::thread::spawn(move || listen(&hears, &sender, &fence));
    let mut told = BTreeMap::new();
    let mut counts = Counts::new();
    loop {
        let now = uses(&gate.socket, &mut counts)?;
        let text = wire::report(
            changes(&told, &now).iter().map(|(name, change)| (name.as_str(), *change)),
        );
        (&stream).write_all(text.as_bytes())?;
        told = now;
        match pushes.recv_timeout(PERIOD) {
            Ok(Heard::Push(push)) => set(&gate.socket, &push, told.keys())?,
            Ok(Heard::Refused(words)) => {
                // Its other thread reads no more.
                let _ = stream.shutdown(Shutdown::Both);
                bail!("{words}")
            }
            Ok(Heard::Part) | Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => bail!("the controller is gone"),
        }
    }
}

/// Passes on what the controller says. It ends with the controller, or with its patience.
fn listen(stream: &UnixStream, sender: &Sender<Heard>, fence: &AtomicU64) {
    let mut hearing = Hearing::new(fence.load(Relaxed));
    // The first line comes at once.
    let mut silence = stream.read_timeout().ok().flatten();
    for line in BufReader::new(stream).lines() {
        let heard = match line {
            Ok(line) => hearing.line(&line),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                let seconds = silence.map_or(0, |silence| silence.as_secs());
                Heard::Refused(format!("it has said nothing for {seconds} s"))
            }
            Err(error) => Heard::Refused(error.to_string()),
        };
        fence.fetch_max(hearing.fence(), Relaxed);
        let over = matches!(heard, Heard::Refused(_));
        if heard != Heard::Part && sender.send(heard).is_err() || over {
            return;
        }
        if silence != hearing.silence() {
            silence = hearing.silence();
            let _ = stream.set_read_timeout(silence);
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

/// Requests so far of each class, and those of them that were queued.
type Counts = BTreeMap<String, [u64; 2]>;

/// What each class of the gate has: part of its permits, and whether sessions are queued. One look
/// meets an event loop between two requests as a rule, so what has happened since the look before
/// counts, too.
fn uses(socket: &Path, before: &mut Counts) -> Result<BTreeMap<String, Use>> {
    let status = ask(socket, &json!({ "command": "status" }))?;
    let status = &status["status"];
    let permits = status["parallelism"].as_f64().unwrap_or(1.0).max(1.0);
    let classes = status["classes"].as_array().map_or(&[][..], Vec::as_slice);
    let mut counts = Counts::new();
    let one = |class: &Value| {
        let count = |key: &str| class[key].as_u64().unwrap_or(0);
        let name = class["name"].as_str()?.to_owned();
        let now = [count("requests"), count("queued")];
        let came = |at: usize| before.get(&name).is_some_and(|before| before[at] < now[at]);
        let inside = (class["inside"].as_f64().unwrap_or(0.0) / permits) as f32;
        let used = if came(0) { inside.max(A_LITTLE) } else { inside };
        let wants = count("waiting") > 0 || came(1);
        counts.insert(name.clone(), now);
        (used > 0.0 || wants).then_some((name, Use { tenant: 0, used, wants }))
    };
    let uses = classes.iter().filter_map(one).collect();
    *before = counts;
    Ok(uses)
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
