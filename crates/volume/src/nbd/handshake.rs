//! The fixed newstyle handshake: client bytes in, server bytes out, and an [`Agreement`] at its
//! end. Pure.
//!
//! Whatever a client sends, the handshake takes one option at a time, stores none of it, answers
//! with a bounded number of bytes and ends after [`OPTIONS_MAX`] options.

use super::backend::Greeting;
use super::directory::Tls;
use super::export::{BLOCK_BYTES_MIN, BLOCK_BYTES_PREFERRED, Exports, Mode};
use super::options::{self, Malformed};
use super::request::Agreement;
use super::wire::{
    self, BASE_ALLOCATION, BASE_ALLOCATION_ID, EXTENSION, EXTENSION_ID, INIT_MAGIC, OPTION_BYTES,
    OPTION_MAGIC, OPTION_REPLY_MAGIC, PAYLOAD_BYTES_MAX, STRING_BYTES_MAX, handshake_flag as flag,
    info, option, option_reply as rep,
};

/// Most data of an option that is read. All useful options are shorter; a longer one is skipped and
/// refused.
pub const OPTION_DATA_BYTES_MAX: usize = 32 << 10;

/// Most data of an option that is skipped. A client that announces more is disconnected.
pub const OPTION_SKIPPED_BYTES_MAX: u32 = 16 << 20;

/// Options that a client may send before it takes an export.
pub const OPTIONS_MAX: u32 = 1000;

const NO_EXPORT: &str = "it asked for a volume that does not exist, or that it may not open";

/// The server's first bytes.
pub fn greeting() -> [u8; 18] {
    let mut bytes = [0; 18];
    bytes[..8].copy_from_slice(&INIT_MAGIC.to_be_bytes());
    bytes[8..16].copy_from_slice(&OPTION_MAGIC.to_be_bytes());
    bytes[16..].copy_from_slice(&(flag::FIXED_NEWSTYLE | flag::NO_ZEROES).to_be_bytes());
    bytes
}

/// State of a handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// More bytes are needed.
    More,
    /// Progress was made; the answers go out before the next call.
    Again,
    /// The client begins TLS once the answers have gone out. Then [`Handshake::secured`].
    Secure,
    /// The client took an export; requests follow.
    Agreed(Agreement),
    /// The connection ends once the answers have gone out.
    Close(&'static str),
}

#[derive(Clone, Copy, Debug)]
enum State {
    Flags,
    Option,
    Skip { option: u32, left: u64 },
    Over,
}

/// One client's handshake.
#[derive(Clone, Debug)]
pub struct Handshake {
    state: State,
    fixed: bool,
    zeroes: bool,
    mode: Mode,
    /// The export whose `base:allocation` was chosen.
    allocation: Option<usize>,
    /// The export that a client of ours greeted, and how.
    greeted: Option<(usize, Greeting)>,
    tls: Tls,
    under_tls: bool,
    options: u32,
    /// What the client asked for in vain.
    refused: Option<&'static str>,
}

impl Default for Handshake {
    fn default() -> Self {
        Handshake {
            state: State::Flags,
            fixed: false,
            zeroes: true,
            mode: Mode::Simple,
            allocation: None,
            greeted: None,
            tls: Tls::None,
            under_tls: false,
            options: 0,
            refused: None,
        }
    }
}

impl Handshake {
    /// With this need of TLS.
    pub fn new(tls: Tls) -> Handshake {
        Handshake { tls, ..Handshake::default() }
    }

    /// TLS stands. What was agreed on before it is void.
    pub fn secured(&self) -> Handshake {
        let (fixed, zeroes) = (self.fixed, self.zeroes);
        let state = State::Option;
        Handshake { state, fixed, zeroes, under_tls: true, ..Handshake::new(self.tls) }
    }

