//! Stores: where the bytes of a volume lie.

pub mod file;
pub mod memory;
pub mod nbd;
pub(crate) mod tag;

pub use file::File;
pub use memory::Memory;
pub use nbd::Nbd;

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

/// A part of a volume, and whether space is allocated for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// First byte.
    pub offset: u64,
    /// Bytes.
    pub len: u64,
    /// Space is allocated. Unallocated parts read as zeros.
    pub allocated: bool,
}

/// Bytes under a volume. Called from several threads at once. Ranges of concurrent calls may
/// overlap only as on a device: each sector is then from one call or the other.
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

    /// Reads if the bytes are at hand, without waiting for a device. False: call [`Store::read`].
    fn try_read(&self, offset: u64, into: &mut [u8]) -> io::Result<bool> {
        let _ = (offset, into);
        Ok(false)
    }

    /// Writes if that needs no waiting for a device. False: call [`Store::write`].
    fn try_write(&self, offset: u64, from: &[u8]) -> io::Result<bool> {
        let _ = (offset, from);
        Ok(false)
    }

    /// Every write that returned before this call is durable when it returns.
    fn flush(&self) -> io::Result<()>;

    /// The same of the part of the volume that holds `offset`, for stores of several parts.
    fn flush_at(&self, offset: u64) -> io::Result<()> {
        let _ = offset;
        self.flush()
    }

    /// The range is not needed; reading it gives zeros or the old data.
    fn discard(&self, offset: u64, len: u64) -> io::Result<()>;

    /// The range reads as zeros; with `unmap` its space may be given back.
    fn write_zeroes(&self, offset: u64, len: u64, fua: bool, unmap: bool) -> io::Result<()>;

    /// Calls return within microseconds, so that a thread that serves others may make them.
    fn is_fast(&self) -> bool {
        false
    }

    /// The allocated parts of the range: extents in order, without gaps, that cover it exactly. If
    /// there are many, fewer bytes than asked for may be covered, but at least one.
    fn extents(&self, offset: u64, len: u64) -> io::Result<Vec<Extent>> {
        Ok(vec![Extent { offset, len, allocated: true }])
    }

    /// Bytes of allocated space, if known.
    fn allocated_bytes(&self) -> Option<u64> {
        None
    }

    /// Requests with these tags are of these applications, for a store that passes them on to a
    /// server which tells applications apart.
    fn name_tags(&self, names: &BTreeMap<u16, String>) {
        let _ = names;
    }

    /// The same as long as the bytes are the same ones, whichever process has them open. None if
    /// that cannot be known.
    fn identity(&self) -> Option<String> {
        None
    }

    /// The same bytes with another size, for a store whose file must not be opened twice. None for
    /// other stores.
    fn resized(&self, size: u64) -> Option<Result<Arc<dyn Store>, file::OpenError>> {
        let _ = size;
        None
    }

    /// A problem of the store, as a message for the operator; none if all is well.
    fn trouble(&self) -> Option<String> {
        None
    }
}

/// A name that nothing else has.
pub fn unique() -> String {
    use std::hash::{BuildHasher, Hasher, RandomState};
    let random = || RandomState::new().build_hasher().finish();
    format!("{:016x}{:016x}", random(), random())
}

/// Adds an extent to a list, merged with the last one if they are alike.
pub(crate) fn push_extent(list: &mut Vec<Extent>, extent: Extent) {
    match list.last_mut() {
        Some(last) if last.allocated == extent.allocated => last.len += extent.len,
        _ => list.push(extent),
    }
}
