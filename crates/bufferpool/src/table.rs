//! The page table: a hash table from pages to frames whose look-ups take no lock.
//!
//! Buckets are chains through the frames. A change takes the mutex of the bucket's shard. A look-up
//! walks the chain without it, pins the frame that has the page's number, and checks the number
//! again. A pinned frame cannot change its page, so the second check is final. A frame that moves
//! between chains during the walk can only make the look-up miss, or leave its chain. It gives up
//! after [`STEPS`] frames, and the caller looks the page up under the mutex.
//!
//! Buckets may also be the pages themselves ([`crate::PoolConfig::by_number`]): an array in which a
//! page's number is its place. Chains then have one frame, unless the storage has grown.

use crate::frames::{Frames, LOADING};
use crate::ids::{FrameId, NIL, PageId, mix};
use crate::sync::{AtomicU32, Mutex, MutexGuard, Ordering};
use std::sync::Arc;

/// Chains average less than one frame; a longer walk has left its chain.
const STEPS: usize = 32;
/// Mutexes over the buckets.
const SHARDS: usize = 256;

#[repr(align(64))]
struct Shard(Mutex<()>);

pub(crate) struct PageTable {
    heads: Box<[AtomicU32]>,
    shards: Box<[Shard]>,
    mask: usize,
    /// One bucket for each page: its number is the bucket's.
    by_number: bool,
    frames: Arc<Frames>,
}

/// A bucket under its shard's mutex.
pub(crate) struct Bucket<'a> {
    table: &'a PageTable,
    at: usize,
    _guard: MutexGuard<'a, ()>,
}

impl PageTable {
    /// Of an entry; with as many entries as pages, rounded up to a power of two.
    pub(crate) const ENTRY_BYTES: u64 = 2 * size_of::<AtomicU32>() as u64;

    /// A table for `count` frames; with a bucket for each of so many `pages`, if that is given.
    pub(crate) fn new(frames: Arc<Frames>, count: usize, pages: Option<u64>) -> Self {
        // An array of more pages than memory has bytes was refused before.
        let wanted = pages.map_or(count * 2, |pages| pages as usize);
        let buckets = wanted.next_power_of_two().max(SHARDS);
        Self {
            heads: (0..buckets).map(|_| AtomicU32::new(NIL)).collect(),
            shards: (0..SHARDS).map(|_| Shard(Mutex::new(()))).collect(),
            mask: buckets - 1,
            by_number: pages.is_some(),
            frames,
        }
    }

    #[inline]
    fn bucket_of(&self, page: PageId) -> usize {
        let key = if self.by_number { page.0 } else { mix(page) };
        // Truncation keeps the lower bits, which are all that the mask uses.
        key as usize & self.mask
    }

    /// Pins the frame of a page, without a lock, if the page is completely
    /// there. `None` is not final: look it up under the lock.
    #[inline]
    pub(crate) fn pin(&self, page: PageId) -> Option<FrameId> {
        let mut at = self.heads[self.bucket_of(page)].load(Ordering::Acquire);
        for _ in 0..STEPS {
            if at == NIL {
                return None;
            }
            let frame = self.frames.get(at);
            if frame.page() == page {
                if !frame.try_pin() {
                    return None;
                }
                // In this order: a failed load removes the page's number before it ends.
                if frame.flags() & LOADING == 0 && frame.page() == page {
                    return Some(at);
                }
                frame.unpin();
                return None;
            }
            at = frame.chain.load(Ordering::Acquire);
        }
        None
    }

    /// Locks the bucket of a page.
    pub(crate) fn lock(&self, page: PageId) -> Bucket<'_> {
        let at = self.bucket_of(page);
        Bucket { table: self, at, _guard: self.shards[at % SHARDS].0.lock() }
    }

    /// Removes a page whose frame the caller has closed, and empties the frame.
    pub(crate) fn remove(&self, page: PageId, frame: FrameId) {
        self.lock(page).remove(frame);
        self.frames.get(frame).set_page(PageId::NONE);
    }
}

impl Bucket<'_> {
    /// The frame of a page.
    pub(crate) fn find(&self, page: PageId) -> Option<FrameId> {
        let mut at = self.table.heads[self.at].load(Ordering::Acquire);
        while at != NIL {
            let frame = self.table.frames.get(at);
            if frame.page() == page {
                return Some(at);
            }
            at = frame.chain.load(Ordering::Acquire);
        }
        None
    }

    /// Adds a frame, which carries its page's number already.
    pub(crate) fn insert(&self, frame: FrameId) {
        let head = &self.table.heads[self.at];
        let chain = &self.table.frames.get(frame).chain;
        chain.store(head.load(Ordering::Relaxed), Ordering::Release);
        head.store(frame, Ordering::Release);
    }

    /// Removes a frame from the bucket.
    pub(crate) fn remove(&self, frame: FrameId) {
        let mut link = &self.table.heads[self.at];
        loop {
            let at = link.load(Ordering::Relaxed);
            assert_ne!(at, NIL, "frame {frame} is not in the bucket of its page");
            let chain = &self.table.frames.get(at).chain;
            if at == frame {
                link.store(chain.load(Ordering::Relaxed), Ordering::Release);
                return;
            }
            link = chain;
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn pages_are_found_until_they_are_removed() {
        let frames = Frames::new(1000);
        let table = PageTable::new(Arc::clone(&frames), 1000, None);
        for frame in 0..1000u32 {
            let page = PageId(u64::from(frame) * 7919);
            frames.get(frame).set_page(page);
            table.lock(page).insert(frame);
            frames.get(frame).open_pinned();
            frames.get(frame).unpin();
        }
        for frame in 0..1000u32 {
            let page = PageId(u64::from(frame) * 7919);
            assert_eq!(table.pin(page), Some(frame));
            assert!(!frames.get(frame).try_close(0));
            assert!(frames.get(frame).try_close(1));
            table.remove(page, frame);
            assert_eq!(table.pin(page), None);
            assert_eq!(table.lock(page).find(page), None);
        }
    }
}
