//! Random systems whose stages and arrows are known: what the recorder is measured on.
//!
//! [`serve`] is such a system, as a program, and [`java`] has them for a Java virtual machine.
//! [`Server`] runs one, [`Clients`] load it, and [`Score`] compares what a recording shows with the
//! truth.

pub mod java;
mod plan;
mod program;
mod queue;
mod running;
mod score;

pub use program::serve;
pub use running::{Clients, Server, Threads, Truth, read};
pub use score::{Count, Score};

use crate::capture::{self, Options};
use crate::hints::Hints;
use crate::infer::infer;
use crate::trace::Trace;
use anyhow::{Context, Result};
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Clients of a system, how long each pauses after an answer, and the time before it is recorded.
pub type Load = (usize, Duration, Duration);
const BEFORE: Duration = Duration::from_millis(100);
/// What processors can serve.
pub const USUAL: Load = (4, Duration::from_micros(500), BEFORE);
/// More than they can: threads are seldom asleep.
pub const SATURATED: Load = (16, Duration::ZERO, BEFORE);
/// As usual, once a virtual machine has compiled what runs often.
pub const WARM: Load = (4, Duration::from_micros(500), Duration::from_secs(2));

const LENGTH: Duration = Duration::from_millis(2_500);
/// Of fewer requests, rare ways are not seen.
const ENOUGH: u64 = 100;

/// Records a system, which `command` starts, under load, and adds what was found to a score.
/// Returns whether it answered enough requests to be judged. Recording and truth are kept as
/// `kept.ndjson` and `kept.truth`, if asked for.
///
/// # Errors
/// The program or the recorder fails.
pub fn judge(command: Command, load: Load, score: &mut Score, kept: Option<&Path>) -> Result<bool> {
    let server = Server::start(command)?;
    let clients = Clients::start(server.port, load.0, load.1);
    std::thread::sleep(load.2);
    let stop = AtomicBool::new(false);
    let options = Options { attach: true, ..Options::of(vec![server.pid()], LENGTH, 1.0, &stop) };
    let before = clients.answered.load(Ordering::Relaxed);
    let trace = capture::record(&options, &mut |_| {});
    let answered = clients.answered.load(Ordering::Relaxed) - before;
    clients.end();
    let trace = trace?;
    let threads = server.threads();
    if let Some(path) = kept {
        keep(path, &trace, &server.truth, &threads)
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    if answered < ENOUGH {
        score.notes.push(format!("{answered} requests are too few to judge"));
        return Ok(false);
    }
    score.add(&trace, &infer(&trace, &Hints::default()), &server.truth, &threads);
    Ok(true)
}

fn keep(path: &Path, trace: &Trace, truth: &Truth, threads: &Threads) -> Result<()> {
    let mut out = std::io::BufWriter::new(std::fs::File::create(path.with_extension("ndjson"))?);
    trace.write(&mut out, u64::MAX)?;
    let stages: Vec<_> = truth.stages.iter().collect();
    let truth = serde_json::json!({ "stages": stages, "arrows": truth.arrows, "hidden": truth.hidden, "threads": threads });
    std::fs::write(path.with_extension("truth"), truth.to_string())?;
    Ok(())
}

/// Adds what a recording that [`judge`] kept shows.
///
/// # Errors
/// It cannot be read.
pub fn judge_kept(path: &Path, score: &mut Score) -> Result<()> {
    let text = std::fs::read_to_string(path.with_extension("truth"))?;
    let file = std::fs::File::open(path.with_extension("ndjson"))?;
    let trace = Trace::read(std::io::BufReader::new(file))?;
    let json: serde_json::Value = serde_json::from_str(&text)?;
    let threads: Threads = serde_json::from_value(json["threads"].clone())?;
    score.add(&trace, &infer(&trace, &Hints::default()), &read(&text)?, &threads);
    Ok(())
}
