//! One side of a connection, cut into messages and what matters in them.
//!
//! Source: the MongoDB wire protocol; the drivers' specifications of OP_MSG and OP_COMPRESSED.

use super::bson::{Field, Step, Walk, Within};

/// Bytes of a message's header: four numbers.
pub(super) const HEADER: usize = 16;

/// The longest message that a server accepts.
const MESSAGE_MAX: u32 = 48_000_000;

/// Bits of an OP_MSG's flags.
const CHECKSUM_PRESENT: u32 = 1;
const MORE_TO_COME: u32 = 1 << 1;

/// What messages are.
pub(super) mod opcode {
    pub(in super::super) const REPLY: i32 = 1;
    pub(in super::super) const QUERY: i32 = 2004;
    pub(in super::super) const GET_MORE: i32 = 2005;
    pub(in super::super) const KILL_CURSORS: i32 = 2007;
    pub(in super::super) const COMPRESSED: i32 = 2012;
    pub(in super::super) const MSG: i32 = 2013;
}

/// What a header says.
#[derive(Clone, Copy, Debug)]
pub(super) struct Header {
    pub(super) request: i32,
    pub(super) response_to: i32,
    pub(super) opcode: i32,
}

/// What the bytes come to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Piece {
    /// A message's header is complete.
    Header,
    /// An element of its document that matters.
    Field(Field),
    /// The message is complete.
    End,
    /// The bytes are not messages. Final.
    Invalid,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum At {
    Header,
    Flags,
    /// Before a section.
    Section,
    /// In the length of a sequence of documents.
    Length,
    /// In a sequence: this many of its bytes are still to come.
    Sequence(u32),
    /// In the name of OP_QUERY's collection.
    Collection,
    /// This many bytes come before the document of OP_QUERY or OP_REPLY.
    Before(u32),
    Document,
    Rest,
}

/// See the module. It can stop after any byte.
#[derive(Clone, Debug)]
pub(super) struct Messages {
    root: Within,
    at: At,
    bytes: [u8; HEADER],
    have: u8,
    header: Header,
    /// Bytes of the message that are still to come.
    left: u32,
    flags: u32,
    /// Its document was read to the end.
    read: bool,
    walk: Walk,
}

impl Messages {
    /// A parser without any bytes yet; `root` says whose they are.
    pub(super) const fn new(root: Within) -> Messages {
        Messages {
            root,
            at: At::Header,
            bytes: [0; HEADER],
            have: 0,
            header: Header { request: 0, response_to: 0, opcode: 0 },
            left: 0,
            flags: 0,
            read: false,
            walk: Walk::new(),
        }
    }

    /// Whether the next byte begins a message.
    pub(super) fn idle(&self) -> bool {
        self.at == At::Header && self.have == 0
    }

    /// Whether the document of the current message was read to its end.
    pub(super) fn is_read(&self) -> bool {
        self.at != At::Header && self.read
    }

    /// The header of the current message, or the last one.
    pub(super) fn header(&self) -> Header {
        self.header
    }

    /// The bytes of a header.
    pub(super) fn header_bytes(&self) -> &[u8; HEADER] {
        &self.bytes
    }

    /// Whether another answer to the same question follows; from a client: whether no answer is
    /// wanted.
    pub(super) fn more_to_come(&self) -> bool {
        self.header.opcode == opcode::MSG && self.flags & MORE_TO_COME != 0
    }

    /// The element that [`Piece::Field`] reported.
    pub(super) fn element(&self) -> &Walk {
        &self.walk
    }

    /// Goes on to the next piece that matters; `None` at the end of the bytes.
    pub(super) fn next(&mut self, rest: &mut &[u8]) -> Option<Piece> {
        loop {
            match self.at {
                At::Header => {
                    if !self.collect(rest, HEADER) {
                        return None;
                    }
                    return Some(self.begin());
                }
                At::Document => {
                    let before = rest.len();
                    let step = self.walk.next(rest);
                    // At most `left`, which was its limit.
                    self.left = self.left.saturating_sub((before - rest.len()) as u32);
                    match step? {
                        Step::Element(field) => return Some(Piece::Field(field)),
                        Step::Invalid => self.at = At::Rest,
                        Step::End => {
                            self.read = true;
                            let message = self.header.opcode == opcode::MSG;
                            self.at = if message { At::Section } else { At::Rest };
                        }
                    }
                }
                At::Rest => {
                    let left = self.skip(rest, self.left);
                    if left > 0 {
                        return None;
                    }
                    self.at = At::Header;
                    return Some(Piece::End);
                }
                _ => self.at = self.between(rest)?,
            }
        }
    }

