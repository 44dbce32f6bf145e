//! A terminal: one user with one connection, as seen by the driver.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::deck::{MixHandle, Transaction};
use super::input::{Home, Input, Inputs};
use super::population::Population;
use super::transactions::{self, Ending};
use crate::db::{Connection, Database, DbError};
use crate::driver::{Client, Request};

/// Keying and think time, as a multiple of the specification's (clause 5.2.5): 1 is a human user, 0
/// never pauses.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Pace(f64);

impl Pace {
    /// `multiple` of the specified times, 0 to 10.
    pub fn new(multiple: f64) -> Result<Self, DbError> {
        if (0.0..=10.0).contains(&multiple) {
            Ok(Self(multiple))
        } else {
            Err(DbError::usage(format!("the pace must be between 0 and 10, not {multiple}")))
        }
    }
}

/// Settings of all terminals.
#[derive(Debug, Clone)]
pub struct TerminalOptions {
    /// What was loaded.
    pub population: Population,
    /// The seed of all inputs; not the population's.
    pub seed: u64,
    /// The shared mix, which may be changed during a run.
    pub mix: MixHandle,
    /// Which warehouses terminals work for.
    pub home: Home,
    /// Keying and think time.
    pub pace: Pace,
}

/// One user.
pub struct Terminal {
    connection: Connection,
    inputs: Inputs,
    pace: Pace,
    current: Option<Input>,
    rolled_back: u64,
    skipped_districts: u64,
}

impl Terminal {
    /// Connects terminal number `number`, counted from 0.
    pub fn connect(
        database: &Database,
        options: &TerminalOptions,
        number: usize,
    ) -> Result<Self, DbError> {
        let inputs = Inputs::new(
            &options.population,
            options.home,
            options.mix.clone(),
            options.seed,
            number,
        );
        Ok(Self {
            connection: Connection::open(database)?,
            inputs,
            pace: options.pace,
            current: None,
            rolled_back: 0,
            skipped_districts: 0,
        })
    }
}

impl Client for Terminal {
    fn next(&mut self) -> Request {
        let input = self.inputs.draw();
        let transaction = input.transaction();
        self.current = Some(input);
        let (before, after) = if self.pace.0 > 0.0 {
            let (keying, thinking) = self.inputs.pauses(transaction);
            (keying.mul_f64(self.pace.0), thinking.mul_f64(self.pace.0))
        } else {
            (Duration::ZERO, Duration::ZERO)
        };
        Request { kind: transaction as usize, before, after }
    }

    fn attempt(&mut self) -> Result<(), DbError> {
        let Some(input) = &self.current else {
            return Err(DbError::usage("a request is attempted before it is made"));
        };
        match self.connection.attempt(|session| transactions::execute(session, input))? {
            Ending::Committed => {}
            Ending::RolledBack => self.rolled_back += 1,
            Ending::Skipped(districts) => self.skipped_districts += u64::from(districts),
        }
        Ok(())
    }

    fn requests(&self) -> u64 {
        self.connection.requests()
    }

    fn notes(&self) -> Vec<(&'static str, u64)> {
        vec![
            ("new-orders rolled back as intended", self.rolled_back),
            ("districts with nothing to deliver", self.skipped_districts),
        ]
    }
}

/// The names of the kinds of requests, for the driver.
impl Terminal {
    /// In the order of [`Request::kind`].
    pub const KINDS: &'static [&'static str] = &Transaction::NAMES;
}
