//! Servers that run.

use anyhow::Result;
use headworks_rig::{LoopServer, PostgresServer, Server};

/// A server that runs; stopped when dropped.
#[derive(Debug)]
pub enum Running {
    /// See [`Database::MariaDb`](crate::database::Database::MariaDb).
    MariaDb(Box<Server>),
    /// See [`Database::PostgreSql`](crate::database::Database::PostgreSql).
    PostgreSql(Box<PostgresServer>),
    /// All others.
    EventLoops {
        /// The server.
        server: Box<LoopServer>,
        /// Where it takes connections of the other kind, if it takes both, on separate ports.
        other: Option<Other>,
    },
}

/// A second port of a server.
#[derive(Clone, Copy, Debug)]
pub enum Other {
    /// For connections that are encrypted.
    Encrypted(u16),
    /// For those that are not: the first port is for such as are.
    Plain(u16),
}

impl Running {
    /// Its TCP port on 127.0.0.1, for clients that do not encrypt.
    pub fn port(&self) -> u16 {
        match self {
            Running::MariaDb(server) => server.port(),
            Running::PostgreSql(server) => server.port(),
            Running::EventLoops { other: Some(Other::Plain(port)), .. } => *port,
            Running::EventLoops { server, .. } => server.port(),
        }
    }

    /// The port for clients that encrypt, or that do not.
    pub fn port_for(&self, tls: bool) -> u16 {
        match self {
            Running::EventLoops { other: Some(Other::Encrypted(port)), .. } if tls => *port,
            Running::EventLoops { server, other: Some(Other::Plain(_)) } if tls => server.port(),
            _ => self.port(),
        }
    }

    /// An error if the library is not in it.
    pub fn ensure_gated(&self) -> Result<()> {
        match self {
            Running::MariaDb(server) => server.ensure_gated(true),
            Running::PostgreSql(server) => server.ensure_gated(true),
            Running::EventLoops { server, .. } => server.ensure_gated(true),
        }
    }

    /// Whether it still runs.
    pub fn is_running(&mut self) -> bool {
        match self {
            Running::MariaDb(server) => server.is_running(),
            Running::PostgreSql(server) => server.is_running(),
            Running::EventLoops { server, .. } => server.is_running(),
        }
    }

    /// The last lines of its log.
    pub fn log_tail(&self) -> String {
        match self {
            Running::MariaDb(server) => server.log_tail(),
            Running::PostgreSql(server) => server.log_tail(),
            Running::EventLoops { server, .. } => server.log(),
        }
    }
}
