//! Hand-made packets for the tests of the MySQL session.
#![allow(dead_code, unreachable_pub, reason = "every test crate uses a part of it")]

use headworks_hooks::mysql::{ClientEvent, Holding, Request, RequestClass, Session};

pub const AUTOCOMMIT: u16 = 0x0002;
pub const IN_TRANS: u16 = 0x0001;
pub const MORE: u16 = 0x0008;
pub const CURSOR: u16 = 0x0040;

pub const CONNECT_WITH_DB: u32 = 1 << 3;
pub const COMPRESS: u32 = 1 << 5;
pub const PROTOCOL_41: u32 = 1 << 9;
pub const SSL: u32 = 1 << 11;
pub const SECURE: u32 = 1 << 15;
pub const MULTI: u32 = 1 << 16;
pub const PLUGIN_AUTH: u32 = 1 << 19;
pub const ATTRS: u32 = 1 << 20;
pub const LENENC_AUTH: u32 = 1 << 21;
pub const DEPRECATE_EOF: u32 = 1 << 24;
pub const ZSTD: u32 = 1 << 26;
pub const QUERY_ATTRIBUTES: u32 = 1 << 27;
pub const CACHE_METADATA: u32 = 1 << 4;

pub const BASE: u32 = CONNECT_WITH_DB | PROTOCOL_41 | SECURE | PLUGIN_AUTH | ATTRS | LENENC_AUTH;
/// A MariaDB server that offers all that matters.
pub const SERVER: u32 = BASE | COMPRESS | SSL | MULTI | DEPRECATE_EOF | ZSTD | QUERY_ATTRIBUTES;

pub fn packet(sequence: u8, payload: &[u8]) -> Vec<u8> {
    let mut bytes = (payload.len() as u32).to_le_bytes()[..3].to_vec();
    bytes.push(sequence);
    bytes.extend(payload);
    bytes
}

pub fn greeting(capabilities: u32, extended: u32) -> Vec<u8> {
    let mut payload = vec![10];
    payload.extend(b"5.5.5-10.11.6-MariaDB\0");
    payload.extend([1, 0, 0, 0]);
    payload.extend(b"abcdefgh\0");
    payload.extend(&capabilities.to_le_bytes()[..2]);
    payload.push(45);
    payload.extend(AUTOCOMMIT.to_le_bytes());
    payload.extend(&capabilities.to_le_bytes()[2..]);
    payload.push(21);
    payload.extend([0; 6]);
    payload.extend(extended.to_le_bytes());
    payload.extend(b"ijklmnopqrst\0mysql_native_password\0");
    packet(0, &payload)
}

fn string(text: &str) -> Vec<u8> {
    let mut bytes = vec![text.len() as u8];
    bytes.extend(text.as_bytes());
    bytes
}

pub fn response(
    capabilities: u32,
    extended: u32,
    account: &str,
    database: &str,
    program: &str,
) -> Vec<u8> {
    let mut payload = capabilities.to_le_bytes().to_vec();
    payload.extend([0, 0, 0, 1, 45]);
    payload.extend([0; 19]);
    payload.extend(extended.to_le_bytes());
    payload.extend(account.as_bytes());
    payload.push(0);
    payload.extend(string("01234567890123456789"));
    if capabilities & CONNECT_WITH_DB != 0 {
        payload.extend(database.as_bytes());
        payload.push(0);
    }
    if capabilities & PLUGIN_AUTH != 0 {
        payload.extend(b"mysql_native_password\0");
    }
    if capabilities & ATTRS != 0 {
        let mut attributes = [
            string("_os"),
            string("Linux"),
            string("program_name"),
            string(program),
            string("x"),
            string(""),
        ]
        .concat();
        payload.push(attributes.len() as u8);
        payload.append(&mut attributes);
    }
    packet(1, &payload)
}

