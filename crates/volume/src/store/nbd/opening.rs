//! A connection that a volume can use: to an export that is large enough, by a client that is known
//! again.

use super::connection::Connection;
use super::{Address, NbdError};
use crate::nbd::wire::transmission_flag as flag;
use std::time::Duration;

/// What a server of ours says of its export: the same as long as all that it answered is there.
pub(super) fn incarnation(connection: &Connection) -> Option<&str> {
    let words = connection.words.as_deref()?;
    words.split(';').find_map(|pair| pair.strip_prefix("incarnation="))
}

/// A name that no other client has.
pub(super) fn session() -> String {
    use std::hash::{BuildHasher, Hasher};
    let random = || std::collections::hash_map::RandomState::new().build_hasher().finish();
    format!("{:016x}{:016x}", random(), random())
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
