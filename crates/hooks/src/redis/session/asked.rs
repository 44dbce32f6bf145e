//! Identities that the commands in flight ask for.

use crate::identity::{Identity, InlineStr};

/// Which command asked for this identity.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum By {
    /// No pending command.
    None,
    /// The command being parsed.
    InHand,
    /// The command whose answer has this number.
    Answer(u32),
}

/// A name, and the command that asked for it. Of several commands in flight the last one counts, so
/// an answer never grants what another command asked for. A client that sends two logins at once is
/// known by the second, or by neither.
#[derive(Clone, Copy, Debug)]
pub(super) struct Name {
    text: InlineStr,
    by: By,
}

impl Name {
    const NONE: Name = Name { text: InlineStr::new(), by: By::None };

    /// The current command asks for it.
    pub(super) fn ask(&mut self, text: InlineStr) {
        *self = Name { text, by: By::InHand };
    }

    /// The current command is complete. `answer` is the number of its answer, if that is awaited.
    fn close(&mut self, answer: Option<u32>) {
        if self.by == By::InHand {
            match answer {
                Some(number) => self.by = By::Answer(number),
                None => *self = Name::NONE,
            }
        }
    }

    /// The answer of this number has come. Returns what its command asked for.
    fn answered(&mut self, number: u32) -> Option<InlineStr> {
        (self.by == By::Answer(number)).then(|| core::mem::replace(self, Name::NONE).text)
    }
}

/// The names that a connection has.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked {
    pub(super) account: Name,
    pub(super) database: Name,
    pub(super) application: Name,
}

impl Asked {
    pub(super) const fn new() -> Asked {
        Asked { account: Name::NONE, database: Name::NONE, application: Name::NONE }
    }

    /// The current command is complete. `answer` is the number of its answer, if that is awaited.
    pub(super) fn close(&mut self, answer: Option<u32>) {
        for name in [&mut self.account, &mut self.database, &mut self.application] {
            name.close(answer);
        }
    }

    /// The answer of this number grants what its command asked for. Returns who the client is then.
    pub(super) fn answered(&mut self, number: u32, now: Identity) -> Identity {
        Identity {
            account: self.account.answered(number).unwrap_or(now.account),
            database: self.database.answered(number).unwrap_or(now.database),
            application: self.application.answered(number).unwrap_or(now.application),
        }
    }
}
