//! Walks through one document and stops at the elements that matter.
//!
//! Source: the BSON 1.1 specification. All numbers are little-endian; a document's length counts
//! its own four bytes and the zero byte at its end.

/// How deep nested documents are followed.
const DEPTH: usize = 4;

/// Bytes of an element's name that are kept: all known names are shorter.
const NAME: usize = 40;

/// Bytes of a value that are kept: enough for the account in a login.
const KEPT: usize = 128;

/// Length and end of an empty document.
const EMPTY: u32 = 5;

mod kind {
    pub(super) const DOUBLE: u8 = 0x01;
    pub(super) const STRING: u8 = 0x02;
    pub(super) const DOCUMENT: u8 = 0x03;
    pub(super) const ARRAY: u8 = 0x04;
    pub(super) const BINARY: u8 = 0x05;
    pub(super) const BOOL: u8 = 0x08;
    pub(super) const REGEX: u8 = 0x0B;
    pub(super) const POINTER: u8 = 0x0C;
    pub(super) const CODE: u8 = 0x0D;
    pub(super) const SYMBOL: u8 = 0x0E;
    pub(super) const CODE_WITH_SCOPE: u8 = 0x0F;
    pub(super) const INT32: u8 = 0x10;
    pub(super) const INT64: u8 = 0x12;

    /// Bytes of a value of fixed size.
    pub(super) const fn size(kind: u8) -> Option<u32> {
        match kind {
            // Undefined, null, and the least and the greatest key.
            0x06 | 0x0A | 0xFF | 0x7F => Some(0),
            BOOL => Some(1),
            INT32 => Some(4),
            // Dates and timestamps, too.
            DOUBLE | 0x09 | 0x11 | INT64 => Some(8),
            // An object's id.
            0x07 => Some(12),
            // A decimal.
            0x13 => Some(16),
            _ => None,
        }
    }
}

/// The document that the walk is in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Within {
    Command,
    Reply,
    /// `lsid`.
    Session,
    /// `client` of a `hello`.
    Client,
    /// `client.application`.
    Application,
    /// `speculativeAuthenticate`, from either side.
    Login,
    /// `pipeline` of an aggregation.
    Pipeline,
    /// Its first stage.
    Stage,
    /// `cursor` of an answer.
    Cursor,
    /// `errorLabels` of an answer.
    Labels,
}

/// An element that matters.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Field {
    /// The command's first element: its name is the command's.
    Name,
    SessionId,
    TxnNumber,
    StartTransaction,
    Autocommit,
    Database,
    MaxTime,
    Tailable,
    AwaitData,
    ChangeStream,
    Application,
    Mechanism,
    Payload,
    User,
    Ok,
    Done,
    CursorId,
    Label,
}

enum Interest {
    Skip,
    Keep(Field),
    Into(Within),
}

