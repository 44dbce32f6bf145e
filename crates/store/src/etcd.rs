//! The part of etcd that a store needs: leases, and writes that only their holder may make. By its
//! JSON gateway, one connection a call.

use serde_json::{Value, json};
use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

/// How long a server may take.
const PATIENCE: Duration = Duration::from_secs(2);

/// Longest answer that is read, in bytes.
const ANSWER_BYTES_MAX: u64 = 4 << 20;

/// See the module.
#[derive(Clone, Debug)]
pub struct Etcd {
    servers: Vec<String>,
}

/// A key that was taken, as long as its lease lasts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Held {
    key: String,
    lease: String,
    /// When the key was made. No later holder has the same.
    revision: String,
}

/// A key, and its value from now on. None: it goes.
pub type Put = (String, Option<String>);

impl Held {
    /// A number that is larger for each later holder.
    pub fn fence(&self) -> u64 {
        self.revision.parse().unwrap_or(0)
    }
}

fn wrong(words: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, words.into())
}

impl Etcd {
    /// Of these servers, `HOST:PORT` each.
    pub fn new(servers: &[String]) -> Etcd {
        Etcd { servers: servers.to_vec() }
    }

    /// Asks the servers in turn until one answers.
    fn call(&self, path: &str, body: &Value) -> io::Result<Value> {
        let mut last = wrong("no server of etcd is named");
        for server in &self.servers {
            match ask(server, path, body) {
                Ok(answer) => return Ok(answer),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    /// Takes a key that no one holds, for so many seconds. None if another holds it.
    ///
    /// # Errors
    /// No server answers.
    pub fn take(&self, key: &str, value: &str, seconds: u64) -> io::Result<Option<Held>> {
        let granted = self.call("/v3/lease/grant", &json!({ "TTL": seconds }))?;
        let lease = text(&granted["ID"])?;
        let body = json!({
            "compare": [{ "key": encode(key), "target": "CREATE", "create_revision": 0 }],
            "success": [{ "request_put":
                { "key": encode(key), "value": encode(value), "lease": lease } }],
        });
        let answer = self.call("/v3/kv/txn", &body)?;
        if answer["succeeded"] != true {
            let _ = self.call("/v3/lease/revoke", &json!({ "ID": lease }));
            return Ok(None);
        }
        // The key was made by this very transaction.
        let revision = text(&answer["header"]["revision"])?;
        Ok(Some(Held { key: key.to_owned(), lease, revision }))
    }

    /// Holds the key for longer. False if it is another's.
    ///
    /// # Errors
    /// No server answers.
    pub fn keep(&self, held: &Held) -> io::Result<bool> {
        let answer = self.call("/v3/lease/keepalive", &json!({ "ID": held.lease }))?;
        Ok(answer["result"]["TTL"].as_str().is_some_and(|left| left != "0"))
    }

    /// Gives the key back.
    pub fn give_back(&self, held: &Held) {
        // Without an answer the lease ends.
        let _ = self.call("/v3/lease/revoke", &json!({ "ID": held.lease }));
    }

    /// Writes a value if the key is still held. False if it is not: nothing is written.
    ///
    /// # Errors
    /// No server answers; it is not known whether it was written.
    pub fn put(&self, held: &Held, key: &str, value: &str) -> io::Result<bool> {
        self.write(held, &[(key.to_owned(), Some(value.to_owned()))])
    }

    /// Makes all of these writes in one step, if the key is still held. See [`Etcd::put`].
    ///
    /// # Errors
    /// No server answers; it is not known whether it was written.
    pub fn write(&self, held: &Held, writes: &[Put]) -> io::Result<bool> {
        let one = |(key, value): &Put| match value {
            Some(value) => json!({ "request_put": { "key": encode(key), "value": encode(value) } }),
            None => json!({ "request_delete_range": { "key": encode(key) } }),
        };
        let body = json!({
            "compare": [{ "key": encode(&held.key), "target": "CREATE",
                "create_revision": held.revision }],
            "success": writes.iter().map(one).collect::<Vec<_>>(),
        });
        Ok(self.call("/v3/kv/txn", &body)?["succeeded"] == true)
    }

    /// The keys that begin so, without that beginning, and their values.
    ///
    /// # Errors
    /// No server answers.
    pub fn read(&self, prefix: &str) -> io::Result<Vec<(String, String)>> {
        let mut end = prefix.as_bytes().to_vec();
        if let Some(last) = end.last_mut() {
            *last += 1;
        }
        let body = json!({ "key": encode(prefix), "range_end": base64(&end) });
        let answer = self.call("/v3/kv/range", &body)?;
        let pairs = answer["kvs"].as_array().map_or(&[][..], Vec::as_slice);
        let one = |pair: &Value| {
            let key = decode(pair["key"].as_str()?)?;
            let value = decode(pair["value"].as_str().unwrap_or_default())?;
            Some((key.strip_prefix(prefix)?.to_owned(), value))
        };
        Ok(pairs.iter().filter_map(one).collect())
    }
}

/// Numbers of 64 bits are strings there.
fn text(value: &Value) -> io::Result<String> {
    value.as_str().map(str::to_owned).ok_or_else(|| wrong("etcd answers otherwise than expected"))
}

fn ask(server: &str, path: &str, body: &Value) -> io::Result<Value> {
    let address =
        server.to_socket_addrs()?.next().ok_or_else(|| wrong("a host without address"))?;
    let mut stream = TcpStream::connect_timeout(&address, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let body = body.to_string();
    let length = body.len();
    // By version 1.0 the answer ends with the connection.
    let head = format!(
        "POST {path} HTTP/1.0\r\nHost: {server}\r\nContent-Type: application/json\r\n\
         Content-Length: {length}\r\n\r\n"
    );
    stream.write_all((head + &body).as_bytes())?;
    let mut answer = String::new();
    stream.take(ANSWER_BYTES_MAX).read_to_string(&mut answer)?;
    let (head, body) = answer.split_once("\r\n\r\n").ok_or_else(|| wrong("no HTTP"))?;
    if head.split(' ').nth(1).is_none_or(|code| code != "200") {
        return Err(wrong(format!(
            "etcd says {}: {body}",
            head.lines().next().unwrap_or_default()
        )));
    }
    // A stream of answers has one on each line.
    Ok(serde_json::from_str(body.lines().next().unwrap_or_default())?)
}

const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

fn encode(text: &str) -> String {
    base64(text.as_bytes())
}

fn base64(bytes: &[u8]) -> String {
    let mut out = String::new();
    for three in bytes.chunks(3) {
        let at = |index: usize| u32::from(three.get(index).copied().unwrap_or(0));
        let bits = at(0) << 16 | at(1) << 8 | at(2);
        for digit in 0..4 {
            let value = (bits >> (18 - 6 * digit) & 63) as usize;
            out.push(if digit <= three.len() { char::from(DIGITS[value]) } else { '=' });
        }
    }
    out
}

fn decode(text: &str) -> Option<String> {
    let mut out = Vec::new();
    let digits: Vec<u8> = text.bytes().take_while(|digit| *digit != b'=').collect();
    for four in digits.chunks(4) {
        let mut bits = 0_u32;
        for digit in four {
            bits = bits << 6 | DIGITS.iter().position(|known| known == digit)? as u32;
        }
        bits <<= 6 * (4 - four.len());
        out.extend(&bits.to_be_bytes()[1..four.len()]);
    }
    String::from_utf8(out).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_come_back() {
        for text in ["", "f", "fo", "foo", "foob", "fooba", "foobar", "über / 12+"] {
            assert_eq!(decode(&encode(text)).as_deref(), Some(text));
        }
        assert_eq!(encode("fooba"), "Zm9vYmE=");
        assert_eq!(decode("Zm9v!"), None);
    }
}
