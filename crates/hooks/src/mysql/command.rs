//! The commands of the protocol, how each is answered, and which of them pass the gate.

use super::answer::Expect;

/// A command: the first byte of a client packet with sequence number 0 ("MariaDB protocol
/// documentation", text and binary protocol commands).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Command(pub u8);

impl Command {
    /// COM_SLEEP; also what an empty packet counts as.
    pub const SLEEP: Command = Command(0x00);
    /// COM_QUIT: the server closes, no answer.
    pub const QUIT: Command = Command(0x01);
    /// COM_INIT_DB.
    pub const INIT_DB: Command = Command(0x02);
    /// COM_QUERY: one or more statements as text.
    pub const QUERY: Command = Command(0x03);
    /// COM_FIELD_LIST.
    pub const FIELD_LIST: Command = Command(0x04);
    /// COM_SHUTDOWN.
    pub const SHUTDOWN: Command = Command(0x08);
    /// COM_STATISTICS: answered by one packet of text.
    pub const STATISTICS: Command = Command(0x09);
    /// COM_PROCESS_INFO.
    pub const PROCESS_INFO: Command = Command(0x0A);
    /// COM_PROCESS_KILL.
    pub const PROCESS_KILL: Command = Command(0x0C);
    /// COM_DEBUG.
    pub const DEBUG: Command = Command(0x0D);
    /// COM_PING.
    pub const PING: Command = Command(0x0E);
    /// COM_CHANGE_USER: a new login on the same connection.
    pub const CHANGE_USER: Command = Command(0x11);
    /// COM_BINLOG_DUMP: the answer is a stream without end.
    pub const BINLOG_DUMP: Command = Command(0x12);
    /// COM_TABLE_DUMP.
    pub const TABLE_DUMP: Command = Command(0x13);
    /// COM_REGISTER_SLAVE.
    pub const REGISTER_SLAVE: Command = Command(0x15);
    /// COM_STMT_PREPARE.
    pub const STMT_PREPARE: Command = Command(0x16);
    /// COM_STMT_EXECUTE.
    pub const STMT_EXECUTE: Command = Command(0x17);
    /// COM_STMT_SEND_LONG_DATA: no answer.
    pub const STMT_SEND_LONG_DATA: Command = Command(0x18);
    /// COM_STMT_CLOSE: no answer.
    pub const STMT_CLOSE: Command = Command(0x19);
    /// COM_SET_OPTION: multi-statements on or off.
    pub const SET_OPTION: Command = Command(0x1B);
    /// COM_STMT_FETCH: rows of an open cursor.
    pub const STMT_FETCH: Command = Command(0x1C);
    /// COM_BINLOG_DUMP_GTID (MySQL).
    pub const BINLOG_DUMP_GTID: Command = Command(0x1E);
    /// COM_RESET_CONNECTION.
    pub const RESET_CONNECTION: Command = Command(0x1F);
    /// COM_STMT_BULK_EXECUTE (MariaDB).
    pub const STMT_BULK_EXECUTE: Command = Command(0xFA);

    /// What the server sends back; `None` for the commands that have no answer.
    pub(super) const fn answer(self) -> Option<Expect> {
        Some(match self {
            Command::QUIT | Command::STMT_CLOSE | Command::STMT_SEND_LONG_DATA => return None,
            Command::QUERY | Command::PROCESS_INFO => Expect::Results,
            Command::STMT_EXECUTE | Command::STMT_BULK_EXECUTE => Expect::Execution,
            Command::STMT_PREPARE => Expect::Prepared,
            Command::STMT_FETCH => Expect::Rows,
            Command::FIELD_LIST => Expect::Definitions,
            Command::STATISTICS => Expect::Text,
            Command::CHANGE_USER => Expect::Login,
            Command::BINLOG_DUMP | Command::BINLOG_DUMP_GTID | Command::TABLE_DUMP => {
                Expect::Stream
            }
            _ => Expect::One,
        })
    }

