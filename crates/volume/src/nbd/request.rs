//! Requests of the transmission phase: from bytes to a job or an error. Pure.

use super::export::{BLOCK_BYTES_MIN, Facts, Mode};
use super::wire::{
    self, EXTENDED_REQUEST_BYTES, EXTENDED_REQUEST_MAGIC, Error, NOTE_BYTES_MAX, PAYLOAD_BYTES_MAX,
    REQUEST_BYTES, REQUEST_MAGIC, command, command_flag as flag,
};

/// Most payload of a write too long that is read and dropped. The client gets an error and may go
/// on. If it announces more, it is disconnected.
pub const SKIPPED_BYTES_MAX: u64 = 2 * PAYLOAD_BYTES_MAX;

/// Longest trim and zeroing: what the number of sectors of a request can say. Only extended
/// requests can ask for more.
pub const RANGE_BYTES_MAX: u64 = u32::MAX as u64 * BLOCK_BYTES_MIN as u64;

/// The result of a handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Agreement {
    /// Index of the export in the server's list.
    pub export: usize,
    /// Form of requests and replies.
    pub mode: Mode,
    /// The client chose `base:allocation`.
    pub allocation: bool,
    /// The client is one of ours: notes and tags are understood.
    pub extension: bool,
}

/// The operation of a valid request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ask {
    /// Bytes to the client.
    Read,
    /// Bytes from the client, which follow the request.
    Write,
    /// Everything answered becomes durable.
    Flush,
    /// The range is not needed.
    Trim,
    /// The range becomes zeros.
    WriteZeroes {
        /// Its space may be given back.
        unmap: bool,
    },
    /// The range will be read soon.
    Cache,
    /// A note of a client of ours, which follows the request.
    Note,
    /// What is allocated in the range.
    BlockStatus {
        /// One extent only.
        one: bool,
    },
}

impl Ask {
    /// For people.
    pub fn name(self) -> &'static str {
        match self {
            Ask::Read => "read",
            Ask::Write => "write",
            Ask::Flush => "flush",
            Ask::Trim => "trim",
            Ask::WriteZeroes { .. } => "zeroing",
            Ask::Cache => "cache",
            Ask::Note => "note",
            Ask::BlockStatus { .. } => "block status",
        }
    }
}

/// A valid request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Job {
    /// What is asked.
    pub ask: Ask,
    /// The request's cookie, chosen by the client.
    pub cookie: u64,
    /// First byte.
    pub offset: u64,
    /// Bytes. For a write or read at most [`PAYLOAD_BYTES_MAX`], else at most [`RANGE_BYTES_MAX`].
    pub len: u64,
    /// Durable when answered.
    pub fua: bool,
}

/// A request that is answered with an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The request's cookie, chosen by the client.
    pub cookie: u64,
    /// The request's offset, which an extended reply repeats.
    pub offset: u64,
    /// The error.
    pub error: Error,
    /// The reason in words, for clients that show them.
    pub words: &'static str,
}

/// The first request in the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parsed {
    /// Less than a header.
    Incomplete,
    /// A job; for a write `len` bytes of payload follow.
    Job(Job),
    /// Not a job. `skip` bytes of payload follow; they are dropped before the answer.
    Refused(Refusal, u64),
    /// The client leaves, and waits for its open requests.
    Leave,
    /// The stream is invalid.
    Broken(&'static str),
}

/// Bytes of a request's header.
pub fn header_bytes(mode: Mode) -> usize {
    if mode == Mode::Extended { EXTENDED_REQUEST_BYTES } else { REQUEST_BYTES }
}

/// Reads the header at the start of `bytes` and checks it against the export.
pub fn parse(agreement: &Agreement, facts: &Facts, bytes: &[u8]) -> Parsed {
    if bytes.len() < header_bytes(agreement.mode) {
        // A client that does not speak NBD is recognised by its first bytes.
        return Parsed::Incomplete;
    }
    let extended = agreement.mode == Mode::Extended;
    let magic = if extended { EXTENDED_REQUEST_MAGIC } else { REQUEST_MAGIC };
    let (Some(found), Some(flags), Some(kind), Some(cookie), Some(offset)) = (
        wire::u32_at(bytes, 0),
        wire::u16_at(bytes, 4),
        wire::u16_at(bytes, 6),
        wire::u64_at(bytes, 8),
        wire::u64_at(bytes, 16),
    ) else {
        return Parsed::Incomplete;
    };
    let len =
        if extended { wire::u64_at(bytes, 24) } else { wire::u32_at(bytes, 24).map(u64::from) };
    let Some(len) = len else { return Parsed::Incomplete };
    if found != magic {
        return Parsed::Broken("a request does not begin with its magic number");
    }
    if kind == command::DISC {
        return Parsed::Leave;
    }
    let payload = match (extended, kind) {
        (true, _) if flags & flag::PAYLOAD_LEN != 0 => len,
        (false, command::WRITE) => len,
        (false, command::NOTE) if agreement.extension => len,
        _ => 0,
    };
    if payload > SKIPPED_BYTES_MAX {
        return Parsed::Broken("a payload is longer than the server reads");
    }
    let header = Header { flags, kind, cookie, offset, len, payload };
    match check(agreement, facts, &header) {
        Ok(job) => Parsed::Job(job),
        Err((error, words)) => {
            Parsed::Refused(Refusal { cookie, offset, error, words }, header.payload)
        }
    }
}

