//! Packet framing: a 3-byte length, a sequence number, the payload; a payload of 0xFFFFFF bytes is
//! continued by the next packet. Cost is per packet and per chunk, never per payload byte.

use super::protocol::FULL_PACKET;

/// One step through a stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Piece<'a> {
    /// A logical packet begins; `len` is the length of its first physical packet.
    Start { len: u32, sequence: u8 },
    /// Payload bytes, never empty; a logical packet's headers in between are left out.
    Data(&'a [u8]),
    /// The logical packet is complete.
    End,
}

/// The position in one direction of a connection. Plain data.
#[derive(Clone, Debug)]
#[repr(C)]
pub(super) struct Frames {
    header: [u8; 4],
    /// Payload bytes of the physical packet still to come; meaningful in the body.
    left: u32,
    have: u8,
    in_body: bool,
    /// The physical packet is full, so a continuation follows it.
    full: bool,
    /// Between a full packet and its continuation.
    continued: bool,
}

impl Frames {
    pub(super) const fn new() -> Frames {
        Frames { header: [0; 4], have: 0, left: 0, in_body: false, full: false, continued: false }
    }

    /// Whether the next byte begins a logical packet.
    pub(super) const fn idle(&self) -> bool {
        self.have == 0 && !self.in_body && !self.continued
    }

    /// Takes the next piece off the front of `bytes`; `None` when more bytes are needed.
    pub(super) fn next<'a>(&mut self, bytes: &mut &'a [u8]) -> Option<Piece<'a>> {
        loop {
            if !self.in_body {
                let begins = self.header_complete(bytes)?;
                if begins {
                    return Some(Piece::Start { len: self.left, sequence: self.header[3] });
                }
                continue;
            }
            if self.left > 0 {
                if bytes.is_empty() {
                    return None;
                }
                let take = usize::try_from(self.left).unwrap_or(usize::MAX).min(bytes.len());
                let (data, rest) = bytes.split_at(take);
                *bytes = rest;
                // `take` is at most `left`, a 24-bit number, so the conversion loses nothing.
                self.left -= take as u32;
                return Some(Piece::Data(data));
            }
            self.in_body = false;
            self.continued = self.full;
            if !self.full {
                return Some(Piece::End);
            }
        }
    }

    /// Collects a header; `Some(true)` when a logical packet begins with it, `None` when it is
    /// incomplete.
    fn header_complete(&mut self, bytes: &mut &[u8]) -> Option<bool> {
        if self.have == 0
            && let Some((header, rest)) = bytes.split_first_chunk()
        {
            self.header = *header;
            *bytes = rest;
            self.have = 4;
        }
        while self.have < 4 {
            let (&byte, rest) = bytes.split_first()?;
            *bytes = rest;
            if let Some(slot) = self.header.get_mut(usize::from(self.have)) {
                *slot = byte;
            }
            self.have += 1;
        }
        let [low, middle, high, _] = self.header;
        self.have = 0;
        self.left = u32::from_le_bytes([low, middle, high, 0]);
        self.full = self.left == FULL_PACKET;
        self.in_body = true;
        Some(!self.continued)
    }
}

/// The payload of the packet at the front of `bytes`, and the bytes after it. `None` unless the
/// whole packet is there and none continues it.
pub(super) fn whole(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (header, rest) = bytes.split_first_chunk()?;
    let len = u32::from_le_bytes(*header) & FULL_PACKET;
    if len == FULL_PACKET { None } else { rest.split_at_checked(len as usize) }
}

/// Takes up to `most` whole packets off the front of `bytes`, as long as their first byte exists
/// and is below `below`; returns how many. Most bytes that a server sends are rows, and only their
/// number matters.
pub(super) fn skip(bytes: &mut &[u8], most: u32, below: u8) -> u32 {
    let mut count = 0;
    while count < most
        && let Some((payload, rest)) = whole(bytes)
        && payload.first().is_some_and(|&first| first < below)
    {
        *bytes = rest;
        count += 1;
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;

    fn starts_and_ends(bytes: &[u8], chunk: usize) -> (Vec<(u32, u8)>, usize, usize) {
        let mut frames = Frames::new();
        let (mut starts, mut ends, mut payload) = (Vec::new(), 0, 0);
        for mut part in bytes.chunks(chunk) {
            while let Some(piece) = frames.next(&mut part) {
                match piece {
                    Piece::Start { len, sequence } => starts.push((len, sequence)),
                    Piece::Data(data) => payload += data.len(),
                    Piece::End => ends += 1,
                }
            }
        }
        (starts, ends, payload)
    }

    #[test]
    fn two_packets_in_any_chunking() {
        let bytes = [1, 0, 0, 0, 0x0E, 2, 0, 0, 7, 1, 2];
        for chunk in 1..=bytes.len() {
            assert_eq!(
                starts_and_ends(&bytes, chunk),
                (vec![(1, 0), (2, 7)], 2, 3),
                "chunks of {chunk}"
            );
        }
    }

    #[test]
    fn an_empty_packet_ends_at_its_header() {
        assert_eq!(starts_and_ends(&[0, 0, 0, 5], 4), (vec![(0, 5)], 1, 0));
    }

    #[test]
    fn a_full_packet_and_its_empty_continuation_are_one() {
        let mut bytes = vec![0xFF, 0xFF, 0xFF, 0];
        bytes.resize(4 + FULL_PACKET as usize, 3);
        bytes.extend([0, 0, 0, 1]);
        assert_eq!(
            starts_and_ends(&bytes, 1 << 20),
            (vec![(FULL_PACKET, 0)], 1, FULL_PACKET as usize)
        );
    }
}
