//! What the words of an SQL text tell: what the statement may take, what it releases, whether it
//! may pass.
//!
//! The words come in order from `lexer`, which has skipped nothing that could be a statement. A
//! two-word statement (LOCK TABLES, XA START, …) is noticed wherever its second word follows its
//! first, as comments may stand between.

use super::command::{PassReason, RequestClass};
use super::keywords::{Word, is_space};
use super::locks::{Effect, NO_NAME, Name, Op, Takes};
use super::statement;

/// How far the source of a text PREPARE is a plain literal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Source {
    Unseen,
    Expected,
    Inside(u8),
    /// After a quote that ends the literal, or is the first of a doubled one.
    Quote(u8),
    Ended,
    /// An expression, a variable, a concatenation, or a literal with escapes: the text that runs is
    /// not the one that is seen.
    Dynamic,
}

/// Words of two-word statements whose first word was seen where a statement may start.
mod seen {
    pub(super) const LOCK: u8 = 1;
    pub(super) const FLUSH: u8 = 1 << 1;
    pub(super) const BACKUP: u8 = 1 << 2;
    pub(super) const XA: u8 = 1 << 3;
    pub(super) const HANDLER: u8 = 1 << 4;
}

/// The facts about one text so far.
#[derive(Clone, Copy, Debug)]
pub(super) struct LockEffects {
    pub(super) first: Word,
    /// The second word if nothing but white space stands before it, else `Other`.
    second: Word,
    words: u8,
    takes: Takes,
    seen: u8,
    source: Source,
    /// The client may send several statements in one text.
    pub(super) multi: bool,
    /// Every word may start a statement.
    every: bool,
    /// The text follows attribute values without a border, so a word may begin with the end of a
    /// value.
    pub(super) glued: bool,
    /// The text may not be what it seems: it never passes and never releases.
    unsure: bool,
    /// What precedes the next word could end a statement.
    starts: bool,
    semicolon: bool,
    /// Something follows a semicolon.
    more: bool,
    /// Something other than white space stands between the first two words.
    gap: bool,
    /// ... and it could be a comment.
    gap_comment: bool,
    /// RELEASE_LOCK or GET_LOCK was mentioned.
    user_lock: bool,
    /// The text is an EXECUTE.
    executes: bool,
    /// A PREPARE or EXECUTE IMMEDIATE whose source is no literal was seen.
    dynamic: bool,
    /// The text was longer than was read.
    pub(super) over: bool,
}

impl LockEffects {
    pub(super) const fn new(multi: bool) -> LockEffects {
        LockEffects {
            first: Word::None,
            second: Word::None,
            words: 0,
            takes: Takes::NONE,
            seen: 0,
            source: Source::Unseen,
            multi,
            every: false,
            glued: false,
            unsure: false,
            starts: false,
            semicolon: false,
            more: false,
            gap: false,
            gap_comment: false,
            user_lock: false,
            executes: false,
            dynamic: false,
            over: false,
        }
    }

    /// From here on every word may start a statement.
    pub(super) fn distrust(&mut self) {
        self.every = true;
        self.unsure = true;
        self.takes = self.takes.with(Takes::MAY_BEGIN).with(Takes::COMPOUND);
    }

    /// A byte inside a word.
    pub(super) fn inside_word(&mut self, byte: u8) {
        self.more |= self.semicolon;
        self.source(byte);
    }

    /// A byte between words.
    pub(super) fn between_words(&mut self, byte: u8) {
        self.source(byte);
        self.separator(byte);
    }

    fn separator(&mut self, byte: u8) {
        match byte {
            b';' => {
                self.semicolon = true;
                self.starts = true;
                return;
            }
            b'/' | b'!' | b':' | b'\n' => self.starts = true,
            _ if is_space(byte) => {}
            _ => self.starts = false,
        }
        if !is_space(byte) {
            self.more |= self.semicolon;
            if self.words == 1 {
                self.gap = true;
                self.gap_comment |= matches!(byte, b'/' | b'-' | b'#');
            }
        }
    }

    /// A word is complete; `version`: it is a number. True when from here on only function names
    /// matter.
    pub(super) fn word(&mut self, word: Word, version: bool) -> bool {
        self.words = self.words.saturating_add(1);
        let opens = self.words == 1 && !self.unsure;
        if opens {
            self.first = word;
        }
        if self.words == 2 {
            self.second = if self.gap { Word::Other } else { word };
        }
        self.mention(word);
        self.second_word(word);
        let candidate = opens || self.every || self.multi && self.semicolon && self.starts;
        if candidate {
            self.statement_start(word, opens);
        }
        // `/*!50000 LOCK`: the version stands between the comment's mark and the statement.
        self.starts &= version;
        if opens { self.opened(word) } else { self.later_word(word) }
    }

