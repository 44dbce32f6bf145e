//! A ring of records in shared memory, which overwrites its oldest. A reader may miss some, but
//! never reads half of one.

use core::marker::PhantomData;
use core::sync::atomic::{AtomicU64, Ordering, fence};
use headworks_policy::layout::{Layout, mix_bytes};

/// What a ring keeps, as `WORDS` words.
pub trait Record<const WORDS: usize>: Sized {
    /// What the words are, in their order: it belongs to the layout of the region.
    const FIELDS: &'static str;

    /// The record as words.
    fn to_words(&self) -> [u64; WORDS];

    /// The record from its words. `number`: how many were added before it.
    fn from_words(number: u64, words: [u64; WORDS]) -> Self;
}

#[derive(Debug)]
#[repr(C)]
struct Entry<const WORDS: usize> {
    /// The record's number plus one; zero while it is written.
    stamp: AtomicU64,
    words: [AtomicU64; WORDS],
}

/// The latest `RECORDS` records. All zero bytes: none.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Ring<R, const WORDS: usize, const RECORDS: usize> {
    head: AtomicU64,
    entries: [Entry<WORDS>; RECORDS],
    of: PhantomData<R>,
}

impl<R: Record<WORDS>, const WORDS: usize, const RECORDS: usize> Layout
    for Ring<R, WORDS, RECORDS>
{
    const HASH: u64 = mix_bytes(<[[AtomicU64; WORDS]; RECORDS]>::HASH, R::FIELDS.as_bytes());
}

impl<R: Record<WORDS>, const WORDS: usize, const RECORDS: usize> Ring<R, WORDS, RECORDS> {
    /// Adds a record.
    pub fn push(&self, record: &R) {
        let number = self.head.fetch_add(1, Ordering::Relaxed);
        let entry = &self.entries[number as usize % RECORDS];
        entry.stamp.store(0, Ordering::Relaxed);
        fence(Ordering::Release);
        for (to, from) in entry.words.iter().zip(record.to_words()) {
            to.store(from, Ordering::Relaxed);
        }
        entry.stamp.store(number + 1, Ordering::Release);
    }

    /// Records that were added since the start.
    pub fn count(&self) -> u64 {
        self.head.load(Ordering::Relaxed)
    }

    /// A record by its number. `None` if it was overwritten or never existed.
    pub fn get(&self, number: u64) -> Option<R> {
        let entry = &self.entries[number as usize % RECORDS];
        if entry.stamp.load(Ordering::Acquire) != number + 1 {
            return None;
        }
        let words = core::array::from_fn(|at| entry.words[at].load(Ordering::Relaxed));
        fence(Ordering::Acquire);
        let whole = entry.stamp.load(Ordering::Relaxed) == number + 1;
        whole.then(|| R::from_words(number, words))
    }

    /// The records that are kept, the latest first.
    pub fn latest(&self) -> impl Iterator<Item = R> {
        let head = self.count();
        let numbers = (head.saturating_sub(RECORDS as u64)..head).rev();
        numbers.filter_map(|number| self.get(number))
    }
}

/// Two halves of a word.
pub(crate) fn joined(low: u32, high: u32) -> u64 {
    u64::from(low) | u64::from(high) << 32
}

/// The lower and the upper half of a word.
pub(crate) fn halves(word: u64) -> (u32, u32) {
    (word as u32, (word >> 32) as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq)]
    struct Same(u64, [u64; 3]);

    impl Record<3> for Same {
        const FIELDS: &'static str = "value three times";

        fn to_words(&self) -> [u64; 3] {
            self.1
        }

        fn from_words(number: u64, words: [u64; 3]) -> Self {
            Same(number, words)
        }
    }

    #[test]
    fn the_latest_records_are_kept() {
        // SAFETY: all zero bytes are a ring without records: atomics only.
        let ring: Ring<Same, 3, 4> = unsafe { core::mem::zeroed() };
        assert_eq!(ring.get(0), None);
        for number in 0..6 {
            ring.push(&Same(0, [number; 3]));
        }
        assert_eq!(ring.count(), 6);
        let numbers: Vec<u64> = ring.latest().map(|record| record.0).collect();
        assert_eq!(numbers, [5, 4, 3, 2]);
        assert_eq!(ring.get(5), Some(Same(5, [5; 3])));
        assert_eq!((ring.get(1), ring.get(6)), (None, None));
    }

    #[test]
    fn a_reader_never_sees_half_a_record() {
        // SAFETY: as above.
        let ring: Ring<Same, 3, 2> = unsafe { core::mem::zeroed() };
        std::thread::scope(|scope| {
            scope.spawn(|| (0..100_000).for_each(|number| ring.push(&Same(0, [number; 3]))));
            for _ in 0..100_000 {
                if let Some(Same(number, words)) = ring.get(ring.count().saturating_sub(1)) {
                    assert_eq!(words, [number; 3]);
                }
            }
        });
    }
}
