//! A user's connection: it counts what it asks for, and is fit for another try after every error.

use super::{Database, DbError, Dialect, ErrorKind, Row, Session, Value};

/// A connection that counts the requests it makes: each statement is one, and begin and end of a
/// transaction too.
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

    /// Lets `work` have its way, once. After an error nothing is left of what it began, and the
    /// connection can be used again: it was rolled back, or opened anew.
    pub fn attempt<T>(
        &mut self,
        work: impl FnOnce(&mut dyn Session) -> Result<T, DbError>,
    ) -> Result<T, DbError> {
        let result = work(self);
        if let Err(error) = &result {
            // After a lock timeout MariaDB has undone only the statement, so always roll back. If
            // that fails, the connection is of no use.
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
