//! Readers for the connection phase ("MariaDB protocol documentation": initial handshake packet,
//! handshake response packet, COM_CHANGE_USER). They take one byte at a time, so any chunking gives
//! the same result; a login is a few hundred bytes once per connection.

use super::protocol::caps;
use crate::identity::{Identity, InlineStr};

/// The server's greeting: only its capabilities matter.
#[derive(Clone, Debug)]
pub(super) struct Greeting {
    /// Bytes read: 0 before the protocol version, 1 inside the version string, then counting the
    /// fixed part.
    at: u8,
    /// The first byte of the packet: 10 for a greeting.
    pub(super) version: u8,
    /// Lower and upper 16 bits.
    pub(super) capabilities: u32,
    /// MariaDB's further 32 bits.
    pub(super) extended: u32,
}

impl Greeting {
    pub(super) const fn new() -> Greeting {
        Greeting { at: 0, version: 0, capabilities: 0, extended: 0 }
    }

    /// Whether the lower capabilities were read: all that a server must send.
    pub(super) const fn complete(&self) -> bool {
        self.at >= 2 + 15
    }

    pub(super) fn feed(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            match self.at {
                0 => self.version = byte,
                1 if byte != 0 => continue,
                // After the string: thread id 4, scramble 8, filler 1, capabilities 2, charset 1,
                // status 2, capabilities 2, length 1, filler 6, extended capabilities 4.
                15..=16 => self.capabilities |= u32::from(byte) << (8 * (self.at - 15)),
                20..=21 => self.capabilities |= u32::from(byte) << (8 * (self.at - 18)),
                29..=32 => self.extended |= u32::from(byte) << (8 * (self.at - 29)),
                _ => {}
            }
            self.at = self.at.saturating_add(1);
        }
        if self.capabilities & caps::CLIENT_MYSQL != 0 {
            self.extended = 0;
        }
    }
}

/// The field that the next byte belongs to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Field {
    /// Capabilities 4, packet size 4, charset 1, filler 19, extended capabilities 4.
    Fixed,
    Account,
    AuthLength,
    Auth,
    AuthText,
    Database,
    Charset,
    Plugin,
    AttributesLength,
    KeyLength,
    Key,
    ValueLength,
    Value,
    Done,
}

const PROGRAM_NAME: &[u8] = b"program_name";

/// Reads a handshake response or a COM_CHANGE_USER into an [`Identity`].
#[derive(Clone, Debug)]
pub(super) struct Login {
    field: Field,
    change_user: bool,
    /// Bytes of the field read (fixed part, charset) or still to come (auth data, key, value).
    count: u64,
    /// Reading a length-encoded integer: bytes still to come and bits read.
    lenenc_left: u8,
    lenenc_shift: u8,
    /// Bytes left in all the attributes.
    attributes_left: u64,
    /// How much of `program_name` the key matched; 0xFF when it does not.
    matched: u8,
    /// The client's flags.
    pub(super) capabilities: u32,
    /// The client's MariaDB flags.
    pub(super) extended: u32,
    server: u32,
}

impl Login {
    pub(super) const fn new() -> Login {
        Login {
            field: Field::Done,
            change_user: false,
            count: 0,
            lenenc_left: 0,
            lenenc_shift: 0,
            attributes_left: 0,
            matched: 0,
            capabilities: 0,
            extended: 0,
            server: 0,
        }
    }

    /// Begins a handshake response to a server with these capabilities.
    pub(super) fn begin_response(&mut self, server: u32) {
        *self = Login { field: Field::Fixed, server, ..Login::new() };
    }

    /// Begins a COM_CHANGE_USER after its command byte.
    pub(super) fn begin_change_user(&mut self) {
        *self = Login {
            field: Field::Account,
            change_user: true,
            server: self.server,
            capabilities: self.capabilities,
            extended: self.extended,
            ..Login::new()
        };
    }

    /// Whether the fixed part of a response was read, so that the capabilities are known.
    pub(super) fn has_capabilities(&self) -> bool {
        self.field != Field::Fixed
    }

    fn both(&self, flag: u32) -> bool {
        self.capabilities & self.server & flag != 0
    }

    pub(super) fn feed(&mut self, bytes: &[u8], identity: &mut Identity) {
        for &byte in bytes {
            if self.field == Field::Done {
                return;
            }
            self.byte(byte, identity);
        }
    }

