//! The control socket: one request and one answer, each a line of JSON.

use crate::apps::Key;
use crate::governor::{Fares, Window};
use crate::notices::Failed;
use crate::number;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

/// Longest line, in bytes.
const LINE_BYTES_MAX: u64 = 16 << 20;

/// How long either side waits for the other.
const TIMEOUT: Duration = Duration::from_secs(10);

/// What can be asked of a store.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "command", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Request {
    /// The state in figures.
    Status,
    /// Read the configuration again.
    Reload,
    /// An application achieved so much in the last second.
    Post {
        /// Its name.
        application: String,
        /// As its target has it. None is no demand.
        #[serde(default, deserialize_with = "number::achieved")]
        achieved: Option<f64>,
        /// What was asked of it, if that is known.
        #[serde(default, deserialize_with = "number::achieved")]
        offered: Option<f64>,
        /// How long ago that second was, in milliseconds.
        #[serde(default, deserialize_with = "number::age_ms")]
        age_ms: u64,
    },
    /// What an application is to have, until the configuration is read again.
    Set {
        /// Its name.
        application: String,
        /// Which number.
        key: Key,
        /// The number.
        number: f64,
    },
    /// The windows of an application, the latest last.
    Windows {
        /// Its name.
        application: String,
    },
    /// The requests that waited for long.
    Slow,
}

/// What a store answers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Response {
    /// To a status request.
    Status(Box<Status>),
    /// To a request for windows.
    Windows(Vec<Window>),
    /// To a request for slow requests.
    Slow(Vec<SlowRequest>),
    /// Done, in words.
    Done(String),
    /// Not done, and why.
    Error(String),
}

/// The state of a store.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Status {
    /// Its process.
    pub pid: u32,
    /// Seconds since its start.
    pub up_s: u64,
    /// Where clients come.
    pub listen: Vec<String>,
    /// Clients that are connected, and requests that they have in flight.
    pub connections: usize,
    /// As many as there may be.
    #[serde(default)]
    pub connections_max: usize,
    /// Connections that were refused.
    pub turned_away: u64,
    /// Clients that were not served, by reason.
    #[serde(default)]
    pub refused: BTreeMap<String, u64>,
    /// Requests that failed.
    #[serde(default)]
    pub failed: Vec<Failed>,
    /// The block scheduler.
    pub scheduler: String,
    /// Requests with the device, at most.
    pub depth: u32,
    /// Of them, best effort.
    pub best_effort_depth: u32,
    /// Part of the device's time that it may have, if that is bounded.
    #[serde(default)]
    pub best_effort_pace: Option<f64>,
    /// How often shares have changed.
    pub epoch: u64,
    /// What the device can do.
    #[serde(default)]
    pub device: DeviceStatus,
    /// Processors are short where the store runs: how many times as long as they run its threads
    /// wait for one.
    #[serde(default)]
    pub processors_short: Option<f64>,
    /// Another store decides, or etcd cannot be reached.
    #[serde(default)]
    pub membership: Option<String>,
    /// The volumes.
    pub volumes: Vec<VolumeStatus>,
    /// The applications.
    pub applications: Vec<AppStatus>,
    /// What was said lately.
    pub said: Vec<String>,
}

/// The device, as it was learned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DeviceStatus {
    /// Part of the last second in which it was busy.
    pub busy: f64,
    /// Time of it that a request of 16 KiB takes, in microseconds: a read, a write, a flush.
    pub price_us: [f64; 3],
    /// Whether each was learned while it was full.
    pub learned: [bool; 3],
}

/// A volume.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct VolumeStatus {
    /// Its name.
    pub name: String,
    /// Where its bytes are.
    pub path: String,
    /// Its size.
    pub size_bytes: u64,
    /// What is wrong with it.
    pub trouble: Option<String>,
}

/// An application.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AppStatus {
    /// Its name.
    pub name: String,
    /// Its volume.
    pub volume: String,
    /// Its client.
    pub client: Option<String>,
    /// Its target, in words.
    pub goal: String,
    /// How it fares.
    pub fares: Fares,
    /// Share that its target needs, and the standard error of that.
    pub need: f64,
    /// See `need`.
    pub need_error: f64,
    /// Windows that the need was learned from.
    pub need_windows: usize,
    /// Changes that were seen.
    pub changes: u32,
    /// Its largest share.
    pub limit: f64,
    /// Share that is granted.
    pub share: f64,
    /// What it was given of its ask.
    pub promise: f64,
    /// Its last window.
    pub last: Window,
    /// Requests, and bytes, in flight.
    pub requests: u32,
    /// See `requests`.
    pub bytes: u64,
    /// Requests since the start: reads, writes, flushes, others.
    pub ios: [u64; 4],
    /// Bytes since the start.
    pub bytes_total: u64,
    /// Seconds in the queue, and with the device, since the start.
    pub waited_s: f64,
    /// See `waited_s`.
    pub service_s: f64,
}

/// A request that waited for long.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SlowRequest {
    /// Seconds ago.
    pub ago_s: f64,
    /// Whose it was.
    pub application: String,
    /// What it asked.
    pub operation: String,
    /// Its bytes.
    pub bytes: u64,
    /// Its time in the queue.
    pub waited_ms: f64,
    /// The application that had most of the device meanwhile, and its part.
    pub behind: Option<(String, f64)>,
    /// The application's share at the moment.
    pub share: f64,
}

/// Asks the store whose control socket is at `path`.
///
/// # Errors
/// No store is there, or it does not answer.
pub fn ask(path: &Path, request: &Request) -> io::Result<Response> {
    let mut stream = UnixStream::connect(path)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.set_write_timeout(Some(TIMEOUT))?;
    send(&mut stream, request)?;
    receive(&stream)
}

/// Answers one client.
///
/// # Errors
/// It breaks off, or does not ask in time.
pub fn serve(mut stream: UnixStream, answer: impl FnOnce(Request) -> Response) -> io::Result<()> {
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.set_write_timeout(Some(TIMEOUT))?;
    let response = match receive(&stream) {
        Ok(request) => answer(request),
        Err(error) => Response::Error(format!("cannot read the request: {error}")),
    };
    send(&mut stream, &response)
}

fn send(stream: &mut UnixStream, what: &impl Serialize) -> io::Result<()> {
    let mut line = serde_json::to_vec(what)?;
    line.push(b'\n');
    stream.write_all(&line)
}

fn receive<T: for<'a> Deserialize<'a>>(stream: &UnixStream) -> io::Result<T> {
    let mut line = Vec::new();
    BufReader::new(stream.take(LINE_BYTES_MAX)).read_until(b'\n', &mut line)?;
    Ok(serde_json::from_slice(&line)?)
}
