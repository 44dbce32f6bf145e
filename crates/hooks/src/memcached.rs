//! The memcached protocol (text with meta commands, and binary), as far as the gate needs it.
//!
//! There are no transactions and no locks, and not every set-up has accounts that the server would
//! confirm. So only the client's bytes are followed: where commands end, and which of them
//! administer the server. A worker of memcached answers all it has read before it polls again. Of a
//! long pipeline it takes 20 commands at a time and then polls for writability. The turn lasts
//! until it polls for the client's bytes again.
//!
//! # Worked example
//! `set k 0 0 3`, `abc`, `mg k v`: the first line announces three bytes and a line end, which are
//! skipped. Then comes one more line. So there are two requests.
//!
//! Source: memcached's `doc/protocol.txt`, and its binary protocol's 24-byte header.

#![forbid(unsafe_code)]

use crate::identity::{Identity, InlineStr};

/// The account's name where there are no accounts.
const ACCOUNT: &[u8] = b"anonymous";

/// First byte of a connection that speaks the binary protocol.
const BINARY: u8 = 0x80;

/// Bytes of a line that are parsed: a command, a key of 250 bytes and four numbers.
const LINE_KEPT: usize = 384;

/// Longest line that the server accepts.
const LINE_MAX: u32 = 1 << 20;

const KEY_MAX: usize = 250;
const HEADER: usize = 24;

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

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum At {
    Fresh,
    Line,
    Header,
    /// In a value, or in the body of a binary command.
    Body,
}

/// The state of one connection: plain data of fixed size. It never panics and never allocates,
/// whatever the bytes are.
#[derive(Clone, Debug)]
pub struct Session {
    at: At,
    binary: bool,
    opaque: Option<Opaque>,
    identity: Identity,
    commands: u32,
    passed: u32,
    kept: [u8; LINE_KEPT],
    have: u16,
    /// Bytes of the line so far.
    line: u32,
    /// Bytes of the value still to come, with its line end.
    left: u64,
    /// The command whose value is arriving always passes.
    passes: bool,
}

impl Default for Session {
    fn default() -> Session {
        Session::new()
    }
}

impl Session {
    /// A connection of which no byte was seen.
    pub const fn new() -> Session {
        Session {
            at: At::Fresh,
            binary: false,
            opaque: None,
            identity: Identity::new(),
            commands: 0,
            passed: 0,
            kept: [0; LINE_KEPT],
            have: 0,
            line: 0,
            left: 0,
            passes: false,
        }
    }

    /// Bytes that the server's `read` returned.
    pub fn client_bytes(&mut self, bytes: &[u8]) {
        let mut rest = bytes;
        while self.opaque.is_none() && !rest.is_empty() {
            match self.at {
                At::Fresh => self.begin(rest),
                At::Line => self.line_bytes(&mut rest),
                At::Header => self.header_bytes(&mut rest),
                At::Body => {
                    let take = usize::try_from(self.left).unwrap_or(usize::MAX).min(rest.len());
                    rest = rest.split_at(take).1;
                    self.left -= take as u64;
                    if self.left == 0 {
                        self.command();
                    }
                }
            }
        }
    }

    #[cold]
    fn begin(&mut self, bytes: &[u8]) {
        let mut account = InlineStr::new();
        ACCOUNT.iter().for_each(|&byte| account.push(byte));
        self.identity.account = account;
        match bytes.first() {
            Some(&BINARY) => (self.binary, self.at) = (true, At::Header),
            Some(0x16) => self.opaque = Some(Opaque::Encrypted),
            _ => self.at = At::Line,
        }
    }

    fn keep(&mut self, bytes: &[u8]) {
        let have = usize::from(self.have);
        let count = bytes.len().min(LINE_KEPT - have.min(LINE_KEPT));
        if let (Some(to), Some(from)) = (self.kept.get_mut(have..have + count), bytes.get(..count))
        {
            to.copy_from_slice(from);
            // At most LINE_KEPT in all.
            self.have += count as u16;
        }
    }

    fn line_bytes(&mut self, rest: &mut &[u8]) {
        let end = rest.iter().position(|&byte| byte == b'\n');
        let (line, after) = match end {
            Some(end) => (rest.get(..end).unwrap_or(&[]), rest.get(end + 1..).unwrap_or(&[])),
            None => (*rest, &[][..]),
        };
        *rest = after;
        self.keep(line);
        self.line = self.line.saturating_add(u32::try_from(line.len()).unwrap_or(u32::MAX));
        if self.line > LINE_MAX {
            self.opaque = Some(Opaque::Desynchronized);
        }
        if end.is_none() {
            return;
        }
        let line = self.kept.get(..usize::from(self.have)).unwrap_or(&[]);
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let told = Told::of(line);
        (self.have, self.line) = (0, 0);
        self.passes = told == Told::Passes;
        match told {
            Told::Nothing => {}
            Told::Value(length) => (self.at, self.left) = (At::Body, length + 2),
            Told::Plain | Told::Passes => self.command(),
        }
    }

