//! Locks that a profile declares: routines that take and release a lock of the session.
//!
//! The framings know the statements of their protocols. They cannot know that `CALL enter_batch()`
//! takes a lock that outlives the transaction. A profile names such routines, and this table
//! carries the names to the preloaded library. It is written before the server starts, and each
//! process reads it once.

use crate::text::{SharedText, Text};
use core::sync::atomic::{AtomicU32, Ordering};

/// Words of either kind that a region can hold.
pub const WORDS: usize = 8;

/// Longest word, in bytes.
pub const WORD_BYTES: usize = 48;

/// Words of a profile, as written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeclaredLocks {
    /// A statement that mentions one of these may take a lock that the session keeps.
    pub acquire: Vec<String>,
    /// One that mentions one of these, and none of the others, gives it back.
    pub release: Vec<String>,
}

/// The words in the region. All zero bytes: none.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct DeclaredLockTable {
    acquires: AtomicU32,
    releases: AtomicU32,
    acquire: [SharedText; WORDS],
    release: [SharedText; WORDS],
}

headworks_policy::layout!(DeclaredLockTable { acquires, releases, acquire, release });

impl DeclaredLockTable {
    /// Writes a profile's words; those beyond [`WORDS`] are the caller's mistake and left out. Only
    /// before the server starts.
    pub fn set(&self, words: &DeclaredLocks) {
        let kinds = [
            (&words.acquire, &self.acquire, &self.acquires),
            (&words.release, &self.release, &self.releases),
        ];
        for (words, places, count) in kinds {
            for (place, word) in places.iter().zip(words) {
                place.set(word.to_ascii_lowercase().as_bytes());
            }
            // At most WORDS.
            count.store(words.len().min(WORDS) as u32, Ordering::Release);
        }
    }

    /// Words that take a lock, in lower case.
    pub fn acquire(&self) -> impl Iterator<Item = Text> {
        words(&self.acquire, &self.acquires)
    }

    /// Words that release it.
    pub fn release(&self) -> impl Iterator<Item = Text> {
        words(&self.release, &self.releases)
    }

    /// Whether there is a word that takes a lock. Without one, the others mean nothing.
    pub fn is_empty(&self) -> bool {
        self.acquires.load(Ordering::Relaxed) == 0
    }
}

fn words(table: &[SharedText], count: &AtomicU32) -> impl Iterator<Item = Text> {
    table.iter().take(count.load(Ordering::Relaxed) as usize).map(SharedText::get)
}
