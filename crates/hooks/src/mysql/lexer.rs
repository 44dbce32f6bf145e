//! Reads SQL text as it arrives and says what the statement may take, and whether it may pass the
//! gate.
//!
//! Three modes, in this order, each entered at a position that depends on the text alone and never
//! on its chunks:
//!
//! 1. `Lead` skips white space and comments in front of the first keyword. No string can stand
//!    there, so comments are really comments. An executable comment, or anything odd, makes the
//!    text *unsure*: every word may be a statement.
//! 2. `Plain`, after a first keyword that takes nothing itself (SELECT, INSERT, …): only function
//!    names with `_l` in them matter, and `;` if the client may send several statements. A
//!    vectorized search jumps from one to the next.
//! 3. `Words`, for all other texts and after a `;`: word by word. Quotes and comments are not
//!    believed, because a wrong guess about them could hide a statement. A word counts as the start
//!    of a statement if what stands before it could end one. That is `;`, the `/` of a comment's
//!    end, a line's end, the `!` of an executable comment, or a label's `:`.
//!
//! Example: `SELECT ';'; lock tables t read`: `Plain` up to the first `;`, then the words `lock`,
//! after a `;`, and `tables`: takes LOCK TABLES. The `;` inside the string only made `Words` begin
//! earlier.
//!
//! Work is bounded: 64 KiB in `Lead` and `Words`, 1 MiB in `Plain`. Longer texts count as taking
//! something unknown. INSERT, REPLACE, UPDATE and LOAD are exempt, as they are mostly data: their
//! first 64 KiB count.

use super::command::RequestClass;
use super::keywords::{
    WORD_MAX, Word, classify, classify_common, find_candidate, is_space, is_word,
};
use super::lock_effects::LockEffects;
use super::locks::Effect;

