//! One connection: both directions of its bytes, the commands whose answers matter, and what it
//! holds.

mod asked;
mod client;

use super::command::{Kind, kind_of};
use super::fast_path;
use super::replies::{self, Replies, Reply};
use super::requests::{Piece, Requests};
use crate::holding::Holding;
use crate::identity::{Identity, InlineStr};
use asked::Asked;
use client::{argument, first_word};

/// Commands in flight whose answers matter.
const NOTED_MAX: usize = 16;

/// The account's name before a login, as in Redis.
const DEFAULT_ACCOUNT: &[u8] = b"default";

/// Why the bytes of a connection cannot be followed. Final.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Opaque {
    /// The client began a TLS handshake.
    Encrypted,
    /// Bytes that do not parse.
    Desynchronized,
}

impl Opaque {
    /// The counter's name.
    pub const fn name(self) -> &'static str {
        match self {
            Opaque::Encrypted => "encrypted",
            Opaque::Desynchronized => "desynchronized",
        }
    }
}

/// Kinds of connections on which not every command has exactly one answer.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Stream {
    /// It receives messages of channels (RESP2), until it has left the last one.
    Subscriber,
    /// It receives every command that the server runs, until `RESET`.
    Monitor,
    /// It is a replica. Final.
    Replica,
}

/// A command whose answer matters.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Noted {
    number: u32,
    kind: Kind,
}

/// What the next word of the current command is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Word {
    /// It does not matter.
    Skip,
    /// The second word of `CLIENT` or `SCRIPT`, or the third of `CLIENT REPLY`.
    Kind,
    /// An account.
    Account,
    /// The number of a database.
    Database,
    /// The connection's name.
    Name,
    /// `HELLO`: the version, then options.
    Version,
    Option,
    /// A password: skipped unread.
    Secret,
}

/// The state of one connection: plain data of fixed size. See the [module](super) for its
/// guarantees.
///
/// Feed it every byte of both directions, in the order in which the server's calls returned. It
/// never panics and never allocates, whatever the bytes are.
#[derive(Clone, Debug)]
pub struct Session {
    requests: Requests,
    replies: Replies,
    opaque: Option<Opaque>,
    stream: Option<Stream>,
    /// Messages come as pushes, apart from the answers.
    resp3: bool,
    fresh: bool,
    kind: Kind,
    word: Word,
    arguments: u32,
    /// `CLIENT REPLY OFF`, or `SKIP` for the next command.
    mute: bool,
    skip: bool,
    /// Commands that came, those of them that always pass, and those that were answered. All wrap
    /// around.
    commands: u32,
    passed: u32,
    /// Answers that are expected, and that came.
    owed: u32,
    answered: u32,
    noted: [Noted; NOTED_MAX],
    notes: u8,
    /// What the connection will hold if the commands in flight succeed.
    hopes: Holding,
    holding: Holding,
    identities: u8,
    identity: Identity,
    asked: Asked,
}

impl Default for Session {
    fn default() -> Session {
        Session::new()
    }
}

impl Session {
    /// A connection without any bytes yet.
    pub const fn new() -> Session {
        Session {
            requests: Requests::new(),
            replies: Replies::new(),
            opaque: None,
            stream: None,
            resp3: false,
            fresh: true,
            kind: Kind::Plain,
            word: Word::Skip,
            arguments: 0,
            mute: false,
            skip: false,
            commands: 0,
            passed: 0,
            owed: 0,
            answered: 0,
            noted: [Noted { number: 0, kind: Kind::Plain }; NOTED_MAX],
            notes: 0,
            hopes: Holding::NONE,
            holding: Holding::NONE,
            identities: 0,
            identity: Identity::new(),
            asked: Asked::new(),
        }
    }

    /// Bytes that the server's `read` returned.
    pub fn client_bytes(&mut self, bytes: &[u8]) {
        if self.fresh && !bytes.is_empty() {
            self.begin(bytes);
        }
        if self.opaque.is_some() || self.stream == Some(Stream::Replica) {
            return;
        }
        let mut rest = self.plain_commands(bytes);
        loop {
            let word = match self.requests.next(&mut rest) {
                None => return,
                Some(Piece::Name { arguments }) => {
                    self.kind = kind_of(self.requests.word());
                    self.arguments = arguments;
                    first_word(self.kind, arguments)
                }
                Some(Piece::Argument) => {
                    argument(&mut self.kind, self.word, self.requests.word(), &mut self.asked)
                }
                Some(Piece::End) => {
                    self.command();
                    // No state of it is left, as after a command on the fast path.
                    (self.kind, self.word, self.arguments) = (Kind::Plain, Word::Skip, 0);
                    rest = self.plain_commands(rest);
                    continue;
                }
                Some(Piece::Invalid) => {
                    self.opaque = Some(Opaque::Desynchronized);
                    return;
                }
            };
            self.word = word;
            if word != Word::Skip {
                self.requests.want();
            }
        }
    }