    fn header_bytes(&mut self, rest: &mut &[u8]) {
        let missing = HEADER - usize::from(self.have).min(HEADER);
        let (now, later) = rest.split_at(missing.min(rest.len()));
        *rest = later;
        self.keep(now);
        let Some(&header) =
            self.kept.first_chunk::<HEADER>().filter(|_| usize::from(self.have) == HEADER)
        else {
            return;
        };
        self.have = 0;
        let [magic, opcode, ..] = header;
        let length = u32::from_be_bytes([header[8], header[9], header[10], header[11]]);
        if magic != BINARY {
            self.opaque = Some(Opaque::Desynchronized);
            return;
        }
        // Quit, NoOp, Version, Stat, QuitQ, Verbosity, and the three of SASL.
        self.passes = matches!(opcode, 0x07 | 0x0A | 0x0B | 0x10 | 0x17 | 0x1B | 0x20..=0x22);
        self.left = u64::from(length);
        self.at = At::Body;
        if length == 0 {
            self.command();
        }
    }

    fn command(&mut self) {
        self.at = if self.binary { At::Header } else { At::Line };
        self.commands = self.commands.wrapping_add(1);
        self.passed = self.passed.wrapping_add(u32::from(self.passes));
        self.passes = false;
    }

    /// Commands that came; wraps around.
    pub fn commands(&self) -> u32 {
        self.commands
    }

    /// Commands that always pass: administration, and those about the connection itself.
    pub fn passed(&self) -> u32 {
        self.passed
    }

    /// Whether no command is incomplete.
    pub fn between_commands(&self) -> bool {
        self.opaque.is_none() && self.at != At::Body && self.have == 0 && self.line == 0
    }

    /// Who the client is. `None` before its first byte, and always under encryption.
    pub fn identity(&self) -> Option<&Identity> {
        (self.at != At::Fresh && self.opaque != Some(Opaque::Encrypted)).then_some(&self.identity)
    }

    /// Why the connection cannot be followed, if it cannot.
    pub fn opaque(&self) -> Option<Opaque> {
        self.opaque
    }

    /// For tests: all state that decides what later bytes mean.
    #[doc(hidden)]
    pub fn meaning(&self) -> String {
        let kept = self.kept.get(..usize::from(self.have)).unwrap_or(&[]);
        if self.opaque.is_some() {
            return format!("{:?}", self.opaque);
        }
        format!(
            "{:?}",
            (
                self.at,
                self.binary,
                self.commands,
                self.passed,
                kept,
                self.line,
                self.left,
                self.passes
            )
        )
    }
}

/// The kind of a line of the text protocol.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Told {
    Nothing,
    Plain,
    Passes,
    /// A value of this length follows.
    Value(u64),
}

impl Told {
    fn of(line: &[u8]) -> Told {
        let mut words = line.split(|&byte| byte == b' ').filter(|word| !word.is_empty());
        let Some(name) = words.next() else { return Told::Nothing };
        match name {
            b"set" | b"add" | b"replace" | b"append" | b"prepend" | b"cas" => {
                let key = words.next().is_some_and(|key| key.len() <= KEY_MAX);
                let numbers = words.next().and_then(number::<u32>).is_some()
                    & words.next().and_then(number::<i32>).is_some();
                match words
                    .next()
                    .and_then(number::<i32>)
                    .filter(|_| key && numbers)
                    .map(u64::try_from)
                {
                    Some(Ok(length)) => Told::Value(length),
                    _ => Told::Plain,
                }
            }
            b"ms" => {
                let key = words.next().is_some_and(|key| key.len() <= KEY_MAX);
                match words.next().and_then(number::<i32>).filter(|_| key).map(u64::try_from) {
                    Some(Ok(length)) => Told::Value(length),
                    _ => Told::Plain,
                }
            }
            // A client that watches the log sends nothing more. The command may fail, so it is not
            // enough to stop following the connection.
            b"watch" | b"stats" | b"version" | b"verbosity" | b"quit" | b"shutdown" | b"mn" => {
                Told::Passes
            }
            _ => Told::Plain,
        }
    }
}

/// Flags are unsigned with 32 bits; times and lengths are signed.
fn number<N: core::str::FromStr>(word: &[u8]) -> Option<N> {
    core::str::from_utf8(word).ok()?.parse().ok()
}

#[cfg(test)]
mod tests;