    fn byte(&mut self, byte: u8, identity: &mut Identity) {
        match self.field {
            Field::Fixed => self.fixed(byte),
            Field::Account => {
                if self.string(byte, &mut identity.account) {
                    self.field = if self.change_user || !self.both(caps::PLUGIN_AUTH_LENENC) {
                        if self.both(caps::SECURE_CONNECTION) {
                            Field::AuthLength
                        } else {
                            Field::AuthText
                        }
                    } else {
                        Field::AuthLength
                    };
                }
            }
            Field::AuthLength => {
                let length = if self.change_user || !self.both(caps::PLUGIN_AUTH_LENENC) {
                    self.count = u64::from(byte);
                    Some(self.count)
                } else {
                    self.lenenc(byte)
                };
                match length {
                    Some(0) => self.after_auth(),
                    Some(_) => self.field = Field::Auth,
                    None => {}
                }
            }
            Field::Auth => {
                self.count = self.count.saturating_sub(1);
                if self.count == 0 {
                    self.after_auth();
                }
            }
            Field::AuthText if byte == 0 => self.after_auth(),
            Field::AuthText => {}
            Field::Database => {
                if self.string(byte, &mut identity.database) {
                    self.count = 0;
                    if self.change_user {
                        self.field = Field::Charset;
                    } else {
                        self.after_database();
                    }
                }
            }
            Field::Charset => {
                self.count += 1;
                if self.count == 2 {
                    self.after_database();
                }
            }
            Field::Plugin if byte == 0 => self.after_plugin(),
            Field::Plugin => {}
            _ => self.attribute(byte, identity),
        }
    }

    fn fixed(&mut self, byte: u8) {
        match self.count {
            0..=3 => self.capabilities |= u32::from(byte) << (8 * self.count),
            28..=31 => self.extended |= u32::from(byte) << (8 * (self.count - 28)),
            _ => {}
        }
        self.count += 1;
        if self.count == 32 {
            if (self.capabilities | self.server) & caps::CLIENT_MYSQL != 0 {
                self.extended = 0;
            }
            self.field = Field::Account;
        }
    }

    /// Adds to a NUL-terminated string; true at its end.
    fn string(&mut self, byte: u8, into: &mut InlineStr) -> bool {
        if byte != 0 {
            into.push(byte);
        }
        byte == 0
    }

    fn after_auth(&mut self) {
        if self.change_user || self.both(caps::CONNECT_WITH_DB) {
            self.field = Field::Database;
        } else {
            self.after_database();
        }
    }

    fn after_database(&mut self) {
        if self.both(caps::PLUGIN_AUTH) {
            self.field = Field::Plugin;
        } else {
            self.after_plugin();
        }
    }

    fn after_plugin(&mut self) {
        self.count = 0;
        self.field =
            if self.both(caps::CONNECT_ATTRS) { Field::AttributesLength } else { Field::Done };
    }

    /// One byte of a length-encoded integer into `count`; the value once it is complete.
    fn lenenc(&mut self, byte: u8) -> Option<u64> {
        if self.lenenc_left == 0 {
            self.lenenc_shift = 0;
            self.count = 0;
            self.lenenc_left = match byte {
                0xFC => 2,
                0xFD => 3,
                0xFE => 8,
                _ => {
                    self.count = u64::from(byte);
                    return Some(self.count);
                }
            };
            return None;
        }
        self.count |= u64::from(byte) << self.lenenc_shift;
        self.lenenc_shift = (self.lenenc_shift + 8) & 63;
        self.lenenc_left -= 1;
        (self.lenenc_left == 0).then_some(self.count)
    }

    fn attribute(&mut self, byte: u8, identity: &mut Identity) {
        if self.field == Field::AttributesLength {
            if let Some(length) = self.lenenc(byte) {
                self.attributes_left = length;
                self.field = if length == 0 { Field::Done } else { Field::KeyLength };
            }
            return;
        }
        self.attributes_left = self.attributes_left.saturating_sub(1);
        match self.field {
            Field::KeyLength => {
                if let Some(length) = self.lenenc(byte) {
                    self.matched = if length == PROGRAM_NAME.len() as u64 { 0 } else { 0xFF };
                    self.field = if length == 0 { Field::ValueLength } else { Field::Key };
                }
            }
            Field::Key => {
                if self.matched != 0xFF {
                    let expected = PROGRAM_NAME.get(usize::from(self.matched));
                    self.matched = if expected == Some(&byte) { self.matched + 1 } else { 0xFF };
                }
                self.count = self.count.saturating_sub(1);
                if self.count == 0 {
                    self.field = Field::ValueLength;
                }
            }
            Field::ValueLength => {
                if let Some(length) = self.lenenc(byte) {
                    if self.is_program() {
                        identity.application = InlineStr::new();
                    }
                    self.field = if length == 0 { Field::KeyLength } else { Field::Value };
                }
            }
            Field::Value => {
                if self.is_program() {
                    identity.application.push(byte);
                }
                self.count = self.count.saturating_sub(1);
                if self.count == 0 {
                    self.field = Field::KeyLength;
                }
            }
            _ => {}
        }
        if self.attributes_left == 0 {
            self.field = Field::Done;
        }
    }

    fn is_program(&self) -> bool {
        usize::from(self.matched) == PROGRAM_NAME.len()
    }
}
