//! Where the bytes of a volume lie.

pub mod file;
pub mod memory;
pub mod nbd;

pub use file::File;
pub use memory::Memory;
pub use nbd::Nbd;

use std::io;

/// A part of a volume, and whether it takes space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// First byte.
    pub offset: u64,
    /// Bytes.
    pub len: u64,
    /// Space is taken for it. What is not allocated reads as zeros.
    pub allocated: bool,
}

/// Bytes under a volume. Called from several threads at once; ranges of concurrent calls may
/// overlap only as a device allows it: the result is then one or the other, sector by sector.
///
/// Errors are those of the operating system (`io::Error::raw_os_error`), as a device would give
/// them: EIO, ENOSPC, EINVAL for a range outside.
pub trait Store: Send + Sync {
    /// Size in bytes, a multiple of the sector.
    fn size_bytes(&self) -> u64;

    /// Fills `into` from `offset`.
    fn read(&self, offset: u64, into: &mut [u8]) -> io::Result<()>;

    /// Writes `from` at `offset`; with `fua` it is durable when the call returns.
    fn write(&self, offset: u64, from: &[u8], fua: bool) -> io::Result<()>;

    /// Every write that returned before this call is durable when it returns.
    fn flush(&self) -> io::Result<()>;

    /// The range is not needed; reading it gives zeros or what was there.
    fn discard(&self, offset: u64, len: u64) -> io::Result<()>;

    /// The range reads as zeros; with `unmap` its space may be given back.
    fn write_zeroes(&self, offset: u64, len: u64, fua: bool, unmap: bool) -> io::Result<()>;

    /// Calls return within microseconds, so that they may be made by a thread that serves others.
    fn is_fast(&self) -> bool {
        false
    }

    /// What of the range takes space: extents in order, without gaps, that cover it exactly. Fewer
    /// bytes than asked for may be covered if there is much to tell, but at least one.
    fn extents(&self, offset: u64, len: u64) -> io::Result<Vec<Extent>> {
        Ok(vec![Extent { offset, len, allocated: true }])
    }

    /// Bytes of space that are taken, if it is known.
    fn allocated_bytes(&self) -> Option<u64> {
        None
    }

    /// What is the matter with it, in words for an operator; none if all is well.
    fn trouble(&self) -> Option<String> {
        None
    }
}

/// Adds an extent to a list, joined to the last one if they are alike.
pub(crate) fn push_extent(list: &mut Vec<Extent>, extent: Extent) {
    match list.last_mut() {
        Some(last) if last.allocated == extent.allocated => last.len += extent.len,
        _ => list.push(extent),
    }
}
