//! Errors of a client's conversation with a server.

use std::fmt;
use std::io;

/// An error of a client.
#[derive(Debug)]
pub enum ClientError {
    /// The socket failed, timed out ([`io::ErrorKind::WouldBlock`] or `TimedOut`), or was closed by
    /// the server.
    Io(io::Error),
    /// The server answered with an error.
    Server {
        /// The error number, such as 1213 for a deadlock.
        code: u16,
        /// The SQL state.
        state: String,
        /// The server's own words.
        message: String,
    },
    /// The server's bytes are invalid for this client.
    Protocol(&'static str),
}

impl ClientError {
    /// The server's error number, if the server refused.
    pub fn code(&self) -> Option<u16> {
        match self {
            Self::Server { code, .. } => Some(*code),
            _ => None,
        }
    }

    /// Whether the read timeout passed without an answer.
    pub fn is_timeout(&self) -> bool {
        matches!(self, Self::Io(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut))
    }
}

impl fmt::Display for ClientError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => write!(f, "connection: {error}"),
            Self::Server { code, state, message } => {
                write!(f, "server error {code} ({state}): {message}")
            }
            Self::Protocol(what) => write!(f, "protocol: {what}"),
        }
    }
}

impl std::error::Error for ClientError {}

impl From<io::Error> for ClientError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}
