//! Messages of MongoDB's wire protocol, written by hand.

#![allow(dead_code, reason = "each test file uses some of it")]

/// A value in a document.
#[derive(Clone, Debug)]
pub enum Value {
    Double(f64),
    Text(&'static str),
    Document(Vec<(&'static str, Value)>),
    Array(Vec<Value>),
    Binary(u8, Vec<u8>),
    Bool(bool),
    Null,
    Regex(&'static str, &'static str),
    Int(i32),
    Long(i64),
    /// A type and its bytes.
    Raw(u8, Vec<u8>),
}

use Value::{Binary, Bool, Document, Int, Long, Text};

pub type Fields = Vec<(&'static str, Value)>;

fn put(out: &mut Vec<u8>, name: &str, value: &Value) {
    let (kind, bytes) = match value {
        Value::Double(number) => (0x01, number.to_le_bytes().to_vec()),
        Text(text) => (0x02, string(text)),
        Document(fields) => (0x03, document(fields)),
        Value::Array(values) => {
            let names: Vec<String> = (0..values.len()).map(|at| at.to_string()).collect();
            (
                0x04,
                close(names.iter().zip(values).fold(vec![0; 4], |mut out, (name, value)| {
                    put(&mut out, name, value);
                    out
                })),
            )
        }
        Binary(subtype, data) => {
            let mut bytes = (data.len() as u32).to_le_bytes().to_vec();
            bytes.push(*subtype);
            bytes.extend(data);
            (0x05, bytes)
        }
        Bool(value) => (0x08, vec![u8::from(*value)]),
        Value::Null => (0x0A, Vec::new()),
        Value::Regex(pattern, options) => (0x0B, format!("{pattern}\0{options}\0").into_bytes()),
        Int(number) => (0x10, number.to_le_bytes().to_vec()),
        Long(number) => (0x12, number.to_le_bytes().to_vec()),
        Value::Raw(kind, bytes) => (*kind, bytes.clone()),
    };
    out.push(kind);
    out.extend(name.as_bytes());
    out.push(0);
    out.extend(bytes);
}

fn string(text: &str) -> Vec<u8> {
    let mut bytes = (text.len() as u32 + 1).to_le_bytes().to_vec();
    bytes.extend(text.as_bytes());
    bytes.push(0);
    bytes
}

fn close(mut bytes: Vec<u8>) -> Vec<u8> {
    bytes.push(0);
    let length = bytes.len() as u32;
    bytes[..4].copy_from_slice(&length.to_le_bytes());
    bytes
}

pub fn document(fields: &[(&'static str, Value)]) -> Vec<u8> {
    close(fields.iter().fold(vec![0; 4], |mut out, (name, value)| {
        put(&mut out, name, value);
        out
    }))
}

/// A message of any kind.
pub fn raw(request: i32, response_to: i32, opcode: i32, body: &[u8]) -> Vec<u8> {
    let mut bytes = (body.len() as u32 + 16).to_le_bytes().to_vec();
    for number in [request, response_to, opcode] {
        bytes.extend(number.to_le_bytes());
    }
    bytes.extend(body);
    bytes
}

pub const MORE_TO_COME: u32 = 2;
pub const EXHAUST_ALLOWED: u32 = 1 << 16;

/// Sections of an OP_MSG.
pub fn body(flags: u32, fields: &[(&'static str, Value)]) -> Vec<u8> {
    let mut bytes = flags.to_le_bytes().to_vec();
    bytes.push(0);
    bytes.extend(document(fields));
    if flags & 1 != 0 {
        bytes.extend([0xDE, 0xAD, 0xBE, 0xEF]);
    }
    bytes
}

/// A sequence of documents, as a section.
pub fn sequence(name: &str, documents: &[Vec<u8>]) -> Vec<u8> {
    let mut inner = name.as_bytes().to_vec();
    inner.push(0);
    documents.iter().for_each(|document| inner.extend(document));
    let mut bytes = vec![1];
    bytes.extend((inner.len() as u32 + 4).to_le_bytes());
    bytes.extend(inner);
    bytes
}

/// A command by OP_MSG.
pub fn message(request: i32, fields: &[(&'static str, Value)]) -> Vec<u8> {
    raw(request, 0, 2013, &body(0, fields))
}

/// An answer by OP_MSG.
pub fn answer(response_to: i32, fields: &[(&'static str, Value)]) -> Vec<u8> {
    raw(response_to + 1000, response_to, 2013, &body(0, fields))
}

pub fn ok(response_to: i32) -> Vec<u8> {
    answer(response_to, &[("n", Int(1)), ("ok", Value::Double(1.0))])
}

pub fn failed(response_to: i32) -> Vec<u8> {
    answer(response_to, &[("ok", Value::Double(0.0)), ("code", Int(112))])
}

/// `lsid` of a session with this number.
pub fn lsid(session: u8) -> (&'static str, Value) {
    ("lsid", Document(vec![("id", Binary(4, vec![session; 16]))]))
}

/// A statement of a transaction.
pub fn statement(
    request: i32,
    name: &'static str,
    session: u8,
    number: i64,
    starts: bool,
) -> Vec<u8> {
    let mut fields = vec![(name, Text("c")), lsid(session), ("txnNumber", Long(number))];
    if starts {
        fields.push(("startTransaction", Bool(true)));
    }
    fields.extend([("autocommit", Bool(false)), ("$db", Text("shop"))]);
    message(request, &fields)
}

/// An OP_QUERY on `admin.$cmd`.
pub fn query(request: i32, fields: &[(&'static str, Value)]) -> Vec<u8> {
    let mut bytes = 0u32.to_le_bytes().to_vec();
    bytes.extend(b"admin.$cmd\0");
    bytes.extend(0u32.to_le_bytes());
    bytes.extend((-1i32).to_le_bytes());
    bytes.extend(document(fields));
    raw(request, 0, 2004, &bytes)
}

/// An OP_REPLY.
pub fn reply(response_to: i32, fields: &[(&'static str, Value)]) -> Vec<u8> {
    let mut bytes = vec![0; 16];
    bytes.extend(1u32.to_le_bytes());
    bytes.extend(document(fields));
    raw(response_to + 1000, response_to, 1, &bytes)
}

/// The `client` document of a driver.
pub fn metadata(application: &'static str) -> (&'static str, Value) {
    let driver = Document(vec![("name", Text("driver")), ("version", Text("1"))]);
    let application = Document(vec![("name", Text(application))]);
    ("client", Document(vec![("driver", driver), ("application", application)]))
}
