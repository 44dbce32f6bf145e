//! Whole statements of one exact, simple shape. Only in these texts a release, or a countable
//! GET_LOCK, is believed.
//!
//! A text of up to 128 bytes is cut into at most 12 tokens. Anything unusual (escapes, double
//! quotes, executable comments, a second statement) makes it inexact, and the conservative rules
//! apply.

use super::keywords::{is_space, is_word};
use super::locks::{NO_NAME, Name, Op};

/// Longest name of a user lock (MySQL manual, locking functions).
const NAME_MAX: usize = 64;
const TOKENS_MAX: usize = 12;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Token<'a> {
    Word(&'a [u8]),
    /// `…`
    Name,
    /// '…' of printable ASCII without quotes and backslashes.
    Literal(&'a [u8]),
    Number,
    Sign(u8),
}

impl Token<'_> {
    fn is(self, word: &str) -> bool {
        matches!(self, Token::Word(text) if text.eq_ignore_ascii_case(word.as_bytes()))
    }

    fn names(self) -> bool {
        matches!(self, Token::Word(_) | Token::Name)
    }
}

/// The operation of an exact statement and, for user locks, the hash of the lock's name.
pub(super) fn parse(text: &[u8]) -> Option<(Op, Name)> {
    let mut tokens = [Token::Number; TOKENS_MAX];
    let count = tokenize(text, &mut tokens)?;
    let tokens = tokens.get(..count)?;
    match *tokens {
        [first] if first.is("begin") => Some((Op::BeginTransaction, NO_NAME)),
        [first, second] if first.is("begin") && second.is("work") => {
            Some((Op::BeginTransaction, NO_NAME))
        }
        [first, second] if first.is("unlock") && (second.is("tables") || second.is("table")) => {
            Some((Op::UnlockTables, NO_NAME))
        }
        [first, second] if first.is("unlock") && second.is("instance") => {
            Some((Op::UnlockInstance, NO_NAME))
        }
        [first, second] if first.is("backup") && second.is("unlock") => {
            Some((Op::BackupUnlock, NO_NAME))
        }
        [first, second, third] if first.is("backup") && second.is("stage") && third.is("end") => {
            Some((Op::BackupEnd, NO_NAME))
        }
        [first, table, last] if first.is("handler") && table.names() && last.is("close") => {
            Some((Op::HandlerClose, NO_NAME))
        }
        [first, database, Token::Sign(b'.'), table, last]
            if first.is("handler") && database.names() && table.names() && last.is("close") =>
        {
            Some((Op::HandlerClose, NO_NAME))
        }
        [first, ref call @ ..] if first.is("select") || first.is("do") => user_lock(call),
        _ => None,
    }
}

fn user_lock(call: &[Token<'_>]) -> Option<(Op, Name)> {
    const OPEN: Token<'_> = Token::Sign(b'(');
    const CLOSE: Token<'_> = Token::Sign(b')');
    match *call {
        [
            function,
            OPEN,
            Token::Literal(name),
            Token::Sign(b','),
            Token::Number,
            CLOSE,
            ref alias @ ..,
        ] if function.is("get_lock") && is_alias(alias) => Some((Op::GetLock, hash(name)?)),
        [
            function,
            OPEN,
            Token::Literal(name),
            Token::Sign(b','),
            Token::Sign(b'-'),
            Token::Number,
            CLOSE,
            ref alias @ ..,
        ] if function.is("get_lock") && is_alias(alias) => Some((Op::GetLock, hash(name)?)),
        [function, OPEN, Token::Literal(name), CLOSE, ref alias @ ..]
            if function.is("release_lock") && is_alias(alias) =>
        {
            Some((Op::ReleaseLock, hash(name)?))
        }
        [function, OPEN, CLOSE, ref alias @ ..]
            if function.is("release_all_locks") && is_alias(alias) =>
        {
            Some((Op::ReleaseAllLocks, NO_NAME))
        }
        _ => None,
    }
}

fn is_alias(tokens: &[Token<'_>]) -> bool {
    match *tokens {
        [] => true,
        [name] => name.names(),
        [keyword, name] => keyword.is("as") && (name.names() || matches!(name, Token::Literal(_))),
        _ => false,
    }
}

/// FNV-1a over the exact bytes. Servers compare lock names without regard to case, some by exact
/// bytes. Taking 'A' and 'a' for two locks can only count a free lock as held, never the other way
/// round.
fn hash(name: &[u8]) -> Option<Name> {
    if name.is_empty() || name.len() > NAME_MAX {
        return None;
    }
    let hash = name.iter().fold(0xCBF2_9CE4_8422_2325, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3)
    });
    Some(hash.to_le_bytes())
}

