//! Constants and small readers of the wire format ("MariaDB protocol documentation": protocol data
//! types, capabilities, server status flags, OK/EOF/ERR packets).

/// Capability flags of greeting and handshake response.
pub(super) mod caps {
    /// Clear in a MariaDB server's greeting: then the last 4 bytes of the filler carry extended
    /// flags.
    pub(in crate::mysql) const CLIENT_MYSQL: u32 = 1;
    pub(in crate::mysql) const CONNECT_WITH_DB: u32 = 1 << 3;
    pub(in crate::mysql) const COMPRESS: u32 = 1 << 5;
    pub(in crate::mysql) const PROTOCOL_41: u32 = 1 << 9;
    pub(in crate::mysql) const SSL: u32 = 1 << 11;
    pub(in crate::mysql) const SECURE_CONNECTION: u32 = 1 << 15;
    pub(in crate::mysql) const MULTI_STATEMENTS: u32 = 1 << 16;
    pub(in crate::mysql) const PLUGIN_AUTH: u32 = 1 << 19;
    pub(in crate::mysql) const CONNECT_ATTRS: u32 = 1 << 20;
    pub(in crate::mysql) const PLUGIN_AUTH_LENENC: u32 = 1 << 21;
    pub(in crate::mysql) const DEPRECATE_EOF: u32 = 1 << 24;
    /// MySQL 8: a result set's header says whether column definitions follow.
    pub(in crate::mysql) const OPTIONAL_METADATA: u32 = 1 << 25;
    pub(in crate::mysql) const ZSTD: u32 = 1 << 26;
    /// MySQL 8: the text of COM_QUERY is preceded by attributes.
    pub(in crate::mysql) const QUERY_ATTRIBUTES: u32 = 1 << 27;
    /// MariaDB, extended: as OPTIONAL_METADATA (bit 36 of 64).
    pub(in crate::mysql) const EXTENDED_CACHE_METADATA: u32 = 1 << 4;
}

/// Server status flags in OK and EOF packets.
pub(super) mod status {
    pub(in crate::mysql) const IN_TRANS: u16 = 0x0001;
    pub(in crate::mysql) const AUTOCOMMIT: u16 = 0x0002;
    pub(in crate::mysql) const MORE_RESULTS: u16 = 0x0008;
    pub(in crate::mysql) const CURSOR_EXISTS: u16 = 0x0040;
    pub(in crate::mysql) const IN_TRANS_READONLY: u16 = 0x2000;
}

/// Payload length of a packet that is continued by the next one.
pub(super) const FULL_PACKET: u32 = 0xFF_FFFF;

/// How result sets look on one connection, fixed by the capabilities of both sides.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Dialect {
    /// No EOF after definitions; rows end with an OK packet whose header is 0xFE.
    pub(super) deprecate_eof: bool,
    /// The column count is followed by a byte: 1 if definitions follow (MariaDB and MySQL alike).
    pub(super) metadata_flag: bool,
    /// MySQL's variant of the flag: it also applies to COM_STMT_PREPARE, and drops the EOF with the
    /// definitions.
    pub(super) metadata_mysql: bool,
}

impl Dialect {
    pub(super) const fn new() -> Dialect {
        Dialect { deprecate_eof: false, metadata_flag: false, metadata_mysql: false }
    }
}

/// A length-encoded integer at the start of `bytes`: value and size in bytes.
pub(super) fn lenenc(bytes: &[u8]) -> Option<(u64, usize)> {
    let (&first, rest) = bytes.split_first()?;
    let size = match first {
        0..=0xFA => return Some((u64::from(first), 1)),
        0xFC => 2,
        0xFD => 3,
        0xFE => 8,
        _ => return None,
    };
    let value =
        rest.get(..size)?.iter().rev().fold(0u64, |value, &byte| value << 8 | u64::from(byte));
    Some((value, size + 1))
}

/// A little-endian u16 at `at`.
pub(super) fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes([*bytes.get(at)?, *bytes.get(at.checked_add(1)?)?]))
}

/// The status word of an OK packet (header byte, affected rows, last insert id, status).
pub(super) fn ok_status(head: &[u8]) -> Option<u16> {
    let (_, affected) = lenenc(head.get(1..)?)?;
    let (_, insert_id) = lenenc(head.get(1 + affected..)?)?;
    u16_at(head, 1 + affected + insert_id)
}

/// The status word of a packet with header 0xFE, which is an EOF (5 bytes: warnings, status) or an
/// OK packet in its place (7 bytes and more). The length tells them apart.
pub(super) fn end_status(head: &[u8], len: u32) -> Option<u16> {
    if len < 7 { u16_at(head, 3) } else { ok_status(head) }
}

/// Whether an ERR packet is a MariaDB progress report. It has error code 0xFFFF, and a count where
/// a real error has the `#` of its SQLSTATE. So a SIGNAL with MYSQL_ERRNO = 65535 is still an
/// error.
pub(super) fn is_progress(head: &[u8]) -> bool {
    u16_at(head, 1) == Some(0xFFFF) && head.get(3).is_some_and(|&byte| byte != b'#')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn length_encoded_integers_of_every_size() {
        assert_eq!(lenenc(&[0xFA]), Some((250, 1)));
        assert_eq!(lenenc(&[0xFC, 1, 1]), Some((257, 3)));
        assert_eq!(lenenc(&[0xFD, 0, 0, 1]), Some((65_536, 4)));
        assert_eq!(lenenc(&[0xFE, 0, 0, 0, 0, 1, 0, 0, 0]), Some((1 << 32, 9)));
        assert_eq!(lenenc(&[0xFB]), None, "NULL is no integer");
        assert_eq!(lenenc(&[0xFC, 1]), None, "cut off");
    }

    #[test]
    fn status_of_ok_follows_two_length_encoded_integers() {
        assert_eq!(ok_status(&[0, 0xFC, 1, 1, 5, 0x03, 0x20, 0, 0]), Some(0x2003));
        assert_eq!(end_status(&[0xFE, 9, 9, 0x0A, 0], 5), Some(0x000A));
        assert_eq!(end_status(&[0xFE, 0, 0, 0x02, 0, 0, 0], 7), Some(0x0002));
    }

    #[test]
    fn a_progress_report_is_told_from_an_error_with_the_same_code() {
        assert!(is_progress(&[0xFF, 0xFF, 0xFF, 1, 1, 1]));
        assert!(!is_progress(&[0xFF, 0xFF, 0xFF, b'#', b'4', b'5']));
        assert!(!is_progress(&[0xFF, 0x28, 0x04, b'#']));
    }
}
