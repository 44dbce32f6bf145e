//! The control socket of a volume: one request and one answer, each a line of JSON.

use super::state::Named;
use anyhow::{Context, Result, anyhow, bail};
use headworks_volume::engine::Counts;
use headworks_volume::layer::CutReport;
use headworks_volume::reach::Reach;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// How long an answer may take: a flush of a slow backing may come first.
const REPLY_TIMEOUT: Duration = Duration::from_secs(30);

/// What can be asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "command", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Request {
    /// Figures.
    Stat,
    /// The power goes.
    Cut,
    /// The power comes back.
    Restore,
    /// Detach the device and end.
    Stop,
}

/// State of a volume's power.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Power {
    /// Requests are served.
    pub on: bool,
    /// Bytes that a cut could lose.
    pub unflushed_bytes: u64,
    /// What the last cut did.
    pub last_cut: CutReport,
}

/// Figures of a running volume.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Figures {
    /// What passed through.
    pub counts: Counts,
    /// Figures of each layer, under its position and name.
    pub layers: BTreeMap<String, BTreeMap<String, f64>>,
    /// If there is a `powercut` layer.
    pub power: Option<Power>,
    /// Space that the backing takes.
    pub allocated_bytes: Option<u64>,
    /// If it learns from an I/O scheduler whose its requests are.
    pub causes: Option<super::causes::Figures>,
    /// Microseconds that the path through the kernel takes of each request's modelled time.
    pub lead_us: f64,
    /// The front end spins for the next request before it sleeps, as that is faster on this
    /// machine.
    pub looks: bool,
    /// The kernel sends requests by io_uring, not by `/dev/fuse`.
    pub ring: bool,
    /// What the model promises and what arrives through the kernel, where that was measured.
    pub reach: Option<Reach>,
    /// A problem of the backing.
    pub trouble: Option<String>,
}

/// What is answered.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Response {
    /// To a question for figures.
    Figures(Box<Figures>),
    /// To a cut.
    Cut(CutReport),
    /// Done, in words.
    Done(String),
    /// Not done, and why.
    Error(String),
}

/// Asks a running volume.
pub fn ask(volume: &Named, request: Request) -> Result<Response> {
    let path = volume.file("control.sock");
    let stream = UnixStream::connect(&path).with_context(|| {
        format!(
            "volume `{}` does not answer on {}\n  if it crashed: headworks volume doctor",
            volume.name,
            path.display()
        )
    })?;
    stream.set_read_timeout(Some(REPLY_TIMEOUT))?;
    let mut line = serde_json::to_string(&request)?;
    line.push('\n');
    (&stream).write_all(line.as_bytes())?;
    let mut answer = String::new();
    BufReader::new(&stream)
        .read_line(&mut answer)
        .with_context(|| format!("volume `{}` took the request but did not answer", volume.name))?;
    match serde_json::from_str(&answer) {
        Ok(Response::Error(error)) => bail!("{error}"),
        Ok(response) => Ok(response),
        Err(error) => {
            Err(anyhow!("the answer of volume `{}` cannot be read: {error}", volume.name))
        }
    }
}

/// Reads one request of a client and answers it.
pub fn serve(stream: &UnixStream, answer: impl FnOnce(Request) -> Response) -> Result<()> {
    let response = match serde_json::from_slice(&crate::control::read_line(stream)?) {
        Ok(request) => answer(request),
        Err(error) => Response::Error(format!("cannot read the request: {error}")),
    };
    let mut text = serde_json::to_string(&response)?;
    text.push('\n');
    crate::control::write_all(stream, text.as_bytes())
}
