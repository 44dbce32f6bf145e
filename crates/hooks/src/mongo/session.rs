//! One connection: both directions of its messages, the commands whose answers matter, and what it
//! holds.

use super::bson::{Field, Within};
use super::command::{Command, Name, Transaction, text};
use super::messages::{Messages, Piece, opcode};
use crate::holding::Holding;
use crate::identity::{Identity, InlineStr};

/// Most commands whose answers are awaited. Drivers have one; the oldest of more count as answered.
const UNDER_WAY: usize = 8;

/// Most cursors awaiting data that are remembered: the latest ones.
const AWAITING: usize = 8;

/// The account's name before a login.
const NO_LOGIN: &[u8] = b"anonymous";

/// Why the bytes of a connection cannot be followed. Final.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Opaque {
    /// The client began a TLS handshake.
    Encrypted,
    /// The client sends compressed messages, so that transactions cannot be seen.
    Compressed,
    /// The bytes are not messages.
    Desynchronized,
}

impl Opaque {
    /// The counter's name.
    pub const fn name(self) -> &'static str {
        match self {
            Opaque::Encrypted => "encrypted",
            Opaque::Compressed => "compressed",
            Opaque::Desynchronized => "desynchronized",
        }
    }
}

/// What the answer to a command decides.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Purpose {
    Nothing,
    /// A statement of this transaction (a number of [`Session::opened`]).
    Statement(u8),
    /// It ends that transaction.
    Ends(u8),
    Login,
    Logout,
    OpensCursor,
}

/// A command under way.
#[derive(Clone, Copy, Debug)]
struct UnderWay {
    request: i32,
    purpose: Purpose,
    passes: bool,
}

/// What was read of an answer.
#[derive(Clone, Debug, Default)]
struct Answer {
    ok: Option<bool>,
    done: bool,
    user: InlineStr,
    cursor: i64,
    transient: bool,
}

/// The state of one connection: plain data of fixed size. See the [module](super) for its
/// guarantees.
///
/// Feed it every byte of both directions, in the order in which the server's calls returned. It
/// never panics and never allocates, whatever the bytes are.
#[derive(Clone, Debug)]
pub struct Session {
    client: Messages,
    server: Messages,
    opaque: Option<Opaque>,
    fresh: bool,
    command: Command,
    answer: Answer,
    /// Commands that came, and those of them that always pass. Both wrap around.
    commands: u32,
    passed: u32,
    under_way: [UnderWay; UNDER_WAY],
    count: u8,
    /// The open transaction that this connection began, and how many it has begun.
    open: Option<Transaction>,
    opened: u8,
    awaiting: [i64; AWAITING],
    identities: u8,
    identity: Identity,
    /// Who logs in.
    asked: InlineStr,
}

impl Default for Session {
    fn default() -> Session {
        Session::new()
    }
}

impl Session {
    /// A connection without any bytes yet.
    pub fn new() -> Session {
        let nothing = UnderWay { request: 0, purpose: Purpose::Nothing, passes: false };
        Session {
            client: Messages::new(Within::Command),
            server: Messages::new(Within::Reply),
            opaque: None,
            fresh: true,
            command: Command::default(),
            answer: Answer::default(),
            commands: 0,
            passed: 0,
            under_way: [nothing; UNDER_WAY],
            count: 0,
            open: None,
            opened: 0,
            awaiting: [0; AWAITING],
            identities: 0,
            identity: Identity::new(),
            asked: InlineStr::new(),
        }
    }

    /// Bytes that the server's `read` returned.
    pub fn client_bytes(&mut self, bytes: &[u8]) {
        let mut rest = bytes;
        while self.opaque.is_none()
            && let Some(piece) = self.client.next(&mut rest)
        {
            match piece {
                Piece::Header => self.command_begins(),
                Piece::Field(field) => self.command.element(field, self.client.element()),
                Piece::End => self.command_came(),
                Piece::Invalid => {
                    let encrypted = self.fresh && is_handshake(self.client.header_bytes());
                    self.opaque =
                        Some(if encrypted { Opaque::Encrypted } else { Opaque::Desynchronized });
                }
            }
        }
    }

    /// Bytes that the server's `write` took.
    pub fn server_bytes(&mut self, bytes: &[u8]) {
        let mut rest = bytes;
        while self.opaque.is_none()
            && let Some(piece) = self.server.next(&mut rest)
        {
            match piece {
                Piece::Header => self.answer = Answer::default(),
                Piece::Field(field) => self.answer_element(field),
                Piece::End => self.answer_came(),
                Piece::Invalid => self.opaque = Some(Opaque::Desynchronized),
            }
        }
    }

