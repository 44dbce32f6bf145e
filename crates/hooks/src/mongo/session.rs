//! One connection: both directions of its messages, the commands whose answers matter, and what it
//! holds.

use super::bson::{Field, Within};
use super::command::{Command, Name, Transaction, text};
use super::messages::{Messages, Piece, opcode};
use crate::holding::Holding;
use crate::identity::{Identity, InlineStr};

/// Commands under way whose answers are waited for. Drivers have one; of more, the oldest are taken
/// for answered.
const UNDER_WAY: usize = 8;

/// Cursors that await data and that are remembered, the latest ones.
const AWAITING: usize = 8;

/// What an account is called as long as nobody has logged in.
const NOBODY: &[u8] = b"anonymous";

/// Why the bytes of a connection cannot be followed. Final.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Opaque {
    /// The client began a TLS handshake.
    Encrypted,
    /// The client sends compressed messages, so that transactions cannot be seen.
    Compressed,
    /// Bytes that are no messages.
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
    /// A statement of the transaction of this number (of [`Session::opened`]).
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

/// The state of one connection: plain data of fixed size. See the [module](super) for what it
/// promises.
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
    /// Commands that came, and those of them that always pass. They count past the largest number
    /// from zero on.
    commands: u32,
    passed: u32,
    under_way: [UnderWay; UNDER_WAY],
    count: u8,
    /// The transaction that the connection has begun, and how many it has.
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
    /// A connection of which no byte was seen.
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
            let identity = Identity { account: text(Some(NOBODY)), ..Identity::new() };
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

    /// Whether the command in hand always passes, as far as it was read.
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
        // What goes on with a transaction, or ends one, is held nowhere. Its holder has a place for
        // it.
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
            // Nobody will say whether it succeeded: it is believed.
            self.answer = Answer { ok: Some(true), ..Answer::default() };
            self.settle(purpose);
        }
    }

    /// What the answer to the command in hand decides; what it holds is noted.
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
            // The connection is used for something else: whatever goes on with the transaction has
            // another one.
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
        // A server that answers to nobody in particular answers in order.
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
                // X.509 names the account in the answer, and is done with it.
                let named = core::mem::take(&mut self.answer.user);
                let account = if named.is_empty() { self.asked } else { named };
                if !account.is_empty() && (self.answer.done || !named.is_empty()) {
                    self.become_known(Identity { account, ..self.identity });
                    self.asked = InlineStr::new();
                }
            }
            Purpose::Login => self.asked = InlineStr::new(),
            Purpose::Logout => {
                self.become_known(Identity { account: text(Some(NOBODY)), ..self.identity });
            }
            Purpose::OpensCursor if self.answer.cursor != 0 => {
                self.awaiting.copy_within(1.., 0);
                self.awaiting[AWAITING - 1] = self.answer.cursor;
            }
            Purpose::OpensCursor => {}
        }
    }

    /// Commands that came, counting past the largest number from zero on.
    pub fn commands(&self) -> u32 {
        self.commands
    }

    /// Those of them that always pass.
    pub fn passed(&self) -> u32 {
        self.passed
    }

    /// Whether the client has sent no part of a command that is not complete.
    pub fn between_messages(&self) -> bool {
        self.client.idle()
    }

    /// Whether the server, if it reads now, reads a new command, and has answered all others.
    pub fn between_commands(&self) -> bool {
        self.client.idle() && self.server.idle() && self.count == 0
    }

    /// Whether a command is not answered, other than those that pass: they may wait for long.
    pub fn owes_answers(&self) -> bool {
        let waiting = self.under_way.get(..usize::from(self.count)).unwrap_or(&[]);
        waiting.iter().any(|command| !command.passes)
    }

    /// Whether the command in hand is known to pass, although it is not complete: its document is.
    pub fn in_hand_passes(&self) -> bool {
        self.client.is_read() && self.command_passes()
    }

    /// What the connection holds.
    pub fn holding(&self) -> Holding {
        if self.open.is_some() { Holding::TRANSACTION } else { Holding::NONE }
    }

    /// Who the client is; `None` until it sent anything, and always under encryption.
    pub fn identity(&self) -> Option<&Identity> {
        (self.identities > 0).then_some(&self.identity)
    }

    /// A number that is another one after every change of [`identity`](Session::identity).
    pub fn identity_number(&self) -> u8 {
        self.identities
    }

    /// Why the connection cannot be followed, if so.
    pub fn opaque(&self) -> Option<Opaque> {
        self.opaque
    }

    /// For tests: all that decides what later bytes mean. Equal for two sessions that saw the same
    /// conversation, however it was cut.
    #[doc(hidden)]
    pub fn meaning(&self) -> String {
        if self.opaque.is_some() {
            // Final: where it stood then means nothing any more.
            return format!("{:?}", (self.opaque, self.commands, self.passed, self.identity));
        }
        format!("{self:?}")
    }
}

/// The beginning of a TLS record of type handshake. As the length of a first message it would be 66
/// kB or more, and no client greets at such length.
fn is_handshake(bytes: &[u8]) -> bool {
    matches!(bytes, [0x16, 0x03, 0x01..=0x04, ..])
}

#[cfg(test)]
mod size {
    /// One for each descriptor below the highest, so it must not grow unseen.
    #[test]
    fn a_session_has_at_most_sixteen_hundred_bytes() {
        let size = size_of::<super::Session>();
        assert!(size <= 1600, "{size}");
    }
}
