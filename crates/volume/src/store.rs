//! Where the bytes of a volume lie.

use std::io;

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
}
