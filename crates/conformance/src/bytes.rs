//! What two servers sent, with what differs between any two servers masked.

use crate::database::Database;
use crate::relay::Conversation;

/// The server's bytes without salts, process numbers and keys.
pub fn comparable(database: Database, conversation: &Conversation) -> Vec<u8> {
    match database {
        Database::MariaDb | Database::MariaDbPool => mysql(&conversation.server),
        Database::PostgreSql => postgres(&conversation.server),
        Database::Redis => redis(conversation).to_vec(),
        // Nothing in what is compared depends on who is asked.
        Database::Memcached | Database::MongoDb => conversation.server.clone(),
    }
}

/// The greeting has a connection number and a salt.
fn mysql(bytes: &[u8]) -> Vec<u8> {
    let Some(&[a, b, c]) = bytes.first_chunk() else { return bytes.to_vec() };
    let greeting = 4 + u32::from_le_bytes([a, b, c, 0]) as usize;
    bytes.get(greeting..).unwrap_or_default().to_vec()
}

/// `BackendKeyData` has a process number and a key, `RowDescription` the numbers of tables.
fn postgres(bytes: &[u8]) -> Vec<u8> {
    let mut masked = bytes.to_vec();
    // Requests for encryption are refused by a single byte each.
    let mut at = bytes.iter().take_while(|&&byte| byte == b'N').count();
    while let Some(&[kind, a, b, c, d]) = bytes.get(at..).and_then(|rest| rest.first_chunk()) {
        let length = u32::from_be_bytes([a, b, c, d]) as usize;
        let end = (at + 1 + length).min(bytes.len());
        let body = &mut masked[(at + 5).min(end)..end];
        match kind {
            b'K' => body.fill(0),
            b'T' => mask_tables(body),
            _ => {}
        }
        if end <= at {
            break;
        }
        at = end;
    }
    masked
}

/// Each column: a name that ends with a zero, the table's number, 14 more bytes.
fn mask_tables(body: &mut [u8]) {
    let mut at = 2;
    while let Some(name) = body.get(at..).and_then(|rest| rest.iter().position(|&byte| byte == 0)) {
        at += name + 1;
        let Some(table) = body.get_mut(at..at + 4) else { return };
        table.fill(0);
        at += 4 + 14;
    }
}

/// The command's client asks for the texts of its help first, which come in the order of a hash
/// table.
fn redis(conversation: &Conversation) -> &[u8] {
    const HELP: &[u8] = b"*2\r\n$7\r\nCOMMAND\r\n$4\r\nDOCS\r\n";
    let all = &conversation.server[..];
    if !conversation.client.starts_with(HELP) {
        return all;
    }
    after_reply(all).unwrap_or(all)
}

/// What comes after the first reply, in RESP2.
fn after_reply(bytes: &[u8]) -> Option<&[u8]> {
    let mut rest = bytes;
    let mut left = 1;
    while left > 0 {
        let end = rest.windows(2).position(|window| window == b"\r\n")?;
        let (line, after) = (rest.get(1..end)?, rest.get(end + 2..)?);
        let number = || str::from_utf8(line).ok()?.parse::<i64>().ok()?.try_into().ok();
        let (skip, more) = match rest.first()? {
            b'$' => (number().map_or(0, |length: usize| length + 2), 0),
            b'*' => (0, number().unwrap_or(0)),
            _ => (0, 0),
        };
        rest = after.get(skip..)?;
        left = left - 1 + more;
    }
    Some(rest)
}

/// Where two texts of bytes begin to differ, and what is there.
pub fn difference(one: &[u8], other: &[u8]) -> Option<String> {
    if one == other {
        return None;
    }
    let same = one.iter().zip(other).take_while(|(one, other)| one == other).count();
    let window = |bytes: &[u8]| {
        let from = same.saturating_sub(16);
        let part = bytes.get(from..(same + 48).min(bytes.len())).unwrap_or_default();
        part.escape_ascii().to_string()
    };
    Some(format!(
        "byte {same} of {} and {}:\n  as it is: …{}\n  gated:    …{}",
        one.len(),
        other.len(),
        window(one),
        window(other)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_help_of_redis_is_left_out() {
        let answer = b"*4\r\n$3\r\nget\r\n*2\r\n$-1\r\n:5\r\n*0\r\n+x\r\n+OK\r\n$1\r\na\r\n";
        let client = b"*2\r\n$7\r\nCOMMAND\r\n$4\r\nDOCS\r\n*1\r\n".to_vec();
        let mut conversation = Conversation { client, server: answer.to_vec() };
        assert_eq!(redis(&conversation), b"+OK\r\n$1\r\na\r\n");
        conversation.server.truncate(20);
        assert_eq!(redis(&conversation), &answer[..20], "cut: all of it");
        conversation = Conversation { client: b"PING\r\n".to_vec(), server: answer.to_vec() };
        assert_eq!(redis(&conversation), answer);
    }

    #[test]
    fn only_keys_are_masked() {
        let key = b"K\0\0\0\x0c\x01\x02\x03\x04\x05\x06\x07\x08";
        let ready = b"Z\0\0\0\x05I";
        let bytes = [&key[..], ready].concat();
        assert_eq!(postgres(&[b"NN", &bytes[..]].concat())[2..], postgres(&bytes));
        let masked = postgres(&bytes);
        assert_eq!(masked[5..13], [0; 8]);
        assert_eq!(&masked[13..], ready);
        let row = b"T\0\0\0\x1d\0\x01a\0\0\0@\xcb\0\x01\0\0\0\x17\0\x04\xff\xff\xff\xff\0\0";
        let masked = postgres(row);
        assert_eq!(
            (&masked[..9], &masked[9..13], &masked[13..]),
            (&row[..9], &[0; 4][..], &row[13..])
        );
        // Cut in the middle, and nonsense.
        assert_eq!(postgres(&bytes[..8])[..5], bytes[..5]);
        assert_eq!(postgres(&[b'x', 0xff, 0xff, 0xff, 0xff, 1]), [b'x', 0xff, 0xff, 0xff, 0xff, 1]);
        assert_eq!(mysql(b"\x02\0\0\0ab\x01\0\0\x02\0"), b"\x01\0\0\x02\0");
        assert_eq!(difference(b"abc", b"abc"), None);
        assert!(difference(b"abc", b"abd").unwrap().starts_with("byte 2"));
    }
}
