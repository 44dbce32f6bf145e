//! The databases, and the client that asks each of them.

use std::ffi::OsString;
use std::fmt;
use std::str::FromStr;

use anyhow::{Result, bail};
use headworks_rig::gated::Instance;
use headworks_rig::{
    Builder, Kind, LoopKind, LoopServer, PostgresServer, Server, find_program, free_port,
    mariadb_or_skip, postgres_or_skip,
};

use crate::certificate::Certificate;
use crate::running::{Other, Running};

/// A database that the suite knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Database {
    /// One thread for each connection.
    MariaDb,
    /// The same with a pool of threads for all connections (`thread_handling=pool-of-threads`).
    MariaDbPool,
    /// One process for each connection.
    PostgreSql,
    /// One event loop for all connections.
    Redis,
    /// A few event loops.
    Memcached,
    /// mongo-java-server: MongoDB's protocol on event loops under a JVM.
    MongoDb,
}

impl Database {
    /// All of them.
    pub const ALL: [Database; 6] = [
        Database::MariaDb,
        Database::MariaDbPool,
        Database::PostgreSql,
        Database::Redis,
        Database::Memcached,
        Database::MongoDb,
    ];

    /// As it is written on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Database::MariaDb => "mariadb",
            Database::MariaDbPool => "mariadb-pool",
            Database::PostgreSql => "postgresql",
            Database::Redis => "redis",
            Database::Memcached => "memcached",
            Database::MongoDb => "mongodb",
        }
    }

    /// Its directory of behaviours: what its clients see.
    pub const fn behaviours(self) -> &'static str {
        if self.is_mariadb() { Database::MariaDb.name() } else { self.name() }
    }

    /// However it serves its connections.
    pub const fn is_mariadb(self) -> bool {
        matches!(self, Database::MariaDb | Database::MariaDbPool)
    }

    /// Whether it is installed; prints why not.
    pub fn is_here(self) -> bool {
        match self {
            Database::MariaDb | Database::MariaDbPool => mariadb_or_skip(),
            Database::PostgreSql => postgres_or_skip(),
            Database::Redis => LoopKind::Redis.is_here_or_skip(),
            Database::Memcached => LoopKind::Memcached.is_here_or_skip(),
            Database::MongoDb => LoopKind::MongoJava.is_here_or_skip(),
        }
    }

    /// The profile to name, where the program's name does not tell.
    pub const fn profile(self) -> Option<&'static str> {
        match self {
            Database::MongoDb => Some("mongodb-loops"),
            _ => None,
        }
    }

    /// Whether the suite starts it with encryption, too. Its requests are then told apart at the
    /// TLS library's functions, and held like others.
    pub const fn encrypts(self) -> bool {
        self.is_mariadb()
            || matches!(self, Database::PostgreSql | Database::Redis | Database::Memcached)
    }

    /// Whether a connection can keep a place for as long as it likes: by a slow statement, or by a
    /// transaction.
    pub const fn keeps_places(self) -> bool {
        !matches!(self, Database::Memcached)
    }

    /// Starts it with room for `connections`.
    pub fn start(self, place: &Place, connections: u32) -> Result<Running> {
        Ok(match self {
            Database::MariaDb => mariadb(place, connections, "one-thread-per-connection")?,
            Database::MariaDbPool => mariadb(place, connections, "pool-of-threads")?,
            Database::PostgreSql => postgresql(place, connections)?,
            Database::Redis | Database::Memcached | Database::MongoDb => {
                self.event_loops(place, connections)?
            }
        })
    }

    fn event_loops(self, place: &Place, connections: u32) -> Result<Running> {
        let connections = connections.to_string();
        let mut other = None;
        let (kind, mut arguments) = match self {
            Database::Redis => (LoopKind::Redis, vec!["--maxclients", &connections]),
            Database::Memcached => (LoopKind::Memcached, vec!["-I", "16m", "-m", "256"]),
            _ => (LoopKind::MongoJava, Vec::new()),
        };
        let (port, listen, options);
        match (self, place.certificate) {
            (Database::Redis, Some(certificate)) => {
                let free = free_port()?;
                other = Some(Other::Encrypted(free));
                port = free.to_string();
                arguments.extend(["--tls-port", &port, "--tls-auth-clients", "no"]);
                let (file, key) = (certificate.certificate(), certificate.key());
                arguments.extend(["--tls-cert-file", file, "--tls-key-file", key]);
                // Not needed to check a client, but asked for.
                arguments.extend(["--tls-ca-cert-file", file]);
            }
            (Database::Memcached, Some(certificate)) => {
                let free = free_port()?;
                other = Some(Other::Plain(free));
                listen = format!("notls:127.0.0.1:{free}");
                let (file, key) = (certificate.certificate(), certificate.key());
                options = format!("ssl_chain_cert={file},ssl_key={key}");
                arguments.extend(["-Z", "-l", &listen, "-o", &options]);
            }
            _ => {}
        }
        let builder = place.front(LoopServer::builder(kind).options(arguments));
        Ok(Running::EventLoops { server: Box::new(builder.start()?), other })
    }
}

