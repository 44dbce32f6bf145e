//! Session locks that a profile declares: routines whose locks no protocol shows.
//!
//! Once a statement names an acquiring routine, the connection counts as holding a lock. It does so
//! until a statement is answered that names a releasing routine and no acquiring one. On MariaDB
//! the lock also ends with a reset of the session. A name counts wherever it stands, even in
//! quotes. Holding too much costs a permit until the idle limit; holding too little could stop the
//! server. A name that is cut between two receipts is not seen; the stall detector covers that.
//!
//! A server whose profile declares no locks pays nothing for this.

use crate::process;
use headworks_region::layout::Region;

/// Bytes of a receipt that are scanned.
const TEXT_MAX: usize = 64 << 10;

/// Whether a connection holds a declared lock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DeclaredLock {
    /// Nothing.
    #[default]
    Nothing,
    /// An acquiring routine was mentioned.
    Taken,
    /// The current request releases it.
    Releasing,
}

impl DeclaredLock {
    /// Scans bytes of a request.
    pub fn look(&mut self, bytes: &[u8]) {
        if process::has_declared_locks()
            && let Some(region) = process::region()
        {
            self.look_for(region, bytes);
        }
    }

    #[cold]
    fn look_for(&mut self, region: &Region, bytes: &[u8]) {
        let text = bytes.get(..TEXT_MAX).unwrap_or(bytes);
        if region.declared_locks.acquire().any(|word| mentions(text, word.bytes())) {
            *self = DeclaredLock::Taken;
        } else if *self == DeclaredLock::Taken
            && region.declared_locks.release().any(|word| mentions(text, word.bytes()))
        {
            *self = DeclaredLock::Releasing;
        }
    }

    /// The session was reset.
    pub fn reset(&mut self) {
        if *self == DeclaredLock::Taken {
            *self = DeclaredLock::Releasing;
        }
    }

    /// The request was answered.
    pub fn answered(&mut self) {
        if *self == DeclaredLock::Releasing {
            *self = DeclaredLock::Nothing;
        }
    }

    /// Whether a lock is held.
    pub fn held(self) -> bool {
        self != DeclaredLock::Nothing
    }
}

/// Whether `text` contains `word` (lower case) as a separate word.
fn mentions(text: &[u8], word: &[u8]) -> bool {
    let part_of_word =
        |byte: Option<&u8>| byte.is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte == b'_');
    let Some((&first, _)) = word.split_first() else { return false };
    let upper = first.to_ascii_uppercase();
    text.iter().enumerate().any(|(at, &byte)| {
        (byte == first || byte == upper)
            && text.get(at..at + word.len()).is_some_and(|found| found.eq_ignore_ascii_case(word))
            && !(at > 0 && part_of_word(text.get(at - 1)))
            && !part_of_word(text.get(at + word.len()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_found_as_a_word_in_any_case() {
        for (text, found) in [
            ("CALL Enter_Batch()", true),
            ("select enter_batch", true),
            ("enter_batch", true),
            ("select reenter_batch()", false),
            ("select enter_batches()", false),
            ("enter_batc", false),
            ("", false),
        ] {
            assert_eq!(mentions(text.as_bytes(), b"enter_batch"), found, "{text}");
        }
        assert!(!mentions(b"anything", b""));
    }

    #[test]
    fn a_lock_is_held_until_its_release_is_answered() {
        let mut named = DeclaredLock::Taken;
        named.answered();
        assert!(named.held());
        named.reset();
        assert!(named.held(), "not before the server has done it");
        named.answered();
        assert!(!named.held());
    }
}
