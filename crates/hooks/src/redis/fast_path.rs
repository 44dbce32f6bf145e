//! Quick recognition of whole commands and answers.
//!
//! Nearly all commands have a known length, are complete in the bytes at hand, and have a name that
//! the gate ignores. Nearly all answers are strings, numbers or lists of these. The incremental
//! parsers ([`super::requests`], [`super::replies`]) take several times as long for them; in a long
//! pipeline that is the gate's whole cost. They take what is not recognised here.

use super::command::{Kind, kind_of};

/// Larger numbers are left to the incremental parsers.
const NUMBER_MAX: usize = 1 << 24;

/// The number at `at`, and the offset after its line, which may lie beyond the bytes.
#[inline(always)] // four times for each command
fn number(bytes: &[u8], at: usize) -> Option<(usize, usize)> {
    let mut value = digit(*bytes.get(at)?)?;
    let mut at = at + 1;
    loop {
        let byte = *bytes.get(at)?;
        if byte == b'\r' {
            return Some((value, at + 2));
        }
        value = value * 10 + digit(byte)?;
        if value > NUMBER_MAX {
            return None;
        }
        at += 1;
    }
}

#[inline(always)] // a comparison
fn digit(byte: u8) -> Option<usize> {
    let value = byte.wrapping_sub(b'0');
    (value <= 9).then_some(usize::from(value))
}

/// Words of a [`Shape`]: enough for a name and four arguments.
const WORDS: usize = 8;

/// The bytes that define how a command is cut and what it is, as words of eight bytes at their
/// offsets. Commands of a pipeline mostly differ only in keys and values, so a few comparisons
/// recognise the next one.
struct Shape {
    /// Place, value and mask.
    words: [(usize, u64, u64); WORDS],
    count: usize,
    length: usize,
}

impl Shape {
    /// The shape of a complete plain command of at least eight bytes; `None` if it has too many
    /// arguments.
    fn of(command: &[u8]) -> Option<Shape> {
        let length = command.len();
        let mut shape = Shape { words: [(0, 0, 0); WORDS], count: 0, length };
        let (arguments, mut at) = number(command, 1)?;
        shape.note(command, 0, at)?;
        for argument in 0..arguments {
            let (value, body) = number(command, at + 1)?;
            // The name matters, too.
            let to = if argument == 0 { body + value } else { body };
            shape.note(command, at, to)?;
            at = body + value + 2;
        }
        Some(shape)
    }

    /// Adds the bytes between two offsets to the shape.
    fn note(&mut self, command: &[u8], mut from: usize, to: usize) -> Option<()> {
        while from < to {
            let last = self.count.checked_sub(1).and_then(|last| self.words.get(last));
            let place = match last.filter(|word| from < word.0 + 8) {
                Some(word) => word.0,
                None => {
                    // No word reaches beyond the command.
                    let place = from.min(self.length.checked_sub(8)?);
                    *self.words.get_mut(self.count)? = (place, 0, 0);
                    self.count += 1;
                    place
                }
            };
            let take = to.min(place + 8) - from;
            // From one byte to eight.
            let mask = (u64::MAX >> (64 - 8 * take)) << (8 * (from - place));
            let bytes = u64::from_le_bytes(*command.get(place..)?.first_chunk()?);
            let word = self.words.get_mut(self.count - 1)?;
            (word.1, word.2) = (word.1 | bytes & mask, word.2 | mask);
            from += take;
        }
        Some(())
    }

    /// Whether a complete command of this shape is at the front.
    #[inline(always)] // once for each command
    fn fits(&self, bytes: &[u8]) -> bool {
        let Some(command) = bytes.get(..self.length) else { return false };
        let words = self.words.get(..self.count).unwrap_or(&[]);
        words.iter().all(|&(at, value, mask)| {
            let word = command.get(at..).and_then(|rest| rest.first_chunk::<8>());
            word.is_some_and(|word| u64::from_le_bytes(*word) & mask == value)
        })
    }
}

/// How many complete plain commands are at the front, and their total length.
pub(super) fn plain_commands(bytes: &[u8]) -> (u32, usize) {
    let (mut count, mut at) = (0, 0);
    while let Some(length) = bytes.get(at..).and_then(plain_command) {
        let (command, rest) = bytes.get(at..).unwrap_or(&[]).split_at(length);
        (count, at) = (count + 1, at + length);
        // A shape pays off from the second command that matches it.
        if length < 8
            || rest.get(length - 1..).is_none()
            || rest.first_chunk::<8>() != command.first_chunk()
        {
            continue;
        }
        let Some(shape) = Shape::of(command) else { continue };
        while bytes.get(at..).is_some_and(|rest| shape.fits(rest)) {
            (count, at) = (count + 1, at + length);
        }
    }
    (count, at)
}

/// Length of the plain command at the front, if it is complete.
fn plain_command(bytes: &[u8]) -> Option<usize> {
    if *bytes.first()? != b'*' {
        return None;
    }
    let (arguments, mut at) = number(bytes, 1)?;
    if arguments == 0 {
        return None;
    }
    for argument in 0..arguments {
        if *bytes.get(at)? != b'$' {
            return None;
        }
        let (length, body) = number(bytes, at + 1)?;
        at = body + length + 2;
        if argument == 0 && kind_of(bytes.get(body..body + length)?) != Kind::Plain {
            return None;
        }
    }
    (at <= bytes.len()).then_some(at)
}

