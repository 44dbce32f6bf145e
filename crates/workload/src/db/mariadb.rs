//! MariaDB and MySQL.

use mysql::prelude::Queryable;
use mysql::{Conn, Opts, OptsBuilder};

use super::value::{interpolate, write_cents};
use super::{DbError, Dialect, ErrorKind, Protocol, Row, Session, Value};

/// More statements than any workload has, so that none is ever prepared twice.
const STATEMENTS: usize = 1_024;

/// The largest statement, in bytes. Set here, so that the driver does not ask the server for it at
/// every connection.
const PACKET_BYTES_MAX: usize = 16 << 20;

/// Reads the address.
pub(super) fn options(url: &str) -> Result<Opts, DbError> {
    let url = match url.strip_prefix("mariadb://") {
        Some(rest) => format!("mysql://{rest}"),
        None => url.to_owned(),
    };
    let options = Opts::from_url(&url).map_err(|error| {
        DbError::usage(format!("cannot read the address of the database: {error}"))
    })?;
    // If the driver were free to move from TCP to the Unix socket, another path would be measured.
    let builder = OptsBuilder::from_opts(options)
        .prefer_socket(false)
        .tcp_nodelay(true)
        .stmt_cache_size(STATEMENTS)
        .max_allowed_packet(Some(PACKET_BYTES_MAX));
    Ok(builder.into())
}

/// One connection.
pub(super) struct MariaDb {
    connection: Conn,
    protocol: Protocol,
}

impl MariaDb {
    pub(super) fn connect(options: &Opts, protocol: Protocol) -> Result<Self, DbError> {
        Ok(Self { connection: Conn::new(options.clone())?, protocol })
    }
}

impl Session for MariaDb {
    fn run(&mut self, sql: &str) -> Result<(), DbError> {
        Ok(self.connection.query_drop(sql)?)
    }

    fn change(&mut self, sql: &str, parameters: &[Value]) -> Result<u64, DbError> {
        match self.protocol {
            Protocol::Text => self.connection.query_drop(interpolate(sql, parameters, true)?)?,
            Protocol::Prepared => self.connection.exec_drop(sql, positional(parameters))?,
        }
        Ok(self.connection.affected_rows())
    }

    fn query(&mut self, sql: &str, parameters: &[Value]) -> Result<Vec<Row>, DbError> {
        let rows: Vec<mysql::Row> = match self.protocol {
            Protocol::Text => self.connection.query(interpolate(sql, parameters, true)?)?,
            Protocol::Prepared => self.connection.exec(sql, positional(parameters))?,
        };
        Ok(rows
            .into_iter()
            .map(|row| Row(row.unwrap().into_iter().map(received).collect()))
            .collect())
    }

    fn dialect(&self) -> Dialect {
        Dialect::MariaDb
    }
}

fn positional(parameters: &[Value]) -> mysql::Params {
    if parameters.is_empty() {
        return mysql::Params::Empty;
    }
    mysql::Params::Positional(parameters.iter().map(sent).collect())
}

fn sent(value: &Value) -> mysql::Value {
    match value {
        Value::Null => mysql::Value::NULL,
        Value::Int(value) => mysql::Value::Int(*value),
        Value::Cents(cents) => {
            let mut text = String::new();
            write_cents(*cents, &mut text);
            mysql::Value::Bytes(text.into_bytes())
        }
        Value::Text(text) => mysql::Value::Bytes(text.as_bytes().to_vec()),
    }
}

fn received(value: mysql::Value) -> Value {
    match value {
        mysql::Value::NULL => Value::Null,
        mysql::Value::Int(value) => Value::Int(value),
        mysql::Value::UInt(value) => {
            i64::try_from(value).map_or_else(|_| Value::Text(value.to_string()), Value::Int)
        }
        mysql::Value::Bytes(bytes) => Value::Text(String::from_utf8_lossy(&bytes).into_owned()),
        other => Value::Text(other.as_sql(true).trim_matches('\'').to_owned()),
    }
}

impl From<mysql::Error> for DbError {
    fn from(error: mysql::Error) -> Self {
        let kind = match &error {
            mysql::Error::MySqlError(server) => match server.code {
                1213 => ErrorKind::Deadlock,
                1205 => ErrorKind::LockTimeout,
                1020 => ErrorKind::Serialization,
                // Shut down, killed, aborted, or too many connections.
                1040 | 1053 | 1152 | 1158..=1161 | 1184 | 1927 => ErrorKind::Connection,
                _ => ErrorKind::Server,
            },
            mysql::Error::DriverError(mysql::DriverError::MismatchedStmtParams(..)) => {
                ErrorKind::Usage
            }
            mysql::Error::IoError(_)
            | mysql::Error::CodecError(_)
            | mysql::Error::DriverError(_) => ErrorKind::Connection,
            mysql::Error::UrlError(_) => ErrorKind::Usage,
            _ => ErrorKind::Data,
        };
        let remedy = match &error {
            mysql::Error::MySqlError(server) if server.code == 1461 => {
                " (about 30 statements of TPC-C, nine for each table of sysbench, for each connection: raise max_prepared_stmt_count)"
            }
            _ => "",
        };
        Self::new(kind, format!("{error}{remedy}"))
    }
}