    /// What the client asked for in vain.
    pub fn refused(&self) -> Option<&'static str> {
        self.refused
    }

    /// How the client greeted the export that it took.
    pub fn greeting(&self) -> Option<&Greeting> {
        self.greeted.as_ref().map(|(_, greeting)| greeting)
    }

    /// Takes one step with `input`. Returns how many bytes it used and the state after it; appends
    /// answers to `out`. Returns [`Step::More`] only if `input` is shorter than an option's head
    /// and [`OPTION_DATA_BYTES_MAX`].
    pub fn step(&mut self, exports: &Exports, input: &[u8], out: &mut Vec<u8>) -> (usize, Step) {
        match self.state {
            State::Flags => self.flags(input),
            State::Option => self.option(exports, input, out),
            State::Skip { option, left } => {
                let here = usize::try_from(left).map_or(input.len(), |left| left.min(input.len()));
                let left = left - here as u64;
                self.state = State::Skip { option, left };
                if left > 0 {
                    return (here, if here == 0 { Step::More } else { Step::Again });
                }
                self.state = State::Option;
                error(out, option, rep::ERR_TOO_BIG, "the option's data are too long");
                (here, Step::Again)
            }
            State::Over => (0, Step::Close("the handshake is over")),
        }
    }

    fn flags(&mut self, input: &[u8]) -> (usize, Step) {
        let Some(flags) = wire::u32_at(input, 0) else { return (0, Step::More) };
        let known = u32::from(flag::FIXED_NEWSTYLE | flag::NO_ZEROES);
        if flags & !known != 0 {
            return (4, self.close("the client set a flag that the server did not offer"));
        }
        self.fixed = flags & u32::from(flag::FIXED_NEWSTYLE) != 0;
        self.zeroes = flags & u32::from(flag::NO_ZEROES) == 0;
        self.state = State::Option;
        (4, Step::Again)
    }

    fn option(&mut self, exports: &Exports, input: &[u8], out: &mut Vec<u8>) -> (usize, Step) {
        let (Some(magic), Some(option), Some(len)) =
            (wire::u64_at(input, 0), wire::u32_at(input, 8), wire::u32_at(input, 12))
        else {
            return (0, Step::More);
        };
        if magic != OPTION_MAGIC {
            return (OPTION_BYTES, self.close("an option does not begin with its magic number"));
        }
        // Without fixed newstyle a refusal is not possible.
        if !self.fixed && option != option::EXPORT_NAME {
            return (OPTION_BYTES, self.close("an option before the client agreed to options"));
        }
        let data_len = usize::try_from(len).expect("32 bits");
        if data_len > OPTION_DATA_BYTES_MAX {
            if option == option::EXPORT_NAME || len > OPTION_SKIPPED_BYTES_MAX {
                return (OPTION_BYTES, self.close("an option's data are too long"));
            }
            self.count();
            self.state = State::Skip { option, left: u64::from(len) };
            return (OPTION_BYTES, Step::Again);
        }
        let used = OPTION_BYTES + data_len;
        let Some(data) = input.get(OPTION_BYTES..used) else { return (0, Step::More) };
        self.count();
        if self.options > OPTIONS_MAX {
            return (used, self.close("the client sent option after option"));
        }
        (used, self.answer(exports, option, data, out))
    }

    fn count(&mut self) {
        self.options = self.options.saturating_add(1);
    }

    fn close(&mut self, reason: &'static str) -> Step {
        self.state = State::Over;
        Step::Close(reason)
    }

    fn answer(&mut self, exports: &Exports, option: u32, data: &[u8], out: &mut Vec<u8>) -> Step {
        let plain = self.tls == Tls::Required && !self.under_tls;
        if plain && !matches!(option, option::ABORT | option::STARTTLS) {
            if option == option::EXPORT_NAME {
                return self.close("an export without TLS");
            }
            self.refused = Some("a client without TLS");
            error(out, option, rep::ERR_TLS_REQD, "begin TLS first");
            return Step::Again;
        }
        match option {
            option::EXPORT_NAME => return self.export_name(exports, data, out),
            option::ABORT => {
                reply(out, option, rep::ACK, &[]);
                return self.close("the client gave up");
            }
            option::LIST => list(exports, data, out),
            option::STARTTLS if data.is_empty() && plain => {
                reply(out, option, rep::ACK, &[]);
                return Step::Secure;
            }
            option::STARTTLS if data.is_empty() && self.under_tls => {
                error(out, option, rep::ERR_INVALID, "TLS stands already");
            }
            option::STARTTLS if data.is_empty() => {
                error(out, option, rep::ERR_UNSUP, "this server has no TLS");
            }
            option::STARTTLS => error(out, option, rep::ERR_INVALID, "the option takes no data"),
            option::INFO | option::GO => return self.describe(exports, option, data, out),
            option::STRUCTURED_REPLY | option::EXTENDED_HEADERS => self.form(option, data, out),
            option::LIST_META_CONTEXT | option::SET_META_CONTEXT => {
                self.contexts(exports, option, data, out);
            }
            _ => error(out, option, rep::ERR_UNSUP, "this server does not know the option"),
        }
        Step::Again
    }

    fn export_name(&mut self, exports: &Exports, name: &[u8], out: &mut Vec<u8>) -> Step {
        // For a wrong name the protocol has no answer here; the server hangs up.
        if self.mode == Mode::Extended {
            return self.close("an export by its old option after extended headers");
        }
        let Some(export) = exports.find(name).filter(|_| name.len() <= STRING_BYTES_MAX) else {
            self.refused = Some(NO_EXPORT);
            return self.close(NO_EXPORT);
        };
        let facts = exports.list()[export].facts();
        out.extend(facts.size_bytes.to_be_bytes());
        out.extend(facts.flags(self.mode).to_be_bytes());
        if self.zeroes {
            out.extend([0; 124]);
        }
        self.agreed(export)
    }

    fn agreed(&mut self, export: usize) -> Step {
        self.state = State::Over;
        let allocation = self.allocation == Some(export);
        self.greeted.take_if(|(greeted, _)| *greeted != export);
        let extension = self.greeted.is_some();
        Step::Agreed(Agreement { export, mode: self.mode, allocation, extension })
    }

    fn describe(&mut self, exports: &Exports, option: u32, data: &[u8], out: &mut Vec<u8>) -> Step {
        let asked = match options::info(data) {
            Ok(asked) => asked,
            Err(wrong) => {
                malformed(out, option, wrong);
                return Step::Again;
            }
        };
        let Some(index) = exports.find(asked.name) else {
            error(out, option, rep::ERR_UNKNOWN, "there is no export of this name");
            self.refused = Some(NO_EXPORT);
            return Step::Again;
        };
        let export = &exports.list()[index];
        let mut payload = Vec::new();
        payload.extend(info::EXPORT.to_be_bytes());
        payload.extend(export.facts.size_bytes.to_be_bytes());
        payload.extend(export.facts.flags(self.mode).to_be_bytes());
        reply(out, option, rep::INFO, &payload);
        if asked.wants(info::NAME) {
            reply(out, option, rep::INFO, &text(info::NAME, &export.name));
        }
        if asked.wants(info::DESCRIPTION) && !export.description.is_empty() {
            reply(out, option, rep::INFO, &text(info::DESCRIPTION, &export.description));
        }
        if asked.wants(info::BLOCK_SIZE) {
            let most = u32::try_from(PAYLOAD_BYTES_MAX).expect("32 MiB");
            payload.clear();
            payload.extend(info::BLOCK_SIZE.to_be_bytes());
            for bytes in [BLOCK_BYTES_MIN, BLOCK_BYTES_PREFERRED, most] {
                payload.extend(bytes.to_be_bytes());
            }
            reply(out, option, rep::INFO, &payload);
        }
        reply(out, option, rep::ACK, &[]);
        if option == option::GO { self.agreed(index) } else { Step::Again }
    }

    /// The client asks for another form of requests or replies.
    fn form(&mut self, option: u32, data: &[u8], out: &mut Vec<u8>) {
        let wanted =
            if option == option::EXTENDED_HEADERS { Mode::Extended } else { Mode::Structured };
        if !data.is_empty() {
            error(out, option, rep::ERR_INVALID, "the option takes no data");
        } else if self.mode == wanted {
            error(out, option, rep::ERR_INVALID, "that was agreed on before");
        } else if self.mode == Mode::Extended {
            error(out, option, rep::ERR_EXT_HEADER_REQD, "extended headers were agreed on before");
        } else {
            self.mode = wanted;
            reply(out, option, rep::ACK, &[]);
        }
    }

    fn contexts(&mut self, exports: &Exports, option: u32, data: &[u8], out: &mut Vec<u8>) {
        let set = option == option::SET_META_CONTEXT;
        if set {
            // An earlier choice is void, even if this one fails.
            self.allocation = None;
            self.greeted = None;
        }
        if self.mode == Mode::Simple {
            let words = "structured replies or extended headers come first";
            return error(out, option, rep::ERR_INVALID, words);
        }
        let asked = match options::contexts(data) {
            Ok(asked) => asked,
            Err(wrong) => return malformed(out, option, wrong),
        };
        let Some(index) = exports.find(asked.name) else {
            return error(out, option, rep::ERR_UNKNOWN, "there is no export of this name");
        };
        let exact = asked.queries.iter().any(|query| *query == BASE_ALLOCATION.as_bytes());
        let all = asked.queries.is_empty() || asked.queries.contains(&&b"base:"[..]);
        if exact || (!set && all) {
            // A list has no numbers.
            let id = if set { BASE_ALLOCATION_ID } else { 0 };
            let mut payload = id.to_be_bytes().to_vec();
            payload.extend(BASE_ALLOCATION.as_bytes());
            reply(out, option, rep::META_CONTEXT, &payload);
            if set {
                self.allocation = Some(index);
            }
        }
        let words = asked
            .queries
            .iter()
            .find_map(|query| std::str::from_utf8(query.strip_prefix(EXTENSION.as_bytes())?).ok());
        if let Some(words) = words.filter(|_| set && self.mode == Mode::Structured) {
            let greeting = Greeting::new(words);
            if let Some(answer) = exports.list()[index].volume.greet(&greeting) {
                let mut payload = EXTENSION_ID.to_be_bytes().to_vec();
                payload.extend(EXTENSION.as_bytes());
                payload.extend(answer.as_bytes());
                reply(out, option, rep::META_CONTEXT, &payload);
                self.greeted = Some((index, greeting));
            }
        }
        reply(out, option, rep::ACK, &[]);
    }
}