    fn command_begins(&mut self) {
        if self.fresh && is_handshake(self.client.header_bytes()) {
            self.opaque = Some(Opaque::Encrypted);
            return;
        }
        if core::mem::take(&mut self.fresh) {
            let identity = Identity { account: text(Some(NO_LOGIN)), ..Identity::new() };
            self.become_known(identity);
        }
        self.command = Command::default();
        if self.client.header().opcode == opcode::COMPRESSED {
            self.commands = self.commands.wrapping_add(1);
            self.passed = self.passed.wrapping_add(1);
            self.open = None;
            self.opaque = Some(Opaque::Compressed);
        }
    }

    fn become_known(&mut self, identity: Identity) {
        if identity != self.identity {
            self.identity = identity;
            self.identities = self.identities.wrapping_add(1);
        }
    }

    /// Whether the current command always passes, as far as it was read.
    fn command_passes(&self) -> bool {
        let command = &self.command;
        match self.client.header().opcode {
            opcode::MSG | opcode::QUERY => {}
            other => return other == opcode::KILL_CURSORS,
        }
        if command.passes() {
            return true;
        }
        if command.name == Name::GetMore && command.cursor != 0 {
            return self.awaiting.contains(&command.cursor);
        }
        // A statement that continues or ends a transaction is never held. The transaction's holder
        // has the permit.
        let goes_on = command.transaction().is_some() && !command.starts;
        (goes_on || command.name == Name::Ends) && !self.is_of_open(command)
    }

    fn is_of_open(&self, command: &Command) -> bool {
        self.open.is_some() && self.open == command.transaction()
    }

    fn command_came(&mut self) {
        let passes = self.command_passes();
        self.commands = self.commands.wrapping_add(1);
        self.passed = self.passed.wrapping_add(u32::from(passes));
        let purpose = self.purpose(passes);
        self.learn_identity(passes);
        let header = self.client.header();
        let answered = match header.opcode {
            opcode::MSG => !self.client.more_to_come(),
            opcode::QUERY | opcode::GET_MORE => true,
            _ => false,
        };
        if answered {
            self.expect(UnderWay { request: header.request, purpose, passes });
        } else {
            // No answer will come, so it counts as successful.
            self.answer = Answer { ok: Some(true), ..Answer::default() };
            self.settle(purpose);
        }
    }

    /// What the answer to the current command decides. Notes what the command holds.
    fn purpose(&mut self, passes: bool) -> Purpose {
        let command = &self.command;
        let transaction = command.transaction();
        if let Some(transaction) = transaction
            && command.starts
        {
            self.open = Some(transaction);
            self.opened = self.opened.wrapping_add(1);
        }
        if transaction.is_some() && self.open == transaction {
            return match command.name {
                Name::Ends => Purpose::Ends(self.opened),
                _ => Purpose::Statement(self.opened),
            };
        }
        if !passes {
            // The connection is used for something else: the transaction goes on elsewhere, if at
            // all.
            self.open = None;
        }
        match command.name {
            Name::Hello | Name::SaslStart | Name::SaslContinue | Name::Authenticate => {
                if !command.login.account.is_empty() {
                    self.asked = command.login.account;
                }
                Purpose::Login
            }
            Name::Logout => Purpose::Logout,
            _ if command.opens_awaiting_cursor() => Purpose::OpensCursor,
            _ => Purpose::Nothing,
        }
    }

    fn learn_identity(&mut self, passes: bool) {
        let mut identity = self.identity;
        if self.command.name == Name::Hello && !self.command.application.is_empty() {
            identity.application = self.command.application;
        }
        if !passes && !self.command.database.is_empty() && self.command.name != Name::Ends {
            identity.database = self.command.database;
        }
        self.become_known(identity);
    }

    fn expect(&mut self, command: UnderWay) {
        if usize::from(self.count) == UNDER_WAY {
            self.under_way.copy_within(1.., 0);
            self.count -= 1;
        }
        if let Some(place) = self.under_way.get_mut(usize::from(self.count)) {
            *place = command;
            self.count += 1;
        }
    }

    fn answer_element(&mut self, field: Field) {
        let (answer, element) = (&mut self.answer, self.server.element());
        match field {
            Field::Ok => answer.ok = Some(element.is_true()),
            Field::Done => answer.done = element.is_true(),
            Field::User => answer.user = text(element.bytes()),
            Field::CursorId => answer.cursor = element.integer().unwrap_or(0),
            Field::Label => {
                answer.transient |= element.bytes() == Some(b"TransientTransactionError");
            }
            _ => {}
        }
    }

