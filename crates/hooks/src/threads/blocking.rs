//! Servers with blocking sockets: their reads sleep in the kernel, and never report that there is
//! nothing to read.

use super::{follow, leave, unseen};
use crate::conn::{Conn, Work};

/// Whether [`about_to_block`] has anything to do. Nothing but loads.
pub fn may_block(conn: &Conn) -> bool {
    conn.anticipating() || (conn.work() != Work::None && conn.is_generic())
}

/// The server is about to read from `fd` by a call that may wait for as long as the client thinks.
/// A permit that was kept for the next request is given back first. That costs its session little:
/// the unused part of its turn is not charged.
#[cold]
pub fn about_to_block(conn: &'static Conn, fd: i32) {
    let Some(it) = follow(conn) else { return };
    let Some(mut inner) = it.exclusive() else { return };
    if !blocks(fd) {
        return;
    }
    if conn.anticipating() {
        conn.set_anticipating(false);
        leave(&it);
    } else if conn.work() != Work::None && conn.is_generic() {
        unseen::waits(&it, &mut inner);
    }
}

/// That call returned nothing.
#[cold]
pub fn blocked_for_nothing(conn: &'static Conn) {
    let Some(it) = follow(conn) else { return };
    if let Some(mut inner) = it.exclusive() {
        unseen::waits_no_more(&it, &mut inner);
    }
}

/// Whether calls on the socket block. A descriptor whose flags cannot be read cannot be read from
/// either.
fn blocks(fd: i32) -> bool {
    // SAFETY: only asks.
    let flags = unsafe { libc::fcntl(fd, libc::F_GETFL) };
    flags >= 0 && flags & libc::O_NONBLOCK == 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsRawFd;

    #[test]
    fn a_socket_blocks_until_it_is_told_not_to() {
        let (one, _other) = std::os::unix::net::UnixStream::pair().unwrap();
        assert!(blocks(one.as_raw_fd()));
        one.set_nonblocking(true).unwrap();
        assert!(!blocks(one.as_raw_fd()) && !blocks(-1));
    }
}
