//! A workload's interface to a database.
//!
//! Statements are written once, with `?` for each parameter, in the SQL that MariaDB and PostgreSQL
//! share. [`Dialect`] has the differences.

mod connection;
mod error;
mod mariadb;
mod postgresql;
mod value;

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

pub use connection::Connection;
pub use error::{DbError, ErrorKind};
pub use value::{Row, Value};

/// One connection.
pub trait Session: Send {
    /// Runs a statement, always as text; for definitions and bulk loading.
    fn run(&mut self, sql: &str) -> Result<(), DbError>;

    /// Runs a statement that changes rows, and returns how many. `sql` has one `?` for each
    /// parameter, and is one of few: a connection keeps its prepared statements.
    fn change(&mut self, sql: &str, parameters: &[Value]) -> Result<u64, DbError>;

    /// Runs a statement that returns rows. `sql` is as in [`Session::change`].
    fn query(&mut self, sql: &str, parameters: &[Value]) -> Result<Vec<Row>, DbError>;

    /// The server's SQL dialect.
    fn dialect(&self) -> Dialect;

    /// Begins a transaction.
    fn begin(&mut self) -> Result<(), DbError> {
        self.run("BEGIN")
    }

    /// Commits it.
    fn commit(&mut self) -> Result<(), DbError> {
        self.run("COMMIT")
    }

    /// Rolls it back.
    fn rollback(&mut self) -> Result<(), DbError> {
        self.run("ROLLBACK")
    }
}

/// Differences between the databases.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Dialect {
    /// MariaDB or MySQL with InnoDB.
    MariaDb,
    /// PostgreSQL.
    PostgreSql,
}

impl Dialect {
    /// Text after the closing parenthesis of `CREATE TABLE`.
    pub fn table_suffix(self) -> &'static str {
        match self {
            Self::MariaDb => " ENGINE=InnoDB",
            Self::PostgreSql => "",
        }
    }

    /// The type of a date with time.
    pub fn timestamp(self) -> &'static str {
        match self {
            Self::MariaDb => "DATETIME",
            Self::PostgreSql => "TIMESTAMP",
        }
    }
}

/// How statements with parameters are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Protocol {
    /// Parameters are written into the statement: COM_QUERY, or PostgreSQL's simple query.
    #[default]
    Text,
    /// Each connection prepares every statement once, at its first use: COM_STMT_EXECUTE, or
    /// PostgreSQL's extended query. Many connections need a warm-up for it, and a MariaDB that
    /// allows as many statements (`max_prepared_stmt_count`, 16,382 by default).
    Prepared,
}

/// Isolation of transactions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Isolation {
    /// The server's default: REPEATABLE READ in MariaDB, READ COMMITTED in PostgreSQL unless
    /// changed.
    #[default]
    ServerDefault,
    /// READ COMMITTED.
    ReadCommitted,
    /// REPEATABLE READ.
    RepeatableRead,
    /// SERIALIZABLE: the only level that clause 3.4 accepts without further argument.
    Serializable,
}

impl Isolation {
    /// Sets the level for every later transaction of a session.
    fn apply(self, session: &mut dyn Session) -> Result<(), DbError> {
        let level = match self {
            Self::ServerDefault => return Ok(()),
            Self::ReadCommitted => "READ COMMITTED",
            Self::RepeatableRead => "REPEATABLE READ",
            Self::Serializable => "SERIALIZABLE",
        };
        session.run(&match session.dialect() {
            Dialect::MariaDb => format!("SET SESSION TRANSACTION ISOLATION LEVEL {level}"),
            Dialect::PostgreSql => {
                format!("SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL {level}")
            }
        })
    }
}

/// Address of a database, and how to talk to it.
#[derive(Clone)]
pub struct Database {
    target: Target,
    protocol: Protocol,
    isolation: Isolation,
}

#[derive(Clone)]
enum Target {
    MariaDb(Box<mysql::Opts>),
    PostgreSql(Box<postgres::Config>),
}

impl fmt::Debug for Database {
    /// Without the address, which may hold a password.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Database")
            .field("dialect", &self.dialect())
            .field("protocol", &self.protocol)
            .field("isolation", &self.isolation)
            .finish_non_exhaustive()
    }
}

impl FromStr for Database {
    type Err = DbError;

    /// `mysql://user:password@host:port/database`, also `mariadb://…`, with `?socket=/path` for a
    /// Unix socket; or `postgres://user:password@host:port/database`, with `?host=/directory` for a
    /// Unix socket.
    fn from_str(url: &str) -> Result<Self, DbError> {
        let scheme = url.split_once("://").map_or("", |(scheme, _)| scheme);
        let target = match scheme {
            "mysql" | "mariadb" => Target::MariaDb(Box::new(mariadb::options(url)?)),
            "postgres" | "postgresql" => Target::PostgreSql(Box::new(postgresql::options(url)?)),
            _ => {
                return Err(DbError::usage(
                    "the address of a database begins with mysql:// or postgres://",
                ));
            }
        };
        Ok(Self { target, protocol: Protocol::default(), isolation: Isolation::default() })
    }
}

impl Database {
    /// How statements with parameters are sent. Default: as text.
    #[must_use]
    pub fn protocol(mut self, protocol: Protocol) -> Self {
        self.protocol = protocol;
        self
    }

    /// The isolation of transactions. Default: the server's.
    #[must_use]
    pub fn isolation(mut self, isolation: Isolation) -> Self {
        self.isolation = isolation;
        self
    }

    /// The server's SQL dialect.
    pub fn dialect(&self) -> Dialect {
        match &self.target {
            Target::MariaDb(_) => Dialect::MariaDb,
            Target::PostgreSql(_) => Dialect::PostgreSql,
        }
    }

    /// Opens a connection.
    pub fn connect(&self) -> Result<Box<dyn Session>, DbError> {
        let mut session: Box<dyn Session> = match &self.target {
            Target::MariaDb(options) => {
                Box::new(mariadb::MariaDb::connect(options, self.protocol)?)
            }
            Target::PostgreSql(options) => {
                Box::new(postgresql::PostgreSql::connect(options, self.protocol)?)
            }
        };
        self.isolation.apply(session.as_mut())?;
        Ok(session)
    }

    /// The server's own version.
    pub fn version(&self) -> Result<String, DbError> {
        let rows = self.connect()?.query("SELECT version()", &[])?;
        rows.first().map_or(Ok(String::new()), |row| row.text(0))
    }
}
