//! Peeks at what a held session sent, while it is still in the kernel.

use super::framing::Framing;
use crate::conn;
use crate::mysql::{ClientEvent, RequestClass};
use headworks_region::thread::keeping_errno;

/// Bytes that are checked.
const PEEKED: usize = 512;

/// Whether a session sent nothing but commands that always pass, or has ended. Checked before the
/// loop sleeps, so that a command that ends what others wait for gets through.
pub(super) fn may_pass(fd: i32, framing: &Framing) -> bool {
    let mut bytes = [0u8; PEEKED];
    let flags = libc::MSG_PEEK | libc::MSG_DONTWAIT;
    // SAFETY: the buffer has this length.
    let count = keeping_errno(|| unsafe {
        libc::syscall(libc::SYS_recvfrom, fd, bytes.as_mut_ptr(), PEEKED, flags, 0, 0)
    });
    let Some(bytes) = usize::try_from(count).ok().and_then(|count| bytes.get(..count)) else {
        return false;
    };
    if bytes.is_empty() {
        // The client has closed its side, and nothing is left to be served.
        return true;
    }
    if bytes.len() == PEEKED && !framing.looks_at_once() {
        return false;
    }
    if let Framing::Elsewhere = framing {
        return mysql_may_pass(fd, bytes);
    }
    let mut copy = framing.clone();
    let (commands, passed) = copy.commands();
    copy.client_bytes(bytes);
    let (more, more_passed) = copy.commands();
    let fresh = more.wrapping_sub(commands);
    let (all_pass, in_hand) = (fresh == more_passed.wrapping_sub(passed), copy.in_hand_passes());
    all_pass && (fresh > 0 && copy.between_commands() || in_hand)
}

fn mysql_may_pass(fd: i32, bytes: &[u8]) -> bool {
    let Some(conn) = conn::find(fd) else { return false };
    let Some(inner) = conn.try_use() else { return false };
    if !inner.is_plain() {
        // TLS records may look like commands, but are not.
        return false;
    }
    let mut copy = inner.session.clone();
    drop(inner);
    match copy.client_bytes(bytes) {
        ClientEvent::Request(request) => matches!(request.class, RequestClass::Pass(_)),
        _ => false,
    }
}