fn mariadb(place: &Place, connections: u32, threads: &str) -> Result<Running> {
    let mut builder = Server::builder()
        .option(format!("--thread-handling={threads}"))
        .option(format!("--max-connections={connections}"))
        .option("--local-infile=1")
        .option("--max-allowed-packet=64M")
        .option("--log-bin=log")
        .option("--server-id=1")
        .option("--binlog-format=ROW");
    if let Some(certificate) = place.certificate {
        builder = builder
            .option(format!("--ssl-cert={}", certificate.certificate()))
            .option(format!("--ssl-key={}", certificate.key()));
    }
    Ok(Running::MariaDb(Box::new(place.front(builder).start()?)))
}

fn postgresql(place: &Place, connections: u32) -> Result<Running> {
    let mut builder = PostgresServer::builder()
        .setting("max_connections", &connections.to_string())
        .setting("max_prepared_transactions", "10")
        .setting("wal_level", "logical");
    if let Some(certificate) = place.certificate {
        builder = builder
            .setting("ssl", "on")
            .setting("ssl_cert_file", certificate.certificate())
            .setting("ssl_key_file", certificate.key());
    }
    Ok(Running::PostgreSql(Box::new(place.front(builder).start()?)))
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
        to.pad(self.name())
    }
}

/// A database, and whether its clients encrypt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Subject {
    /// Who is asked.
    pub database: Database,
    /// By TLS.
    pub tls: bool,
}

impl Subject {
    /// All that can be started on any machine: without TLS first.
    pub fn all() -> Vec<Subject> {
        let plain = Database::ALL.into_iter().map(|database| Subject { database, tls: false });
        let encrypted = Database::ALL.into_iter().filter(|database| database.encrypts());
        plain.chain(encrypted.map(|database| Subject { database, tls: true })).collect()
    }

    /// Whether all that it needs is installed; prints why not.
    pub fn is_here(self) -> bool {
        if self.tls && find_program("openssl").is_none() {
            println!("skipped: openssl is not installed (apt-get install openssl)");
            return false;
        }
        self.database.is_here()
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.pad(&format!("{}{}", self.database, if self.tls { "+tls" } else { "" }))
    }
}

/// What a server is started behind.
#[derive(Debug, Default)]
pub struct Place<'a> {
    /// The gate in front of it, and its options.
    pub gate: Option<(&'a Instance, Vec<OsString>)>,
    /// With this it offers TLS.
    pub certificate: Option<&'a Certificate>,
}

impl Place<'_> {
    fn front<K: Kind>(&self, builder: Builder<K>) -> Builder<K> {
        match &self.gate {
            Some((gate, options)) => gate.before(builder, options),
            None => builder,
        }
    }
}
