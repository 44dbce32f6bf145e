//! Errors, sorted by the client's reaction.

use serde::{Deserialize, Serialize};

/// Determines the client's reaction to an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorKind {
    /// The database broke a cycle of lock waits: MariaDB 1213, PostgreSQL 40P01. Retried.
    Deadlock,
    /// A lock was not granted in time: MariaDB 1205, PostgreSQL 55P03. Retried.
    LockTimeout,
    /// The snapshot was too old to write: MariaDB 1020, PostgreSQL 40001. Retried.
    Serialization,
    /// The connection is gone. Opened again, then retried.
    Connection,
    /// Anything else the server refused. Not retried.
    Server,
    /// The data is not what the workload needs, such as a missing warehouse. Not retried.
    Data,
    /// The caller's mistake, such as an address without a scheme.
    Usage,
}

impl ErrorKind {
    /// Every kind, in the order of [`ErrorKind::index`].
    pub const ALL: [Self; 7] = [
        Self::Deadlock,
        Self::LockTimeout,
        Self::Serialization,
        Self::Connection,
        Self::Server,
        Self::Data,
        Self::Usage,
    ];

    /// Its place in [`ErrorKind::ALL`].
    pub fn index(self) -> usize {
        self as usize
    }

    /// Whether the same transaction may succeed when it is tried again.
    pub fn is_retried(self) -> bool {
        matches!(self, Self::Deadlock | Self::LockTimeout | Self::Serialization | Self::Connection)
    }

    /// One word for tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Deadlock => "deadlock",
            Self::LockTimeout => "lock_timeout",
            Self::Serialization => "serialization",
            Self::Connection => "connection",
            Self::Server => "server",
            Self::Data => "data",
            Self::Usage => "usage",
        }
    }
}

/// An error of the database or in its data.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{message}")]
pub struct DbError {
    /// What to do about it.
    pub kind: ErrorKind,
    /// The server's message.
    pub message: String,
}

impl DbError {
    /// An error with its kind.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into() }
    }

    /// The data is not what the workload needs.
    pub fn data(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Data, message)
    }

    /// The caller's mistake.
    pub fn usage(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Usage, message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_is_at_its_index() {
        for (place, kind) in ErrorKind::ALL.into_iter().enumerate() {
            assert_eq!(kind.index(), place, "{}", kind.name());
        }
    }
}
