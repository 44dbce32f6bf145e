//! Identifiers: pages, log positions, frames.

use std::fmt;

/// Number of a page in its storage, from 0 on. A page file has a label before page 0, so a page
/// begins at its number plus one, times the page size.
///
/// Every value but [`PageId::NONE`] may name a page.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PageId(pub u64);

impl PageId {
    /// No page: the value of an empty frame.
    pub const NONE: PageId = PageId(u64::MAX);
}

impl fmt::Display for PageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

impl fmt::Debug for PageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PageId({})", self.0)
    }
}

/// Log sequence number: a byte position in the write-ahead log, growing.
///
/// `Lsn(0)` is the position before any record: a page with it was never logged.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Lsn(pub u64);

impl Lsn {
    /// Later than every position.
    pub const MAX: Lsn = Lsn(u64::MAX);
}

impl fmt::Display for Lsn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// Index of a frame. Frames are numbered through the whole pool; an instance owns a range.
pub(crate) type FrameId = u32;

/// No frame: the end of every list.
pub(crate) const NIL: FrameId = FrameId::MAX;

/// Spreads page numbers over instances and hash buckets (the finalizer of SplitMix64: every bit
/// of the input changes every bit of the output with probability close to one half).
#[inline]
pub(crate) fn mix(page: PageId) -> u64 {
    let mut x = page.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}
