//! Cutting the server's bytes into answers.

/// First bytes of an answer that are kept.
const HEAD: usize = 24;

/// Longest number in a line: more digits are not a length.
const DIGITS_MAX: u32 = 20;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum At {
    /// The type of an element.
    Type,
    /// In a line whose text does not matter.
    Text,
    /// In a number that tells how much follows.
    Number,
    /// In a string of known length, or the two bytes after it.
    Body,
}

/// A complete answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Reply {
    /// The type of its outermost element.
    pub(super) kind: u8,
    /// Its first bytes after the type, line ends included.
    head: [u8; HEAD],
    have: u8,
    /// The last number in it: in a confirmed unsubscription, how many channels are left.
    pub(super) last_number: i64,
}

impl Reply {
    /// Its first bytes after the type.
    pub(super) fn head(&self) -> &[u8] {
        self.head.get(..usize::from(self.have)).unwrap_or(&[])
    }

    /// Whether it is the simple string `text`.
    pub(super) fn is(&self, text: &[u8]) -> bool {
        self.kind == b'+'
            && self.head().strip_prefix(text).is_some_and(|rest| rest.starts_with(b"\r"))
    }

    pub(super) fn is_error(&self) -> bool {
        matches!(self.kind, b'-' | b'!')
    }
}

/// What a piece of the stream was.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Piece {
    /// An answer is complete.
    Reply,
    /// A complete message that is not an answer.
    Push,
    /// Bytes that fit no answer.
    Invalid,
}

/// The position in the server's stream. Plain data of fixed size.
#[derive(Clone, Debug)]
pub(super) struct Replies {
    at: At,
    element: u8,
    negative: bool,
    digits: u32,
    number: u64,
    /// Bytes of the string still to come, with its line end.
    left: u64,
    /// Elements of the answer still to come, with the current one; zero between answers.
    elements: u64,
    reply: Reply,
}

impl Replies {
    pub(super) const fn new() -> Replies {
        Replies {
            at: At::Type,
            element: 0,
            negative: false,
            digits: 0,
            number: 0,
            left: 0,
            elements: 0,
            reply: Reply { kind: 0, head: [0; HEAD], have: 0, last_number: 0 },
        }
    }

    /// Whether the next byte begins an answer.
    pub(super) fn idle(&self) -> bool {
        self.at == At::Type && self.elements == 0
    }

    /// The answer that the last piece completed.
    pub(super) fn reply(&self) -> &Reply {
        &self.reply
    }

    /// Takes bytes off the front up to the end of an answer; `None` when more are needed.
    pub(super) fn next(&mut self, bytes: &mut &[u8]) -> Option<Piece> {
        loop {
            if self.at == At::Body {
                if bytes.is_empty() {
                    return None;
                }
                let take = usize::try_from(self.left).unwrap_or(usize::MAX).min(bytes.len());
                let (data, rest) = bytes.split_at(take);
                *bytes = rest;
                self.note(data);
                self.left -= take as u64;
                if self.left > 0 {
                    return None;
                }
                if let Some(piece) = self.end_element(0) {
                    return Some(piece);
                }
                continue;
            }
            let (&byte, rest) = bytes.split_first()?;
            *bytes = rest;
            if self.at == At::Type && self.elements == 0 && byte == b'\n' {
                // A heartbeat that the server sends while it prepares a long answer.
                continue;
            }
            match self.byte(byte) {
                Ok(None) => {}
                Ok(Some(piece)) => return Some(piece),
                Err(()) => {
                    *self = Replies::new();
                    return Some(Piece::Invalid);
                }
            }
        }
    }

    fn note(&mut self, data: &[u8]) {
        for &byte in data.iter().take(HEAD - usize::from(self.reply.have).min(HEAD)) {
            if let Some(slot) = self.reply.head.get_mut(usize::from(self.reply.have)) {
                *slot = byte;
                self.reply.have += 1;
            }
        }
    }

    fn byte(&mut self, byte: u8) -> Result<Option<Piece>, ()> {
        if self.at == At::Type {
            self.begin_element(byte)?;
            return Ok(None);
        }
        self.note(&[byte]);
        match byte {
            b'\n' => self.end_line(),
            _ if self.at == At::Text => Ok(None),
            b'\r' => Ok(None),
            b'-' if self.digits == 0 => {
                self.negative = true;
                Ok(None)
            }
            b'0'..=b'9' if self.digits < DIGITS_MAX => {
                self.digits += 1;
                self.number = self.number.wrapping_mul(10).wrapping_add(u64::from(byte - b'0'));
                Ok(None)
            }
            _ => Err(()),
        }
    }

