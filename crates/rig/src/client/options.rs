//! Address, account and capabilities of a connection.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use super::{Client, ClientError};

/// Where a server listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Address {
    /// A TCP address.
    Tcp(SocketAddr),
    /// A Unix socket.
    Unix(PathBuf),
}

/// How to connect.
#[derive(Debug, Clone)]
pub struct ConnectOptions {
    /// Where to.
    pub address: Address,
    /// The account, with an empty password.
    pub account: String,
    /// The default database.
    pub database: Option<String>,
    /// Connection attributes, such as `program_name`.
    pub attributes: Vec<(String, String)>,
    /// Capability flags beyond the basic ones, from [`crate::wire::capability`]: `DEPRECATE_EOF`,
    /// `MULTI_STATEMENTS`, `LOCAL_FILES`, … A flag that the server lacks is dropped.
    pub capabilities: u32,
    /// How long one read may wait; `None` waits for ever. Default 30 s.
    pub read_timeout: Option<Duration>,
}

impl ConnectOptions {
    /// Options for an account at an address; everything else at its default.
    pub fn new(address: Address, account: &str) -> Self {
        Self {
            address,
            account: account.to_owned(),
            database: None,
            attributes: vec![("program_name".to_owned(), "headworks-rig".to_owned())],
            capabilities: 0,
            read_timeout: Some(Duration::from_secs(30)),
        }
    }

    /// Sets the default database.
    #[must_use]
    pub fn database(mut self, database: &str) -> Self {
        self.database = Some(database.to_owned());
        self
    }

    /// Adds capability flags.
    #[must_use]
    pub fn capabilities(mut self, flags: u32) -> Self {
        self.capabilities |= flags;
        self
    }

    /// Sets a connection attribute, replacing one of the same name.
    #[must_use]
    pub fn attribute(mut self, name: &str, value: &str) -> Self {
        self.attributes.retain(|(other, _)| other != name);
        self.attributes.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Sets how long one read may wait.
    #[must_use]
    pub fn read_timeout(mut self, timeout: Duration) -> Self {
        self.read_timeout = Some(timeout);
        self
    }

    /// Connects and logs in.
    pub fn connect(&self) -> Result<Client, ClientError> {
        Client::connect(self)
    }
}
