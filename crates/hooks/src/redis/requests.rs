//! Cutting the client's bytes into commands.

use super::command::NAME_MAX;

/// Longest line that Redis accepts: of an inline command, or of a length.
const LINE_MAX: u32 = 64 << 10;

/// Most arguments of a command (Redis: 1,048,576 by default; a larger number is never right).
const ARGUMENTS_MAX: i64 = i32::MAX as i64;

/// Bytes of an inline command that are kept: enough for a name and short arguments.
const INLINE_KEPT: usize = 128;

/// Bytes of another argument that are kept.
const ARGUMENT_KEPT: usize = 64;

/// One step through the stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Piece {
    /// The [word](Requests::word) is the command's name (cut to one byte more than the longest
    /// known name); `arguments` counts it.
    Name { arguments: u32 },
    /// The word is a later argument that [`Requests::want`] asked for (cut to 64 bytes).
    Argument,
    /// The command is complete.
    End,
    /// Not a command for Redis.
    Invalid,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum At {
    /// A command begins.
    Start,
    /// In the number after `*`.
    Count,
    /// The byte after the carriage return, which Redis ignores.
    CountLf,
    /// The `$` of an argument.
    Dollar,
    /// In the number after `$`.
    Length,
    LengthLf,
    /// In an argument, or the two bytes after it.
    Body,
    /// In an inline command.
    Inline,
    /// The words of an inline command are returned one by one.
    Words,
}

/// The position in the client's stream. Plain data of fixed size.
#[derive(Clone, Debug)]
pub(super) struct Requests {
    at: At,
    negative: bool,
    /// The current argument, or the next one, is to be returned.
    wanted: bool,
    wanted_next: bool,
    number: i64,
    /// Bytes of the line so far, or of the argument with its line end still to come.
    left: u64,
    /// Arguments still to come, with the current one.
    arguments: u32,
    /// The current argument is the name.
    naming: bool,
    line: u32,
    kept: [u8; INLINE_KEPT],
    have: u8,
    /// Where the word lies in the kept bytes. In an inline command, the next word is searched after
    /// it.
    word: (u8, u8),
}

impl Requests {
    pub(super) const fn new() -> Requests {
        Requests {
            at: At::Start,
            negative: false,
            wanted: false,
            wanted_next: false,
            number: 0,
            left: 0,
            arguments: 0,
            naming: false,
            line: 0,
            kept: [0; INLINE_KEPT],
            have: 0,
            word: (0, 0),
        }
    }

    /// Whether the next byte begins a command.
    pub(super) fn idle(&self) -> bool {
        self.at == At::Start
    }

    /// Asks for the next argument of the current command.
    pub(super) fn want(&mut self) {
        self.wanted_next = true;
    }

    /// The word of the last piece.
    pub(super) fn word(&self) -> &[u8] {
        self.kept.get(usize::from(self.word.0)..usize::from(self.word.1)).unwrap_or(&[])
    }

    /// Takes the next piece off the front of `bytes`; `None` when more bytes are needed.
    pub(super) fn next(&mut self, bytes: &mut &[u8]) -> Option<Piece> {
        loop {
            match self.at {
                At::Words => return Some(self.next_word()),
                At::Body => {
                    if self.left == 0 {
                        self.end_argument();
                        if self.at == At::Start {
                            return Some(Piece::End);
                        }
                        continue;
                    }
                    if bytes.is_empty() {
                        return None;
                    }
                    if let Some(piece) = self.body(bytes) {
                        return Some(piece);
                    }
                }
                _ => {
                    let (&byte, rest) = bytes.split_first()?;
                    *bytes = rest;
                    if !self.line_byte(byte) {
                        self.at = At::Start;
                        return Some(Piece::Invalid);
                    }
                }
            }
        }
    }

