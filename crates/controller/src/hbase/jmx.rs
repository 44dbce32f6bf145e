//! What a region server or a DataNode says on its own page, at `/jmx`.

use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::io::{Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(5);
const ANSWER_BYTES_MAX: u64 = 64 << 20;

/// The figures of one name. None: the server has none of that name.
///
/// # Errors
/// The server does not answer, or not by JSON.
pub fn bean(address: &str, name: &str) -> Result<Option<Value>> {
    let answer = get(address, &format!("/jmx?qry={name}"))?;
    let all: Value = serde_json::from_str(&answer)
        .with_context(|| format!("{address} does not answer by JSON"))?;
    Ok(all["beans"].as_array().and_then(|beans| beans.first()).cloned())
}

fn get(address: &str, path: &str) -> Result<String> {
    let socket = address.to_socket_addrs()?.next().context("a host without address")?;
    let mut stream = TcpStream::connect_timeout(&socket, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    // By version 1.0 the answer ends with the connection.
    stream.write_all(format!("GET {path} HTTP/1.0\r\nHost: {address}\r\n\r\n").as_bytes())?;
    let mut bytes = Vec::new();
    stream.take(ANSWER_BYTES_MAX).read_to_end(&mut bytes)?;
    let answer = String::from_utf8_lossy(&bytes);
    let Some((head, body)) = answer.split_once("\r\n\r\n") else {
        bail!("{address} does not speak HTTP")
    };
    if head.split(' ').nth(1) != Some("200") {
        bail!("{address} says {}", head.lines().next().unwrap_or_default());
    }
    Ok(body.to_owned())
}