pub fn change_user(account: &str, database: &str, program: &str) -> Vec<u8> {
    let mut payload = vec![0x11];
    payload.extend(account.as_bytes());
    payload.push(0);
    payload.extend(string("secret"));
    payload.extend(database.as_bytes());
    payload.push(0);
    payload.extend([45, 0]);
    payload.extend(b"mysql_native_password\0");
    let attributes = [string("program_name"), string(program)].concat();
    payload.push(attributes.len() as u8);
    payload.extend(attributes);
    packet(0, &payload)
}

pub fn ok(status: u16) -> Vec<u8> {
    let [low, high] = status.to_le_bytes();
    packet(1, &[0, 0, 0, low, high, 0, 0])
}

pub fn eof(status: u16) -> Vec<u8> {
    let [low, high] = status.to_le_bytes();
    packet(1, &[0xFE, 0, 0, low, high])
}

/// The OK packet that ends rows under CLIENT_DEPRECATE_EOF.
pub fn end(status: u16) -> Vec<u8> {
    let [low, high] = status.to_le_bytes();
    packet(1, &[0xFE, 0, 0, low, high, 0, 0])
}

pub fn err(code: u16) -> Vec<u8> {
    let [low, high] = code.to_le_bytes();
    let mut payload = vec![0xFF, low, high];
    payload.extend(b"#HY000it failed");
    packet(1, &payload)
}

pub fn definition() -> Vec<u8> {
    packet(2, b"\x03def\x00\x00\x00\x01a\x00\x0c\x3f\x00\x01\x00\x00\x00\x03\x81\x00\x00\x00\x00")
}

/// A text result set of one column, without CLIENT_DEPRECATE_EOF.
pub fn rows(status: u16, values: &[&str]) -> Vec<u8> {
    let mut bytes = packet(1, &[1]);
    bytes.extend(definition());
    bytes.extend(eof(status));
    for value in values {
        bytes.extend(packet(4, &string(value)));
    }
    bytes.extend(eof(status));
    bytes
}

pub fn query(text: &str) -> Vec<u8> {
    command(0x03, text.as_bytes())
}

pub fn command(code: u8, body: &[u8]) -> Vec<u8> {
    let mut payload = vec![code];
    payload.extend(body);
    packet(0, &payload)
}

/// The answer to COM_STMT_PREPARE without parameters and columns.
pub fn prepared(id: u32) -> Vec<u8> {
    let mut payload = vec![0];
    payload.extend(id.to_le_bytes());
    payload.extend([0, 0, 0, 0, 0, 0, 0]);
    packet(1, &payload)
}

pub fn execute(id: u32) -> Vec<u8> {
    let mut body = id.to_le_bytes().to_vec();
    body.extend([0, 1, 0, 0, 0]);
    command(0x17, &body)
}

/// A session in the command phase of a client with these capabilities.
pub fn logged_in(capabilities: u32, extended: u32) -> Session {
    let mut session = Session::new();
    session.server_bytes(&greeting(SERVER, u32::MAX));
    session.client_bytes(&response(BASE | capabilities, extended, "app", "shop", "sysbench"));
    session.server_bytes(&ok(AUTOCOMMIT));
    assert_eq!(session.opaque(), None);
    assert!(session.at_boundary());
    session
}

pub fn plain() -> Session {
    logged_in(0, 0)
}

pub fn class_of(event: ClientEvent) -> RequestClass {
    match event {
        ClientEvent::Request(Request { class, .. }) => class,
        ClientEvent::None => panic!("no request was reported"),
    }
}

/// One request and its whole answer.
pub fn turn(session: &mut Session, request: &[u8], answer: &[u8]) -> ClientEvent {
    let event = session.client_bytes(request);
    assert!(!session.at_boundary(), "a request is under way");
    session.server_bytes(answer);
    assert_eq!(session.opaque(), None);
    assert!(session.at_boundary(), "its answer is complete");
    event
}

/// What a session holds after this text was answered so.
pub fn after(session: &mut Session, text: &str, answer: &[u8]) -> Holding {
    turn(session, &query(text), answer);
    session.holding()
}
