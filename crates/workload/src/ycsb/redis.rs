//! Redis: a hash for each record, and a sorted set of all keys for scans, as in YCSB's own binding.

use std::time::Duration;

use ::redis::{Client, Connection, ErrorKind as Kind, FromRedisValue, RedisError, ServerErrorKind};
use ::redis::{Cmd, cmd, pipe};

use super::inputs::Change;
use super::record::{FIELD_NAMES, Key, Record};
use super::store::Store;
use crate::db::{DbError, ErrorKind};

/// The sorted set.
const INDEX: &str = "_indices";

/// A server that sends nothing for this long counts as stuck.
const TIMEOUT: Duration = Duration::from_secs(120);

/// The fields of a hash, in Redis's form.
type Fields = Vec<(Vec<u8>, Vec<u8>)>;

/// Reads the address.
pub(super) fn client(url: &str) -> Result<Client, DbError> {
    Client::open(url)
        .map_err(|error| DbError::usage(format!("cannot read the address of the store: {error}")))
}

/// One connection.
pub(super) struct Redis {
    connection: Connection,
    requests: u64,
}

impl Redis {
    pub(super) fn connect(client: &Client) -> Result<Self, DbError> {
        let connection = client.get_connection()?;
        connection.set_read_timeout(Some(TIMEOUT))?;
        Ok(Self { connection, requests: 0 })
    }

    fn ask<T: FromRedisValue>(&mut self, command: &Cmd) -> Result<T, DbError> {
        self.requests += 1;
        Ok(command.query(&mut self.connection)?)
    }
}

impl Store for Redis {
    fn insert(&mut self, records: &[(Key, &Record)]) -> Result<(), DbError> {
        let mut both = pipe();
        for (key, record) in records {
            let hash = both.cmd("HSET").arg(key.text());
            for (name, value) in FIELD_NAMES.iter().zip(&record.0) {
                hash.arg(name).arg(value);
            }
            hash.ignore();
            both.cmd("ZADD").arg(INDEX).arg(key.score()).arg(key.text()).ignore();
            self.requests += 2;
        }
        Ok(both.query(&mut self.connection)?)
    }

    fn read(&mut self, key: Key) -> Result<Option<Record>, DbError> {
        let fields: Fields = self.ask(cmd("HGETALL").arg(key.text()))?;
        if fields.is_empty() { Ok(None) } else { Record::from_fields(fields).map(Some) }
    }

    fn update(&mut self, key: Key, change: &Change) -> Result<(), DbError> {
        let mut hash = cmd("HSET");
        hash.arg(key.text()).arg(FIELD_NAMES[change.field]).arg(&change.value);
        match self.ask::<u64>(&hash)? {
            0 => Ok(()),
            // The field was new, so the record did not exist.
            _ => Err(DbError::data(format!("there was no record {}", key.text()))),
        }
    }

    fn scan(&mut self, from: Key, count: usize) -> Result<Vec<Record>, DbError> {
        let mut range = cmd("ZRANGEBYSCORE");
        range.arg(INDEX).arg(from.score()).arg("+inf").arg("LIMIT").arg(0).arg(count);
        let keys: Vec<String> = self.ask(&range)?;
        let read = |key: String| Record::from_fields(self.ask::<Fields>(cmd("HGETALL").arg(key))?);
        keys.into_iter().map(read).collect()
    }

    fn requests(&self) -> u64 {
        self.requests
    }
}

impl From<RedisError> for DbError {
    fn from(error: RedisError) -> Self {
        let kind = match error.kind() {
            Kind::Io | Kind::Server(ServerErrorKind::BusyLoading) => ErrorKind::Connection,
            _ if error.is_connection_dropped() => ErrorKind::Connection,
            Kind::InvalidClientConfig => ErrorKind::Usage,
            Kind::UnexpectedReturnType => ErrorKind::Data,
            _ => ErrorKind::Server,
        };
        Self::new(kind, error.to_string())
    }
}
