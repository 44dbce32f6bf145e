//! The client's side of the fixed newstyle handshake.

use super::{Address, NbdError};
use crate::nbd::wire::{
    EXTENSION, INIT_MAGIC, OPTION_MAGIC, OPTION_REPLY_MAGIC, PAYLOAD_BYTES_MAX, handshake_flag,
    info, option, option_reply, transmission_flag, u16_at, u32_at, u64_at,
};
use std::io::{self, Read, Write};

/// Longest reply to an option that is read, in bytes: names have 4 KiB.
const OPTION_REPLY_BYTES_MAX: u32 = 64 << 10;

/// The server wants TLS.
const ERR_TLS_REQD: u32 = (1 << 31) + 5;
/// The server insists on being asked for block sizes.
const ERR_BLOCK_SIZE_REQD: u32 = (1 << 31) + 8;

/// What was agreed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Terms {
    /// Bytes of the export.
    pub size_bytes: u64,
    /// What it can do.
    pub flags: u16,
    /// Smallest block.
    pub block_bytes_min: u32,
    /// Longest payload.
    pub payload_bytes_max: u32,
    /// Reads are answered in chunks.
    pub structured: bool,
}

impl Terms {
    pub fn can(&self, flag: u16) -> bool {
        self.flags & flag != 0
    }
}

struct Reply {
    kind: u32,
    data: Vec<u8>,
}

/// Negotiates an export. With the terms comes what a server of ours says of itself.
pub(super) fn agree(
    stream: &mut (impl Read + Write),
    address: &Address,
    session: &str,
) -> Result<(Terms, Option<String>), NbdError> {
    let io = |source| NbdError::Connect { address: address.clone(), source };
    let refused = |problem: String| NbdError::Refused { address: address.clone(), problem };
    let hello = read(stream, 18).map_err(io)?;
    if u64_at(&hello, 0) != Some(INIT_MAGIC) || u64_at(&hello, 8) != Some(OPTION_MAGIC) {
        return Err(refused("what answers there is no NBD server of the newstyle kind".to_owned()));
    }
    let offered = u16_at(&hello, 16).unwrap_or(0);
    if offered & handshake_flag::FIXED_NEWSTYLE == 0 {
        return Err(refused("the server does not know the fixed newstyle handshake".to_owned()));
    }
    let flags = offered & (handshake_flag::FIXED_NEWSTYLE | handshake_flag::NO_ZEROES);
    stream.write_all(&u32::from(flags).to_be_bytes()).map_err(io)?;
    send(stream, option::STRUCTURED_REPLY, &[]).map_err(io)?;
    let structured = reply(stream, option::STRUCTURED_REPLY).map_err(io)?.kind == option_reply::ACK;
    let default = Terms {
        size_bytes: 0,
        flags: 0,
        block_bytes_min: 1,
        payload_bytes_max: PAYLOAD_BYTES_MAX as u32,
        structured,
    };
    let words = if structured { greet(stream, address, session).map_err(io)? } else { None };
    let terms = match go(stream, address, default)? {
        Some(terms) => terms,
        None => {
            let no_zeroes = flags & handshake_flag::NO_ZEROES != 0;
            by_name(stream, address, default, no_zeroes).map_err(io)?
        }
    };
    Ok((terms, words))
}

/// Names the session, as programs of ours do. Others know no such context, and say so or nothing.
fn greet(
    stream: &mut (impl Read + Write),
    address: &Address,
    session: &str,
) -> io::Result<Option<String>> {
    let query = format!("{EXTENSION}session={session}");
    let mut data = Vec::new();
    for text in [address.export.as_bytes(), query.as_bytes()] {
        // Names have 4 KiB at most.
        data.extend((text.len() as u32).to_be_bytes());
        data.extend(text);
        if data.len() == 4 + text.len() {
            data.extend(1_u32.to_be_bytes());
        }
    }
    send(stream, option::SET_META_CONTEXT, &data)?;
    let mut words = None;
    loop {
        let Reply { kind, data } = reply(stream, option::SET_META_CONTEXT)?;
        if kind != option_reply::META_CONTEXT {
            return Ok(words.filter(|_| kind == option_reply::ACK));
        }
        let name = data.get(4..).and_then(|name| std::str::from_utf8(name).ok());
        words = name.and_then(|name| name.strip_prefix(EXTENSION)).map(str::to_owned).or(words);
    }
}

