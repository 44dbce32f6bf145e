//! What a command is, from the elements of its document.

use super::bson::{Field, Walk};
use crate::identity::InlineStr;

/// A logical session and its statement number; both identify a transaction.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Transaction {
    pub(super) session: [u8; 16],
    pub(super) number: i64,
}

/// Commands that are distinguished by name.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) enum Name {
    /// Any other command that works with data.
    #[default]
    Other,
    Hello,
    SaslStart,
    SaslContinue,
    Authenticate,
    Logout,
    Find,
    Aggregate,
    GetMore,
    /// `commitTransaction` or `abortTransaction`.
    Ends,
    /// Administration, and commands about the connection itself.
    Passes,
}

/// Commands that always pass: those about connections, sessions and replication, and those that an
/// administrator needs when nothing else works.
const PASSES: &[&[u8]] = &[
    b"ping",
    b"buildInfo",
    b"buildinfo",
    b"getnonce",
    b"connectionStatus",
    b"whatsmyuri",
    b"startSession",
    b"refreshSessions",
    b"endSessions",
    b"killCursors",
    b"killSessions",
    b"killAllSessions",
    b"killAllSessionsByPattern",
    b"killOp",
    b"currentOp",
    b"serverStatus",
    b"connPoolStats",
    b"lockInfo",
    b"top",
    b"hostInfo",
    b"isdbgrid",
    b"features",
    b"listCommands",
    b"getCmdLineOpts",
    b"getLog",
    b"getParameter",
    b"setParameter",
    b"logRotate",
    b"fsyncUnlock",
    b"shutdown",
];

fn name_of(name: &[u8]) -> Name {
    match name {
        b"hello" | b"isMaster" | b"ismaster" => Name::Hello,
        b"saslStart" => Name::SaslStart,
        b"saslContinue" => Name::SaslContinue,
        b"authenticate" => Name::Authenticate,
        b"logout" => Name::Logout,
        b"find" => Name::Find,
        b"aggregate" => Name::Aggregate,
        b"getMore" => Name::GetMore,
        b"commitTransaction" | b"abortTransaction" => Name::Ends,
        // Commands between servers.
        _ if name.starts_with(b"replSet") || name.starts_with(b"_") => Name::Passes,
        _ if PASSES.contains(&name) => Name::Passes,
        _ => Name::Other,
    }
}

/// What was read of a command.
#[derive(Clone, Debug, Default)]
pub(super) struct Command {
    pub(super) name: Name,
    session: Option<[u8; 16]>,
    number: Option<i64>,
    pub(super) starts: bool,
    autocommit_off: bool,
    limits_time: bool,
    tailable: bool,
    awaits_data: bool,
    change_stream: bool,
    /// Of `getMore`.
    pub(super) cursor: i64,
    pub(super) database: InlineStr,
    pub(super) application: InlineStr,
    pub(super) login: Login,
}

/// What a login says.
#[derive(Clone, Debug, Default)]
pub(super) struct Login {
    pub(super) plain: bool,
    pub(super) account: InlineStr,
}

impl Command {
    pub(super) fn element(&mut self, field: Field, element: &Walk) {
        match field {
            Field::Name => {
                self.name = name_of(element.name());
                if self.name == Name::GetMore {
                    self.cursor = element.integer().unwrap_or(0);
                }
            }
            Field::SessionId => self.session = element.bytes().and_then(|id| id.try_into().ok()),
            Field::TxnNumber => self.number = element.integer(),
            Field::StartTransaction => self.starts = element.is_true(),
            Field::Autocommit => self.autocommit_off = !element.is_true(),
            Field::Database => self.database = text(element.bytes()),
            Field::MaxTime => self.limits_time = true,
            Field::Tailable => self.tailable = element.is_true(),
            Field::AwaitData => self.awaits_data = element.is_true(),
            Field::ChangeStream => self.change_stream = true,
            Field::Application => self.application = text(element.bytes()),
            Field::Mechanism => self.login.plain = element.bytes() == Some(b"PLAIN"),
            Field::Payload => self.login.payload(element.bytes()),
            Field::User => self.login.account = text(element.bytes()),
            Field::Ok | Field::Done | Field::CursorId | Field::Label => {}
        }
    }

    /// The transaction that the command belongs to.
    pub(super) fn transaction(&self) -> Option<Transaction> {
        let (session, number) = (self.session?, self.number?);
        self.autocommit_off.then_some(Transaction { session, number })
    }

    /// Whether the command always passes, whatever the connection holds.
    pub(super) fn passes(&self) -> bool {
        match self.name {
            Name::Hello
            | Name::SaslStart
            | Name::SaslContinue
            | Name::Authenticate
            | Name::Logout
            | Name::Passes => true,
            // Only a cursor that awaits data has a limit here: how long it waits.
            Name::GetMore => self.limits_time,
            Name::Other | Name::Find | Name::Aggregate | Name::Ends => false,
        }
    }

    /// Whether it opens a cursor whose `getMore` waits for new data.
    pub(super) fn opens_awaiting_cursor(&self) -> bool {
        match self.name {
            Name::Find => self.tailable && self.awaits_data,
            Name::Aggregate => self.change_stream,
            _ => false,
        }
    }
}

pub(super) fn text(bytes: Option<&[u8]>) -> InlineStr {
    let mut text = InlineStr::new();
    bytes.unwrap_or(&[]).iter().for_each(|&byte| text.push(byte));
    text
}
