//! The words of SQL that matter to the gate.

/// The longest word that [`classify`] knows is `version_tokens_lock_exclusive`.
pub(super) const WORD_MAX: usize = 32;

/// What a word means here. Words of no interest are `Other`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Word {
    /// No word was read.
    None,
    Other,
    /// The first word of a statement that changes many rows and takes no session lock: INSERT,
    /// REPLACE, UPDATE, LOAD.
    Write,
    /// The first word of any other statement that takes no session lock unless its text names one.
    Plain,
    Select,
    Do,
    Call,
    Set,
    Statement,
    Lock,
    Unlock,
    Tables,
    Instance,
    Flush,
    Export,
    Backup,
    Stage,
    Xa,
    Start,
    Begin,
    Work,
    Transaction,
    Commit,
    Rollback,
    Recover,
    Handler,
    Open,
    Kill,
    Shutdown,
    Prepare,
    From,
    Execute,
    Immediate,
    /// GET_LOCK.
    GetLock,
    /// RELEASE_LOCK, RELEASE_ALL_LOCKS.
    ReleaseLock,
    /// The locking service and version tokens of MySQL: locks of other kinds.
    LockService,
}

/// Whether a byte is part of a word. Bytes above 0x7F are not, as some character sets have white
/// space there. Cutting a word at them can only find lock words that the server would not.
pub(crate) const fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'$'
}

/// White space between words, as the server's lexer skips it.
pub(crate) const fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | 0x0B | 0x0C | 0)
}

/// The meaning of a word in lower case. Leading digits are ignored: the server reads `/*!50000LOCK`
/// as version and LOCK.
pub(super) fn classify(word: &[u8]) -> Word {
    let digits = word.iter().take_while(|byte| byte.is_ascii_digit()).count();
    match word.get(digits..).unwrap_or(&[]) {
        b"select" => Word::Select,
        b"insert" | b"replace" | b"update" | b"load" => Word::Write,
        b"commit" => Word::Commit,
        b"rollback" => Word::Rollback,
        b"delete" | b"show" | b"with" | b"use" | b"create" | b"alter" | b"drop" | b"truncate"
        | b"explain" | b"describe" | b"desc" | b"savepoint" | b"release" | b"values" | b"grant"
        | b"revoke" | b"rename" | b"deallocate" | b"optimize" | b"repair" | b"check"
        | b"checksum" | b"purge" | b"change" | b"reset" | b"stop" | b"help" | b"install"
        | b"uninstall" | b"import" => Word::Plain,
        b"do" => Word::Do,
        b"call" => Word::Call,
        b"set" => Word::Set,
        b"statement" => Word::Statement,
        b"lock" => Word::Lock,
        b"unlock" => Word::Unlock,
        b"tables" | b"table" => Word::Tables,
        b"instance" | b"binlog" => Word::Instance,
        b"flush" => Word::Flush,
        b"export" => Word::Export,
        b"backup" => Word::Backup,
        b"stage" => Word::Stage,
        b"xa" => Word::Xa,
        b"start" => Word::Start,
        b"begin" => Word::Begin,
        b"work" => Word::Work,
        b"transaction" => Word::Transaction,
        b"recover" => Word::Recover,
        b"handler" => Word::Handler,
        b"open" => Word::Open,
        b"kill" => Word::Kill,
        b"shutdown" => Word::Shutdown,
        b"prepare" => Word::Prepare,
        b"from" => Word::From,
        b"execute" => Word::Execute,
        b"immediate" => Word::Immediate,
        b"get_lock" => Word::GetLock,
        b"release_lock" | b"release_all_locks" => Word::ReleaseLock,
        b"service_get_read_locks"
        | b"service_get_write_locks"
        | b"version_tokens_lock_shared"
        | b"version_tokens_lock_exclusive" => Word::LockService,
        _ => Word::Other,
    }
}

/// The meaning of the commonest first words, given as they stand in the text; `None` for all
/// others.
///
/// Packed into a register they need no buffer. Storing single bytes and reading them back as one
/// word would stall the processor for longer than the rest of the scan.
pub(super) fn classify_common(word: &[u8]) -> Option<Word> {
    const fn packed(word: &[u8]) -> u64 {
        let (mut value, mut at) = (0, 0);
        while at < word.len() {
            value = value << 8 | (word[at] | 0x20) as u64;
            at += 1;
        }
        value
    }
    const SELECT: u64 = packed(b"select");
    const INSERT: u64 = packed(b"insert");
    const REPLACE: u64 = packed(b"replace");
    const UPDATE: u64 = packed(b"update");
    const DELETE: u64 = packed(b"delete");
    const COMMIT: u64 = packed(b"commit");
    const ROLLBACK: u64 = packed(b"rollback");
    // A word that is too long or has other characters cannot match. `|` maps only the upper case of
    // a letter to it, and no other word character is in that range.
    if word.len() > 8 {
        return None;
    }
    match packed(word) {
        SELECT => Some(Word::Select),
        INSERT | REPLACE | UPDATE => Some(Word::Write),
        DELETE => Some(Word::Plain),
        COMMIT => Some(Word::Commit),
        ROLLBACK => Some(Word::Rollback),
        _ => None,
    }
}

