//! One interface to the protocols that event loops speak.

use crate::holding::Holding;
use crate::identity::Identity;
use crate::{memcached, mongo, redis};
use headworks_region::Protocol;
use headworks_region::layout::Counter;

/// Where a conversation stands.
#[derive(Clone, Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "it lives in its connection's entry: nothing here may allocate"
)]
pub(super) enum Framing {
    /// Another module follows it (MariaDB's pool of threads: `threads`).
    Elsewhere,
    Redis(redis::Session),
    Memcached(memcached::Session),
    Mongo(mongo::Session),
}

/// What the gate can make of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Following {
    /// Its commands can be told apart.
    Yes,
    /// Not for the time being: it is sent what others do.
    Paused,
    /// Never again, and this counter says why.
    Never(Counter),
}

impl Framing {
    pub(super) fn of(protocol: Protocol) -> Framing {
        match protocol {
            Protocol::Redis => Framing::Redis(redis::Session::new()),
            Protocol::Memcached => Framing::Memcached(memcached::Session::new()),
            Protocol::MongoDb => Framing::Mongo(mongo::Session::new()),
            Protocol::MySql | Protocol::PostgreSql | Protocol::Generic => Framing::Elsewhere,
        }
    }

    pub(super) fn client_bytes(&mut self, bytes: &[u8]) {
        match self {
            Framing::Elsewhere => {}
            Framing::Redis(session) => session.client_bytes(bytes),
            Framing::Memcached(session) => session.client_bytes(bytes),
            Framing::Mongo(session) => session.client_bytes(bytes),
        }
    }

    pub(super) fn server_bytes(&mut self, bytes: &[u8]) {
        match self {
            Framing::Redis(session) => session.server_bytes(bytes),
            Framing::Mongo(session) => session.server_bytes(bytes),
            Framing::Elsewhere | Framing::Memcached(_) => {}
        }
    }

    /// Whether the server's bytes matter, too.
    pub(super) fn listens_to_server(&self) -> bool {
        matches!(self, Framing::Redis(_) | Framing::Mongo(_))
    }

    /// Whether a command is not answered although the server's loop has come back from it: another
    /// thread is at it.
    pub(super) fn owes_answers(&self) -> bool {
        matches!(self, Framing::Mongo(session) if session.owes_answers())
    }

    /// Whether a session's bytes are looked at as soon as it is held: they may go on with what
    /// another connection began.
    pub(super) fn looks_at_once(&self) -> bool {
        matches!(self, Framing::Mongo(_))
    }

    /// Whether the command in hand is known to pass, although not all of it has come.
    pub(super) fn in_hand_passes(&self) -> bool {
        matches!(self, Framing::Mongo(session) if session.in_hand_passes())
    }

    /// Commands that came, and those of them that always pass; both count past the largest number
    /// from zero on.
    pub(super) fn commands(&self) -> (u32, u32) {
        match self {
            Framing::Elsewhere => (0, 0),
            Framing::Redis(session) => (session.commands(), session.passed()),
            Framing::Memcached(session) => (session.commands(), session.passed()),
            Framing::Mongo(session) => (session.commands(), session.passed()),
        }
    }

    pub(super) fn between_commands(&self) -> bool {
        match self {
            Framing::Elsewhere => true,
            Framing::Redis(session) => session.between_commands(),
            Framing::Memcached(session) => session.between_commands(),
            Framing::Mongo(session) => session.between_messages(),
        }
    }

    pub(super) fn holding(&self) -> Holding {
        match self {
            Framing::Redis(session) => session.holding(),
            Framing::Mongo(session) => session.holding(),
            Framing::Elsewhere | Framing::Memcached(_) => Holding::NONE,
        }
    }

    /// Who it is, with a number that changes with it.
    pub(super) fn identity(&self) -> Option<(&Identity, u8)> {
        match self {
            Framing::Elsewhere => None,
            Framing::Redis(session) => Some((session.identity()?, session.identity_number())),
            Framing::Memcached(session) => Some((session.identity()?, 1)),
            Framing::Mongo(session) => Some((session.identity()?, session.identity_number())),
        }
    }

    pub(super) fn following(&self) -> Following {
        match self {
            Framing::Elsewhere => Following::Yes,
            Framing::Redis(session) => match (session.opaque(), session.stream()) {
                (Some(redis::Opaque::Encrypted), _) => Following::Never(Counter::OpaqueTls),
                (Some(redis::Opaque::Desynchronized), _) => {
                    Following::Never(Counter::OpaqueUnknown)
                }
                (None, Some(redis::Stream::Replica)) => Following::Never(Counter::Replication),
                (None, Some(_)) => Following::Paused,
                (None, None) => Following::Yes,
            },
            Framing::Memcached(session) => match session.opaque() {
                Some(memcached::Opaque::Encrypted) => Following::Never(Counter::OpaqueTls),
                Some(memcached::Opaque::Desynchronized) => Following::Never(Counter::OpaqueUnknown),
                None => Following::Yes,
            },
            Framing::Mongo(session) => match session.opaque() {
                Some(mongo::Opaque::Encrypted) => Following::Never(Counter::OpaqueTls),
                Some(mongo::Opaque::Compressed) => Following::Never(Counter::OpaqueCompressed),
                Some(mongo::Opaque::Desynchronized) => Following::Never(Counter::OpaqueUnknown),
                None => Following::Yes,
            },
        }
    }
}
