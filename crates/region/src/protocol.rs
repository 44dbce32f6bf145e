//! Which wire protocol the server behind the gate speaks.

use crate::layout::Region;
use core::sync::atomic::Ordering;

/// What the clients of the server speak, and with it how the server serves them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u32)]
pub enum Protocol {
    /// MySQL and MariaDB: a thread for each connection.
    #[default]
    MySql = 0,
    /// PostgreSQL: a process for each connection, forked from the one that accepts it.
    PostgreSql = 1,
    /// Redis: event loops that serve many connections each.
    Redis = 2,
    /// memcached, text or binary: event loops, too.
    Memcached = 3,
    /// MongoDB's wire protocol: a thread for each connection, or event loops where
    /// [`Region::pooled`] says so.
    MongoDb = 4,
    /// Nothing is known of it: data that arrives after an answer is a request. A thread for each
    /// connection.
    Generic = 64,
}

impl Protocol {
    /// From the word in memory; an unknown one is the first protocol, whose framing then finds
    /// that the bytes make no sense, and leaves the connection alone.
    pub fn from_word(word: u32) -> Protocol {
        match word {
            1 => Protocol::PostgreSql,
            2 => Protocol::Redis,
            3 => Protocol::Memcached,
            4 => Protocol::MongoDb,
            64 => Protocol::Generic,
            _ => Protocol::MySql,
        }
    }

    /// For people.
    pub fn name(self) -> &'static str {
        match self {
            Protocol::MySql => "mysql",
            Protocol::PostgreSql => "postgresql",
            Protocol::Redis => "redis",
            Protocol::Memcached => "memcached",
            Protocol::MongoDb => "mongodb",
            Protocol::Generic => "generic",
        }
    }
}

impl Region {
    /// What the server behind the gate speaks. Fixed before the server starts.
    pub fn protocol(&self) -> Protocol {
        Protocol::from_word(self.header.protocol.load(Ordering::Relaxed))
    }

    /// Whether few threads of the server take turns with all connections, so that none of them may
    /// be held.
    pub fn pooled(&self) -> bool {
        self.header.pooled.load(Ordering::Relaxed) != 0
    }

    /// Says so, of the server that is to be started.
    pub fn set_pooled(&self, pooled: bool) {
        self.header.pooled.store(u32::from(pooled), Ordering::Relaxed);
    }

    /// Says what the server that is to be started speaks.
    pub fn set_protocol(&self, protocol: Protocol) {
        self.header.protocol.store(protocol as u32, Ordering::Relaxed);
    }
}