/// Cuts the text into tokens, without the semicolons at its end; `None` if it has anything unusual.
fn tokenize<'a>(text: &'a [u8], tokens: &mut [Token<'a>; TOKENS_MAX]) -> Option<usize> {
    let (mut count, mut rest, mut ended) = (0, text, false);
    loop {
        rest = skip_blank(rest)?;
        let Some((&first, tail)) = rest.split_first() else {
            return Some(count);
        };
        if first == b';' {
            ended = true;
            rest = tail;
            continue;
        }
        if ended {
            return None;
        }
        let (token, size) = match first {
            b'\'' => {
                let end = tail.iter().position(|&byte| byte == b'\'')?;
                let inside = tail.get(..end)?;
                let simple = inside
                    .iter()
                    .all(|&byte| matches!(byte, b' '..=b'~') && !matches!(byte, b'"' | b'\\'));
                // A literal that touches another quote is a doubled quote or a concatenation.
                let follows = tail.get(end + 1).copied();
                if !simple || matches!(follows, Some(b'\'' | b'"')) {
                    return None;
                }
                (Token::Literal(inside), end + 2)
            }
            b'`' => (Token::Name, tail.iter().position(|&byte| byte == b'`')? + 2),
            b'0'..=b'9' => {
                let size =
                    rest.iter().take_while(|byte| byte.is_ascii_digit() || **byte == b'.').count();
                if rest.get(size).is_some_and(|&byte| is_word(byte)) {
                    return None;
                }
                (Token::Number, size)
            }
            byte if is_word(byte) => {
                let size = rest.iter().take_while(|byte| is_word(**byte)).count();
                (Token::Word(rest.get(..size)?), size)
            }
            b'(' | b')' | b',' | b'.' | b'-' => (Token::Sign(first), 1),
            _ => return None,
        };
        *tokens.get_mut(count)? = token;
        count += 1;
        rest = rest.get(size..)?;
    }
}

/// Skips white space and plain comments; `None` at an executable or unclosed comment.
fn skip_blank(mut text: &[u8]) -> Option<&[u8]> {
    loop {
        match text {
            [space, rest @ ..] if is_space(*space) => text = rest,
            [b'/', b'*', b'!' | b'M', ..] => return None,
            [b'/', b'*', rest @ ..] => {
                let end = rest.windows(2).position(|pair| pair == b"*/")?;
                text = rest.get(end + 2..)?;
            }
            [b'#', rest @ ..] | [b'-', b'-', b' ' | b'\t' | b'\n', rest @ ..] => {
                // The line's end may be the byte that made `--` a comment.
                let line = if text.starts_with(b"--") { text.get(2..)? } else { rest };
                let end = line.iter().position(|&byte| byte == b'\n').unwrap_or(line.len());
                text = line.get(end..)?;
            }
            _ => return Some(text),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exact_statements_are_recognized_whatever_their_case_spaces_and_comments() {
        let cases: [(&str, Op); 12] = [
            ("unlock  TABLES ;", Op::UnlockTables),
            ("UNLOCK TABLES -- done", Op::UnlockTables),
            ("begin", Op::BeginTransaction),
            ("BEGIN /* app */ WORK;;", Op::BeginTransaction),
            ("BACKUP UNLOCK", Op::BackupUnlock),
            ("BACKUP STAGE END", Op::BackupEnd),
            ("HANDLER `a b`.t CLOSE", Op::HandlerClose),
            ("SELECT GET_LOCK('job', 10)", Op::GetLock),
            ("do get_lock('job',-1.5)", Op::GetLock),
            ("select get_lock ( 'job' , 0 ) as `got it` ; # x", Op::GetLock),
            ("SELECT RELEASE_LOCK('job') AS x", Op::ReleaseLock),
            ("DO RELEASE_ALL_LOCKS()", Op::ReleaseAllLocks),
        ];
        for (text, op) in cases {
            assert_eq!(parse(text.as_bytes()).map(|(op, _)| op), Some(op), "{text}");
        }
    }

    #[test]
    fn anything_else_is_not_exact() {
        for text in [
            "SELECT GET_LOCK('a', 1), 2",
            "SELECT GET_LOCK('a', 1) FROM t",
            "SELECT GET_LOCK('a' 'b', 1)",
            "SELECT GET_LOCK('a''b', 1)",
            "SELECT GET_LOCK('a\\'', 1)",
            "SELECT GET_LOCK(\"a\", 1)",
            "SELECT GET_LOCK(@n, 1)",
            "SELECT RELEASE_LOCK('a') FROM t",
            "UNLOCK TABLES; SELECT 1",
            "UNLOCK /*!50000 TABLES */",
            "BEGIN NOT ATOMIC SELECT 1; END",
            "HANDLER t READ i = ('close')",
            "BACKUP STAGE END x",
        ] {
            assert_eq!(parse(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn the_name_decides_the_hash() {
        let name = |text: &str| parse(text.as_bytes()).map(|(_, name)| name);
        assert_eq!(name("DO GET_LOCK('a', 1)"), name("SELECT RELEASE_LOCK('a')"));
        assert_ne!(name("DO GET_LOCK('a', 1)"), name("SELECT RELEASE_LOCK('A')"));
    }
}