fn interest(within: Within, name: &[u8], kind: u8, first: bool) -> Interest {
    use Interest::{Into, Keep, Skip};
    match (within, kind) {
        (Within::Command, kind::DOCUMENT) if first => match name {
            // Older drivers wrap a command that has a read preference.
            b"$query" | b"query" => Into(Within::Command),
            _ => Keep(Field::Name),
        },
        (Within::Command, _) if first => Keep(Field::Name),
        (Within::Command, kind::DOCUMENT) => match name {
            b"lsid" => Into(Within::Session),
            b"client" => Into(Within::Client),
            b"speculativeAuthenticate" => Into(Within::Login),
            _ => Skip,
        },
        (Within::Command, kind::ARRAY) if name == b"pipeline" => Into(Within::Pipeline),
        (Within::Command, _) => match name {
            b"txnNumber" => Keep(Field::TxnNumber),
            b"startTransaction" => Keep(Field::StartTransaction),
            b"autocommit" => Keep(Field::Autocommit),
            b"$db" => Keep(Field::Database),
            b"maxTimeMS" => Keep(Field::MaxTime),
            b"tailable" => Keep(Field::Tailable),
            b"awaitData" => Keep(Field::AwaitData),
            b"mechanism" => Keep(Field::Mechanism),
            b"payload" => Keep(Field::Payload),
            b"user" => Keep(Field::User),
            _ => Skip,
        },
        (Within::Session, kind::BINARY) if name == b"id" => Keep(Field::SessionId),
        (Within::Client, kind::DOCUMENT) if name == b"application" => Into(Within::Application),
        (Within::Application, kind::STRING) if name == b"name" => Keep(Field::Application),
        (Within::Login, _) => match name {
            b"mechanism" => Keep(Field::Mechanism),
            b"payload" => Keep(Field::Payload),
            b"user" => Keep(Field::User),
            b"done" => Keep(Field::Done),
            _ => Skip,
        },
        (Within::Pipeline, kind::DOCUMENT) if name == b"0" => Into(Within::Stage),
        (Within::Stage, _) if name == b"$changeStream" => Keep(Field::ChangeStream),
        (Within::Reply, kind::DOCUMENT) => match name {
            b"cursor" => Into(Within::Cursor),
            b"speculativeAuthenticate" => Into(Within::Login),
            _ => Skip,
        },
        (Within::Reply, kind::ARRAY) if name == b"errorLabels" => Into(Within::Labels),
        (Within::Reply, _) => match name {
            b"ok" => Keep(Field::Ok),
            b"done" => Keep(Field::Done),
            b"user" => Keep(Field::User),
            _ => Skip,
        },
        (Within::Cursor, _) if name == b"id" => Keep(Field::CursorId),
        (Within::Labels, kind::STRING) => Keep(Field::Label),
        _ => Skip,
    }
}

/// What a walk comes to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Step {
    /// The end of an element that matters.
    Element(Field),
    /// The end of the document.
    End,
    /// Not a valid document. What follows is meaningless.
    Invalid,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum At {
    /// Before or in the length of a document.
    Length,
    Kind,
    Name,
    /// In the length of a value.
    ValueLength,
    Value,
    /// In a regular expression: this many zero bytes are still to come.
    Strings(u8),
}

/// The walk; it can stop after any byte.
#[derive(Clone, Debug)]
pub(super) struct Walk {
    at: At,
    /// Bytes of a number so far.
    number: [u8; 4],
    have: u8,
    /// Open documents, and for each the bytes still to come, without those of nested documents.
    depth: u8,
    within: [Within; DEPTH],
    left: [u32; DEPTH],
    /// The next element is the first of its command.
    first: bool,
    kind: u8,
    name: [u8; NAME],
    name_length: u8,
    field: Option<Field>,
    /// The value's bytes still to come, and its first bytes.
    value_left: u32,
    value_length: u32,
    kept: [u8; KEPT],
    kept_length: u8,
}

impl Walk {
    /// A walk that has not begun.
    pub(super) const fn new() -> Walk {
        Walk {
            at: At::Length,
            number: [0; 4],
            have: 0,
            depth: 0,
            within: [Within::Command; DEPTH],
            left: [0; DEPTH],
            first: false,
            kind: 0,
            name: [0; NAME],
            name_length: 0,
            field: None,
            value_left: 0,
            value_length: 0,
            kept: [0; KEPT],
            kept_length: 0,
        }
    }

    /// Begins at a document of at most this many bytes.
    pub(super) fn begin(&mut self, root: Within, limit: u32) {
        (self.at, self.have, self.depth) = (At::Length, 0, 0);
        (self.within[0], self.left[0], self.first) = (root, limit, root == Within::Command);
    }

    /// Goes on to the next element that matters; `None` at the end of the bytes.
    pub(super) fn next(&mut self, rest: &mut &[u8]) -> Option<Step> {
        loop {
            let step = match self.at {
                At::Length => self.length(rest)?,
                At::Kind => self.element(rest)?,
                At::Name => self.name_byte(rest)?,
                At::ValueLength => self.value_length(rest)?,
                At::Value => self.value(rest)?,
                At::Strings(left) => self.strings(rest, left)?,
            };
            if let Some(step) = step {
                return Some(step);
            }
        }
    }

