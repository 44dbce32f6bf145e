//! The client's side of a session: what a command asks for, and what the connection will hold after
//! it.

use super::asked::Asked;
use super::{DEFAULT_ACCOUNT, Noted, Session, Word, text};
use crate::holding::Holding;
use crate::redis::command::{Kind, with_second};

impl Session {
    /// A command has come.
    pub(super) fn command(&mut self) {
        self.commands = self.commands.wrapping_add(1);
        if self.kind == Kind::Plain {
            self.expect(1);
            return;
        }
        self.special();
    }

    /// Answers that will come.
    fn expect(&mut self, answers: u32) {
        if !(self.mute || core::mem::take(&mut self.skip)) {
            self.owed = self.owed.wrapping_add(answers);
        }
    }

    #[cold]
    fn special(&mut self) {
        if self.kind == Kind::Auth && self.arguments == 2 {
            // A password alone is for this account.
            self.asked.account.ask(text(DEFAULT_ACCOUNT));
        }
        let noted = self.note();
        self.asked.close(noted);
    }

    /// The number of the answer, if it is awaited.
    fn note(&mut self) -> Option<u32> {
        let answers = match self.kind {
            Kind::Client | Kind::Script | Kind::ClientReply => {
                // Without a second word it is an error, and gets one answer.
                self.kind = Kind::Pass;
                1
            }
            Kind::ReplyOn => {
                (self.mute, self.skip) = (false, false);
                1
            }
            Kind::ReplyOff => {
                self.mute = true;
                0
            }
            Kind::ReplySkip => {
                self.skip = true;
                self.passed = self.passed.wrapping_add(1);
                return None;
            }
            // One message for each channel; the first counts as the answer.
            Kind::Subscribe => u32::from(!self.resp3),
            Kind::Unsubscribe if self.resp3 => 0,
            Kind::Unsubscribe => self.arguments.saturating_sub(1).max(1),
            _ => 1,
        };
        if matches!(
            self.kind,
            Kind::Pass
                | Kind::ReplyOn
                | Kind::ReplyOff
                | Kind::Auth
                | Kind::Hello
                | Kind::SetName
                | Kind::Quit
                | Kind::Reset
        ) {
            self.passed = self.passed.wrapping_add(1);
        }
        if self.stream.is_some() {
            // While messages come, no answer is owed. Only that of `RESET` is awaited, and
            // recognised by its text.
            return None;
        }
        let muted = self.mute || self.skip;
        self.expect(answers);
        let transaction = Holding::TRANSACTION;
        match self.kind {
            Kind::Multi => self.hopes = self.hopes.union(transaction),
            // It is an error inside a transaction. But only the answers will tell whether there is
            // one.
            Kind::Watch if self.hopes.contains(transaction) => {}
            Kind::Watch => self.hopes = self.hopes.union(Holding::WATCH),
            Kind::Unwatch => self.hopes = self.hopes.without(Holding::WATCH),
            Kind::Exec | Kind::Discard | Kind::Reset | Kind::Quit => self.hopes = Holding::NONE,
            Kind::Auth
            | Kind::Hello
            | Kind::Select
            | Kind::SetName
            | Kind::Subscribe
            | Kind::Monitor
            | Kind::Sync => {}
            _ => return None,
        }
        let number = self.owed;
        match self.noted.get_mut(usize::from(self.notes)) {
            Some(place) if !muted && answers > 0 => {
                *place = Noted { number, kind: self.kind };
                self.notes += 1;
                Some(number)
            }
            // No answer will tell whether it succeeded. It counts as successful if it takes
            // something, or cannot fail. A change of identity, or of the kind of the connection,
            // does not count.
            _ => {
                match self.kind {
                    Kind::Reset if self.arguments > 1 => {}
                    kind @ (Kind::Multi
                    | Kind::Watch
                    | Kind::Unwatch
                    | Kind::Exec
                    | Kind::Discard
                    | Kind::Quit
                    | Kind::Reset) => self.done(kind, self.resp3),
                    _ => {}
                }
                None
            }
        }
    }
}

/// What the word after a command's name is.
pub(super) fn first_word(kind: Kind, arguments: u32) -> Word {
    match kind {
        Kind::Client | Kind::Script => Word::Kind,
        // With one argument it is a password.
        Kind::Auth if arguments == 3 => Word::Account,
        Kind::Select => Word::Database,
        Kind::Hello => Word::Version,
        _ => Word::Skip,
    }
}

/// What the word after an argument is.
pub(super) fn argument(kind: &mut Kind, word: Word, bytes: &[u8], asked: &mut Asked) -> Word {
    match word {
        Word::Kind => {
            *kind = with_second(*kind, bytes);
            match kind {
                Kind::SetName => Word::Name,
                Kind::ClientReply => Word::Kind,
                _ => Word::Skip,
            }
        }
        Word::Account => {
            asked.account.ask(text(bytes));
            if *kind == Kind::Hello { Word::Secret } else { Word::Skip }
        }
        Word::Database => {
            asked.database.ask(text(bytes));
            Word::Skip
        }
        Word::Name => {
            asked.application.ask(text(bytes));
            if *kind == Kind::Hello { Word::Option } else { Word::Skip }
        }
        Word::Option if bytes.eq_ignore_ascii_case(b"AUTH") => Word::Account,
        Word::Option if bytes.eq_ignore_ascii_case(b"SETNAME") => Word::Name,
        Word::Version | Word::Option | Word::Secret => Word::Option,
        Word::Skip => Word::Skip,
    }
}
