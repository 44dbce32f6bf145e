//! A client that sends what no driver would.

use std::io::{Read, Write};
use std::net::TcpStream;

use crate::common::{DEADLINE, Gate};

/// A logged-in connection.
pub struct Wire {
    stream: TcpStream,
    buffer: Vec<u8>,
    /// Process id and key, as a cancel request gives them.
    pub key: [u8; 8],
}

/// A message.
pub fn message(kind: u8, body: &[u8]) -> Vec<u8> {
    let mut bytes = vec![kind];
    bytes.extend((body.len() as u32 + 4).to_be_bytes());
    bytes.extend(body);
    bytes
}

/// A Query.
pub fn query(sql: &str) -> Vec<u8> {
    message(b'Q', &[sql.as_bytes(), &[0]].concat())
}

/// Parse, Bind and Execute of a text, without a Sync.
pub fn group(sql: &str) -> Vec<u8> {
    let parse = message(b'P', format!("\0{sql}\0\0\0").as_bytes());
    [parse, message(b'B', &[0; 8]), message(b'E', &[0; 5])].concat()
}

/// A Sync.
pub fn sync() -> Vec<u8> {
    message(b'S', &[])
}

impl Wire {
    pub fn connect(gate: &Gate, name: &str) -> Wire {
        let stream = TcpStream::connect(("127.0.0.1", gate.server.port())).unwrap();
        stream.set_read_timeout(Some(DEADLINE)).unwrap();
        let body =
            format!("\0\u{3}\0\0user\0app\0database\0postgres\0application_name\0{name}\0\0");
        let mut wire = Wire { stream, buffer: Vec::new(), key: [0; 8] };
        let length = (body.len() as u32 + 4).to_be_bytes();
        wire.send(&[&length[..], body.as_bytes()].concat());
        loop {
            let (kind, body) = wire.next();
            match kind {
                b'K' => wire.key = body.try_into().unwrap(),
                b'Z' => return wire,
                b'E' => panic!("{}", String::from_utf8_lossy(&body)),
                _ => {}
            }
        }
    }

    /// Process id of its backend.
    pub fn pid(&self) -> i32 {
        i32::from_be_bytes([self.key[0], self.key[1], self.key[2], self.key[3]])
    }

    pub fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).unwrap();
    }

    /// The next message of the server.
    pub fn next(&mut self) -> (u8, Vec<u8>) {
        loop {
            if let Some(&[kind, a, b, c, d]) = self.buffer.first_chunk() {
                let end = u32::from_be_bytes([a, b, c, d]) as usize + 1;
                if self.buffer.len() >= end {
                    let body = self.buffer[5..end].to_vec();
                    self.buffer.drain(..end);
                    return (kind, body);
                }
            }
            let mut chunk = [0; 8192];
            let count = self.stream.read(&mut chunk).unwrap();
            assert!(count > 0, "the server hung up");
            self.buffer.extend(&chunk[..count]);
        }
    }

    /// Kinds of the server's messages up to the next ReadyForQuery, and its status.
    pub fn answer(&mut self) -> (String, u8) {
        let mut kinds = String::new();
        loop {
            let (kind, body) = self.next();
            kinds.push(char::from(kind));
            if kind == b'Z' {
                return (kinds, body[0]);
            }
        }
    }
}
