//! MongoDB's wire protocol: a document for each record, whose `_id` is the key.
//!
//! The official driver has extra connections that watch the server, and a pool that passes
//! connections from user to user. Here a user is one connection, so this speaks `OP_MSG` itself;
//! documents are the library's.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::str::FromStr;
use std::time::Duration;

use bson::spec::BinarySubtype;
use bson::{Binary, RawArrayBuf, RawDocument, RawDocumentBuf, rawdoc};

use super::inputs::Change;
use super::record::{FIELD_NAMES, Key, Record};
use super::store::Store;
use crate::db::{DbError, ErrorKind};

/// The collection, as YCSB calls it.
const COLLECTION: &str = "usertable";

/// A server that sends nothing for this long counts as stuck.
const TIMEOUT: Duration = Duration::from_secs(120);

/// `OP_MSG`.
const MESSAGE: i32 = 2013;

/// Length, request, request answered, kind.
const HEADER_BYTES: usize = 16;

/// Flags of a message, and the kind of its only section.
const BODY_AT: usize = 5;

/// Longer answers are invalid: MongoDB's own limit of a message.
const ANSWER_BYTES_MAX: usize = 48_000_000;

/// A record with this key is there already.
const DUPLICATE_KEY: i32 = 11_000;

/// Where a server is.
#[derive(Debug, Clone)]
pub(super) struct Address {
    host: String,
    database: String,
    /// How users introduce themselves; they do not if it is empty.
    application: String,
}

impl FromStr for Address {
    type Err = DbError;

    fn from_str(url: &str) -> Result<Self, DbError> {
        let refused = |what: &str| {
            Err(DbError::usage(format!(
                "the address of a MongoDB is mongodb://host:port/database?appName=NAME, {what}; not `{url}`"
            )))
        };
        let rest = url.strip_prefix("mongodb://").unwrap_or(url);
        let (rest, options) = rest.split_once('?').unwrap_or((rest, ""));
        let (host, database) = rest.split_once('/').unwrap_or((rest, ""));
        if host.is_empty() || host.contains('@') || !host.contains(':') {
            return refused("with a port and without an account");
        }
        let application = match options.strip_prefix("appName=") {
            Some(name) if !name.contains('&') => name,
            None if options.is_empty() => "",
            _ => return refused("with no other option"),
        };
        let database = if database.is_empty() { "ycsb" } else { database };
        let [host, database, application] = [host, database, application].map(str::to_owned);
        Ok(Self { host, database, application })
    }
}

/// One connection.
pub(super) struct MongoDb {
    stream: TcpStream,
    database: String,
    requests: u64,
}

impl MongoDb {
    pub(super) fn connect(address: &Address) -> Result<Self, DbError> {
        let stream = TcpStream::connect(&address.host)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(TIMEOUT))?;
        let mut own = Self { stream, database: address.database.clone(), requests: 0 };
        if !address.application.is_empty() {
            own.introduce(&address.application)?;
        }
        Ok(own)
    }

    /// Introduces the client as drivers do, by a command that every server knows.
    fn introduce(&mut self, application: &str) -> Result<(), DbError> {
        let client = rawdoc! {
            "application": {"name": application},
            "driver": {"name": env!("CARGO_PKG_NAME"), "version": env!("CARGO_PKG_VERSION")},
            "os": {"type": std::env::consts::OS},
        };
        self.ask(rawdoc! {"isMaster": 1, "client": client}).map(drop)
    }

    /// Runs a command. The answer is a document whose `ok` is 1.
    fn ask(&mut self, mut command: RawDocumentBuf) -> Result<RawDocumentBuf, DbError> {
        command.append(bson::raw::cstr!("$db"), self.database.as_str());
        let body = command.as_bytes();
        let length = HEADER_BYTES + BODY_AT + body.len();
        self.requests += 1;
        // Numbers of requests may wrap around.
        let number = self.requests as i32;
        let length_sent =
            i32::try_from(length).map_err(|_| DbError::usage("a command is too long"))?;
        let mut message = Vec::with_capacity(length);
        for part in [length_sent, number, 0, MESSAGE, 0] {
            message.extend(part.to_le_bytes());
        }
        message.push(0);
        message.extend(body);
        self.stream.write_all(&message)?;
        let answer = self.receive(number)?;
        if number_of(&answer, "ok") != Some(1) {
            let code = number_of(&answer, "code").unwrap_or_default();
            let said = answer.get_str("errmsg").unwrap_or("nothing of why");
            return Err(DbError::new(
                ErrorKind::Server,
                format!("the server says {said} (code {code})"),
            ));
        }
        Ok(answer)
    }

    fn receive(&mut self, to: i32) -> Result<RawDocumentBuf, DbError> {
        let mut header = [0; HEADER_BYTES];
        self.stream.read_exact(&mut header)?;
        let [length, _, answers, kind] =
            [0, 4, 8, 12].map(|at| i32::from_le_bytes([0, 1, 2, 3].map(|byte| header[at + byte])));
        let length = usize::try_from(length).unwrap_or(0);
        if kind != MESSAGE
            || answers != to
            || !(HEADER_BYTES + BODY_AT..ANSWER_BYTES_MAX).contains(&length)
        {
            return Err(DbError::new(ErrorKind::Connection, "the server does not speak OP_MSG"));
        }
        let mut body = vec![0; length - HEADER_BYTES];
        self.stream.read_exact(&mut body)?;
        RawDocumentBuf::from_bytes(body.split_off(BODY_AT)).map_err(unreadable)
    }

    /// Reads up to `count` documents in the order of keys.
    fn find(&mut self, filter: RawDocumentBuf, count: usize) -> Result<Vec<Record>, DbError> {
        // Scans are short.
        let count = i32::try_from(count).unwrap_or(i32::MAX);
        let answer = self.ask(rawdoc! {
            "find": COLLECTION, "filter": filter, "sort": {"_id": 1},
            "limit": count, "batchSize": count, "singleBatch": true,
        })?;
        let batch = answer.get_document("cursor").and_then(|cursor| cursor.get_array("firstBatch"));
        batch
            .map_err(unreadable)?
            .into_iter()
            .map(|document| {
                let document = document.map_err(unreadable)?;
                record(
                    document
                        .as_document()
                        .ok_or_else(|| DbError::data("a record is no document"))?,
                )
            })
            .collect()
    }
}

