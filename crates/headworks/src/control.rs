//! The control socket: one request and one answer, each a line of JSON.

use crate::instance::Instance;
use crate::status::Status;
use crate::tuning::TuningReport;
use anyhow::{Context, Result, anyhow, ensure};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// What can be asked of the daemon.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "command", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Request {
    /// The state in figures.
    Status,
    /// How P was found.
    Tuning,
    /// Set weights of classes, by name, until the next reload: for programs that control the gate.
    Weights {
        /// 0.001 to 1000 each.
        weights: BTreeMap<String, f64>,
    },
    /// Put a P into force for a while, then the one before it again. A search rests meanwhile.
    Try {
        /// 1 to 1024.
        parallelism: u32,
        /// Milliseconds, at most an hour.
        ms: u64,
    },
    /// Read the configuration file again.
    Reload,
}

/// What the daemon answers.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Response {
    /// To a status request.
    Status(Box<Status>),
    /// To a question about P.
    Tuning(Box<TuningReport>),
    /// Done, in words.
    Done(String),
    /// Not done, and why.
    Error(String),
}

/// Longest request that is read, in bytes.
const REQUEST_BYTES_MAX: usize = 64 * 1024;

/// How long either side waits for the other.
const TIMEOUT: Duration = Duration::from_secs(2);

/// Asks the daemon of an instance.
pub fn ask(instance: &Instance, request: &Request) -> Result<Response> {
    let path = instance.socket_path();
    let stream = UnixStream::connect(&path).with_context(|| {
        format!(
            "the daemon of instance `{}` does not answer on {}\n  start it again: headworks daemon --name {}",
            instance.name,
            path.display(),
            instance.name
        )
    })?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.set_write_timeout(Some(TIMEOUT))?;
    let mut line = serde_json::to_string(request)?;
    line.push('\n');
    (&stream).write_all(line.as_bytes())?;
    let mut answer = String::new();
    BufReader::new(&stream).read_line(&mut answer).context(
        "the daemon took the request but did not answer within 2 s: it may be stopped; all requests pass meanwhile",
    )?;
    serde_json::from_str(&answer)
        .map_err(|error| anyhow!("the daemon's answer cannot be read: {error}"))
}

/// Reads one request from a client and answers it. An error concerns this client only. A slow
/// client has no more time than a silent one.
pub fn serve(stream: &UnixStream, answer: impl FnOnce(Request) -> Response) -> Result<()> {
    let response = match serde_json::from_slice(&read_line(stream)?) {
        Ok(request) => answer(request),
        Err(error) => Response::Error(format!(
            "cannot read the request: {error}; known: {{\"command\":\"status\"}}, {{\"command\":\"tuning\"}}, {{\"command\":\"weights\",\"weights\":{{\"CLASS\":1.5}}}}, {{\"command\":\"try\",\"parallelism\":16,\"ms\":5000}}, {{\"command\":\"reload\"}}"
        )),
    };
    let mut text = serde_json::to_string(&response)?;
    text.push('\n');
    write_all(stream, text.as_bytes())
}

/// Reads up to the end of a line, the size limit, or the timeout.
pub(crate) fn read_line(stream: &UnixStream) -> Result<Vec<u8>> {
    read_until(stream, |line| line.contains(&b'\n'))
}

/// Reads until the request is complete or too long, or the timeout is over.
pub(crate) fn read_until(
    mut stream: &UnixStream,
    is_whole: impl Fn(&[u8]) -> bool,
) -> Result<Vec<u8>> {
    let deadline = Instant::now() + TIMEOUT;
    let mut line = Vec::new();
    let mut chunk = [0; 4096];
    while line.len() < REQUEST_BYTES_MAX {
        stream.set_read_timeout(Some(time_left(deadline)?))?;
        let count = stream.read(&mut chunk)?;
        line.extend_from_slice(&chunk[..count]);
        if count == 0 || is_whole(&line) {
            break;
        }
    }
    Ok(line)
}

pub(crate) fn write_all(mut stream: &UnixStream, mut bytes: &[u8]) -> Result<()> {
    let deadline = Instant::now() + TIMEOUT;
    while !bytes.is_empty() {
        stream.set_write_timeout(Some(time_left(deadline)?))?;
        let count = stream.write(bytes)?;
        bytes = &bytes[count..];
    }
    Ok(())
}

fn time_left(deadline: Instant) -> Result<Duration> {
    let left = deadline.saturating_duration_since(Instant::now());
    ensure!(!left.is_zero(), "the client took too long");
    Ok(left)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exchange(line: &str) -> String {
        let (mut client, server) = UnixStream::pair().unwrap();
        client.write_all(line.as_bytes()).unwrap();
        client.shutdown(std::net::Shutdown::Write).unwrap();
        serve(&server, |request| Response::Done(format!("{request:?}"))).unwrap();
        drop(server);
        let mut text = String::new();
        client.read_to_string(&mut text).unwrap();
        text
    }

    #[test]
    fn a_request_is_answered_and_garbage_is_refused_in_words() {
        assert_eq!(exchange("{\"command\":\"reload\"}\n"), "{\"done\":\"Reload\"}\n");
        for garbage in ["", "{}\n", "\u{0}\u{1}\n", "{\"command\":\"drop\"}\n", "[[[[[[[[\n"] {
            assert!(
                exchange(garbage).starts_with("{\"error\":\"cannot read the request"),
                "{garbage}"
            );
        }
    }
}