    /// Bytes that the server's `write` took.
    pub fn server_bytes(&mut self, bytes: &[u8]) {
        if self.opaque.is_some() || self.stream == Some(Stream::Replica) {
            return;
        }
        let mut rest = self.simple_replies(bytes);
        while let Some(piece) = self.replies.next(&mut rest) {
            match piece {
                replies::Piece::Push => {}
                replies::Piece::Reply => self.reply(),
                replies::Piece::Invalid => {
                    self.opaque = Some(Opaque::Desynchronized);
                    return;
                }
            }
            if self.stream == Some(Stream::Replica) {
                return;
            }
            rest = self.simple_replies(rest);
        }
    }

    /// Takes the complete plain commands at the front.
    fn plain_commands<'a>(&mut self, bytes: &'a [u8]) -> &'a [u8] {
        if !self.requests.idle() || self.mute || self.skip {
            return bytes;
        }
        let (count, length) = fast_path::plain_commands(bytes);
        self.commands = self.commands.wrapping_add(count);
        self.owed = self.owed.wrapping_add(count);
        bytes.get(length..).unwrap_or(&[])
    }

    /// Takes the answers at the front that decide nothing.
    fn simple_replies<'a>(&mut self, bytes: &'a [u8]) -> &'a [u8] {
        let mut rest = bytes;
        if !self.replies.idle() || self.notes > 0 || self.stream.is_some() {
            return rest;
        }
        let mut left = self.owed.wrapping_sub(self.answered);
        while left > 0
            && let Some(length) = fast_path::simple_reply(rest)
        {
            rest = rest.get(length..).unwrap_or(&[]);
            left -= 1;
        }
        self.answered = self.owed.wrapping_sub(left);
        if left == 0 {
            self.hopes = self.holding;
        }
        rest
    }

    #[cold]
    fn begin(&mut self, bytes: &[u8]) {
        self.fresh = false;
        self.name_account(DEFAULT_ACCOUNT);
        // The record type of a TLS handshake.
        if bytes.first() == Some(&0x16) {
            self.opaque = Some(Opaque::Encrypted);
        }
    }

    fn name_account(&mut self, account: &[u8]) {
        let mut identity = self.identity;
        identity.account = text(account);
        if identity.database.is_empty() {
            identity.database = text(b"0");
        }
        self.become_known(identity);
    }

    fn become_known(&mut self, identity: Identity) {
        if identity != self.identity {
            self.identity = identity;
            self.identities = self.identities.wrapping_add(1);
        }
    }

    /// An answer is complete.
    fn reply(&mut self) {
        if self.stream.is_some() {
            self.message();
            return;
        }
        // An answer that no command expects: the server says good-bye, or a message was taken for
        // an answer before.
        if self.answered == self.owed {
            return;
        }
        self.answered = self.answered.wrapping_add(1);
        if self.notes > 0 {
            self.noted_reply();
        }
        if self.answered == self.owed {
            // Whatever went wrong before: nothing is in flight any more.
            self.notes = 0;
            self.hopes = self.holding;
        }
    }

    #[cold]
    fn noted_reply(&mut self) {
        let Noted { number, kind } = self.noted[0];
        if number != self.answered {
            return;
        }
        self.noted.copy_within(1.., 0);
        self.notes -= 1;
        let reply = *self.replies.reply();
        let asked = self.asked.answered(number, self.identity);
        // Inside a transaction the server only queues commands.
        if reply.is(b"QUEUED") {
            return;
        }
        if !reply.is_error() {
            let resp3 = reply.kind == b'%';
            self.done(kind, resp3);
            if matches!(kind, Kind::Auth | Kind::Hello | Kind::Select | Kind::SetName) {
                self.become_known(asked);
            }
        } else if kind == Kind::Exec && reply.head().starts_with(b"EXECABORT") {
            // The command was refused, but the transaction is over. Other errors mean that there
            // was none.
            self.holding = Holding::NONE;
        }
    }

    /// A command of this kind has succeeded.
    fn done(&mut self, kind: Kind, resp3: bool) {
        match kind {
            Kind::Multi => self.holding = self.holding.union(Holding::TRANSACTION),
            Kind::Watch => self.holding = self.holding.union(Holding::WATCH),
            Kind::Unwatch => self.holding = self.holding.without(Holding::WATCH),
            Kind::Exec | Kind::Discard | Kind::Quit => self.holding = Holding::NONE,
            Kind::Hello => self.resp3 = resp3,
            Kind::Subscribe => self.enter_stream(Stream::Subscriber),
            Kind::Monitor => self.enter_stream(Stream::Monitor),
            Kind::Sync => self.enter_stream(Stream::Replica),
            Kind::Reset => self.reset(),
            _ => {}
        }
    }

    fn enter_stream(&mut self, stream: Stream) {
        if self.resp3 && stream == Stream::Subscriber {
            // Messages come apart from the answers, and everything else goes on.
            return;
        }
        self.stream = Some(stream);
        (self.notes, self.answered) = (0, self.owed);
        (self.holding, self.hopes) = (Holding::NONE, Holding::NONE);
    }

    fn reset(&mut self) {
        (self.holding, self.hopes, self.stream, self.resp3) =
            (Holding::NONE, Holding::NONE, None, false);
        (self.mute, self.skip) = (false, false);
        self.identity = Identity::new();
        self.identities = self.identities.wrapping_add(1);
        self.name_account(DEFAULT_ACCOUNT);
    }

    /// Something of a stream.
    #[cold]
    fn message(&mut self) {
        let reply = *self.replies.reply();
        if reply.is(b"RESET") {
            self.reset();
            return;
        }
        let last_left = self.stream == Some(Stream::Subscriber)
            && reply.kind == b'*'
            && reply.last_number == 0
            && is_unsubscription(&reply);
        if last_left {
            self.stream = None;
            (self.notes, self.answered) = (0, self.owed);
        }
    }

    /// Commands that came; wraps around.
    pub fn commands(&self) -> u32 {
        self.commands
    }

    /// Commands that always pass: administration, and those about the connection itself.
    pub fn passed(&self) -> u32 {
        self.passed
    }

    /// Whether the server has answered all commands and would read a new one.
    pub fn at_boundary(&self) -> bool {
        self.opaque.is_none()
            && self.between_commands()
            && self.replies.idle()
            && self.answered == self.owed
    }

    /// Whether no command is incomplete.
    pub fn between_commands(&self) -> bool {
        self.requests.idle()
    }

    /// What the session holds, once the commands in flight have succeeded.
    pub fn holding(&self) -> Holding {
        if self.notes > 0 { self.hopes } else { self.holding }
    }

    /// Who the client is. `None` before its first byte, and always under encryption.
    pub fn identity(&self) -> Option<&Identity> {
        (self.identities > 0 && self.opaque.is_none()).then_some(&self.identity)
    }

    /// A number that differs after every change of [`identity`](Session::identity).
    pub fn identity_number(&self) -> u8 {
        self.identities
    }

    /// Why the connection cannot be followed, if it cannot.
    pub fn opaque(&self) -> Option<Opaque> {
        self.opaque
    }

    /// The kind of the connection, if not every command has exactly one answer.
    pub fn stream(&self) -> Option<Stream> {
        self.stream
    }

    /// For tests: all state that decides what later bytes mean. It is equal for two sessions that
    /// saw the same conversation, however it was cut.
    #[doc(hidden)]
    pub fn meaning(&self) -> String {
        if self.opaque.is_some() || self.stream == Some(Stream::Replica) {
            // Final: the state before it has no meaning any more.
            return format!("{:?}", (self.opaque, self.stream));
        }
        let notes = self.noted.get(..usize::from(self.notes)).unwrap_or(&[]);
        let in_hand = (!self.requests.idle()).then_some((self.kind, self.word, self.arguments));
        format!(
            "{:?}",
            (
                (self.requests.meaning(), self.replies.meaning(), in_hand, self.stream, self.resp3),
                (self.commands, self.passed, self.owed, self.answered, notes, self.mute, self.skip),
                (self.hopes, self.holding, self.identities, self.identity, self.asked),
            )
        )
    }
}

fn text(bytes: &[u8]) -> InlineStr {
    let mut text = InlineStr::new();
    bytes.iter().for_each(|&byte| text.push(byte));
    text
}

/// Whether a message confirms that a channel was left: `*3`, then its kind.
fn is_unsubscription(reply: &Reply) -> bool {
    let kind = reply.head().strip_prefix(b"3\r\n$");
    let kind = kind.and_then(|rest| rest.split(|&byte| byte == b'\n').nth(1));
    kind.is_some_and(|kind| {
        [&b"unsubscribe"[..], b"punsubscribe", b"sunsubscribe"]
            .iter()
            .any(|known| kind.starts_with(known))
    })
}

#[cfg(test)]
mod tests;
