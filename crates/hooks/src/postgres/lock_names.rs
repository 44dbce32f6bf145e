//! Finds names of functions that take a session-level advisory lock in a text, as it arrives.
//!
//! Quotes and comments count too: their rules depend on settings, and a wrong guess could hide a
//! call. Every such name contains `_l`, which is searched for eight bytes at a time.

use crate::mysql::keywords::find_candidate;

/// Functions that take a lock until it is released or the session ends (PostgreSQL 15
/// documentation, 9.27.10). Those with `xact` in their names end with the transaction.
const TAKERS: [&[u8]; 4] = [
    b"pg_advisory_lock",
    b"pg_advisory_lock_shared",
    b"pg_try_advisory_lock",
    b"pg_try_advisory_lock_shared",
];

/// A `$` is not part of a word: where it ends a quote, a name may follow or precede it.
const fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// Longer than the longest name and the byte before it.
const WORD_MAX: usize = 32;

/// The search through one text.
#[derive(Clone, Debug)]
pub(super) struct Mention {
    found: bool,
    /// The end of the last chunk, if it is part of a word: the whole word, or its last bytes.
    word: [u8; WORD_MAX],
    len: u8,
}

impl Mention {
    pub(super) const fn new() -> Mention {
        Mention { found: false, word: [0; WORD_MAX], len: 0 }
    }

    /// Begins a text.
    pub(super) fn begin(&mut self) {
        self.found = false;
        self.len = 0;
    }

    /// Takes the next chunk of the text.
    pub(super) fn feed(&mut self, bytes: &[u8]) {
        let mut at = 0;
        if self.len > 0 {
            at = bytes.iter().take_while(|byte| is_word(**byte)).count();
            self.push(bytes.get(..at).unwrap_or(&[]));
            if at == bytes.len() {
                return;
            }
            self.word_ended();
        }
        // A candidate is a pair of bytes. If a chunk ends with the first, the word goes on.
        while let Some(found) = bytes.get(at..).and_then(|rest| find_candidate(rest, false)) {
            let middle = at + found;
            let start = middle - word_before(bytes.get(at..middle).unwrap_or(&[]));
            let end = middle + word_at(bytes.get(middle..).unwrap_or(&[]));
            if end == bytes.len() {
                self.push(bytes.get(start..).unwrap_or(&[]));
                return;
            }
            self.found |= is_taker(bytes.get(start..end).unwrap_or(&[]));
            at = end;
        }
        let rest = bytes.get(at..).unwrap_or(&[]);
        let cut = word_before(rest);
        self.push(rest.get(rest.len() - cut..).unwrap_or(&[]));
    }

    /// The text is complete: whether it names such a function.
    pub(super) fn finish(&mut self) -> bool {
        if self.len > 0 {
            self.word_ended();
        }
        self.found
    }

    fn push(&mut self, bytes: &[u8]) {
        let bytes = bytes.get(bytes.len().saturating_sub(WORD_MAX)..).unwrap_or(&[]);
        let have = usize::from(self.len);
        let over = (have + bytes.len()).saturating_sub(WORD_MAX);
        self.word.copy_within(over..have.max(over), 0);
        let have = have.saturating_sub(over);
        if let Some(free) = self.word.get_mut(have..have + bytes.len()) {
            free.copy_from_slice(bytes);
        }
        // At most WORD_MAX, so it fits.
        self.len = (have + bytes.len()) as u8;
    }

    fn word_ended(&mut self) {
        let len = usize::from(core::mem::take(&mut self.len));
        self.found |= self.word.get(..len).is_some_and(is_taker);
    }
}

fn word_before(bytes: &[u8]) -> usize {
    bytes.iter().rev().take_while(|byte| is_word(**byte)).count()
}

fn word_at(bytes: &[u8]) -> usize {
    bytes.iter().take_while(|byte| is_word(**byte)).count()
}

/// Leading digits may be a number: a name may follow it without a blank.
fn is_taker(word: &[u8]) -> bool {
    TAKERS.iter().any(|taker| {
        let Some(start) = word.len().checked_sub(taker.len()) else { return false };
        let (before, name) = word.split_at(start);
        name.eq_ignore_ascii_case(taker) && before.last().is_none_or(u8::is_ascii_digit)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn mentions(text: &[u8], chunk: usize) -> bool {
        let mut mention = Mention::new();
        mention.begin();
        text.chunks(chunk.max(1)).for_each(|part| mention.feed(part));
        mention.finish()
    }

    #[test]
    fn every_function_is_found_in_every_chunking() {
        for (text, found) in [
            ("SELECT pg_advisory_lock(1)", true),
            ("select PG_Advisory_Lock_Shared ( 1, 2 )", true),
            ("do $$begin perform pg_try_advisory_lock(1); end$$", true),
            ("$$pg_try_advisory_lock_shared$$", true),
            ("pg_advisory_lock", true),
            ("\"pg_advisory_lock\"(1)", true),
            ("select pg_advisory_xact_lock(1)", false),
            ("select pg_advisory_unlock(1), pg_advisory_unlock_all()", false),
            ("select my_pg_advisory_lock(1), x_l, _l", false),
            ("select pg_advisory_locks", false),
            ("", false),
        ] {
            for chunk in 1..=text.len() {
                assert_eq!(mentions(text.as_bytes(), chunk), found, "{text} in chunks of {chunk}");
            }
        }
    }

    proptest! {
        #[test]
        fn a_name_is_found_wherever_it_stands(before in "[ -~]{0,80}[ (=.]", after in "[ (;][ -~]{0,80}", chunk in 1usize..200) {
            let text = format!("{before}pg_try_advisory_lock{after}");
            prop_assert!(mentions(text.as_bytes(), chunk));
        }

        #[test]
        fn chunks_do_not_matter(pieces in proptest::collection::vec(prop_oneof![
            "[a-z_$ ]{0,40}",
            Just("pg_advisory_lock".to_owned()),
            Just("_l".to_owned()),
        ], 0..8), chunk in 1usize..50) {
            let text = pieces.concat();
            prop_assert_eq!(mentions(text.as_bytes(), chunk), mentions(text.as_bytes(), usize::MAX));
        }
    }
}
