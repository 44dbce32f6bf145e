//! Numbers of the NBD protocol, as its specification names them (NetworkBlockDevice,
//! `doc/proto.md`). All integers on the wire are big-endian.

/// First eight bytes of a server: "NBDMAGIC".
pub const INIT_MAGIC: u64 = 0x4e42_444d_4147_4943;
/// Before the server's flags and before every option of a client: "IHAVEOPT".
pub const OPTION_MAGIC: u64 = 0x4948_4156_454f_5054;
/// Before every reply to an option.
pub const OPTION_REPLY_MAGIC: u64 = 0x0003_e889_0455_65a9;
/// Before a compact request.
pub const REQUEST_MAGIC: u32 = 0x2560_9513;
/// Before an extended request.
pub const EXTENDED_REQUEST_MAGIC: u32 = 0x21e4_1c71;
/// Before a simple reply.
pub const SIMPLE_REPLY_MAGIC: u32 = 0x6744_6698;
/// Before a chunk of a structured reply.
pub const STRUCTURED_REPLY_MAGIC: u32 = 0x668e_33ef;
/// Before a chunk of an extended reply.
pub const EXTENDED_REPLY_MAGIC: u32 = 0x6e8a_278c;

/// Bytes of a compact request without its payload.
pub const REQUEST_BYTES: usize = 28;
/// Bytes of an extended request without its payload.
pub const EXTENDED_REQUEST_BYTES: usize = 32;
/// Bytes of an option without its data.
pub const OPTION_BYTES: usize = 16;

/// Longest string that the protocol allows, in bytes.
pub const STRING_BYTES_MAX: usize = 4096;
/// Longest payload of a request or reply that this server takes, in bytes: what every client may
/// use unasked.
pub const PAYLOAD_BYTES_MAX: u64 = 32 << 20;

/// Flags of the handshake, both directions.
pub mod handshake_flag {
    /// Options may follow, and are answered.
    pub const FIXED_NEWSTYLE: u16 = 1 << 0;
    /// No 124 zeros after the answer to `EXPORT_NAME`.
    pub const NO_ZEROES: u16 = 1 << 1;
}

/// Options of a client.
pub mod option {
    /// Choose this export; without an answer if that fails.
    pub const EXPORT_NAME: u32 = 1;
    /// Leave.
    pub const ABORT: u32 = 2;
    /// Name the exports.
    pub const LIST: u32 = 3;
    /// Go on under TLS.
    pub const STARTTLS: u32 = 5;
    /// Describe an export.
    pub const INFO: u32 = 6;
    /// Describe an export and take it.
    pub const GO: u32 = 7;
    /// Replies in chunks that say what they are.
    pub const STRUCTURED_REPLY: u32 = 8;
    /// Name the metadata contexts of an export.
    pub const LIST_META_CONTEXT: u32 = 9;
    /// Choose metadata contexts of an export.
    pub const SET_META_CONTEXT: u32 = 10;
    /// Requests and replies with 64-bit lengths.
    pub const EXTENDED_HEADERS: u32 = 11;
}

/// Kinds of replies to an option.
pub mod option_reply {
    /// Done, nothing more follows.
    pub const ACK: u32 = 1;
    /// Name and description of an export.
    pub const SERVER: u32 = 2;
    /// A fact of an export.
    pub const INFO: u32 = 3;
    /// Number and name of a metadata context.
    pub const META_CONTEXT: u32 = 4;
    /// This server does not know the option.
    pub const ERR_UNSUP: u32 = (1 << 31) + 1;
    /// The option's data are invalid.
    pub const ERR_INVALID: u32 = (1 << 31) + 3;
    /// No such export.
    pub const ERR_UNKNOWN: u32 = (1 << 31) + 6;
    /// Only under TLS.
    pub const ERR_TLS_REQD: u32 = (1 << 31) + 5;
    /// More than the server reads or answers.
    pub const ERR_TOO_BIG: u32 = (1 << 31) + 9;
    /// Not after extended headers.
    pub const ERR_EXT_HEADER_REQD: u32 = (1 << 31) + 10;
}

/// Facts of an export in the answer to `INFO` and `GO`.
pub mod info {
    /// Size and transmission flags.
    pub const EXPORT: u16 = 0;
    /// Canonical name.
    pub const NAME: u16 = 1;
    /// Description for humans.
    pub const DESCRIPTION: u16 = 2;
    /// Smallest, preferred and largest block.
    pub const BLOCK_SIZE: u16 = 3;
}