    /// A word that may begin with bytes of an attribute's value: its end may start a statement.
    pub(super) fn glued_word(&mut self, word: Option<&[u8]>) {
        let Some(word) = word else {
            self.seen = u8::MAX;
            return;
        };
        let starts: [(&[u8], u8); 5] = [
            (b"lock", seen::LOCK),
            (b"flush", seen::FLUSH),
            (b"backup", seen::BACKUP),
            (b"xa", seen::XA),
            (b"handler", seen::HANDLER),
        ];
        for (start, bit) in starts {
            if word.ends_with(start) {
                self.seen |= bit;
            }
        }
        if word.ends_with(b"execute") {
            self.takes = self.takes.with(Takes::UNKNOWN);
        }
        self.dynamic |= word.ends_with(b"prepare");
    }

    /// Functions count wherever they are mentioned.
    pub(super) fn mention(&mut self, word: Word) {
        match word {
            Word::GetLock => {
                self.takes = self.takes.with(Takes::USER_LOCK);
                self.user_lock = true;
            }
            Word::ReleaseLock => self.user_lock = true,
            Word::LockService => self.takes = self.takes.with(Takes::UNKNOWN),
            _ => {}
        }
    }

    fn second_word(&mut self, word: Word) {
        let has = |bit: u8| self.seen & bit != 0;
        let takes = match word {
            Word::Tables if has(seen::LOCK) => Takes::TABLES,
            Word::Instance if has(seen::LOCK) => Takes::INSTANCE,
            // Percona's LOCK TABLES FOR BACKUP ends with UNLOCK TABLES only, not with a
            // transaction.
            Word::Backup if has(seen::LOCK) => Takes::READ_LOCK,
            Word::Lock | Word::Export if has(seen::FLUSH) => {
                Takes::READ_LOCK.with(if has(seen::BACKUP) && word == Word::Lock {
                    Takes::BACKUP_LOCK
                } else {
                    Takes::NONE
                })
            }
            Word::Lock if has(seen::BACKUP) => Takes::BACKUP_LOCK,
            Word::Stage if has(seen::BACKUP) => Takes::BACKUP_STAGE,
            Word::Start | Word::Begin if has(seen::XA) => Takes::XA,
            Word::Open if has(seen::HANDLER) => Takes::HANDLER,
            _ => return,
        };
        self.takes = self.takes.with(takes);
    }

    fn statement_start(&mut self, word: Word, opens: bool) {
        match word {
            Word::Lock => self.seen |= seen::LOCK,
            Word::Flush => self.seen |= seen::FLUSH,
            Word::Backup => self.seen |= seen::BACKUP,
            Word::Xa => self.seen |= seen::XA,
            Word::Handler => self.seen |= seen::HANDLER,
            Word::Call => self.takes = self.takes.with(Takes::MAY_BEGIN),
            Word::Execute => {
                self.takes = self.takes.with(Takes::MAY_BEGIN);
                if opens {
                    self.executes = true;
                } else {
                    self.takes = self.takes.with(Takes::UNKNOWN);
                }
            }
            Word::Prepare if !opens => self.dynamic = true,
            Word::Begin if !opens => self.every = true,
            _ => {}
        }
    }

    fn opened(&mut self, first: Word) -> bool {
        match first {
            Word::Write
            | Word::Plain
            | Word::Select
            | Word::Do
            | Word::Call
            | Word::Commit
            | Word::Rollback
            | Word::Tables => return true,
            Word::Prepare | Word::Execute => self.every = true,
            Word::Set
            | Word::Lock
            | Word::Unlock
            | Word::Flush
            | Word::Backup
            | Word::Xa
            | Word::Start
            | Word::Begin => {}
            Word::Handler | Word::Kill | Word::Shutdown => {}
            // Labels, compound statements and all unknown ones.
            _ => self.distrust(),
        }
        false
    }

