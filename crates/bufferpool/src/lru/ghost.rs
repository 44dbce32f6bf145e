//! What was evicted lately.
//!
//! A page that comes back soon after its eviction is used more often than those read once.
//! It becomes young at once, and need not prove itself in the old part of the list again (S3-FIFO's
//! ghost queue, Yang et al., SOSP 2023).
//!
//! A table of hashes without order: a later page overwrites an earlier one in its slot. So it
//! forgets the oldest pages first, roughly, and needs no lock.

use crate::ids::{PageId, mix};
use crate::sync::{AtomicU32, Ordering::Relaxed};

pub(super) struct Ghost(Box<[AtomicU32]>);

impl Ghost {
    /// Remembers about so many pages.
    pub(super) fn new(pages: usize) -> Self {
        let slots = pages.next_power_of_two().max(1);
        Ghost((0..slots).map(|_| AtomicU32::new(0)).collect())
    }

    fn place(&self, page: PageId) -> (&AtomicU32, u32) {
        let hash = mix(page);
        // The number of slots is a power of two. Zero is for an empty slot.
        (&self.0[hash as usize & (self.0.len() - 1)], (hash >> 32) as u32 | 1)
    }

    /// A page was evicted.
    pub(super) fn note(&self, page: PageId) {
        let (slot, mark) = self.place(page);
        slot.store(mark, Relaxed);
    }

    /// Whether a page was evicted lately. It is forgotten then.
    pub(super) fn recall(&self, page: PageId) -> bool {
        let (slot, mark) = self.place(page);
        slot.compare_exchange(mark, 0, Relaxed, Relaxed).is_ok()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn pages_are_recalled_once_and_the_oldest_are_forgotten() {
        let ghost = Ghost::new(1_000);
        (0..800).for_each(|page| ghost.note(PageId(page)));
        let known = (0..800).filter(|&page| ghost.recall(PageId(page))).count();
        // Two pages in one slot: the later one stays. Of 800 in 1,024 slots, 554 are filled.
        assert!((520..590).contains(&known), "{known}");
        assert_eq!((0..800).filter(|&page| ghost.recall(PageId(page))).count(), 0);
        (0..100_000).for_each(|page| ghost.note(PageId(page)));
        assert_eq!((0..50_000).filter(|&page| ghost.recall(PageId(page))).count(), 0);
    }
}
