//! Replies of the transmission phase, from results to bytes. Pure.

use super::export::{BLOCK_BYTES_MIN, Mode};
use super::wire::{
    BASE_ALLOCATION_ID, EXTENDED_REPLY_MAGIC, Error, REPLY_DONE, SIMPLE_REPLY_MAGIC,
    STRUCTURED_REPLY_MAGIC, chunk, state,
};
use crate::buffer::Buffer;
use crate::store::Extent;

/// Longest extent in a compact reply: the longest 32-bit length of whole blocks.
const EXTENT_BYTES_MAX: u64 = (u32::MAX - u32::MAX % BLOCK_BYTES_MIN) as u64;

/// Room for the longest head: an extended header and the fixed part of an error.
const HEAD_BYTES: usize = 40;

/// The part of a reply after its head.
#[derive(Debug)]
pub enum Body {
    /// Nothing.
    None,
    /// The bytes that were read.
    Data(Buffer),
    /// Words of an error.
    Words(&'static str),
    /// Extents.
    Bytes(Vec<u8>),
}

/// One reply as it goes to the client: head, then body.
#[derive(Debug)]
pub struct Reply {
    head: [u8; HEAD_BYTES],
    head_len: usize,
    body: Body,
}

/// Whose reply it is.
#[derive(Clone, Copy, Debug)]
pub struct To {
    /// Form of the connection's replies.
    pub mode: Mode,
    /// The request's cookie, chosen by the client.
    pub cookie: u64,
    /// The request's offset.
    pub offset: u64,
}

impl Reply {
    /// Head and body; either may be empty.
    pub fn parts(&self) -> [&[u8]; 2] {
        let body: &[u8] = match &self.body {
            Body::None => &[],
            Body::Data(buffer) => buffer,
            Body::Words(words) => words.as_bytes(),
            Body::Bytes(bytes) => bytes,
        };
        [&self.head[..self.head_len], body]
    }

    /// Bytes of head and body.
    pub fn wire_bytes(&self) -> usize {
        self.parts().iter().map(|part| part.len()).sum()
    }

    /// Success without data.
    pub fn done(to: To) -> Reply {
        match to.mode {
            // Anything but a read may have a simple reply, which is shorter.
            Mode::Simple | Mode::Structured => Reply::simple(to, 0, Body::None),
            Mode::Extended => Reply::chunk(to, chunk::NONE, 0, Body::None),
        }
    }

    /// A read that succeeded.
    pub fn data(to: To, data: Buffer) -> Reply {
        if to.mode == Mode::Simple {
            return Reply::simple(to, 0, Body::Data(data));
        }
        if data.is_empty() {
            return Reply::chunk(to, chunk::NONE, 0, Body::None);
        }
        let mut reply = Reply::chunk(to, chunk::OFFSET_DATA, 8 + data.len(), Body::None);
        reply.put(&to.offset.to_be_bytes());
        reply.body = Body::Data(data);
        reply
    }

    /// The answer to a note.
    pub fn note(to: To, answer: Vec<u8>) -> Reply {
        Reply::chunk(to, chunk::NOTE, answer.len(), Body::Bytes(answer))
    }

    /// A request that failed.
    pub fn error(to: To, error: Error, words: &'static str) -> Reply {
        let number = error as u32;
        if to.mode == Mode::Simple {
            return Reply::simple(to, number, Body::None);
        }
        let mut reply = Reply::chunk(to, chunk::ERROR, 6 + words.len(), Body::Words(words));
        reply.put(&number.to_be_bytes());
        let words_len = u16::try_from(words.len()).expect("words of ours are short");
        reply.put(&words_len.to_be_bytes());
        reply
    }

    /// The extents from the request's offset on, cut to `len` bytes; only the first if `one` is
    /// set. They are not empty and cover only whole blocks.
    pub fn extents(to: To, len: u64, one: bool, extents: &[Extent]) -> Reply {
        let extended = to.mode == Mode::Extended;
        let mut left = len;
        let mut count = 0_u32;
        let mut descriptors = Vec::new();
        for extent in extents {
            if left == 0 || (one && count == 1) {
                break;
            }
            let flags = if extent.allocated { 0 } else { state::HOLE | state::ZERO };
            // If a compact reply cannot express the whole extent, it ends there, and the client
            // asks again.
            let most = if extended { u64::MAX } else { EXTENT_BYTES_MAX };
            let here = extent.len.min(left).min(most);
            if extended {
                descriptors.extend(here.to_be_bytes());
                descriptors.extend(u64::from(flags).to_be_bytes());
            } else {
                let short = u32::try_from(here).expect("cut to 32 bits");
                descriptors.extend(short.to_be_bytes());
                descriptors.extend(flags.to_be_bytes());
            }
            count += 1;
            left = if here < extent.len.min(left) { 0 } else { left - here };
        }
        let fixed = if extended { 8 } else { 4 };
        let kind = if extended { chunk::BLOCK_STATUS_EXT } else { chunk::BLOCK_STATUS };
        let mut reply = Reply::chunk(to, kind, fixed + descriptors.len(), Body::Bytes(descriptors));
        reply.put(&BASE_ALLOCATION_ID.to_be_bytes());
        if extended {
            reply.put(&count.to_be_bytes());
        }
        reply
    }

    fn simple(to: To, error: u32, body: Body) -> Reply {
        let mut reply = Reply { head: [0; HEAD_BYTES], head_len: 0, body };
        reply.put(&SIMPLE_REPLY_MAGIC.to_be_bytes());
        reply.put(&error.to_be_bytes());
        reply.put(&to.cookie.to_be_bytes());
        reply
    }

    /// The only chunk of its reply, with `len` bytes after its header.
    fn chunk(to: To, kind: u16, len: usize, body: Body) -> Reply {
        let mut reply = Reply { head: [0; HEAD_BYTES], head_len: 0, body };
        let extended = to.mode == Mode::Extended;
        let magic = if extended { EXTENDED_REPLY_MAGIC } else { STRUCTURED_REPLY_MAGIC };
        reply.put(&magic.to_be_bytes());
        reply.put(&REPLY_DONE.to_be_bytes());
        reply.put(&kind.to_be_bytes());
        reply.put(&to.cookie.to_be_bytes());
        if extended {
            reply.put(&to.offset.to_be_bytes());
            reply.put(&(len as u64).to_be_bytes());
        } else {
            let len = u32::try_from(len).expect("a payload has 32 MiB at most");
            reply.put(&len.to_be_bytes());
        }
        reply
    }

    fn put(&mut self, bytes: &[u8]) {
        let end = self.head_len + bytes.len();
        self.head[self.head_len..end].copy_from_slice(bytes);
        self.head_len = end;
    }
}