fn list(exports: &Exports, data: &[u8], out: &mut Vec<u8>) {
    if !data.is_empty() {
        return error(out, option::LIST, rep::ERR_INVALID, "the option takes no data");
    }
    for export in exports.list() {
        let mut payload = Vec::new();
        let len = u32::try_from(export.name.len()).expect("4,096 bytes at most");
        payload.extend(len.to_be_bytes());
        payload.extend(export.name.as_bytes());
        payload.extend(export.description.as_bytes());
        reply(out, option::LIST, rep::SERVER, &payload);
    }
    reply(out, option::LIST, rep::ACK, &[]);
}

fn text(kind: u16, words: &str) -> Vec<u8> {
    let mut payload = kind.to_be_bytes().to_vec();
    payload.extend(words.as_bytes());
    payload
}

fn malformed(out: &mut Vec<u8>, option: u32, wrong: Malformed) {
    match wrong {
        Malformed::Shape => error(out, option, rep::ERR_INVALID, "the option's data are cut short"),
        Malformed::Name => {
            error(out, option, rep::ERR_TOO_BIG, "a name is longer than 4,096 bytes")
        }
        Malformed::Queries => error(out, option, rep::ERR_TOO_BIG, "too many queries"),
    }
}

fn error(out: &mut Vec<u8>, option: u32, kind: u32, words: &str) {
    reply(out, option, kind, words.as_bytes());
}

fn reply(out: &mut Vec<u8>, option: u32, kind: u32, payload: &[u8]) {
    out.extend(OPTION_REPLY_MAGIC.to_be_bytes());
    out.extend(option.to_be_bytes());
    out.extend(kind.to_be_bytes());
    let len = u32::try_from(payload.len()).expect("two strings of 4,096 bytes at most");
    out.extend(len.to_be_bytes());
    out.extend(payload);
}