    fn begin_element(&mut self, kind: u8) -> Result<(), ()> {
        self.at = match kind {
            b'+' | b'-' | b'_' | b'#' | b',' | b'(' => At::Text,
            b':' | b'$' | b'*' | b'=' | b'!' | b'%' | b'~' | b'>' | b'|' => At::Number,
            _ => return Err(()),
        };
        (self.element, self.negative, self.digits, self.number) = (kind, false, 0, 0);
        if self.elements == 0 {
            self.elements = 1;
            (self.reply.kind, self.reply.have) = (kind, 0);
        } else {
            self.note(&[kind]);
        }
        Ok(())
    }

    fn end_line(&mut self) -> Result<Option<Piece>, ()> {
        if self.at == At::Number && self.digits == 0 {
            return Err(());
        }
        let count = if self.negative { 0 } else { self.number };
        let more = match self.element {
            b':' => {
                self.reply.last_number =
                    (self.number as i64).wrapping_mul(if self.negative { -1 } else { 1 });
                0
            }
            b'$' | b'=' | b'!' if !self.negative => {
                self.at = At::Body;
                self.left = count.saturating_add(2);
                return Ok(None);
            }
            b'*' | b'~' | b'>' => count,
            b'%' => count.saturating_mul(2),
            // The element that it describes follows: it is not one itself.
            b'|' => count.saturating_mul(2).saturating_add(1),
            _ => 0,
        };
        if more > 1 << 40 {
            return Err(());
        }
        Ok(self.end_element(more))
    }

    fn end_element(&mut self, more: u64) -> Option<Piece> {
        self.at = At::Type;
        self.elements = self.elements.saturating_sub(1).saturating_add(more);
        if self.elements > 0 {
            return None;
        }
        Some(if self.reply.kind == b'>' { Piece::Push } else { Piece::Reply })
    }

    /// For tests: all state that decides what later bytes mean.
    pub(super) fn meaning(&self) -> String {
        if self.idle() {
            return "idle".to_owned();
        }
        format!(
            "{:?}",
            (
                self.at,
                self.element,
                self.negative,
                self.number,
                self.left,
                self.elements,
                self.reply.head()
            )
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(bytes: &[u8], chunk: usize) -> Vec<(Piece, u8)> {
        let mut replies = Replies::new();
        let mut seen = Vec::new();
        for mut part in bytes.chunks(chunk) {
            while let Some(piece) = replies.next(&mut part) {
                seen.push((piece, replies.reply().kind));
            }
        }
        seen
    }

    #[test]
    fn answers_of_every_type_in_any_chunking() {
        let bytes = b"+OK\r\n-ERR x\r\n:-5\r\n$3\r\na\nb\r\n$-1\r\n*2\r\n*1\r\n:1\r\n$0\r\n\r\n*-1\r\n*0\r\n\n_\r\n#t\r\n,1.5\r\n(12\r\n\
            =7\r\ntxt:abc\r\n!3\r\nERR\r\n%1\r\n+k\r\n*1\r\n:1\r\n~1\r\n:2\r\n>2\r\n+a\r\n+b\r\n|1\r\n+k\r\n+v\r\n:7\r\n";
        let kinds = b"+-:$$***_#,(=!%~>|";
        for chunk in 1..=bytes.len() {
            let seen = cut(bytes, chunk);
            assert_eq!(
                seen.iter().map(|(_, kind)| *kind).collect::<Vec<_>>(),
                kinds,
                "chunks of {chunk}"
            );
            let pushes = seen.iter().filter(|(piece, _)| *piece == Piece::Push).count();
            assert_eq!(pushes, 1);
        }
    }

    #[test]
    fn simple_strings_are_compared_whole() {
        let mut replies = Replies::new();
        let mut bytes = &b"+OKAY\r\n+OK\r\n"[..];
        replies.next(&mut bytes);
        assert!(!replies.reply().is(b"OK"));
        replies.next(&mut bytes);
        assert!(replies.reply().is(b"OK"));
    }

    #[test]
    fn what_is_no_answer_is_noticed() {
        for bytes in [
            &b"hello\r\n"[..],
            b"$\r\n",
            b"*x\r\n",
            b":99999999999999999999999\r\n",
            b"*9999999999999999\r\n",
        ] {
            assert_eq!(cut(bytes, 1).first().unwrap().0, Piece::Invalid, "{bytes:?}");
        }
    }
}