struct Header {
    flags: u16,
    kind: u16,
    cookie: u64,
    offset: u64,
    len: u64,
    payload: u64,
}

type Refused = (Error, &'static str);

fn note(header: &Header) -> Result<Job, Refused> {
    let &Header { cookie, offset, len, .. } = header;
    if offset != 0 {
        return Err((Error::Inval, "a note has no offset"));
    }
    if len > NOTE_BYTES_MAX {
        return Err((Error::Inval, "the note is too long"));
    }
    Ok(Job { ask: Ask::Note, cookie, offset, len, fua: false })
}

/// The job, or the error that the specification prescribes ("Error values").
fn check(agreement: &Agreement, facts: &Facts, header: &Header) -> Result<Job, Refused> {
    let &Header { flags, kind, cookie, offset, len, payload } = header;
    let extended = agreement.mode == Mode::Extended;
    // FUA is allowed on every command, and has no effect on those that do not write.
    let allowed = flag::FUA
        | match kind {
            command::READ if agreement.mode != Mode::Simple => flag::DF,
            command::WRITE if extended => flag::PAYLOAD_LEN,
            command::WRITE_ZEROES => flag::NO_HOLE | flag::FAST_ZERO,
            command::BLOCK_STATUS => flag::REQ_ONE,
            _ => 0,
        };
    if flags & !allowed != 0 {
        return Err((Error::Inval, "a flag is unknown, or not for this command"));
    }
    let ask = match kind {
        command::READ => Ask::Read,
        command::WRITE if extended && payload != len => {
            return Err((Error::Inval, "a write without the flag of its payload"));
        }
        command::WRITE => Ask::Write,
        command::FLUSH => Ask::Flush,
        command::TRIM => Ask::Trim,
        command::CACHE => Ask::Cache,
        command::WRITE_ZEROES => Ask::WriteZeroes { unmap: flags & flag::NO_HOLE == 0 },
        command::BLOCK_STATUS => Ask::BlockStatus { one: flags & flag::REQ_ONE != 0 },
        command::NOTE if agreement.extension && !extended => return note(header),
        _ => return Err((Error::Inval, "the command is unknown")),
    };
    if ask == Ask::Flush {
        if offset != 0 || len != 0 {
            return Err((Error::Inval, "a flush has neither offset nor length"));
        }
        return Ok(Job { ask, cookie, offset, len, fua: false });
    }
    let writes = matches!(ask, Ask::Write | Ask::Trim | Ask::WriteZeroes { .. });
    if writes && facts.read_only {
        return Err((Error::Perm, "the export is read-only"));
    }
    if matches!(ask, Ask::Read | Ask::Write) && len > PAYLOAD_BYTES_MAX {
        return Err((Error::Inval, "the request is longer than 32 MiB"));
    }
    if matches!(ask, Ask::Trim | Ask::WriteZeroes { .. }) && len > RANGE_BYTES_MAX {
        return Err((Error::Inval, "the range is longer than 2 TiB"));
    }
    if offset.checked_add(len).is_none_or(|end| end > facts.size_bytes) {
        let grows = matches!(ask, Ask::Write | Ask::WriteZeroes { .. });
        let error = if grows { Error::NoSpc } else { Error::Inval };
        return Err((error, "the request goes beyond the end of the export"));
    }
    let block = u64::from(BLOCK_BYTES_MIN);
    if offset % block != 0 || len % block != 0 {
        return Err((Error::Inval, "offset and length must be multiples of 512 bytes"));
    }
    if let Ask::BlockStatus { .. } = ask {
        if !agreement.allocation {
            return Err((Error::Inval, "no metadata context was chosen"));
        }
        if len == 0 {
            return Err((Error::Inval, "an empty range has no status"));
        }
    }
    let slow = !facts.fast_zeroes || flags & flag::NO_HOLE != 0;
    if flags & flag::FAST_ZERO != 0 && slow {
        return Err((Error::NotSup, "zeroing is not faster than writing here"));
    }
    Ok(Job { ask, cookie, offset, len, fua: writes && flags & flag::FUA != 0 })
}