    fn answer_came(&mut self) {
        let header = self.server.header();
        let waiting = self.under_way.get(..usize::from(self.count)).unwrap_or(&[]);
        let found = waiting.iter().position(|command| command.request == header.response_to);
        // A server that does not fill in `responseTo` answers in order.
        let at = found.unwrap_or(0);
        let Some(&command) = waiting.get(at) else { return };
        if self.server.more_to_come() {
            // The next answer is to this one.
            self.under_way[at % UNDER_WAY].request = header.request;
        } else {
            self.under_way.copy_within(at + 1.., at);
            self.count -= 1;
        }
        self.settle(command.purpose);
    }

    /// A command was answered.
    fn settle(&mut self, purpose: Purpose) {
        let ok = self.answer.ok != Some(false);
        match purpose {
            Purpose::Nothing => {}
            Purpose::Statement(number)
                if number == self.opened && (!ok || self.answer.transient) =>
            {
                self.open = None;
            }
            Purpose::Ends(number) if number == self.opened => self.open = None,
            Purpose::Statement(_) | Purpose::Ends(_) => {}
            Purpose::Login if ok => {
                // With X.509 the answer names the account and ends the login.
                let named = core::mem::take(&mut self.answer.user);
                let account = if named.is_empty() { self.asked } else { named };
                if !account.is_empty() && (self.answer.done || !named.is_empty()) {
                    self.become_known(Identity { account, ..self.identity });
                    self.asked = InlineStr::new();
                }
            }
            Purpose::Login => self.asked = InlineStr::new(),
            Purpose::Logout => {
                self.become_known(Identity { account: text(Some(NO_LOGIN)), ..self.identity });
            }
            Purpose::OpensCursor if self.answer.cursor != 0 => {
                self.awaiting.copy_within(1.., 0);
                self.awaiting[AWAITING - 1] = self.answer.cursor;
            }
            Purpose::OpensCursor => {}
        }
    }

    /// Commands that came; wraps around.
    pub fn commands(&self) -> u32 {
        self.commands
    }

    /// Commands that always pass.
    pub fn passed(&self) -> u32 {
        self.passed
    }

    /// Whether no command is incomplete.
    pub fn between_messages(&self) -> bool {
        self.client.idle()
    }

    /// Whether the server has answered all commands and would read a new one.
    pub fn between_commands(&self) -> bool {
        self.client.idle() && self.server.idle() && self.count == 0
    }

    /// Whether a command awaits its answer. Those that pass are left out, as they may wait for
    /// long.
    pub fn owes_answers(&self) -> bool {
        let waiting = self.under_way.get(..usize::from(self.count)).unwrap_or(&[]);
        waiting.iter().any(|command| !command.passes)
    }

    /// Whether the current command is known to pass: its document is complete, though the command
    /// is not.
    pub fn in_hand_passes(&self) -> bool {
        self.client.is_read() && self.command_passes()
    }

    /// What the connection holds.
    pub fn holding(&self) -> Holding {
        if self.open.is_some() { Holding::TRANSACTION } else { Holding::NONE }
    }

    /// Who the client is. `None` before its first byte, and always under encryption.
    pub fn identity(&self) -> Option<&Identity> {
        (self.identities > 0).then_some(&self.identity)
    }

    /// A number that differs after every change of [`identity`](Session::identity).
    pub fn identity_number(&self) -> u8 {
        self.identities
    }

    /// Why the connection cannot be followed, if it cannot.
    pub fn opaque(&self) -> Option<Opaque> {
        self.opaque
    }

    /// For tests: all state that decides what later bytes mean. It is equal for two sessions that
    /// saw the same conversation, however it was cut.
    #[doc(hidden)]
    pub fn meaning(&self) -> String {
        if self.opaque.is_some() {
            // Final: the state before it has no meaning any more.
            return format!("{:?}", (self.opaque, self.commands, self.passed, self.identity));
        }
        format!("{self:?}")
    }
}

/// Whether this is the beginning of a TLS handshake record. As the length of a first message it
/// would be 66 kB or more, and no client greets at such length.
fn is_handshake(bytes: &[u8]) -> bool {
    matches!(bytes, [0x16, 0x03, 0x01..=0x04, ..])
}

#[cfg(test)]
mod size {
    /// The table has one session for each descriptor below the highest, so its size must not grow
    /// unseen.
    #[test]
    fn a_session_has_at_most_sixteen_hundred_bytes() {
        let size = size_of::<super::Session>();
        assert!(size <= 1600, "{size}");
    }
}
