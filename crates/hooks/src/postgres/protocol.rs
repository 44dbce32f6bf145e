//! Constants of the wire format (PostgreSQL 15 documentation, 55.7 "Message Formats").

/// Messages of a client.
pub(super) mod front {
    pub(in crate::postgres) const BIND: u8 = b'B';
    pub(in crate::postgres) const CLOSE: u8 = b'C';
    pub(in crate::postgres) const COPY_DATA: u8 = b'd';
    pub(in crate::postgres) const COPY_DONE: u8 = b'c';
    pub(in crate::postgres) const COPY_FAIL: u8 = b'f';
    pub(in crate::postgres) const DESCRIBE: u8 = b'D';
    pub(in crate::postgres) const EXECUTE: u8 = b'E';
    pub(in crate::postgres) const FLUSH: u8 = b'H';
    pub(in crate::postgres) const FUNCTION_CALL: u8 = b'F';
    pub(in crate::postgres) const PARSE: u8 = b'P';
    /// Password, SASL and GSS answers alike.
    pub(in crate::postgres) const PASSWORD: u8 = b'p';
    pub(in crate::postgres) const QUERY: u8 = b'Q';
    pub(in crate::postgres) const SYNC: u8 = b'S';
    pub(in crate::postgres) const TERMINATE: u8 = b'X';
}

/// Messages of the server that matter here.
pub(super) mod back {
    pub(in crate::postgres) const COMMAND_COMPLETE: u8 = b'C';
    pub(in crate::postgres) const COPY_BOTH: u8 = b'W';
    pub(in crate::postgres) const COPY_IN: u8 = b'G';
    pub(in crate::postgres) const DATA_ROW: u8 = b'D';
    pub(in crate::postgres) const EMPTY_QUERY: u8 = b'I';
    pub(in crate::postgres) const ERROR: u8 = b'E';
    pub(in crate::postgres) const PARAMETER_STATUS: u8 = b'S';
    pub(in crate::postgres) const PORTAL_SUSPENDED: u8 = b's';
    pub(in crate::postgres) const READY: u8 = b'Z';
    /// Messages that do not matter: authentication, key, notice, notification, completions of
    /// Parse, Bind and Close, descriptions, function results, copy data and its end, protocol
    /// version.
    pub(in crate::postgres) const OTHERS: &[u8] = b"RKNA123tTnVHdcv";
}

/// Codes of the first packet of a connection.
pub(super) mod code {
    /// Major version 3.
    pub(in crate::postgres) const VERSION_MAJOR: u32 = 3;
    pub(in crate::postgres) const CANCEL: u32 = 80_877_102;
    pub(in crate::postgres) const TLS: u32 = 80_877_103;
    pub(in crate::postgres) const GSS: u32 = 80_877_104;
}

/// The text before the first NUL, and the bytes after it. Without a NUL: all of it, and nothing.
pub(super) fn until_nul(bytes: &[u8]) -> (&[u8], &[u8]) {
    match bytes.iter().position(|&byte| byte == 0) {
        Some(at) => {
            let (text, rest) = bytes.split_at(at);
            (text, rest.get(1..).unwrap_or(&[]))
        }
        None => (bytes, &[]),
    }
}