    /// Name of the last element, cut if it is longer than all known names.
    pub(super) fn name(&self) -> &[u8] {
        self.name.get(..usize::from(self.name_length)).unwrap_or(&[])
    }

    /// The bytes of a string or of binary data, cut to what is kept; `None` for other types.
    pub(super) fn bytes(&self) -> Option<&[u8]> {
        let kept = self.kept.get(..usize::from(self.kept_length))?;
        match self.kind {
            // Without the zero byte at its end.
            kind::STRING => kept.get(..kept.len().min(self.value_length.checked_sub(1)? as usize)),
            // Without the byte that says what kind of data it is.
            kind::BINARY => kept.get(1..),
            _ => None,
        }
    }

    /// The value as a whole number; `None` for other types.
    pub(super) fn integer(&self) -> Option<i64> {
        match self.kind {
            kind::INT32 => {
                self.kept.first_chunk().map(|&bytes| i64::from(i32::from_le_bytes(bytes)))
            }
            kind::INT64 => self.kept.first_chunk().map(|&bytes| i64::from_le_bytes(bytes)),
            // Saturates: only an invalid number is out of range.
            kind::DOUBLE => self.kept.first_chunk().map(|&bytes| f64::from_le_bytes(bytes) as i64),
            _ => None,
        }
    }

    /// Whether the value is true, or a number other than zero.
    pub(super) fn is_true(&self) -> bool {
        match self.kind {
            kind::BOOL => self.kept[0] != 0,
            _ => self.integer().is_some_and(|number| number != 0),
        }
    }

    fn top(&mut self) -> &mut u32 {
        &mut self.left[usize::from(self.depth) % DEPTH]
    }

    /// Bytes that an element of the open document may have, without the end of the document.
    fn room(&mut self) -> u32 {
        self.top().saturating_sub(1)
    }

    fn collect(&mut self, rest: &mut &[u8]) -> Option<u32> {
        while let Some((&byte, after)) = rest.split_first() {
            *rest = after;
            self.number[usize::from(self.have) % 4] = byte;
            self.have += 1;
            if self.have == 4 {
                self.have = 0;
                return Some(u32::from_le_bytes(self.number));
            }
        }
        None
    }

    fn length(&mut self, rest: &mut &[u8]) -> Option<Option<Step>> {
        let limit = *self.top();
        if limit < EMPTY {
            return Some(Some(Step::Invalid));
        }
        let length = self.collect(rest)?;
        if !(EMPTY..=limit).contains(&length) {
            return Some(Some(Step::Invalid));
        }
        *self.top() = length - 4;
        if let Some(parent) = usize::from(self.depth).checked_sub(1)
            && let Some(left) = self.left.get_mut(parent)
        {
            // The length was checked against the room left.
            *left = left.saturating_sub(length);
        }
        self.at = At::Kind;
        Some(None)
    }

    fn element(&mut self, rest: &mut &[u8]) -> Option<Option<Step>> {
        let (&byte, after) = rest.split_first()?;
        *rest = after;
        // At least one byte is left: elements leave room for the end.
        *self.top() = self.room();
        let over = *self.top() == 0;
        if (byte == 0) != over {
            return Some(Some(Step::Invalid));
        }
        if over {
            if self.depth == 0 {
                return Some(Some(Step::End));
            }
            self.depth -= 1;
            return Some(None);
        }
        (self.kind, self.name_length, self.at) = (byte, 0, At::Name);
        Some(None)
    }

    fn name_byte(&mut self, rest: &mut &[u8]) -> Option<Option<Step>> {
        let (&byte, after) = rest.split_first()?;
        *rest = after;
        if self.room() == 0 {
            return Some(Some(Step::Invalid));
        }
        *self.top() -= 1;
        if byte == 0 {
            return Some(self.begin_value());
        }
        if let Some(place) = self.name.get_mut(usize::from(self.name_length)) {
            *place = byte;
            self.name_length += 1;
        }
        Some(None)
    }