    fn begin(&mut self) -> Piece {
        let [l0, l1, l2, l3, r0, r1, r2, r3, t0, t1, t2, t3, o0, o1, o2, o3] = self.bytes;
        let length = u32::from_le_bytes([l0, l1, l2, l3]);
        self.header = Header {
            request: i32::from_le_bytes([r0, r1, r2, r3]),
            response_to: i32::from_le_bytes([t0, t1, t2, t3]),
            opcode: i32::from_le_bytes([o0, o1, o2, o3]),
        };
        (self.flags, self.read) = (0, false);
        if !(HEADER as u32..=MESSAGE_MAX).contains(&length) {
            return Piece::Invalid;
        }
        self.left = length - HEADER as u32;
        self.at = match self.header.opcode {
            opcode::MSG => At::Flags,
            opcode::QUERY => At::Collection,
            // Flags, the cursor's number, where the documents begin and how many there are.
            opcode::REPLY => At::Before(20),
            _ => At::Rest,
        };
        if self.at == At::Collection {
            // Flags come before it.
            self.at = if self.left >= 4 { At::Flags } else { At::Rest };
        }
        Piece::Header
    }

    /// Takes what is neither header nor document; returns the state after it.
    fn between(&mut self, rest: &mut &[u8]) -> Option<At> {
        let checksum = if self.flags & CHECKSUM_PRESENT != 0 { 4 } else { 0 };
        let room = self.left.saturating_sub(checksum);
        Some(match self.at {
            At::Flags if self.left < 4 => At::Rest,
            At::Flags => {
                let flags = self.number(rest)?;
                if self.header.opcode == opcode::MSG {
                    self.flags = flags;
                    At::Section
                } else {
                    At::Collection
                }
            }
            At::Section if room == 0 => At::Rest,
            At::Section => match self.byte(rest)? {
                0 if !self.read => self.document(room - 1),
                1 => At::Length,
                _ => At::Rest,
            },
            At::Length if room < 4 => At::Rest,
            At::Length => match self.number(rest)?.checked_sub(4) {
                Some(left) if left <= room - 4 => At::Sequence(left),
                _ => At::Rest,
            },
            At::Sequence(left) => {
                let left = self.skip(rest, left);
                if left > 0 {
                    self.at = At::Sequence(left);
                    return None;
                }
                At::Section
            }
            At::Collection if self.left == 0 => At::Rest,
            At::Collection => match self.byte(rest)? {
                // Two numbers: how many to skip, and how many to return.
                0 => At::Before(8),
                _ => At::Collection,
            },
            At::Before(left) if left > self.left => At::Rest,
            At::Before(left) => {
                let left = self.skip(rest, left);
                if left > 0 {
                    self.at = At::Before(left);
                    return None;
                }
                self.document(self.left)
            }
            at => at,
        })
    }

    fn document(&mut self, limit: u32) -> At {
        self.walk.begin(self.root, limit);
        At::Document
    }

    /// Collects up to `wanted` bytes; returns whether all are there.
    fn collect(&mut self, rest: &mut &[u8], wanted: usize) -> bool {
        let have = usize::from(self.have).min(wanted);
        let take = (wanted - have).min(rest.len());
        let (some, after) = rest.split_at(take);
        *rest = after;
        if let Some(place) = self.bytes.get_mut(have..have + take) {
            place.copy_from_slice(some);
        }
        let complete = have + take == wanted;
        // At most HEADER.
        self.have = if complete { 0 } else { (have + take) as u8 };
        complete
    }

    /// A number of four bytes, all inside the message.
    fn number(&mut self, rest: &mut &[u8]) -> Option<u32> {
        if !self.collect(rest, 4) {
            return None;
        }
        self.left = self.left.saturating_sub(4);
        let [a, b, c, d, ..] = self.bytes;
        Some(u32::from_le_bytes([a, b, c, d]))
    }

    fn byte(&mut self, rest: &mut &[u8]) -> Option<u8> {
        let (&byte, after) = rest.split_first()?;
        *rest = after;
        self.left = self.left.saturating_sub(1);
        Some(byte)
    }

    /// Skips this many bytes of the message; returns how many are still to come.
    fn skip(&mut self, rest: &mut &[u8], count: u32) -> u32 {
        let take = rest.len().min(count as usize);
        *rest = rest.split_at(take).1;
        // No more than the count.
        let take = take as u32;
        self.left = self.left.saturating_sub(take);
        count - take
    }
}