    fn later_word(&mut self, word: Word) -> bool {
        match (self.first, word) {
            // SET STATEMENT variable = value FOR any statement; also as a later statement of the
            // text.
            (_, Word::Statement) => self.every = true,
            (Word::Set, _) if self.words == 2 && !self.gap_comment => return true,
            // BEGIN NOT ATOMIC statements END.
            (Word::Begin, _) if word != Word::Work => {
                self.every = true;
                self.takes = self.takes.with(Takes::MAY_BEGIN).with(Takes::COMPOUND);
            }
            (Word::Prepare, Word::From) | (Word::Execute, Word::Immediate)
                if self.source == Source::Unseen =>
            {
                self.source = Source::Expected
            }
            _ => {}
        }
        false
    }

    /// Follows the source of a PREPARE … FROM or EXECUTE IMMEDIATE, byte by byte.
    fn source(&mut self, byte: u8) {
        self.source = match (self.source, byte) {
            (Source::Unseen, _) => return,
            (Source::Expected, b'\'' | b'"') => Source::Inside(byte),
            (Source::Inside(_), b'\\') => Source::Dynamic,
            (Source::Inside(quote), _) => {
                if byte == quote {
                    Source::Quote(quote)
                } else {
                    Source::Inside(quote)
                }
            }
            (Source::Quote(quote), _) if byte == quote => Source::Inside(quote),
            (Source::Expected, _) if is_space(byte) => Source::Expected,
            (Source::Quote(_) | Source::Ended, _) if is_space(byte) || byte == b';' => {
                Source::Ended
            }
            _ => Source::Dynamic,
        };
    }

    /// The class, once no further byte can change it.
    pub(super) fn class_so_far(&self) -> Option<RequestClass> {
        let may_pass = matches!(self.first, Word::None | Word::Kill | Word::Shutdown | Word::Xa);
        (self.unsure || self.over || !may_pass).then_some(RequestClass::Gated)
    }

    /// The class of the complete text.
    pub(super) fn class(&self) -> RequestClass {
        if self.unsure || self.over || self.more {
            return RequestClass::Gated;
        }
        match (self.first, self.second) {
            (Word::Kill, _) => RequestClass::Pass(PassReason::Kill),
            (Word::Shutdown, _) => RequestClass::Pass(PassReason::Shutdown),
            (Word::Xa, Word::Commit | Word::Rollback | Word::Recover) => {
                RequestClass::Pass(PassReason::XaFinish)
            }
            _ => RequestClass::Gated,
        }
    }

    /// The text is complete.
    pub(super) fn finish(&mut self) {
        if self.source != Source::Unseen && !matches!(self.source, Source::Quote(_) | Source::Ended)
        {
            self.dynamic = true;
        }
    }

    /// Whether a later text EXECUTE may run a text that was never seen.
    pub(super) const fn is_dynamic(&self) -> bool {
        self.dynamic
    }

    /// What the complete text does. `text`: all of it from its first keyword on, if it is short.
    /// `dynamic`: a text PREPARE of this connection had a source that was not a literal.
    pub(super) fn effect(&self, dynamic: bool, text: Option<&[u8]>) -> Effect {
        let mut takes = self.takes;
        if self.over && self.first != Word::Write {
            takes = takes.with(Takes::UNKNOWN).with(Takes::MAY_BEGIN);
        }
        if self.more && self.multi {
            takes = takes.with(Takes::MAY_BEGIN).with(Takes::COMPOUND);
        }
        if matches!(self.first, Word::Prepare | Word::Execute) {
            let unseen = self.executes && (dynamic || self.dynamic);
            if unseen || takes.any(Takes::LOCKS) {
                takes = takes.with(Takes::UNKNOWN);
            }
        }
        let Some((op, name)) = self.release(text) else {
            return Effect { takes, op: Op::None, name: NO_NAME };
        };
        let counted = match op {
            Op::GetLock => Takes::USER_LOCK,
            Op::BackupEnd => Takes::BACKUP_STAGE,
            _ => Takes::NONE,
        };
        Effect { takes: takes.without(counted), op, name }
    }

    /// The release, or the GET_LOCK by name, if the whole text is exactly one.
    fn release(&self, text: Option<&[u8]>) -> Option<(Op, Name)> {
        if self.unsure || self.over || self.more {
            return None;
        }
        match (self.first, self.second) {
            (Word::Xa, Word::Commit | Word::Rollback) => Some((Op::XaFinish, NO_NAME)),
            (Word::Start, Word::Transaction) => Some((Op::BeginTransaction, NO_NAME)),
            (Word::Unlock | Word::Begin | Word::Backup | Word::Handler, _) => {
                statement::parse(text?)
            }
            (Word::Select | Word::Do, _) if self.user_lock => statement::parse(text?),
            _ => None,
        }
    }
}
