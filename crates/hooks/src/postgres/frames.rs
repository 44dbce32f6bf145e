//! Message framing: a type byte, a length that counts itself, the body. Cost is per message and per
//! chunk, never per body byte.

/// Longest message: what the server can allocate at once (its MaxAllocSize).
const LENGTH_MAX: u32 = 0x3FFF_FFFF;

/// One step through a stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Piece<'a> {
    /// A message begins.
    Start { kind: u8 },
    /// Bytes of its body, never empty.
    Data(&'a [u8]),
    /// The length is not possible.
    Invalid,
}

/// The position in one direction of a connection. Plain data.
#[derive(Clone, Debug)]
pub(super) struct Frames {
    header: [u8; 5],
    have: u8,
    in_body: bool,
    /// Bytes of the body still to come.
    left: u32,
}

impl Frames {
    pub(super) const fn new() -> Frames {
        Frames { header: [0; 5], have: 0, in_body: false, left: 0 }
    }

    /// Whether the next byte begins a message.
    pub(super) const fn idle(&self) -> bool {
        self.have == 0 && !self.in_body
    }

    /// Takes the next piece off the front of `bytes`; `None` when more bytes are needed. After each
    /// piece the message may be at its [end](Frames::take_end).
    pub(super) fn next<'a>(&mut self, bytes: &mut &'a [u8]) -> Option<Piece<'a>> {
        if self.in_body {
            if bytes.is_empty() {
                return None;
            }
            let take = usize::try_from(self.left).unwrap_or(usize::MAX).min(bytes.len());
            let (data, rest) = bytes.split_at(take);
            *bytes = rest;
            // `take` is at most `left`, so the conversion loses nothing.
            self.left -= take as u32;
            return Some(Piece::Data(data));
        }
        while usize::from(self.have) < self.header.len() {
            let (&byte, rest) = bytes.split_first()?;
            *bytes = rest;
            if let Some(slot) = self.header.get_mut(usize::from(self.have)) {
                *slot = byte;
            }
            self.have += 1;
        }
        let [kind, length @ ..] = self.header;
        self.have = 0;
        let Some(len) = body_length(length) else { return Some(Piece::Invalid) };
        self.left = len;
        self.in_body = true;
        Some(Piece::Start { kind })
    }

    /// Whether the message that the last piece belonged to is complete; if so, the next byte begins
    /// another.
    pub(super) fn take_end(&mut self) -> bool {
        let ends = self.in_body && self.left == 0;
        self.in_body &= !ends;
        ends
    }
}

fn body_length(length: [u8; 4]) -> Option<u32> {
    let length = u32::from_be_bytes(length);
    (4..=LENGTH_MAX).contains(&length).then(|| length - 4)
}

/// Kind and body of the message at the front of `bytes`, and the bytes after it; `None` unless all
/// of it is there.
pub(super) fn whole(bytes: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let ([kind, length @ ..], rest) = bytes.split_first_chunk::<5>()?;
    let (body, rest) = rest.split_at_checked(body_length(*length)? as usize)?;
    Some((*kind, body, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_in_any_chunking() {
        let bytes = [b'Q', 0, 0, 0, 6, b'x', 0, b'S', 0, 0, 0, 4];
        for chunk in 1..=bytes.len() {
            let mut frames = Frames::new();
            let (mut starts, mut ends, mut body) = (Vec::new(), 0, 0);
            for mut part in bytes.chunks(chunk) {
                while let Some(piece) = frames.next(&mut part) {
                    match piece {
                        Piece::Start { kind } => starts.push(kind),
                        Piece::Data(data) => body += data.len(),
                        Piece::Invalid => panic!("chunks of {chunk}"),
                    }
                    ends += u32::from(frames.take_end());
                }
            }
            assert_eq!((starts, ends, body), (vec![b'Q', b'S'], 2, 2), "chunks of {chunk}");
            assert!(frames.idle());
        }
    }

    #[test]
    fn a_length_that_cannot_be_one_is_refused() {
        for length in [[0, 0, 0, 3], [0xFF; 4], [0x40, 0, 0, 0]] {
            let mut bytes = &[&b"Q"[..], &length].concat()[..];
            assert_eq!(Frames::new().next(&mut bytes), Some(Piece::Invalid));
            assert_eq!(whole(&[&b"Q"[..], &length].concat()), None);
        }
    }

    #[test]
    fn a_whole_message_is_taken_at_once() {
        let bytes = [b'Z', 0, 0, 0, 5, b'I', 9];
        assert_eq!(whole(&bytes), Some((b'Z', &b"I"[..], &[9][..])));
        assert_eq!(whole(&bytes[..5]), None);
    }
}