    /// A byte outside of arguments; `false` if it cannot be there.
    fn line_byte(&mut self, byte: u8) -> bool {
        match self.at {
            At::Start => {
                (self.number, self.negative, self.line, self.have) = (0, false, 0, 0);
                (self.wanted, self.wanted_next) = (false, false);
                self.at = if byte == b'*' { At::Count } else { At::Inline };
                self.at != At::Inline || self.inline_byte(byte)
            }
            At::Count | At::Length => self.number_byte(byte),
            At::CountLf => {
                let none = self.negative || self.number == 0;
                // Redis answers nothing to a command without arguments.
                self.at = if none { At::Start } else { At::Dollar };
                self.naming = true;
                // At most ARGUMENTS_MAX, so it fits.
                self.arguments = self.number as u32;
                none || self.number <= ARGUMENTS_MAX
            }
            At::Dollar => {
                (self.number, self.negative, self.line, self.have) = (0, false, 0, 0);
                self.at = At::Length;
                byte == b'$'
            }
            At::LengthLf => {
                self.at = At::Body;
                // With the line end. Not negative, and at most what a line of digits can express.
                self.left = self.number.unsigned_abs().saturating_add(2);
                !self.negative
            }
            At::Inline => self.inline_byte(byte),
            At::Body | At::Words => true,
        }
    }

    fn number_byte(&mut self, byte: u8) -> bool {
        self.line += 1;
        match byte {
            b'\r' => self.at = if self.at == At::Count { At::CountLf } else { At::LengthLf },
            b'-' if self.line == 1 => self.negative = true,
            b'0'..=b'9' => {
                self.number = self.number.saturating_mul(10).saturating_add(i64::from(byte - b'0'));
            }
            _ => return false,
        }
        self.line <= LINE_MAX
    }

    fn inline_byte(&mut self, byte: u8) -> bool {
        if byte == b'\n' {
            (self.at, self.word, self.naming) = (At::Words, (0, 0), true);
            self.arguments = self.count_words();
            if self.arguments == 0 {
                self.at = At::Start;
            }
            return true;
        }
        if let Some(slot) = self.kept.get_mut(usize::from(self.have)) {
            *slot = byte;
            self.have += 1;
        }
        self.line += 1;
        self.line <= LINE_MAX
    }

    /// Words in the kept part of an inline command: at least one unless the line is blank.
    fn count_words(&self) -> u32 {
        let line = self.kept.get(..usize::from(self.have)).unwrap_or(&[]);
        line.split(|byte| b" \t\r\x0b\x0c\"'".contains(byte))
            .filter(|word| !word.is_empty())
            .count() as u32
    }

    fn next_word(&mut self) -> Piece {
        let line = self.kept.get(..usize::from(self.have)).unwrap_or(&[]);
        loop {
            let rest = line.get(usize::from(self.word.1)..).unwrap_or(&[]);
            let quotes: &[u8] = b"\"'";
            let between = |byte: &&u8| byte.is_ascii_whitespace() || quotes.contains(byte);
            let skipped = rest.iter().take_while(between).count();
            let length = rest.iter().skip(skipped).take_while(|byte| !between(byte)).count();
            // Positions in a line of at most 128 bytes.
            let from = self.word.1 + skipped as u8;
            self.word = (from, from + length as u8);
            if length == 0 {
                self.at = At::Start;
                return Piece::End;
            }
            if core::mem::take(&mut self.naming) {
                self.word.1 = self.word.1.min(from + NAME_MAX as u8 + 1);
                return Piece::Name { arguments: self.arguments };
            }
            if core::mem::take(&mut self.wanted_next) {
                return Piece::Argument;
            }
        }
    }

