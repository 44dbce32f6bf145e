//! The effect of a complete text, where a quick test shows it: one comparison for the first
//! keyword, and one search of eight bytes at a time. Most texts are of this kind, and none of their
//! bytes is copied.
//!
//! Any text that could take a lock, pass the gate, or hold several statements is left to `lexer`.
//! For the texts decided here `lexer` has the same result: no effect, and gated.

use super::keywords::{find_candidate, is_word};
use super::locks::{Effect, NO_NAME, Op, Takes};

/// Longest text, in bytes; `lexer` ends its search in some texts here.
const TEXT_MAX: usize = 64 << 10;

/// A keyword of up to 8 letters as the low bytes of a number.
const fn packed(word: &[u8]) -> u64 {
    let (mut value, mut at) = (0, word.len());
    while at > 0 {
        at -= 1;
        value = value << 8 | word[at] as u64;
    }
    value
}

const fn low_bytes(count: u32) -> u64 {
    u64::MAX >> (64 - 8 * count)
}

/// The length of the keyword at the start of `text`, if only function names and `;` matter after
/// it.
fn common_keyword(text: &[u8]) -> Option<usize> {
    const SELECT: u64 = packed(b"select");
    const INSERT: u64 = packed(b"insert");
    const UPDATE: u64 = packed(b"update");
    const DELETE: u64 = packed(b"delete");
    const COMMIT: u64 = packed(b"commit");
    const REPLACE: u64 = packed(b"replace");
    const ROLLBACK: u64 = packed(b"rollback");
    const BLANKS: u64 = packed(b"        ");
    let eight = match text.first_chunk() {
        Some(eight) => u64::from_le_bytes(*eight),
        None => text.iter().rev().fold(0, |value, &byte| value << 8 | u64::from(byte)),
    };
    // Lower case: `|` makes a letter of its upper case, and of no other byte.
    let eight = eight | BLANKS;
    let size = match eight & low_bytes(6) {
        SELECT | INSERT | UPDATE | DELETE | COMMIT => 6,
        _ if eight & low_bytes(7) == REPLACE => 7,
        _ if eight == ROLLBACK => 8,
        _ => return None,
    };
    text.get(size).is_none_or(|&byte| !is_word(byte)).then_some(size)
}

/// The effect of a gated text; `None` if the lexer must decide. `multi`: it may hold several
/// statements.
pub(super) fn effect(text: &[u8], multi: bool) -> Option<Effect> {
    let Some(size) = common_keyword(text) else { return begins(text) };
    let rest = text.get(size..)?;
    let plain = text.len() <= TEXT_MAX && find_candidate(rest, multi).is_none();
    plain.then_some(Effect::NONE)
}

/// The statements that begin a transaction, in their commonest spellings.
fn begins(text: &[u8]) -> Option<Effect> {
    let begins =
        text.eq_ignore_ascii_case(b"begin") || text.eq_ignore_ascii_case(b"start transaction");
    begins.then_some(Effect { takes: Takes::NONE, op: Op::BeginTransaction, name: NO_NAME })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mysql::command::RequestClass;
    use crate::mysql::lexer::Scan;
    use proptest::prelude::*;
    use proptest::sample::select;

    /// The lexer's result for a text.
    fn scanned(text: &[u8], multi: bool) -> (Effect, RequestClass, bool) {
        let mut scan = Scan::new();
        scan.begin(multi, false);
        scan.feed(text);
        scan.finish();
        (scan.effect(false), scan.class(), scan.is_dynamic())
    }

    fn agrees(text: &[u8]) {
        for multi in [false, true] {
            if let Some(effect) = effect(text, multi) {
                let expected = (effect, RequestClass::Gated, false);
                assert_eq!(expected, scanned(text, multi), "{}", text.escape_ascii());
            }
        }
    }

    #[test]
    fn the_commonest_texts_are_told_at_a_glance() {
        for text in [
            "SELECT c FROM sbtest1 WHERE id=125037",
            "select 1",
            "SELECT",
            "Insert into t values (1)",
            "REPLACE t SET a = 1",
            "update t set a=a+1",
            "DELETE FROM t",
            "commit",
            "ROLLBACK",
        ] {
            assert_eq!(effect(text.as_bytes(), true), Some(Effect::NONE), "{text}");
            agrees(text.as_bytes());
        }
        for text in ["BEGIN", "begin", "START TRANSACTION"] {
            let op = effect(text.as_bytes(), true).map(|effect| effect.op);
            assert_eq!(op, Some(Op::BeginTransaction), "{text}");
            agrees(text.as_bytes());
        }
    }

    #[test]
    fn whatever_could_be_more_is_looked_at_closely() {
        for text in [
            "",
            "selects",
            "SELECT_1",
            " select 1",
            "/* c */ select 1",
            "SELECT GET_LOCK('a', 1)",
            "UPDATE t SET a = release_lock('a')",
            "BEGIN NOT ATOMIC SELECT 1; END",
            "begin;",
            "CALL p()",
            "KILL 5",
            "LOCK TABLES t READ",
            "SET STATEMENT x = 1 FOR LOCK TABLES t READ",
        ] {
            assert_eq!(effect(text.as_bytes(), false), None, "{text}");
        }
        let several = b"SELECT 1; LOCK TABLES t READ";
        assert_eq!(effect(several, true), None);
        assert_eq!(effect(several, false), Some(Effect::NONE), "the server refuses it");
        let long = [&b"SELECT "[..], &[b'x'; TEXT_MAX]].concat();
        assert_eq!(effect(&long, false), None);
    }

    proptest! {
        #[test]
        fn the_general_machine_agrees_with_every_glance(
            keyword in select(vec![
                "select", "INSERT", "Replace", "update", "DELETE", "commit", "Rollback", "begin",
                "start transaction", "start", "lock", "kill", "xa", "set", "do", "",
            ]),
            pieces in proptest::collection::vec(prop_oneof![
                "[ -~\n\t]{0,20}",
                select(vec![" ", ";", "_l", "get_lock", "_lock(", "'", "\"", "/*", "*/", "--", "begin",
                    "lock tables t read", "execute s", "statement", "é", "xa start 'x'"]).prop_map(str::to_owned),
            ], 0..6),
        ) {
            agrees(format!("{keyword}{}", pieces.concat()).as_bytes());
            agrees(format!("{keyword} {}", pieces.concat()).as_bytes());
        }
    }
}