/// What an export can do.
pub mod transmission_flag {
    /// Always set.
    pub const HAS_FLAGS: u16 = 1 << 0;
    /// Writes fail.
    pub const READ_ONLY: u16 = 1 << 1;
    /// `FLUSH` is understood.
    pub const SEND_FLUSH: u16 = 1 << 2;
    /// Forced unit access is understood.
    pub const SEND_FUA: u16 = 1 << 3;
    /// Seeks cost.
    pub const ROTATIONAL: u16 = 1 << 4;
    /// `TRIM` is understood.
    pub const SEND_TRIM: u16 = 1 << 5;
    /// `WRITE_ZEROES` is understood.
    pub const SEND_WRITE_ZEROES: u16 = 1 << 6;
    /// Unfragmented reads are understood.
    pub const SEND_DF: u16 = 1 << 7;
    /// A flush on one connection covers the writes of all.
    pub const CAN_MULTI_CONN: u16 = 1 << 8;
    /// `CACHE` is understood.
    pub const SEND_CACHE: u16 = 1 << 10;
    /// Zeroing that must be faster than writing is understood.
    pub const SEND_FAST_ZERO: u16 = 1 << 11;
}

/// Kinds of requests.
pub mod command {
    /// Bytes to the client.
    pub const READ: u16 = 0;
    /// Bytes from the client.
    pub const WRITE: u16 = 1;
    /// The client leaves.
    pub const DISC: u16 = 2;
    /// Everything answered becomes durable.
    pub const FLUSH: u16 = 3;
    /// A range is not needed.
    pub const TRIM: u16 = 4;
    /// A range will be read soon.
    pub const CACHE: u16 = 5;
    /// A range becomes zeros.
    pub const WRITE_ZEROES: u16 = 6;
    /// What is allocated in a range.
    pub const BLOCK_STATUS: u16 = 7;
    /// A note between programs of ours, after both know the metadata context `x-headworks:`. Its
    /// payload goes to the server, and one comes back.
    pub const NOTE: u16 = 0x4857;
}

/// Flags of a request.
pub mod command_flag {
    /// Durable when answered.
    pub const FUA: u16 = 1 << 0;
    /// Zeros that keep their space.
    pub const NO_HOLE: u16 = 1 << 1;
    /// One chunk of data at most.
    pub const DF: u16 = 1 << 2;
    /// One extent only.
    pub const REQ_ONE: u16 = 1 << 3;
    /// Fail rather than be as slow as a write.
    pub const FAST_ZERO: u16 = 1 << 4;
    /// The length is that of a payload (extended requests).
    pub const PAYLOAD_LEN: u16 = 1 << 5;
}

/// Flag of the last chunk of a reply.
pub const REPLY_DONE: u16 = 1;

/// Kinds of chunks.
pub mod chunk {
    /// Nothing.
    pub const NONE: u16 = 0;
    /// Offset and bytes.
    pub const OFFSET_DATA: u16 = 1;
    /// Extents with 32-bit lengths.
    pub const BLOCK_STATUS: u16 = 5;
    /// Extents with 64-bit lengths.
    pub const BLOCK_STATUS_EXT: u16 = 6;
    /// The answer to a note.
    pub const NOTE: u16 = 0x4857;
    /// An error, with words.
    pub const ERROR: u16 = (1 << 15) + 1;
}

/// States of an extent in `base:allocation`.
pub mod state {
    /// No space is taken.
    pub const HOLE: u32 = 1 << 0;
    /// Reads as zeros.
    pub const ZERO: u32 = 1 << 1;
}

/// Before the metadata context by which programs of ours know each other. Their cookies then have
/// the application's tag in the upper 16 bits.
pub const EXTENSION: &str = "x-headworks:";
/// Its number.
pub const EXTENSION_ID: u32 = 2;
/// Longest note, in bytes.
pub const NOTE_BYTES_MAX: u64 = 4096;

/// The metadata context that says what is allocated.
pub const BASE_ALLOCATION: &str = "base:allocation";
/// Its number.
pub const BASE_ALLOCATION_ID: u32 = 1;

/// Errors that a reply may carry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum Error {
    /// Not allowed: a write to what is read-only.
    Perm = 1,
    /// The device failed.
    Io = 5,
    /// No memory.
    NoMem = 12,
    /// The request is invalid.
    Inval = 22,
    /// Beyond the end, or no room left.
    NoSpc = 28,
    /// Not supported (only for fast zeroing).
    NotSup = 95,
    /// The server is being shut down.
    Shutdown = 108,
}

impl Error {
    /// The protocol's error for one of the operating system.
    pub fn of(error: &std::io::Error) -> Error {
        match error.raw_os_error() {
            Some(libc::EPERM | libc::EACCES | libc::EROFS) => Error::Perm,
            Some(libc::ENOMEM) => Error::NoMem,
            Some(libc::EINVAL) => Error::Inval,
            Some(libc::ENOSPC | libc::EDQUOT | libc::EFBIG) => Error::NoSpc,
            Some(libc::ESHUTDOWN) => Error::Shutdown,
            _ => Error::Io,
        }
    }
}

/// The 16-bit integer at `at`, if it is there.
pub fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(bytes.get(at..at.checked_add(2)?)?.try_into().ok()?))
}

/// The 32-bit integer at `at`, if it is there.
pub fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(bytes.get(at..at.checked_add(4)?)?.try_into().ok()?))
}

/// The 64-bit integer at `at`, if it is there.
pub fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_be_bytes(bytes.get(at..at.checked_add(8)?)?.try_into().ok()?))
}
