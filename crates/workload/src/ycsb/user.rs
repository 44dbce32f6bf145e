//! A user: one connection to a store, as seen by the driver.

use std::time::Duration;

use super::core::{Core, Operation, Popularity};
use super::inputs::{Input, Inputs};
use super::record::Key;
use super::records::Records;
use super::store::{Address, Store};
use crate::db::{DbError, ErrorKind};
use crate::driver::{Client, Request};

/// Settings of all users of a run.
#[derive(Debug, Clone)]
pub struct UserOptions {
    /// The workload.
    pub core: Core,
    /// Which records are requested: the workload's own choice ([`Core::popularity`]), or another.
    pub popularity: Popularity,
    /// The records. Shared: all users request records that one user adds.
    pub records: Records,
    /// The seed of all requests; not that of the records.
    pub seed: u64,
}

/// One user.
pub struct User {
    address: Address,
    store: Box<dyn Store>,
    inputs: Inputs,
    current: Option<Input>,
    /// Requests on lost connections.
    before: u64,
}

impl User {
    /// In the order of [`Request::kind`].
    pub const KINDS: &'static [&'static str] = &Operation::NAMES;

    /// Connects user number `number`, counted from 0.
    pub fn connect(
        address: &Address,
        options: &UserOptions,
        number: usize,
    ) -> Result<Self, DbError> {
        let UserOptions { core, popularity, records, seed } = options.clone();
        Ok(Self {
            store: address.connect()?,
            address: address.clone(),
            inputs: Inputs::new(core, popularity, records, seed, number),
            current: None,
            before: 0,
        })
    }

    fn execute(&mut self) -> Result<(), DbError> {
        let Some(input) = &self.current else {
            return Err(DbError::usage("a request is attempted before it is made"));
        };
        match input {
            Input::Read(key) => read(self.store.as_mut(), *key),
            Input::Update(key, change) => self.store.update(*key, change),
            Input::Insert(number, record) => {
                self.store.insert(&[(Key::of(*number), record)])?;
                self.inputs.inserted();
                Ok(())
            }
            Input::Scan(from, count) => {
                if self.store.scan(*from, *count)?.is_empty() {
                    return Err(DbError::data(format!("no record from {} on", from.text())));
                }
                Ok(())
            }
            Input::ReadModifyWrite(key, change) => {
                read(self.store.as_mut(), *key)?;
                self.store.update(*key, change)
            }
        }
    }
}

/// Only existing records are requested, so a missing one is an error of the store.
fn read(store: &mut dyn Store, key: Key) -> Result<(), DbError> {
    match store.read(key)? {
        Some(_) => Ok(()),
        None => Err(DbError::data(format!("there is no record {}", key.text()))),
    }
}

impl Client for User {
    fn next(&mut self) -> Request {
        let input = self.inputs.draw();
        let kind = input.operation() as usize;
        self.current = Some(input);
        Request { kind, before: Duration::ZERO, after: Duration::ZERO }
    }

    fn attempt(&mut self) -> Result<(), DbError> {
        let result = self.execute();
        if result.as_ref().is_err_and(|error| error.kind == ErrorKind::Connection) {
            let store = self.address.connect()?;
            self.before += std::mem::replace(&mut self.store, store).requests();
        }
        result
    }

    fn requests(&self) -> u64 {
        self.before + self.store.requests()
    }
}