/// `GO`; none if the server does not know it.
fn go(
    stream: &mut (impl Read + Write),
    address: &Address,
    mut terms: Terms,
) -> Result<Option<Terms>, NbdError> {
    let io = |source| NbdError::Connect { address: address.clone(), source };
    let name = address.export.as_bytes();
    // A name has less than 4 GiB.
    let mut data = (name.len() as u32).to_be_bytes().to_vec();
    data.extend(name);
    data.extend(1_u16.to_be_bytes());
    data.extend(info::BLOCK_SIZE.to_be_bytes());
    send(stream, option::GO, &data).map_err(io)?;
    loop {
        let Reply { kind, data } = reply(stream, option::GO).map_err(io)?;
        match kind {
            option_reply::ACK => return Ok(Some(terms)),
            option_reply::INFO => note(&mut terms, &data),
            option_reply::ERR_UNSUP => return Ok(None),
            option_reply::ERR_UNKNOWN => {
                return Err(NbdError::NoExport { address: address.clone() });
            }
            kind => {
                let words = String::from_utf8_lossy(&data).into_owned();
                let problem = match kind {
                    ERR_TLS_REQD => "the server wants TLS, which is not spoken here".to_owned(),
                    ERR_BLOCK_SIZE_REQD => {
                        "the server and this client know no common block".to_owned()
                    }
                    _ if words.is_empty() => format!("the server refused with {kind:#x}"),
                    _ => format!("the server refused: {words}"),
                };
                return Err(NbdError::Refused { address: address.clone(), problem });
            }
        }
    }
}

/// A fact of the export; unrequested ones are ignored.
fn note(terms: &mut Terms, data: &[u8]) {
    match u16_at(data, 0) {
        Some(info::EXPORT) => {
            terms.size_bytes = u64_at(data, 2).unwrap_or(0);
            terms.flags = u16_at(data, 10).unwrap_or(0);
        }
        Some(info::BLOCK_SIZE) => {
            terms.block_bytes_min = u32_at(data, 2).unwrap_or(1);
            let longest = u32_at(data, 10).unwrap_or(terms.payload_bytes_max);
            terms.payload_bytes_max = terms.payload_bytes_max.min(longest.max(4096));
        }
        _ => {}
    }
}

/// The oldest way. If there is no such export, the server hangs up without an answer.
fn by_name(
    stream: &mut (impl Read + Write),
    address: &Address,
    mut terms: Terms,
    no_zeroes: bool,
) -> io::Result<Terms> {
    send(stream, option::EXPORT_NAME, address.export.as_bytes())?;
    let data = read(stream, if no_zeroes { 10 } else { 134 })?;
    terms.size_bytes = u64_at(&data, 0).unwrap_or(0);
    terms.flags = u16_at(&data, 8).unwrap_or(0);
    Ok(terms)
}

fn send(stream: &mut impl Write, number: u32, data: &[u8]) -> io::Result<()> {
    let mut bytes = OPTION_MAGIC.to_be_bytes().to_vec();
    bytes.extend(number.to_be_bytes());
    // An option of ours has a few kilobytes at most.
    bytes.extend((data.len() as u32).to_be_bytes());
    bytes.extend(data);
    stream.write_all(&bytes)
}

fn reply(stream: &mut impl Read, number: u32) -> io::Result<Reply> {
    let head = read(stream, 20)?;
    let nonsense = |words| io::Error::new(io::ErrorKind::InvalidData, words);
    if u64_at(&head, 0) != Some(OPTION_REPLY_MAGIC) || u32_at(&head, 8) != Some(number) {
        return Err(nonsense("the server's answer to an option makes no sense"));
    }
    let len = u32_at(&head, 16).unwrap_or(0);
    if len > OPTION_REPLY_BYTES_MAX {
        return Err(nonsense("the server's answer to an option is too long"));
    }
    let data = read(stream, len as usize)?;
    Ok(Reply { kind: u32_at(&head, 12).unwrap_or(0), data })
}

fn read(stream: &mut impl Read, len: usize) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; len];
    stream.read_exact(&mut bytes)?;
    Ok(bytes)
}

/// A warning for the operator, although the volume works.
pub(super) fn warning(terms: &Terms) -> Option<&'static str> {
    (!terms.can(transmission_flag::SEND_FLUSH)).then_some(
        "the server does not know FLUSH: what it was told may be lost when it ends, whatever this \
         volume promises",
    )
}
