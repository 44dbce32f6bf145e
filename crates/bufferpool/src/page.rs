//! The header that every page carries, and its checksum.
//!
//! | bytes | content (little endian) |
//! | --- | --- |
//! | 0..4 | CRC-32C of bytes 4.. to the end of the page |
//! | 4..8 | `HWP1` |
//! | 8..16 | the page's number |
//! | 16..24 | LSN of the last change |
//! | 24..32 | the user's |
//!
//! Checksum and number are set in the copy that is written; in memory they may be stale.

use crate::error::PoolError;
use crate::ids::{Lsn, PageId};

/// Bytes of the header that every page carries (little endian): CRC-32C of the rest in 0..4, `HWP1`
/// in 4..8, the page's number in 8..16, the LSN of its last change in 16..24. Bytes 24..32 are the
/// user's, and so is all that follows.
pub const PAGE_HEADER_BYTES: usize = 32;

const MAGIC: [u8; 4] = *b"HWP1";

fn word(bytes: &[u8], at: usize) -> u64 {
    let mut out = [0; 8];
    out.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(out)
}

/// The LSN in a page's header.
#[must_use]
pub fn page_lsn(bytes: &[u8]) -> Lsn {
    Lsn(word(bytes, 16))
}

/// Where a page has its LSN, its number and its checksum, for an engine with a page header of its
/// own. Pools without one use [`HeadworksFormat`].
///
/// The pool calls [`PageFormat::stamp`] on the copy that is written, and [`PageFormat::verify`] on
/// what was read. In memory only the LSN is kept up to date.
pub trait PageFormat: Send + Sync {
    /// The LSN of the last change. A page of zeroes has a smallest one.
    fn lsn(&self, bytes: &[u8]) -> Lsn;

    /// Sets it.
    fn set_lsn(&self, bytes: &mut [u8], lsn: Lsn);

    /// Prepares a copy to be written as `page`: number and checksum.
    fn stamp(&self, bytes: &mut [u8], page: PageId);

    /// Checks that bytes that were read are exactly `page`.
    ///
    /// # Errors
    /// [`PoolError::NeverWritten`] for a page of zeroes, [`PoolError::Checksum`],
    /// [`PoolError::Misplaced`].
    fn verify(&self, bytes: &[u8], page: PageId) -> Result<(), PoolError>;

    /// The number that a sound page carries, for the copies in a doublewrite area.
    fn identify(&self, bytes: &[u8]) -> Option<PageId>;
}

/// The format of [`PAGE_HEADER_BYTES`].
#[derive(Clone, Copy, Debug, Default)]
pub struct HeadworksFormat;

impl PageFormat for HeadworksFormat {
    fn lsn(&self, bytes: &[u8]) -> Lsn {
        page_lsn(bytes)
    }

    fn set_lsn(&self, bytes: &mut [u8], lsn: Lsn) {
        bytes[16..24].copy_from_slice(&lsn.0.to_le_bytes());
    }

    fn stamp(&self, bytes: &mut [u8], page: PageId) {
        stamp(bytes, page);
    }

    fn verify(&self, bytes: &[u8], page: PageId) -> Result<(), PoolError> {
        verify(bytes, page)
    }

    fn identify(&self, bytes: &[u8]) -> Option<PageId> {
        identify(bytes)
    }
}

/// Sets the header of `bytes` to be written as `page`.
fn stamp(bytes: &mut [u8], page: PageId) {
    bytes[4..8].copy_from_slice(&MAGIC);
    bytes[8..16].copy_from_slice(&page.0.to_le_bytes());
    let sum = crc32c::crc32c(&bytes[4..]);
    bytes[0..4].copy_from_slice(&sum.to_le_bytes());
}

/// The number in a page's header, if header and checksum are valid.
fn identify(bytes: &[u8]) -> Option<PageId> {
    let sound = bytes[4..8] == MAGIC && stored_sum(bytes) == crc32c::crc32c(&bytes[4..]);
    sound.then(|| PageId(word(bytes, 8)))
}

fn stored_sum(bytes: &[u8]) -> u32 {
    u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
}

/// Checks that `bytes`, as read from storage, are exactly `page`.
fn verify(bytes: &[u8], page: PageId) -> Result<(), PoolError> {
    if bytes[4..8] != MAGIC {
        if bytes.iter().all(|&b| b == 0) {
            return Err(PoolError::NeverWritten { page });
        }
        let reason = format!("its header has {:02x?} instead of {MAGIC:02x?}", &bytes[4..8]);
        return Err(PoolError::Misplaced { page, reason });
    }
    let (stored, computed) = (stored_sum(bytes), crc32c::crc32c(&bytes[4..]));
    if stored != computed {
        return Err(PoolError::Checksum { page, stored, computed });
    }
    let found = word(bytes, 8);
    if found != page.0 {
        return Err(PoolError::Misplaced { page, reason: format!("it is page {found}") });
    }
    Ok(())
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn damage_is_named() {
        let mut bytes = vec![0u8; 4096];
        assert!(matches!(verify(&bytes, PageId(3)), Err(PoolError::NeverWritten { .. })));
        bytes[100] = 1;
        assert!(matches!(verify(&bytes, PageId(3)), Err(PoolError::Misplaced { .. })));
        stamp(&mut bytes, PageId(3));
        verify(&bytes, PageId(3)).unwrap();
        assert_eq!(identify(&bytes), Some(PageId(3)));
        assert!(matches!(verify(&bytes, PageId(4)), Err(PoolError::Misplaced { .. })));
        bytes[4095] ^= 1;
        assert!(matches!(verify(&bytes, PageId(3)), Err(PoolError::Checksum { .. })));
        assert_eq!(identify(&bytes), None);
    }
}
