//! Packets of the MySQL protocol: a reader for the integers and strings inside them, and the
//! numbers of the protocol.

use crate::client::ClientError;

/// Capability flags of the handshake.
pub mod capability {
    /// The handshake names a database.
    pub const CONNECT_WITH_DB: u32 = 1 << 3;
    /// `LOAD DATA LOCAL` is understood.
    pub const LOCAL_FILES: u32 = 1 << 7;
    /// The 4.1 protocol.
    pub const PROTOCOL_41: u32 = 1 << 9;
    /// Status flags are sent.
    pub const TRANSACTIONS: u32 = 1 << 13;
    /// Authentication of 4.1.
    pub const SECURE_CONNECTION: u32 = 1 << 15;
    /// Several statements in one `COM_QUERY`.
    pub const MULTI_STATEMENTS: u32 = 1 << 16;
    /// Several results to one `COM_QUERY`.
    pub const MULTI_RESULTS: u32 = 1 << 17;
    /// Several results to one `COM_STMT_EXECUTE`.
    pub const PS_MULTI_RESULTS: u32 = 1 << 18;
    /// Authentication plugins.
    pub const PLUGIN_AUTH: u32 = 1 << 19;
    /// Connection attributes.
    pub const CONNECT_ATTRS: u32 = 1 << 20;
    /// Result sets end with an OK packet instead of EOF packets.
    pub const DEPRECATE_EOF: u32 = 1 << 24;
}

/// Status flags of OK and EOF packets.
pub mod status {
    /// A transaction is open.
    pub const IN_TRANSACTION: u16 = 1;
    /// Autocommit is on.
    pub const AUTOCOMMIT: u16 = 2;
    /// Another result follows.
    pub const MORE_RESULTS: u16 = 8;
    /// A cursor is open on the server.
    pub const CURSOR_EXISTS: u16 = 64;
}

/// Command bytes.
pub mod command {
    /// Close the connection.
    pub const QUIT: u8 = 0x01;
    /// Change the default database.
    pub const INIT_DB: u8 = 0x02;
    /// Run a statement in text.
    pub const QUERY: u8 = 0x03;
    /// Is the server alive?
    pub const PING: u8 = 0x0e;
    /// Prepare a statement.
    pub const STMT_PREPARE: u8 = 0x16;
    /// Run a prepared statement.
    pub const STMT_EXECUTE: u8 = 0x17;
    /// Forget a prepared statement; has no answer.
    pub const STMT_CLOSE: u8 = 0x19;
    /// Fetch rows of a cursor.
    pub const STMT_FETCH: u8 = 0x1c;
    /// Reset the session.
    pub const RESET_CONNECTION: u8 = 0x1f;
}

/// Column types whose binary values have a fixed size.
pub(crate) fn fixed_size(column_type: u8) -> Option<usize> {
    match column_type {
        0x01 => Some(1),
        0x02 | 0x0d => Some(2),
        0x03 | 0x04 | 0x09 => Some(4),
        0x05 | 0x08 => Some(8),
        _ => None,
    }
}

/// Reads fields off the front of a packet.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fields<'a>(pub(crate) &'a [u8]);

impl<'a> Fields<'a> {
    pub(crate) fn take(&mut self, length: usize) -> Result<&'a [u8], ClientError> {
        let (head, tail) = self
            .0
            .split_at_checked(length)
            .ok_or(ClientError::Protocol("a packet ends before its fields do"))?;
        self.0 = tail;
        Ok(head)
    }

    /// A little-endian integer of up to eight bytes.
    pub(crate) fn integer(&mut self, length: usize) -> Result<u64, ClientError> {
        Ok(self.take(length)?.iter().rev().fold(0, |value, byte| (value << 8) | u64::from(*byte)))
    }

    pub(crate) fn byte(&mut self) -> Result<u8, ClientError> {
        Ok(self.take(1)?[0])
    }

    pub(crate) fn u16(&mut self) -> Result<u16, ClientError> {
        Ok(self.byte()? as u16 | (self.byte()? as u16) << 8)
    }

    pub(crate) fn u32(&mut self) -> Result<u32, ClientError> {
        Ok(u32::from(self.u16()?) | u32::from(self.u16()?) << 16)
    }

    /// A length-encoded integer; `None` stands for NULL.
    pub(crate) fn encoded_integer(&mut self) -> Result<Option<u64>, ClientError> {
        match self.byte()? {
            0xfb => Ok(None),
            0xfc => self.integer(2).map(Some),
            0xfd => self.integer(3).map(Some),
            0xfe => self.integer(8).map(Some),
            0xff => Err(ClientError::Protocol("a length that cannot be")),
            small => Ok(Some(u64::from(small))),
        }
    }

    /// A length-encoded string; `None` stands for NULL.
    pub(crate) fn encoded_bytes(&mut self) -> Result<Option<&'a [u8]>, ClientError> {
        match self.encoded_integer()? {
            None => Ok(None),
            Some(length) => {
                let length = usize::try_from(length)
                    .map_err(|_| ClientError::Protocol("a string too long"))?;
                self.take(length).map(Some)
            }
        }
    }

    pub(crate) fn until_nul(&mut self) -> &'a [u8] {
        let end = self.0.iter().position(|byte| *byte == 0).unwrap_or(self.0.len());
        let head = &self.0[..end];
        self.0 = self.0.get(end + 1..).unwrap_or_default();
        head
    }
}

/// Appends a length-encoded string.
pub(crate) fn put_encoded(out: &mut Vec<u8>, bytes: &[u8]) {
    match bytes.len() {
        length @ 0..=250 => out.push(length as u8),
        length @ 251..=0xffff => {
            out.push(0xfc);
            out.extend_from_slice(&(length as u16).to_le_bytes());
        }
        length => {
            out.push(0xfe);
            out.extend_from_slice(&(length as u64).to_le_bytes());
        }
    }
    out.extend_from_slice(bytes);
}

/// The bytes of one command with its packet header, sequence number 0, for tests that split, join
/// or damage them.
///
/// `packet(command::QUERY, b"BEGIN")` is `06 00 00 00 03 42 45 47 49 4e`.
pub fn packet(command: u8, body: &[u8]) -> Vec<u8> {
    let length = body.len() + 1;
    assert!(length < 0xff_ffff, "a command of more than 16 MiB needs several packets");
    let mut out = Vec::with_capacity(length + 4);
    out.extend_from_slice(&(length as u32).to_le_bytes()[..3]);
    out.extend_from_slice(&[0, command]);
    out.extend_from_slice(body);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn length_encoded_strings_survive_a_round_trip() {
        for length in [0, 1, 250, 251, 65_535, 65_536] {
            let bytes = vec![7; length];
            let mut out = Vec::new();
            put_encoded(&mut out, &bytes);
            let mut fields = Fields(&out);
            assert_eq!(fields.encoded_bytes().unwrap(), Some(&bytes[..]));
            assert!(fields.0.is_empty());
        }
    }

    #[test]
    fn a_truncated_packet_is_an_error_and_no_panic() {
        assert!(Fields(&[0xfc, 1]).encoded_integer().is_err());
        assert!(Fields(&[5, 1, 2]).encoded_bytes().is_err());
        assert!(Fields(&[]).byte().is_err());
    }

    #[test]
    fn a_command_has_a_header() {
        assert_eq!(packet(command::QUERY, b"BEGIN"), b"\x06\0\0\0\x03BEGIN");
    }
}