/// The first position of `_` followed by `l` (every function that takes or frees a named lock has
/// it), or of `;` if asked for.
///
/// Eight bytes at a time: a few nanoseconds for an ordinary statement.
pub(crate) fn find_candidate(bytes: &[u8], semicolons: bool) -> Option<usize> {
    let last = bytes.len().checked_sub(1)?;
    let mut at = 0;
    // The last block overlaps the one before, so that every byte is compared in a block.
    while at + BLOCK <= last && !block_has_candidate(bytes, at, semicolons) {
        at = if at + BLOCK == last { last } else { (at + BLOCK).min(last - BLOCK) };
    }
    if at == last && !(semicolons && bytes.last() == Some(&b';')) {
        return None;
    }
    find_bytewise(bytes, at, semicolons)
}

const BLOCK: usize = size_of::<u64>();

/// Whether one of the positions of a block from `at` on is a candidate; the byte after them must
/// exist.
fn block_has_candidate(bytes: &[u8], at: usize, semicolons: bool) -> bool {
    const fn each(byte: u8) -> u64 {
        u64::from_ne_bytes([byte; BLOCK])
    }
    let Some(rest @ [_, next @ ..]) = bytes.get(at..) else { return true };
    let (Some(these), Some(next)) = (rest.first_chunk(), next.first_chunk()) else { return true };
    let (these, next) = (u64::from_ne_bytes(*these), u64::from_ne_bytes(*next));
    // A byte of these is zero where it and the next are the wanted pair, or where a semicolon is.
    let underscore = these ^ each(b'_') | (next | each(0x20)) ^ each(b'l');
    let semicolon = these ^ each(b';') | if semicolons { 0 } else { u64::MAX };
    // A byte's upper bit is borrowed from only if that byte, or a lower one, is zero.
    let zero = |word: u64| word.wrapping_sub(each(1)) & !word;
    (zero(underscore) | zero(semicolon)) & each(0x80) != 0
}

#[cold]
fn find_bytewise(bytes: &[u8], from: usize, semicolons: bool) -> Option<usize> {
    let rest = bytes.get(from..)?;
    let found = rest.iter().enumerate().position(|(index, &byte)| {
        (byte == b'_' && rest.get(index + 1).is_some_and(|after| after | 0x20 == b'l'))
            || (semicolons && byte == b';')
    });
    found.map(|index| from + index)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn candidates_are_found_at_every_offset() {
        for offset in 0..200 {
            let mut text = vec![b'x'; 200];
            text.extend(b"yy");
            text[offset] = b'_';
            text[offset + 1] = b'L';
            assert_eq!(find_candidate(&text, true), Some(offset));
            text[offset] = b';';
            assert_eq!(find_candidate(&text, true), Some(offset));
            assert_eq!(find_candidate(&text, false), None);
        }
    }

    #[test]
    fn common_words_mean_the_same_either_way() {
        for word in ["select", "insert", "replace", "update", "delete", "commit", "rollback"] {
            assert_eq!(classify_common(word.as_bytes()), Some(classify(word.as_bytes())));
            assert_eq!(
                classify_common(word.to_ascii_uppercase().as_bytes()),
                Some(classify(word.as_bytes()))
            );
        }
        for word in ["", "selec", "selects", "xrollback", "lock", "SE_ECT"] {
            assert_eq!(classify_common(word.as_bytes()), None, "{word}");
        }
    }

    #[test]
    fn short_texts_are_searched_to_their_end() {
        for len in 2..80 {
            for offset in 0..len - 1 {
                let mut text = vec![b'x'; len];
                assert_eq!(find_candidate(&text, true), None);
                text[offset] = b'_';
                text[offset + 1] = b'l';
                assert_eq!(find_candidate(&text, false), Some(offset), "{len}");
            }
            let mut text = vec![b'x'; len];
            text[len - 1] = b';';
            assert_eq!(find_candidate(&text, true), Some(len - 1));
        }
    }

    #[test]
    fn a_version_in_front_of_a_word_is_no_part_of_it() {
        assert_eq!(classify(b"50000lock"), Word::Lock);
        assert_eq!(classify(b"100500get_lock"), Word::GetLock);
        assert_eq!(classify(b"unlocked"), Word::Other);
    }
}
