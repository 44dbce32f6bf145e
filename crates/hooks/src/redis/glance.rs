//! Whole commands and answers, recognised at a glance.
//!
//! Nearly everything that a connection sends and gets is a command of known length, complete in the bytes at hand, with a
//! name that means nothing to the gate, and an answer that is one string or number. The machines that can stop after any
//! byte ([`super::requests`], [`super::replies`]) take several times as long for them, and in a long pipeline that time is
//! all the gate costs. What is not recognised here is theirs.

use super::command::{Kind, kind_of};

/// Numbers beyond this are left to the machines.
const NUMBER_MAX: usize = 1 << 24;

/// The number at `at`, and where the bytes after its line begin, which need not be there.
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

/// Length of the plain command at the front, if one is there in whole.
pub(super) fn plain_command(bytes: &[u8]) -> Option<usize> {
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

/// Length of the answer at the front, if it is a string or a number and there in whole.
pub(super) fn simple_reply(bytes: &[u8]) -> Option<usize> {
    let end = match *bytes.first()? {
        b'+' if bytes.starts_with(b"+OK\r\n") => 5,
        b'$' if bytes.starts_with(b"$-1\r\n") => 5,
        b'$' => {
            let (length, body) = number(bytes, 1)?;
            body + length + 2
        }
        b':' => number(bytes, 1)?.1,
        _ => return None,
    };
    (end <= bytes.len()).then_some(end)
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

    #[test]
    fn whole_simple_replies_are_recognised_and_nothing_else() {
        for whole in ["+OK\r\n", "$-1\r\n", "$0\r\n\r\n", "$12\r\nabcdefghijkl\r\n", ":1234\r\n"] {
            assert_eq!(simple_reply(format!("{whole}+").as_bytes()), Some(whole.len()));
            for end in 0..whole.len() {
                assert_eq!(simple_reply(&whole.as_bytes()[..end]), None, "{whole:?}, {end} bytes");
            }
        }
        for other in ["+QUEUED\r\n", "-ERR\r\n", "*1\r\n:1\r\n", ":-1\r\n", "_\r\n", "\n"] {
            assert_eq!(simple_reply(other.as_bytes()), None, "{other:?}");
        }
    }
}
