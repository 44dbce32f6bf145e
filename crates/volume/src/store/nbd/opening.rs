//! A connection that a volume can use: to an export that is large enough, by a client that is known
//! again.

use super::connection::Connection;
use super::{Address, NbdError};
use crate::nbd::UNKNOWN;
use crate::nbd::wire::transmission_flag as flag;
use std::time::Duration;

/// What is known of the bytes behind a new connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Bytes {
    /// All that was answered is there.
    All,
    /// All that was flushed is there.
    Flushed,
    /// Nothing is known: the server says nothing, as servers of others do.
    Unknown,
    /// They are others.
    Others,
}

fn said<'a>(connection: &'a Connection, key: &str) -> Option<&'a str> {
    let words = connection.words.as_deref()?;
    words.split(';').find_map(|pair| pair.strip_prefix(key)?.strip_prefix('='))
}

/// What the server says of its export: the same as long as all that it answered is there.
pub(super) fn incarnation(connection: &Connection) -> Option<&str> {
    said(connection, "incarnation")
}

/// Whose bytes they are, if the server says so.
pub(super) fn identity(connection: &Connection) -> Option<&str> {
    said(connection, "bytes").filter(|bytes| *bytes != UNKNOWN)
}

/// Compares what is behind two connections to one export.
pub(super) fn compare(old: &Connection, fresh: &Connection) -> Bytes {
    let same = |before: Option<&str>, now: Option<&str>| Some(before? == now?);
    // No server makes an export smaller and keeps its bytes.
    if fresh.terms.size_bytes < old.terms.size_bytes
        || same(identity(old), identity(fresh)) == Some(false)
        || identity(old).is_some() && identity(fresh).is_none()
    {
        return Bytes::Others;
    }
    match same(incarnation(old), incarnation(fresh)) {
        Some(true) => Bytes::All,
        _ if identity(old).is_some() && identity(fresh).is_some() => Bytes::Flushed,
        _ => Bytes::Unknown,
    }
}

pub(super) fn connect(
    address: &Address,
    session: &str,
    size: u64,
    block: u32,
    patience: Duration,
) -> Result<Connection, NbdError> {
    let connection = Connection::open(address, session, patience / 2)?;
    let terms = connection.terms;
    let address = || address.clone();
    if terms.can(flag::READ_ONLY) {
        return Err(NbdError::ReadOnly { address: address() });
    }
    if terms.size_bytes < size {
        return Err(NbdError::Small { address: address(), has: terms.size_bytes, needs: size });
    }
    if terms.block_bytes_min > block {
        return Err(NbdError::Block { address: address(), least: terms.block_bytes_min });
    }
    Ok(connection)
}

/// For the log: the server is back, and does not tell whose bytes it has.
pub(super) const UNKNOWN_BYTES: &str = "; this server does not tell whether its bytes are the \
                                        same: if it began again with others, unmount the volume now";

/// For the log: the server is back with other bytes.
pub(super) fn others(address: &Address) -> String {
    format!(
        "{address} is back with other bytes than before: its memory began again, or its name leads \
         to another file\n  every request fails, so that the two are not mixed; give it its bytes \
         back, or take these; then: headworks volume umount and mount again (a store on it: restart \
         the store)"
    )
}

/// For the log: the server may have lost writes that it had answered.
pub(super) fn may_be_lost(address: &Address, why: &std::io::Error, unflushed: u64) -> String {
    format!(
        "the connection to {address} broke ({why}) while {unflushed} writes were answered and not \
         flushed: they may be lost, as in a power cut\n  when the server is back: headworks volume \
         umount and mount again, the file system recovers"
    )
}
