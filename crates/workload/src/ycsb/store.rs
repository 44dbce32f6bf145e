//! YCSB's interface to a database, and its address.

use std::fmt;
use std::str::FromStr;

use super::inputs::Change;
use super::memcached::Memcached;
use super::mongodb::{self, MongoDb};
use super::record::{Key, Record};
use super::redis::{self, Redis};
use crate::db::DbError;

/// One connection.
pub trait Store: Send {
    /// Adds records. An existing record is not an error: an insert whose answer was lost is
    /// repeated.
    fn insert(&mut self, records: &[(Key, &Record)]) -> Result<(), DbError>;

    /// Reads all fields of a record; `None` if it does not exist.
    fn read(&mut self, key: Key) -> Result<Option<Record>, DbError>;

    /// Writes one field of an existing record.
    fn update(&mut self, key: Key, change: &Change) -> Result<(), DbError>;

    /// Reads up to `count` records in the order of their keys, from `from` on.
    fn scan(&mut self, from: Key, count: usize) -> Result<Vec<Record>, DbError>;

    /// Requests sent to the server so far, as its protocol counts them.
    fn requests(&self) -> u64;
}

/// Address and protocol of a store.
#[derive(Clone)]
pub struct Address(Target);

#[derive(Clone)]
enum Target {
    Redis(::redis::Client),
    MongoDb(mongodb::Address),
    /// Host and port.
    Memcached(String),
}

impl fmt::Debug for Address {
    /// Without the address, which may hold a password.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self.0 {
            Target::Redis(_) => "Address(Redis)",
            Target::MongoDb(_) => "Address(MongoDb)",
            Target::Memcached(_) => "Address(Memcached)",
        })
    }
}

impl FromStr for Address {
    type Err = DbError;

    /// `redis://[account:password@]host:port`, `mongodb://host:port/database[?appName=NAME]`, or
    /// `memcached://host:port`.
    fn from_str(url: &str) -> Result<Self, DbError> {
        let (scheme, host) = url.split_once("://").unwrap_or(("", url));
        Ok(Self(match scheme {
            "redis" => Target::Redis(redis::client(url)?),
            "mongodb" => Target::MongoDb(url.parse()?),
            "memcached" if host.contains(':') => Target::Memcached(host.to_owned()),
            "memcached" => {
                return Err(DbError::usage("the address of a memcached is memcached://host:port"));
            }
            _ => {
                return Err(DbError::usage(
                    "the address of a store begins with redis://, mongodb:// or memcached://",
                ));
            }
        }))
    }
}

impl Address {
    /// Opens a connection.
    pub fn connect(&self) -> Result<Box<dyn Store>, DbError> {
        Ok(match &self.0 {
            Target::Redis(client) => Box::new(Redis::connect(client)?),
            Target::MongoDb(address) => Box::new(MongoDb::connect(address)?),
            Target::Memcached(host) => Box::new(Memcached::connect(host)?),
        })
    }
}
