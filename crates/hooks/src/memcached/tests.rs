use super::*;

fn counts(bytes: &[u8], chunk: usize) -> (u32, u32, Option<Opaque>, bool) {
    let mut session = Session::new();
    bytes.chunks(chunk).for_each(|part| session.client_bytes(part));
    (session.commands(), session.passed(), session.opaque(), session.between_commands())
}

fn binary(opcode: u8, body: &[u8]) -> Vec<u8> {
    let mut header = [0; HEADER];
    (header[0], header[1]) = (BINARY, opcode);
    header[8..12].copy_from_slice(&(body.len() as u32).to_be_bytes());
    [&header[..], body].concat()
}

#[test]
fn text_commands_in_any_chunking() {
    let bytes = b"set k 0 0 5\r\na\r\nb\r\r\nget k\r\nget a b c\r\nms k 2 T0\r\nhi\r\nmg k v\r\nmn\r\nversion\r\n\
        set k 0 0 x\r\nset k 0 0 -1\r\ncas k 0 0 0 7\r\n\r\nincr k 1\n\r\n";
    for chunk in 1..=bytes.len() {
        assert_eq!(counts(bytes, chunk), (11, 2, None, true), "chunks of {chunk}");
    }
    assert!(!counts(b"set k 0 0 5\r\nab", 100).3);
    assert!(!counts(b"get", 100).3);
}

#[test]
fn binary_commands_in_any_chunking() {
    let bytes = [binary(0x00, b"key"), binary(0x0A, b""), binary(0x01, &[b'\n'; 40])].concat();
    for chunk in 1..=bytes.len() {
        assert_eq!(counts(&bytes, chunk), (3, 1, None, true), "chunks of {chunk}");
    }
    let nonsense = [&bytes[..], b"get k\r\n and so on and on and on\r\n"].concat();
    assert_eq!(counts(&nonsense, 10).2, Some(Opaque::Desynchronized));
}

#[test]
fn what_cannot_be_followed() {
    assert_eq!(counts(b"\x16\x03\x01", 3).2, Some(Opaque::Encrypted));
    let long = "x".repeat(LINE_MAX as usize + 1);
    assert_eq!(counts(long.as_bytes(), 5000).2, Some(Opaque::Desynchronized));
}

#[test]
fn flags_have_no_sign_and_a_watcher_that_was_refused_is_followed() {
    let set = b"set k 4294967295 0 11\r\nwatch a\r\nxy\r\nget k\r\n";
    assert_eq!(counts(set, 100), (2, 0, None, true), "the value is none of ours");
    assert_eq!(counts(b"set k 4294967296 0 3\r\nget k\r\n", 100), (2, 0, None, true), "refused");
    assert_eq!(counts(b"watch nothing\r\nget k\r\nget k\r\n", 9), (3, 1, None, true));
}

#[test]
fn a_client_is_somebody_once_it_spoke() {
    let mut session = Session::new();
    assert!(session.identity().is_none());
    session.client_bytes(b"g");
    assert_eq!(session.identity().unwrap().account(), ACCOUNT);
}