    /// Bytes of an argument; a piece once all that is wanted of it is there.
    fn body(&mut self, bytes: &mut &[u8]) -> Option<Piece> {
        // The total, without the line end.
        let length = self.number.unsigned_abs();
        let before = length + 2 - self.left;
        let take = usize::try_from(self.left).unwrap_or(usize::MAX).min(bytes.len());
        let (data, rest) = bytes.split_at(take);
        *bytes = rest;
        self.left -= take as u64;
        if !(self.naming || self.wanted) {
            return None;
        }
        let useful = usize::try_from(length.saturating_sub(before)).unwrap_or(usize::MAX);
        let room = if self.naming { NAME_MAX + 1 } else { ARGUMENT_KEPT };
        let have = usize::from(self.have);
        let count = useful.min(take).min(room.saturating_sub(have));
        if let (Some(to), Some(from)) = (self.kept.get_mut(have..have + count), data.get(..count)) {
            to.copy_from_slice(from);
            // At most ARGUMENT_KEPT in all.
            self.have += count as u8;
        }
        if self.left > 2 {
            return None;
        }
        self.word = (0, self.have);
        if core::mem::take(&mut self.naming) {
            return Some(Piece::Name { arguments: self.arguments });
        }
        self.wanted = false;
        Some(Piece::Argument)
    }

    fn end_argument(&mut self) {
        self.wanted = core::mem::take(&mut self.wanted_next);
        self.arguments = self.arguments.saturating_sub(1);
        self.at = if self.arguments == 0 { At::Start } else { At::Dollar };
    }

    /// For tests: all state that decides what later bytes mean.
    pub(super) fn meaning(&self) -> String {
        let kept = self.kept.get(..usize::from(self.have)).unwrap_or(&[]);
        match self.at {
            At::Start => "start".to_owned(),
            At::Inline => format!("inline {kept:?} {}", self.line),
            At::Body => {
                let kept = if self.naming || self.wanted { kept } else { &[] };
                format!("{:?}", (self.left, self.arguments, self.naming, self.wanted, kept))
            }
            _ => format!("{:?}", (self.at, self.number, self.negative, self.arguments, self.line)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The pieces of a stream that is cut into chunks of some size.
    fn cut(bytes: &[u8], chunk: usize) -> Vec<String> {
        let mut requests = Requests::new();
        let mut seen = Vec::new();
        for mut part in bytes.chunks(chunk) {
            while let Some(piece) = requests.next(&mut part) {
                let wants = match piece {
                    Piece::Name { arguments } => {
                        let name = String::from_utf8_lossy(requests.word()).into_owned();
                        seen.push(format!("{name} {arguments}"));
                        true
                    }
                    Piece::Argument => {
                        seen.push(String::from_utf8_lossy(requests.word()).into_owned());
                        false
                    }
                    Piece::End => {
                        seen.push(".".to_owned());
                        false
                    }
                    Piece::Invalid => {
                        seen.push("!".to_owned());
                        return seen;
                    }
                };
                if wants {
                    requests.want();
                }
            }
        }
        seen
    }

    #[test]
    fn commands_in_any_chunking() {
        let bytes = b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$0\r\n\r\nPING\r\n\r\n*0\r\n*-1\r\nauth \"u\" p\n*1\r\n$4\r\nEXEC\r\n";
        let expected = ["SET 3", "k", ".", "PING 1", ".", "auth 3", "u", ".", "EXEC 1", "."];
        for chunk in 1..=bytes.len() {
            assert_eq!(cut(bytes, chunk), expected, "chunks of {chunk}");
        }
    }

    #[test]
    fn what_redis_refuses_is_invalid() {
        for bytes in [
            &b"*x\r\n"[..],
            b"*1\r\nGET\r\n",
            b"*1\r\n$-1\r\n",
            b"*99999999999\r\n",
            b"*1\r\n$a\r\n",
        ] {
            for chunk in 1..=bytes.len() {
                assert_eq!(
                    cut(bytes, chunk).last().unwrap(),
                    "!",
                    "{bytes:?} in chunks of {chunk}"
                );
            }
        }
    }

    #[test]
    fn long_names_and_arguments_are_cut() {
        let bytes = format!("*2\r\n$40\r\n{}\r\n$100\r\n{}\r\n", "n".repeat(40), "a".repeat(100));
        for chunk in [1, 7, 1000] {
            let seen = cut(bytes.as_bytes(), chunk);
            assert_eq!(seen, [format!("{} 2", "n".repeat(17)), "a".repeat(64), ".".to_owned()]);
        }
    }
}