    fn begin_value(&mut self) -> Option<Step> {
        let within = self.within[usize::from(self.depth) % DEPTH];
        let first = core::mem::take(&mut self.first);
        let interest = interest(within, self.name(), self.kind, first);
        (self.field, self.kept_length) = (None, 0);
        match interest {
            Interest::Skip => {}
            Interest::Keep(field) => self.field = Some(field),
            Interest::Into(within) if usize::from(self.depth) + 1 < DEPTH => {
                let room = self.room();
                if room < EMPTY {
                    return Some(Step::Invalid);
                }
                self.depth += 1;
                self.within[usize::from(self.depth) % DEPTH] = within;
                *self.top() = room;
                self.first = within == Within::Command;
                self.at = At::Length;
                return None;
            }
            Interest::Into(_) => {}
        }
        if let Some(size) = kind::size(self.kind) {
            return self.value_of(size);
        }
        self.at = match self.kind {
            kind::REGEX => At::Strings(2),
            kind::STRING
            | kind::DOCUMENT
            | kind::ARRAY
            | kind::BINARY
            | kind::POINTER
            | kind::CODE
            | kind::SYMBOL
            | kind::CODE_WITH_SCOPE => At::ValueLength,
            _ => return Some(Step::Invalid),
        };
        None
    }

    fn value_of(&mut self, size: u32) -> Option<Step> {
        let room = self.room();
        if size > room {
            return Some(Step::Invalid);
        }
        *self.top() -= size;
        (self.value_left, self.value_length, self.at) = (size, size, At::Value);
        None
    }

    fn value_length(&mut self, rest: &mut &[u8]) -> Option<Option<Step>> {
        if self.room() < 4 {
            return Some(Some(Step::Invalid));
        }
        let length = self.collect(rest)?;
        *self.top() -= 4;
        let size = match self.kind {
            kind::DOCUMENT | kind::ARRAY | kind::CODE_WITH_SCOPE => length.checked_sub(4),
            // What kind of data it is.
            kind::BINARY => length.checked_add(1),
            // An object's id follows.
            kind::POINTER => length.checked_add(12),
            _ => Some(length),
        };
        Some(match size {
            Some(size) => self.value_of(size),
            None => Some(Step::Invalid),
        })
    }

    fn value(&mut self, rest: &mut &[u8]) -> Option<Option<Step>> {
        if self.value_left > 0 && rest.is_empty() {
            return None;
        }
        let take = rest.len().min(self.value_left as usize);
        let (value, after) = rest.split_at(take);
        *rest = after;
        // No more than is left.
        self.value_left -= take as u32;
        if self.field.is_some() {
            self.keep(value);
        }
        if self.value_left > 0 {
            return Some(None);
        }
        self.at = At::Kind;
        Some(self.field.take().map(Step::Element))
    }

    fn keep(&mut self, value: &[u8]) {
        let have = usize::from(self.kept_length);
        let count = value.len().min(KEPT - have.min(KEPT));
        if let (Some(to), Some(from)) = (self.kept.get_mut(have..have + count), value.get(..count))
        {
            to.copy_from_slice(from);
            // At most KEPT in all.
            self.kept_length += count as u8;
        }
    }

    fn strings(&mut self, rest: &mut &[u8], left: u8) -> Option<Option<Step>> {
        let (&byte, after) = rest.split_first()?;
        *rest = after;
        if self.room() == 0 {
            return Some(Some(Step::Invalid));
        }
        *self.top() -= 1;
        self.at = match left {
            _ if byte != 0 => At::Strings(left),
            2 => At::Strings(1),
            _ => {
                // The name of a command may have any value.
                self.at = At::Kind;
                return Some(self.field.take().map(Step::Element));
            }
        };
        Some(None)
    }
}
