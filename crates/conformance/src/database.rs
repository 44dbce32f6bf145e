//! The databases, started from the rig.

use std::ffi::OsString;
use std::fmt;
use std::path::Path;
use std::str::FromStr;

use anyhow::{Result, bail};
use headworks_rig::{PostgresServer, Server, mariadb_or_skip, postgres_or_skip};

/// A database that the suite knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Database {
    /// One thread for each connection.
    MariaDb,
    /// One process for each connection.
    PostgreSql,
}

impl Database {
    /// All of them.
    pub const ALL: [Database; 2] = [Database::MariaDb, Database::PostgreSql];

    /// As it is written on the command line, and its directory of behaviours.
    pub const fn name(self) -> &'static str {
        match self {
            Database::MariaDb => "mariadb",
            Database::PostgreSql => "postgresql",
        }
    }

    /// Whether it is installed; prints why not.
    pub fn is_here(self) -> bool {
        match self {
            Database::MariaDb => mariadb_or_skip(),
            Database::PostgreSql => postgres_or_skip(),
        }
    }

    /// Starts it with room for `connections`, behind `prefix` if that is not empty.
    pub fn start(self, place: &Place, connections: u32) -> Result<Running> {
        Ok(match self {
            Database::MariaDb => {
                let mut builder = Server::builder()
                    .option(format!("--max-connections={connections}"))
                    .option("--local-infile=1")
                    .option("--max-allowed-packet=64M")
                    .option("--log-bin=log")
                    .option("--server-id=1")
                    .option("--binlog-format=ROW")
                    .prefix(place.prefix.clone());
                for (name, value) in &place.environment {
                    builder = builder.env(name, value);
                }
                if let Some(directory) = place.directory {
                    builder = builder.remove_when_orphaned(directory);
                }
                Running::MariaDb(Box::new(builder.start()?))
            }
            Database::PostgreSql => {
                let mut builder = PostgresServer::builder()
                    .setting("max_connections", &connections.to_string())
                    .setting("max_prepared_transactions", "10")
                    .setting("wal_level", "logical")
                    .prefix(place.prefix.clone());
                for (name, value) in &place.environment {
                    builder = builder.env(name, value);
                }
                if let Some(directory) = place.directory {
                    builder = builder.remove_when_orphaned(directory);
                }
                Running::PostgreSql(Box::new(builder.start()?))
            }
        })
    }
}

impl FromStr for Database {
    type Err = anyhow::Error;
    fn from_str(text: &str) -> Result<Database> {
        match Database::ALL.into_iter().find(|database| database.name() == text) {
            Some(database) => Ok(database),
            None => {
                let names: Vec<_> = Database::ALL.iter().map(|each| each.name()).collect();
                bail!("`{text}` is not one of {}", names.join(", "))
            }
        }
    }
}

impl fmt::Display for Database {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(self.name())
    }
}

/// What a server is started behind.
#[derive(Debug, Default)]
pub struct Place<'a> {
    /// Command in front of the server's own.
    pub prefix: Vec<OsString>,
    /// Environment of the server.
    pub environment: Vec<(OsString, OsString)>,
    /// To be removed if this process is killed.
    pub directory: Option<&'a Path>,
}

/// A server that runs; stopped when dropped.
#[derive(Debug)]
pub enum Running {
    /// See [`Database::MariaDb`].
    MariaDb(Box<Server>),
    /// See [`Database::PostgreSql`].
    PostgreSql(Box<PostgresServer>),
}

impl Running {
    /// Its TCP port on 127.0.0.1.
    pub fn port(&self) -> u16 {
        match self {
            Running::MariaDb(server) => server.port(),
            Running::PostgreSql(server) => server.port(),
        }
    }

    /// Whether the library is in it.
    pub fn is_gated(&self) -> Result<bool> {
        match self {
            Running::MariaDb(server) => server.has_mapped("libheadworks"),
            Running::PostgreSql(server) => server.has_mapped("libheadworks"),
        }
    }

    /// Whether it still runs.
    pub fn is_running(&mut self) -> bool {
        match self {
            Running::MariaDb(server) => server.is_running(),
            Running::PostgreSql(server) => server.is_running(),
        }
    }

    /// The last lines of its log.
    pub fn log_tail(&self) -> String {
        match self {
            Running::MariaDb(server) => server.log_tail(),
            Running::PostgreSql(server) => server.log_tail(),
        }
    }
}
