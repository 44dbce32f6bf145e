//! Options with structured data. Pure.

use super::wire::{self, STRING_BYTES_MAX};

/// Queries for metadata contexts that one option may hold.
pub const QUERIES_MAX: usize = 128;

/// What is wrong with an option's data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Malformed {
    /// Lengths that do not match.
    Shape,
    /// A string beyond the protocol's limit.
    Name,
    /// More than [`QUERIES_MAX`].
    Queries,
}

/// Data of `INFO` and `GO`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Info<'a> {
    /// The export.
    pub name: &'a [u8],
    wishes: &'a [u8],
}

impl Info<'_> {
    /// Whether this fact was asked for.
    pub fn wants(&self, kind: u16) -> bool {
        self.wishes.chunks_exact(2).any(|wish| wish == kind.to_be_bytes())
    }
}

/// Data of `LIST_META_CONTEXT` and `SET_META_CONTEXT`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contexts<'a> {
    /// The export.
    pub name: &'a [u8],
    /// The queries.
    pub queries: Vec<&'a [u8]>,
}

/// Reads the data of `INFO` and `GO`: name, number of requests, requests.
///
/// # Errors
/// Lengths that do not match, a name that is too long.
pub fn info(data: &[u8]) -> Result<Info<'_>, Malformed> {
    let (name, rest) = string(data)?;
    let count = usize::from(wire::u16_at(rest, 0).ok_or(Malformed::Shape)?);
    let wishes = &rest[2..];
    if wishes.len() != 2 * count {
        return Err(Malformed::Shape);
    }
    Ok(Info { name, wishes })
}

/// Reads the data of the options about metadata contexts: name, number of queries, queries.
///
/// # Errors
/// Lengths that do not match, strings that are too long, too many queries.
pub fn contexts(data: &[u8]) -> Result<Contexts<'_>, Malformed> {
    let (name, rest) = string(data)?;
    let count = usize::try_from(wire::u32_at(rest, 0).ok_or(Malformed::Shape)?);
    let mut rest = &rest[4..];
    let count = count.map_err(|_| Malformed::Queries)?;
    // Each has a length of four bytes, so a larger count is impossible.
    if count > rest.len() / 4 {
        return Err(Malformed::Shape);
    }
    if count > QUERIES_MAX {
        return Err(Malformed::Queries);
    }
    let mut queries = Vec::with_capacity(count);
    for _ in 0..count {
        let (query, behind) = string(rest)?;
        queries.push(query);
        rest = behind;
    }
    if rest.is_empty() { Ok(Contexts { name, queries }) } else { Err(Malformed::Shape) }
}

/// A string after its 32-bit length, and the bytes after it.
fn string(data: &[u8]) -> Result<(&[u8], &[u8]), Malformed> {
    let len = wire::u32_at(data, 0).ok_or(Malformed::Shape)?;
    let len = usize::try_from(len).map_err(|_| Malformed::Shape)?;
    let rest = &data[4..];
    if len > rest.len() {
        return Err(Malformed::Shape);
    }
    if len > STRING_BYTES_MAX {
        return Err(Malformed::Name);
    }
    Ok(rest.split_at(len))
}