    /// The class of every command but COM_QUERY, whose class depends on its text.
    pub(super) const fn class(self) -> RequestClass {
        RequestClass::Pass(match self {
            Command::QUIT => PassReason::Quit,
            Command::PING => PassReason::Ping,
            Command::STATISTICS => PassReason::Statistics,
            Command::PROCESS_INFO => PassReason::ProcessList,
            Command::PROCESS_KILL => PassReason::Kill,
            Command::SHUTDOWN => PassReason::Shutdown,
            Command::DEBUG => PassReason::Debug,
            Command::SET_OPTION => PassReason::SetOption,
            Command::CHANGE_USER => PassReason::ChangeUser,
            Command::RESET_CONNECTION => PassReason::Reset,
            Command::STMT_CLOSE | Command::STMT_SEND_LONG_DATA => PassReason::NoAnswer,
            Command::BINLOG_DUMP
            | Command::BINLOG_DUMP_GTID
            | Command::TABLE_DUMP
            | Command::REGISTER_SLAVE => PassReason::Replication,
            _ => return RequestClass::Gated,
        })
    }

    /// Whether the command makes the connection a replication link.
    pub(super) const fn replicates(self) -> bool {
        matches!(self.class(), RequestClass::Pass(PassReason::Replication))
    }
}

/// Why a request passes the gate at any load.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum PassReason {
    /// COM_QUIT.
    Quit,
    /// COM_PING.
    Ping,
    /// COM_STATISTICS.
    Statistics,
    /// COM_PROCESS_INFO.
    ProcessList,
    /// COM_PROCESS_KILL, or a single KILL statement.
    Kill,
    /// COM_SHUTDOWN, or a single SHUTDOWN statement.
    Shutdown,
    /// COM_DEBUG.
    Debug,
    /// COM_SET_OPTION.
    SetOption,
    /// COM_CHANGE_USER.
    ChangeUser,
    /// COM_RESET_CONNECTION: it frees what the connection holds.
    Reset,
    /// A command without an answer: nothing would mark its end.
    NoAnswer,
    /// A replica's commands: its thread streams for as long as it is connected.
    Replication,
    /// A single XA COMMIT, XA ROLLBACK or XA RECOVER statement: it may end a prepared branch of
    /// another connection.
    XaFinish,
}

impl PassReason {
    /// Every reason, in the order of the counters.
    pub const ALL: [PassReason; 13] = [
        PassReason::Quit,
        PassReason::Ping,
        PassReason::Statistics,
        PassReason::ProcessList,
        PassReason::Kill,
        PassReason::Shutdown,
        PassReason::Debug,
        PassReason::SetOption,
        PassReason::ChangeUser,
        PassReason::Reset,
        PassReason::NoAnswer,
        PassReason::Replication,
        PassReason::XaFinish,
    ];

    /// The counter's name: stable, lower case, words joined by `-`.
    pub const fn name(self) -> &'static str {
        match self {
            PassReason::Quit => "quit",
            PassReason::Ping => "ping",
            PassReason::Statistics => "statistics",
            PassReason::ProcessList => "process-list",
            PassReason::Kill => "kill",
            PassReason::Shutdown => "shutdown",
            PassReason::Debug => "debug",
            PassReason::SetOption => "set-option",
            PassReason::ChangeUser => "change-user",
            PassReason::Reset => "reset",
            PassReason::NoAnswer => "no-answer",
            PassReason::Replication => "replication",
            PassReason::XaFinish => "xa-finish",
        }
    }
}

/// Whether a request is gated.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum RequestClass {
    /// It waits for a permit unless the connection holds something.
    Gated,
    /// It passes, for this reason.
    Pass(PassReason),
}

/// A request that the server is about to work on.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Request {
    /// The command byte.
    pub command: Command,
    /// Whether it waits.
    pub class: RequestClass,
}
