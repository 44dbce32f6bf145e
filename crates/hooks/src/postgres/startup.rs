//! The first packet of a connection: a length, a code, and for a session pairs of names and values.

use super::protocol::code;
use crate::identity::Identity;

/// Longest first packet that the server accepts (MAX_STARTUP_PACKET_LENGTH).
const LENGTH_MAX: u32 = 10_000;
/// Length of the longest parameter name that matters, plus one.
const NAME_MAX: usize = 17;

/// What a first packet asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Asks {
    /// TLS, or encryption by GSSAPI: the server answers by one byte.
    Encryption,
    /// To cancel another session's statement; no session follows.
    Cancel,
    /// A session.
    Session,
    /// TLS without asking first.
    TlsAtOnce,
    /// Something that the server will refuse.
    Nonsense,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Field {
    Other,
    User,
    Database,
    Application,
    Replication,
}

/// Reads a first packet as it arrives.
#[derive(Clone, Debug)]
pub(super) struct Startup {
    head: [u8; 8],
    have: u8,
    /// Bytes still to come after the head.
    left: u32,
    name: [u8; NAME_MAX],
    /// At most NAME_MAX; a name of that length does not matter.
    name_len: u8,
    in_value: Option<Field>,
    replication: [u8; 8],
    replication_len: u8,
    /// Who the client says it is.
    pub(super) identity: Identity,
}

impl Startup {
    pub(super) const fn new() -> Startup {
        Startup {
            head: [0; 8],
            have: 0,
            left: 0,
            name: [0; NAME_MAX],
            name_len: 0,
            in_value: None,
            replication: [0; 8],
            replication_len: 0,
            identity: Identity::new(),
        }
    }

    /// Takes bytes off the front of `bytes`; once the packet is complete, returns what it asks for.
    pub(super) fn feed(&mut self, bytes: &mut &[u8]) -> Option<Asks> {
        const HANDSHAKE: u8 = 0x16;
        while usize::from(self.have) < self.head.len() {
            let (&byte, rest) = bytes.split_first()?;
            *bytes = rest;
            if self.have == 0 && byte == HANDSHAKE {
                return Some(Asks::TlsAtOnce);
            }
            if let Some(slot) = self.head.get_mut(usize::from(self.have)) {
                *slot = byte;
            }
            self.have += 1;
            if usize::from(self.have) == self.head.len() {
                let [a, b, c, d, ..] = self.head;
                let length = u32::from_be_bytes([a, b, c, d]);
                if !(8..=LENGTH_MAX).contains(&length) {
                    return Some(Asks::Nonsense);
                }
                self.left = length - 8;
            }
        }
        let take = (self.left as usize).min(bytes.len());
        let (body, rest) = bytes.split_at(take);
        *bytes = rest;
        // At most `left`.
        self.left -= take as u32;
        let [.., a, b, c, d] = self.head;
        let code = u32::from_be_bytes([a, b, c, d]);
        let session = code >> 16 == code::VERSION_MAJOR;
        if session {
            body.iter().for_each(|&byte| self.parameter(byte));
        }
        (self.left == 0).then_some(match code {
            code::TLS | code::GSS => Asks::Encryption,
            code::CANCEL => Asks::Cancel,
            _ if session => Asks::Session,
            _ => Asks::Nonsense,
        })
    }

    fn parameter(&mut self, byte: u8) {
        match self.in_value {
            None if byte == 0 => {
                let name = self.name.get(..usize::from(self.name_len)).unwrap_or(&[]);
                self.in_value = Some(match name {
                    b"user" => Field::User,
                    b"database" => Field::Database,
                    b"application_name" => Field::Application,
                    b"replication" => Field::Replication,
                    // An empty name ends the list.
                    _ => Field::Other,
                });
                self.name_len = 0;
            }
            None => {
                if let Some(slot) = self.name.get_mut(usize::from(self.name_len)) {
                    *slot = byte;
                    self.name_len += 1;
                }
            }
            Some(_) if byte == 0 => self.in_value = None,
            Some(Field::User) => self.identity.account.push(byte),
            Some(Field::Database) => self.identity.database.push(byte),
            Some(Field::Application) => self.identity.application.push(byte),
            Some(Field::Replication) => {
                if let Some(slot) = self.replication.get_mut(usize::from(self.replication_len)) {
                    *slot = byte;
                    self.replication_len += 1;
                }
            }
            Some(Field::Other) => {}
        }
    }

    /// The packet is complete: who the client is. Without a database the server takes the account's
    /// name.
    pub(super) fn who(&self) -> Identity {
        let mut identity = self.identity;
        if identity.database.is_empty() {
            identity.database = identity.account;
        }
        identity
    }

    /// Whether the session asks for a replication log: any value but the spellings of `false`. The
    /// server accepts prefixes of these too. A client that sends a prefix counts as a replica here,
    /// and is therefore not held.
    pub(super) fn replication(&self) -> bool {
        let value = self.replication.get(..usize::from(self.replication_len)).unwrap_or(&[]);
        let off: [&[u8]; 5] = [b"", b"0", b"false", b"off", b"no"];
        !off.iter().any(|spelling| value.eq_ignore_ascii_case(spelling))
            && !matches!(value, [b'f' | b'F' | b'n' | b'N', ..])
            && !value.eq_ignore_ascii_case(b"of")
    }
}