const WORDS_LIMIT: u32 = 64 << 10;
const PLAIN_LIMIT: u32 = 1 << 20;
/// Longest text, from its first keyword, that can be an exact statement.
const EXACT_MAX: usize = 128;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Mode {
    /// MySQL's query attributes: the bytes 0 and 1 when there are none.
    Attributes,
    AttributeSets,
    Lead(Lead),
    Words,
    Plain,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Lead {
    Blank,
    Slash,
    Opened,
    OpenedM,
    Comment,
    Star,
    Dash,
    Dashes,
    Line,
}

/// The scanner of one command's text.
#[derive(Clone, Debug)]
pub(super) struct Scan {
    mode: Mode,
    facts: LockEffects,
    word: [u8; WORD_MAX],
    /// Above WORD_MAX: the word is too long to matter.
    word_len: u8,
    at: u32,
    text: [u8; EXACT_MAX],
    /// Above EXACT_MAX: the text is too long to be exact.
    text_len: u8,
}

impl Scan {
    pub(super) const fn new() -> Scan {
        Scan {
            mode: Mode::Lead(Lead::Blank),
            facts: LockEffects::new(false),
            word: [0; WORD_MAX],
            word_len: 0,
            at: 0,
            text: [0; EXACT_MAX],
            text_len: 0,
        }
    }

    /// Begins a text. `multi`: several statements may come; `attributes`: MySQL's query attributes
    /// precede it.
    pub(super) fn begin(&mut self, multi: bool, attributes: bool) {
        // The buffers keep their bytes: their lengths tell what is valid, and clearing 160 bytes
        // for each statement would cost time.
        self.mode = if attributes { Mode::Attributes } else { Mode::Lead(Lead::Blank) };
        self.facts = LockEffects::new(multi);
        self.word_len = 0;
        self.at = 0;
        self.text_len = 0;
    }

    /// Takes the next chunk of the text.
    pub(super) fn feed(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() && !self.facts.over {
            let limit = match (self.mode, self.facts.first) {
                (Mode::Plain, first) if first != Word::Write => PLAIN_LIMIT,
                _ => WORDS_LIMIT,
            };
            let room = usize::try_from(limit.saturating_sub(self.at)).unwrap_or(0);
            let window = bytes.get(..room).unwrap_or(bytes);
            if window.is_empty() {
                self.facts.over = true;
                return;
            }
            let used = match self.mode {
                Mode::Attributes | Mode::AttributeSets => self.attributes(window),
                Mode::Lead(lead) => self.lead(lead, window),
                Mode::Words => self.words(window),
                Mode::Plain => self.plain(window),
            };
            // `window` is at most 1 MiB.
            self.at += used as u32;
            bytes = bytes.get(used..).unwrap_or(&[]);
        }
    }

    fn attributes(&mut self, bytes: &[u8]) -> usize {
        let byte = bytes.first().copied();
        match (self.mode, byte) {
            (Mode::Attributes, Some(0)) => self.mode = Mode::AttributeSets,
            (Mode::AttributeSets, Some(1)) => self.mode = Mode::Lead(Lead::Blank),
            // Attribute values may have any bytes, so finding where the text starts is not worth
            // it.
            _ => {
                self.facts.glued = true;
                self.distrust();
            }
        }
        1
    }

    fn distrust(&mut self) {
        self.mode = Mode::Words;
        self.facts.distrust();
    }

    fn lead(&mut self, mut lead: Lead, bytes: &[u8]) -> usize {
        for (index, &byte) in bytes.iter().enumerate() {
            lead = match (lead, byte) {
                (Lead::Blank, b'/') => Lead::Slash,
                (Lead::Blank, b'-') => Lead::Dash,
                (Lead::Blank, b'#') => Lead::Line,
                (Lead::Blank, b'(') => Lead::Blank,
                (Lead::Blank, _) if is_space(byte) || byte > 0x7F => Lead::Blank,
                (Lead::Blank, _) if is_word(byte) => {
                    self.mode = Mode::Words;
                    return index + self.common_first_word(bytes.get(index..).unwrap_or(&[]));
                }
                (Lead::Slash, b'*') => Lead::Opened,
                (Lead::Opened, b'M') => Lead::OpenedM,
                (Lead::Opened | Lead::OpenedM | Lead::Comment | Lead::Star, b'*') => Lead::Star,
                (Lead::Star, b'/') => Lead::Blank,
                (Lead::Opened | Lead::OpenedM, b'!') => {
                    self.distrust();
                    return index + 1;
                }
                (Lead::Opened | Lead::OpenedM | Lead::Comment | Lead::Star, _) => Lead::Comment,
                (Lead::Dash, b'-') => Lead::Dashes,
                (Lead::Dashes | Lead::Line, b'\n') => Lead::Blank,
                (Lead::Dashes, 0..=b' ') | (Lead::Line, _) => Lead::Line,
                _ => {
                    self.distrust();
                    return index;
                }
            };
        }
        self.mode = Mode::Lead(lead);
        bytes.len()
    }

    /// A shortcut past the first keyword if it is a common one and all of it is here; returns its
    /// length, else 0.
    fn common_first_word(&mut self, bytes: &[u8]) -> usize {
        let Some(size) = bytes.iter().take(9).position(|byte| !is_word(*byte)) else {
            return 0;
        };
        let text = bytes.get(..size).unwrap_or(&[]);
        let Some(word) = classify_common(text) else {
            return 0;
        };
        if self.facts.word(word, false) {
            self.mode = Mode::Plain;
        }
        self.keep(text);
        size
    }

    /// Remembers the text from its first keyword on, in case it is an exact statement.
    fn keep(&mut self, bytes: &[u8]) {
        let have = usize::from(self.text_len);
        if self.facts.first == Word::Write || have > EXACT_MAX {
            return;
        }
        match self.text.get_mut(have..have + bytes.len()) {
            Some(free) => {
                free.copy_from_slice(bytes);
                // At most EXACT_MAX, so it fits.
                self.text_len = (have + bytes.len()) as u8;
            }
            None => self.text_len = EXACT_MAX as u8 + 1,
        }
    }

    fn push(&mut self, byte: u8) {
        match self.word.get_mut(usize::from(self.word_len)) {
            Some(slot) => {
                *slot = byte.to_ascii_lowercase();
                self.word_len += 1;
            }
            None => self.word_len = WORD_MAX as u8 + 1,
        }
    }

    /// The meaning of the word that just ended.
    fn pop(&mut self) -> Word {
        let len = usize::from(core::mem::take(&mut self.word_len));
        self.word.get(..len).map_or(Word::Other, classify)
    }

    fn words(&mut self, bytes: &[u8]) -> usize {
        for (index, &byte) in bytes.iter().enumerate() {
            if is_word(byte) {
                self.push(byte);
                self.facts.inside_word(byte);
                continue;
            }
            if self.word_len > 0 {
                self.word_ended();
                if self.mode == Mode::Plain {
                    self.keep(bytes.get(..index).unwrap_or(&[]));
                    return index;
                }
            }
            self.facts.between_words(byte);
        }
        self.keep(bytes);
        bytes.len()
    }

    fn word_ended(&mut self) {
        let text = self.word.get(..usize::from(self.word_len));
        let version = text.is_some_and(|word| word.iter().all(u8::is_ascii_digit));
        if self.facts.glued {
            self.facts.glued_word(text);
        }
        let word = self.pop();
        if self.facts.word(word, version) {
            self.mode = Mode::Plain;
        }
    }

    fn plain(&mut self, bytes: &[u8]) -> usize {
        let mut at = 0;
        if self.word_len > 0 {
            // A word that the last chunk cut.
            while let Some(&byte) = bytes.get(at).filter(|byte| is_word(**byte)) {
                self.push(byte);
                at += 1;
            }
            if at == bytes.len() {
                self.keep(bytes);
                return at;
            }
            let word = self.pop();
            self.facts.mention(word);
        }
        loop {
            let rest = bytes.get(at..).unwrap_or(&[]);
            let Some(found) = find_candidate(rest, self.facts.multi) else {
                break;
            };
            if rest.get(found) == Some(&b';') {
                let used = at + found + 1;
                self.facts.between_words(b';');
                self.mode = Mode::Words;
                self.keep(bytes.get(..used).unwrap_or(&[]));
                return used;
            }
            let back = rest
                .get(..found)
                .unwrap_or(&[])
                .iter()
                .rev()
                .take_while(|byte| is_word(**byte))
                .count();
            let size =
                rest.get(found..).unwrap_or(&[]).iter().take_while(|byte| is_word(**byte)).count();
            if found + size == rest.len() {
                at += found - back;
                break;
            }
            let word = self.word_of(rest.get(found - back..found + size).unwrap_or(&[]));
            self.facts.mention(word);
            at += found + size;
        }
        let rest = bytes.get(at..).unwrap_or(&[]);
        let cut = rest.iter().rev().take_while(|byte| is_word(**byte)).take(WORD_MAX + 1).count();
        for &byte in rest.get(rest.len() - cut..).unwrap_or(&[]) {
            self.push(byte);
        }
        self.keep(bytes);
        bytes.len()
    }

    fn word_of(&mut self, bytes: &[u8]) -> Word {
        for &byte in bytes.get(..WORD_MAX + 1).unwrap_or(bytes) {
            self.push(byte);
        }
        self.pop()
    }

    /// The text is complete.
    pub(super) fn finish(&mut self) {
        if self.word_len > 0 {
            if self.mode == Mode::Plain {
                let word = self.pop();
                self.facts.mention(word);
            } else {
                self.word_ended();
            }
        }
        self.facts.finish();
    }

    /// The class, once no further byte can change it.
    pub(super) fn class_so_far(&self) -> Option<RequestClass> {
        self.facts.class_so_far()
    }

    /// The class of the complete text.
    pub(super) fn class(&self) -> RequestClass {
        self.facts.class()
    }

    /// Whether a later text EXECUTE may run a text that was never seen.
    pub(super) const fn is_dynamic(&self) -> bool {
        self.facts.is_dynamic()
    }

    /// What the complete text does; see [`LockEffects::effect`].
    pub(super) fn effect(&self, dynamic: bool) -> Effect {
        self.facts.effect(dynamic, self.text.get(..usize::from(self.text_len)))
    }
}
