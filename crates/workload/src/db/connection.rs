//! A user's connection: it counts its requests, and is usable again after every error.

use super::{Database, DbError, Dialect, ErrorKind, Row, Session, Value};

/// A connection that counts its requests: each statement is one, and so are begin and end of a
/// transaction.
pub struct Connection {
    database: Database,
    session: Box<dyn Session>,
    requests: u64,
}

impl Connection {
    /// Opens it. No request so far.
    pub fn open(database: &Database) -> Result<Self, DbError> {
        Ok(Self { session: database.connect()?, database: database.clone(), requests: 0 })
    }

    /// Requests made so far, also those of connections that were lost.
    pub fn requests(&self) -> u64 {
        self.requests
    }

    /// Runs `work` once. After an error all that it began is rolled back or the connection is
    /// reopened, so it can be used again.
    pub fn attempt<T>(
        &mut self,
        work: impl FnOnce(&mut dyn Session) -> Result<T, DbError>,
    ) -> Result<T, DbError> {
        let result = work(self);
        if let Err(error) = &result {
            // After a lock timeout MariaDB has undone only the statement, so always roll back. If
            // that fails, the connection is useless.
            if error.kind == ErrorKind::Connection || self.rollback().is_err() {
                self.session = self.database.connect()?;
            }
        }
        result
    }

    fn counting(&mut self) -> &mut dyn Session {
        self.requests += 1;
        self.session.as_mut()
    }
}

impl Session for Connection {
    fn run(&mut self, sql: &str) -> Result<(), DbError> {
        self.counting().run(sql)
    }

    fn change(&mut self, sql: &str, parameters: &[Value]) -> Result<u64, DbError> {
        self.counting().change(sql, parameters)
    }

    fn query(&mut self, sql: &str, parameters: &[Value]) -> Result<Vec<Row>, DbError> {
        self.counting().query(sql, parameters)
    }

    fn dialect(&self) -> Dialect {
        self.session.dialect()
    }
}