impl Store for MongoDb {
    fn insert(&mut self, records: &[(Key, &Record)]) -> Result<(), DbError> {
        let mut documents = RawArrayBuf::new();
        for (key, record) in records {
            documents.push(document(*key, record));
        }
        let answer = self.ask(rawdoc! {
            "insert": COLLECTION, "ordered": false, "documents": documents,
        })?;
        let Some(errors) = answer.get("writeErrors").map_err(unreadable)? else { return Ok(()) };
        for error in errors.as_array().into_iter().flatten() {
            let error = error.map_err(unreadable)?;
            let error =
                error.as_document().ok_or_else(|| DbError::data("an error without words"))?;
            if number_of(error, "code") != Some(i64::from(DUPLICATE_KEY)) {
                let said = error.get_str("errmsg").unwrap_or("nothing of why");
                return Err(DbError::new(ErrorKind::Server, format!("no insert: {said}")));
            }
        }
        Ok(())
    }

    fn read(&mut self, key: Key) -> Result<Option<Record>, DbError> {
        Ok(self.find(rawdoc! {"_id": key.text()}, 1)?.pop())
    }

    fn update(&mut self, key: Key, change: &Change) -> Result<(), DbError> {
        let mut set = RawDocumentBuf::new();
        put(&mut set, FIELD_NAMES[change.field], &change.value);
        let mut updates = RawArrayBuf::new();
        updates.push(rawdoc! {"q": {"_id": key.text()}, "u": {"$set": set}});
        let answer = self.ask(rawdoc! {"update": COLLECTION, "updates": updates})?;
        match number_of(&answer, "n") {
            Some(1) => Ok(()),
            _ => Err(DbError::data(format!("there was no record {}", key.text()))),
        }
    }

    fn scan(&mut self, from: Key, count: usize) -> Result<Vec<Record>, DbError> {
        self.find(rawdoc! {"_id": {"$gte": from.text()}}, count)
    }

    fn requests(&self) -> u64 {
        self.requests
    }
}

/// Adds a field. Names of fields have no zero byte, so that none is left out.
fn put(document: &mut RawDocumentBuf, name: &str, value: &[u8]) {
    if let Ok(name) = bson::raw::CString::try_from(name) {
        let value = Binary { subtype: BinarySubtype::Generic, bytes: value.to_vec() };
        document.append(name, value);
    }
}

/// A record as a document.
pub(super) fn document(key: Key, record: &Record) -> RawDocumentBuf {
    let mut document = rawdoc! {"_id": key.text()};
    for (name, value) in FIELD_NAMES.iter().zip(&record.0) {
        put(&mut document, name, value);
    }
    document
}

/// A document's record.
pub(super) fn record(document: &RawDocument) -> Result<Record, DbError> {
    let mut fields = Vec::with_capacity(FIELD_NAMES.len());
    for element in document {
        let (name, value) = element.map_err(unreadable)?;
        if let Some(value) = value.as_binary() {
            fields.push((name.as_str().as_bytes().to_vec(), value.bytes.to_vec()));
        }
    }
    Record::from_fields(fields)
}

/// A whole number, which servers send in any of three types.
fn number_of(document: &RawDocument, name: &str) -> Option<i64> {
    let value = document.get(name).ok().flatten()?;
    // Expected numbers are small.
    let whole = value.as_i32().map(i64::from).or_else(|| value.as_i64());
    whole.or_else(|| value.as_f64().map(|number| number as i64))
}

/// The server's answer is invalid.
pub(super) fn unreadable(error: impl std::fmt::Display) -> DbError {
    DbError::data(format!("cannot read the server's answer: {error}"))
}

impl From<io::Error> for DbError {
    fn from(error: io::Error) -> Self {
        Self::new(ErrorKind::Connection, error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_have_a_port_and_no_account() {
        let address: Address = "mongodb://127.0.0.1:27017/shop".parse().unwrap();
        assert_eq!((&*address.host, &*address.database), ("127.0.0.1:27017", "shop"));
        let plain: Address = "mongodb://h:1".parse().unwrap();
        assert_eq!((&*plain.database, &*plain.application), ("ycsb", ""));
        let named: Address = "mongodb://h:1/shop?appName=till".parse().unwrap();
        assert_eq!((&*named.database, &*named.application), ("shop", "till"));
        assert_eq!("mongodb://h:1?appName=x".parse::<Address>().unwrap().host, "h:1");
        let options = ["mongodb://h:1/x?tls=true", "mongodb://h:1/x?appName=a&tls=true"];
        let bad = ["mongodb://", "mongodb://host/x", "mongodb://me:secret@h:1/x"];
        for bad in bad.into_iter().chain(options) {
            assert_eq!(bad.parse::<Address>().unwrap_err().kind, ErrorKind::Usage, "{bad}");
        }
    }

    #[test]
    fn a_record_survives_its_document() {
        let loaded = Record::loaded(1, 2);
        assert_eq!(record(&document(Key::of(2), &loaded)).unwrap(), loaded);
        let mut short = rawdoc! {"_id": "x"};
        put(&mut short, "field0", b"1");
        assert_eq!(record(&short).unwrap_err().kind, ErrorKind::Data);
    }
}
