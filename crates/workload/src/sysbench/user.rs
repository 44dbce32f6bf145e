//! A user: one connection to a database, as the driver sees it.

use std::time::Duration;

use super::inputs::{Inputs, Step};
use super::oltp::Oltp;
use super::popularity::Popularity;
use super::statements::{Statements, execute};
use super::tables::Tables;
use crate::db::{Connection, Database, DbError};
use crate::driver::{Client, Request};

/// Settings of all users of a run.
#[derive(Debug, Clone, Copy)]
pub struct UserOptions {
    /// The workload.
    pub workload: Oltp,
    /// Which rows are requested.
    pub popularity: Popularity,
    /// What was loaded.
    pub tables: Tables,
    /// The seed of all requests; not that of the tables.
    pub seed: u64,
}

/// One user.
pub struct User {
    connection: Connection,
    inputs: Inputs,
    statements: Vec<Statements>,
    transaction: bool,
    current: Vec<Step>,
}

impl User {
    /// In the order of [`Request::kind`]: there is one. A request is a transaction, or the single
    /// statement of a workload without transactions.
    pub const KINDS: &'static [&'static str] = &["request"];

    /// Connects user number `number`, counted from 0.
    pub fn connect(
        database: &Database,
        options: &UserOptions,
        number: usize,
    ) -> Result<Self, DbError> {
        let UserOptions { workload, popularity, tables, seed } = *options;
        Ok(Self {
            connection: Connection::open(database)?,
            inputs: Inputs::new(workload, popularity, tables, seed, number),
            statements: Statements::of(&tables),
            transaction: workload.is_transaction(),
            current: Vec::new(),
        })
    }
}

impl Client for User {
    fn next(&mut self) -> Request {
        self.current = self.inputs.draw();
        Request { kind: 0, before: Duration::ZERO, after: Duration::ZERO }
    }

    fn attempt(&mut self) -> Result<(), DbError> {
        let (statements, steps) = (&self.statements, &self.current);
        let transaction = self.transaction;
        self.connection.attempt(|session| execute(session, statements, transaction, steps))
    }

    fn requests(&self) -> u64 {
        self.connection.requests()
    }
}
