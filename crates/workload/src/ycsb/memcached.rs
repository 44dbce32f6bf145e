//! memcached, in its text protocol: a value for each record, a document as in MongoDB's protocol.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use bson::RawDocument;

use super::inputs::Change;
use super::mongodb::{document, record, unreadable};
use super::record::{Key, Record};
use super::store::Store;
use crate::db::{DbError, ErrorKind};

/// A server that sends nothing for this long counts as stuck.
const TIMEOUT: Duration = Duration::from_secs(120);

/// Longest value, unless a server is set otherwise.
const VALUE_BYTES_MAX: usize = 1 << 20;

/// One connection.
pub(super) struct Memcached {
    stream: BufReader<TcpStream>,
    requests: u64,
}

impl Memcached {
    /// Connects to `host:port`.
    pub(super) fn connect(host: &str) -> Result<Self, DbError> {
        let stream = TcpStream::connect(host)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(TIMEOUT))?;
        Ok(Self { stream: BufReader::new(stream), requests: 0 })
    }

    fn send(&mut self, requests: u64, bytes: &[u8]) -> Result<(), DbError> {
        self.requests += requests;
        Ok(self.stream.get_mut().write_all(bytes)?)
    }

    fn line(&mut self) -> Result<String, DbError> {
        let mut line = String::new();
        self.stream.read_line(&mut line)?;
        match line.strip_suffix("\r\n") {
            Some(line) => Ok(line.to_owned()),
            None => Err(DbError::new(ErrorKind::Connection, "the server hung up")),
        }
    }

    /// A record and its version.
    fn get(&mut self, key: Key) -> Result<Option<(Record, u64)>, DbError> {
        self.send(1, format!("gets {}\r\n", key.text()).as_bytes())?;
        let head = self.line()?;
        if head == "END" {
            return Ok(None);
        }
        // VALUE, key, flags, length, version.
        let words: Vec<&str> = head.split(' ').collect();
        let [length, version] = [3, 4].map(|at| words.get(at)?.parse::<u64>().ok());
        let length = length.and_then(|length| usize::try_from(length).ok());
        let (Some(length @ ..=VALUE_BYTES_MAX), Some(version)) = (length, version) else {
            return Err(refused(&head));
        };
        let mut value = vec![0; length + 2];
        self.stream.read_exact(&mut value)?;
        let end = self.line()?;
        if !value.ends_with(b"\r\n") || end != "END" {
            return Err(refused(&end));
        }
        let value = RawDocument::from_bytes(&value[..length]).map_err(unreadable)?;
        Ok(Some((record(value)?, version)))
    }
}

impl Store for Memcached {
    fn insert(&mut self, records: &[(Key, &Record)]) -> Result<(), DbError> {
        let commands: Vec<u8> =
            records.iter().flat_map(|(key, record)| command("set", *key, record, "")).collect();
        self.send(records.len() as u64, &commands)?;
        for _ in records {
            match self.line()?.as_str() {
                "STORED" => {}
                said => return Err(refused(said)),
            }
        }
        Ok(())
    }

    fn read(&mut self, key: Key) -> Result<Option<Record>, DbError> {
        Ok(self.get(key)?.map(|(record, _)| record))
    }

    /// There is no command for a part of a value. It is read, and written if it has not changed in
    /// between.
    fn update(&mut self, key: Key, change: &Change) -> Result<(), DbError> {
        let missing = || DbError::data(format!("there was no record {}", key.text()));
        loop {
            let (mut record, version) = self.get(key)?.ok_or_else(missing)?;
            record.0[change.field].clone_from(&change.value);
            self.send(1, &command("cas", key, &record, &format!(" {version}")))?;
            match self.line()?.as_str() {
                "STORED" => return Ok(()),
                "EXISTS" => {}
                "NOT_FOUND" => return Err(missing()),
                said => return Err(refused(said)),
            }
        }
    }

    fn scan(&mut self, _: Key, _: usize) -> Result<Vec<Record>, DbError> {
        Err(DbError::usage("memcached keeps no order of keys: it has no scans"))
    }

    fn requests(&self) -> u64 {
        self.requests
    }
}

/// A command that stores a record.
fn command(name: &str, key: Key, record: &Record, more: &str) -> Vec<u8> {
    let value = document(key, record);
    let value = value.as_bytes();
    let line = format!("{name} {} 0 0 {}{more}\r\n", key.text(), value.len());
    [line.as_bytes(), value, b"\r\n"].concat()
}

fn refused(said: &str) -> DbError {
    DbError::new(ErrorKind::Server, format!("the server says `{said}`"))
}
