//! PostgreSQL.

mod codec;

use std::collections::HashMap;

use postgres::types::ToSql;
use postgres::{Client, Config, NoTls, SimpleQueryMessage, Statement};

use self::codec::{Cell, Parameter};
use super::value::interpolate;
use super::{DbError, Dialect, ErrorKind, Protocol, Row, Session, Value};

/// Reads the address.
pub(super) fn options(url: &str) -> Result<Config, DbError> {
    url.parse::<Config>().map_err(|error| {
        DbError::usage(format!("cannot read the address of the database: {error}"))
    })
}

/// One connection.
pub(super) struct PostgreSql {
    client: Client,
    protocol: Protocol,
    statements: HashMap<String, Statement>,
}

impl PostgreSql {
    pub(super) fn connect(options: &Config, protocol: Protocol) -> Result<Self, DbError> {
        let client = options.connect(NoTls)?;
        Ok(Self { client, protocol, statements: HashMap::new() })
    }

    fn prepared(&mut self, sql: &str) -> Result<Statement, DbError> {
        if let Some(statement) = self.statements.get(sql) {
            return Ok(statement.clone());
        }
        let statement = self.client.prepare(&numbered(sql))?;
        self.statements.insert(sql.to_owned(), statement.clone());
        Ok(statement)
    }
}

/// `a = ? AND b = ?` in PostgreSQL's form: `a = $1 AND b = $2`.
fn numbered(sql: &str) -> String {
    let mut text = String::with_capacity(sql.len() + 16);
    for (place, piece) in sql.split('?').enumerate() {
        if place > 0 {
            text.push_str(&format!("${place}"));
        }
        text.push_str(piece);
    }
    text
}

impl Session for PostgreSql {
    fn run(&mut self, sql: &str) -> Result<(), DbError> {
        Ok(self.client.batch_execute(sql)?)
    }

    fn change(&mut self, sql: &str, parameters: &[Value]) -> Result<u64, DbError> {
        match self.protocol {
            Protocol::Text => {
                let messages = self.client.simple_query(&interpolate(sql, parameters, false)?)?;
                Ok(messages
                    .iter()
                    .map(|message| match message {
                        SimpleQueryMessage::CommandComplete(rows) => *rows,
                        _ => 0,
                    })
                    .sum())
            }
            Protocol::Prepared => {
                let statement = self.prepared(sql)?;
                let wrapped: Vec<Parameter<'_>> = parameters.iter().map(Parameter).collect();
                let references: Vec<&(dyn ToSql + Sync)> =
                    wrapped.iter().map(|value| value as &(dyn ToSql + Sync)).collect();
                Ok(self.client.execute(&statement, &references)?)
            }
        }
    }

    fn query(&mut self, sql: &str, parameters: &[Value]) -> Result<Vec<Row>, DbError> {
        match self.protocol {
            Protocol::Text => {
                let messages = self.client.simple_query(&interpolate(sql, parameters, false)?)?;
                Ok(messages
                    .iter()
                    .filter_map(|message| match message {
                        SimpleQueryMessage::Row(row) => Some(Row((0..row.len())
                            .map(|column| row.get(column).map_or(Value::Null, Value::from))
                            .collect())),
                        _ => None,
                    })
                    .collect())
            }
            Protocol::Prepared => {
                let statement = self.prepared(sql)?;
                let wrapped: Vec<Parameter<'_>> = parameters.iter().map(Parameter).collect();
                let references: Vec<&(dyn ToSql + Sync)> =
                    wrapped.iter().map(|value| value as &(dyn ToSql + Sync)).collect();
                let rows = self.client.query(&statement, &references)?;
                rows.iter()
                    .map(|row| {
                        (0..row.len())
                            .map(|column| Ok(row.try_get::<_, Cell>(column)?.0))
                            .collect::<Result<_, postgres::Error>>()
                            .map(Row)
                    })
                    .collect::<Result<_, _>>()
                    .map_err(DbError::from)
            }
        }
    }

    fn dialect(&self) -> Dialect {
        Dialect::PostgreSql
    }
}

impl From<postgres::Error> for DbError {
    fn from(error: postgres::Error) -> Self {
        let Some(server) = error.as_db_error() else {
            let cause = std::error::Error::source(&error);
            let lost = error.is_closed() || cause.is_some_and(|cause| cause.is::<std::io::Error>());
            let kind = if lost { ErrorKind::Connection } else { ErrorKind::Data };
            // The driver's message hides the cause one level down.
            let cause = cause.map_or(String::new(), |cause| format!(": {cause}"));
            return Self::new(kind, format!("{error}{cause}"));
        };
        let kind = match server.code().code() {
            "40P01" => ErrorKind::Deadlock,
            "55P03" => ErrorKind::LockTimeout,
            "40001" => ErrorKind::Serialization,
            // Connection exceptions, too many connections, and shutting down.
            code if code.starts_with("08") || code.starts_with("57P") || code == "53300" => {
                ErrorKind::Connection
            }
            _ => ErrorKind::Server,
        };
        Self::new(kind, format!("ERROR {}: {}", server.code().code(), server.message()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_numbered() {
        assert_eq!(numbered("a = ? AND b = ?"), "a = $1 AND b = $2");
        assert_eq!(numbered("a"), "a");
    }
}