/// Length of the answer at the front, if it is a complete string, number, or list of these.
pub(super) fn simple_reply(bytes: &[u8]) -> Option<usize> {
    let (elements, mut end) = match *bytes.first()? {
        b'*' | b'~' => number(bytes, 1)?,
        // A map has a key and a value for each of its entries.
        b'%' => number(bytes, 1).map(|(entries, end)| (2 * entries, end))?,
        _ => (1, 0),
    };
    for _ in 0..elements {
        end = element(bytes, end)?;
    }
    (end <= bytes.len()).then_some(end)
}

/// Where the string or number at `at` ends: beyond the bytes, if it is incomplete.
#[inline(always)] // once for each element
fn element(bytes: &[u8], at: usize) -> Option<usize> {
    let rest = bytes.get(at..)?;
    Some(match *rest.first()? {
        b'+' if rest.starts_with(b"+OK\r\n") => at + 5,
        b'$' if rest.starts_with(b"$-1\r\n") => at + 5,
        b'$' => {
            let (length, body) = number(bytes, at + 1)?;
            body + length + 2
        }
        b':' => number(bytes, at + 1)?.1,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_plain_commands_are_recognised_and_nothing_else() {
        let set = b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$12\r\nabcdefghijkl\r\n";
        assert_eq!(plain_command(set), Some(set.len()));
        assert_eq!(plain_command(&[&set[..], b"*1\r\n"].concat()), Some(set.len()));
        for end in 0..set.len() {
            assert_eq!(plain_command(&set[..end]), None, "{end} bytes");
        }
        for other in [
            "*1\r\n$5\r\nMULTI\r\n",
            "PING\r\n",
            "*0\r\n",
            "*-1\r\n",
            "*1\r\n$-1\r\n",
            "*1\r\n+OK\r\n",
            "*99999999999\r\n",
        ] {
            assert_eq!(plain_command(other.as_bytes()), None, "{other:?}");
        }
    }

    fn command(words: &[&str]) -> String {
        let words = words.iter().map(|word| format!("${}\r\n{word}\r\n", word.len()));
        format!("*{}\r\n{}", words.len(), words.collect::<String>())
    }

    /// As [`plain_commands`], one by one.
    fn one_by_one(bytes: &[u8]) -> (u32, usize) {
        let (mut count, mut at) = (0, 0);
        while let Some(length) = plain_command(&bytes[at..]) {
            (count, at) = (count + 1, at + length);
        }
        (count, at)
    }

    #[test]
    fn commands_of_one_shape_are_cut_like_any_others() {
        let long = "k".repeat(100);
        let shapes: &[&[&str]] = &[
            &["SET", "key:000000000001", "xxx"],
            &["GET", "a"],
            &["X"],
            &[""],
            &["MSET", "a", "1", "b", "2", "c", "3", "d", "4", "e", "5", "f", "6"],
            &["GET", &long],
            &["DISCARDX"],
        ];
        let others: &[&[&str]] = &[
            &["SET", "key:000000000002", "xxxx"],
            &["SET", "key:00000000000", "xxxx"],
            &["DEL", "key:000000000001", "xxx"],
            &["EXEC"],
            &["GET", "b"],
            &["DISCARD"],
            &["MULTI"],
            &["Y"],
        ];
        for shape in shapes {
            let one = command(shape);
            assert_eq!(
                plain_commands(one.repeat(16).as_bytes()),
                (16, 16 * one.len()),
                "{shape:?}"
            );
            for other in others {
                for before in 1..4 {
                    let mut bytes = one.repeat(before).into_bytes();
                    bytes.extend(command(other).bytes());
                    bytes.extend(one.repeat(2).bytes());
                    for end in 0..=bytes.len() {
                        let cut = &bytes[..end];
                        assert_eq!(
                            plain_commands(cut),
                            one_by_one(cut),
                            "{shape:?}, {other:?}, {end}"
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn any_byte_that_differs_ends_a_shape_as_it_ends_a_command() {
        let one = command(&["SET", "key:000000000001", "xxx"]);
        let bytes = one.repeat(4).into_bytes();
        for at in 0..bytes.len() {
            for byte in [b'*', b'$', b'\r', b'\n', b'0', b'9', b'-', b'E', 0, 0xFF] {
                let mut changed = bytes.clone();
                changed[at] = byte;
                assert_eq!(plain_commands(&changed), one_by_one(&changed), "{byte:#x} at {at}");
            }
        }
    }

    #[test]
    fn whole_simple_replies_are_recognised_and_nothing_else() {
        for whole in [
            "+OK\r\n",
            "$-1\r\n",
            "$0\r\n\r\n",
            "$12\r\nabcdefghijkl\r\n",
            ":1234\r\n",
            "*0\r\n",
            "*3\r\n$1\r\na\r\n$-1\r\n:7\r\n",
            "~1\r\n+OK\r\n",
            "%2\r\n$1\r\na\r\n:1\r\n$1\r\nb\r\n$0\r\n\r\n",
        ] {
            assert_eq!(simple_reply(format!("{whole}+").as_bytes()), Some(whole.len()));
            for end in 0..whole.len() {
                assert_eq!(simple_reply(&whole.as_bytes()[..end]), None, "{whole:?}, {end} bytes");
            }
        }
        for other in [
            "+QUEUED\r\n",
            "-ERR\r\n",
            "*-1\r\n",
            "*1\r\n*0\r\n",
            "*2\r\n:1\r\n-ERR\r\n",
            ">1\r\n+OK\r\n",
            ":-1\r\n",
            "_\r\n",
            "\n",
        ] {
            assert_eq!(simple_reply(other.as_bytes()), None, "{other:?}");
        }
    }
}
