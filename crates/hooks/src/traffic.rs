//! A connection's traffic, as the hooks saw it and as the kernel counts it.
//!
//! A server may answer unseen by the hooks: by io_uring, or by a stream of the C library. Under
//! generic framing its request would never end, and its session would keep the permit. The kernel
//! counts the bytes of each TCP connection: if it took more than the hooks saw, the request was
//! answered. The count is read only when a server reads during a request, which most never do.
//! Sockets of other families have no such count (see [`crate::threads`], `unanswered`).

use headworks_region::thread::keeping_errno;

/// Most checks of a connection on which no read was seen.
const CHECKS_MAX: u8 = 16;

/// What the hooks saw of a connection under generic framing.
#[derive(Clone, Copy, Debug)]
pub struct Traffic {
    fd: i32,
    /// Bytes that the server wrote.
    written: u64,
    /// A read of the server was seen.
    pub read: bool,
    /// An answer was seen.
    pub answered: bool,
    /// An answer was unseen, and that was counted.
    pub unseen: bool,
    /// The kernel does not count its bytes.
    pub uncounted: bool,
    /// The server is reading during a request.
    pub reading: bool,
    /// Another thread answers what this one reads.
    pub late: bool,
    looks: u8,
}

impl Traffic {
    /// No traffic of this descriptor has been seen yet.
    pub const fn of(fd: i32) -> Traffic {
        Traffic {
            fd,
            written: 0,
            read: false,
            answered: false,
            unseen: false,
            uncounted: false,
            reading: false,
            late: false,
            looks: 0,
        }
    }

    /// The server wrote this many bytes.
    pub fn wrote(&mut self, bytes: usize) {
        self.written = self.written.saturating_add(bytes as u64);
    }

    /// Whether the server wrote bytes that no hook saw, besides those that `strayed`.
    pub fn wrote_unseen(&mut self, strayed: u64) -> bool {
        let Some(counts) = counts(self.fd) else {
            self.uncounted = true;
            return false;
        };
        let more = counts.written > self.written.saturating_add(strayed);
        if more {
            self.written = counts.written.saturating_sub(strayed);
        }
        more
    }

    /// Whether the hooks miss the server's reads.
    pub fn reads_unseen(&mut self) -> bool {
        if self.read || self.looks >= CHECKS_MAX {
            return false;
        }
        self.looks += 1;
        // In this order: bytes that come in between count as unread, not as read. The end of the
        // client's stream counts as a byte.
        counts(self.fd).is_some_and(|counts| counts.received > unread(self.fd) + 1)
    }
}

/// What the kernel counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Counts {
    /// Bytes that the server wrote, sent or not.
    written: u64,
    /// Bytes that have come from the client.
    received: u64,
}

/// The beginning of the kernel's `struct tcp_info`, as of Linux 4.19. The struct only ever grows.
#[repr(C)]
#[derive(Default)]
struct TcpInfo {
    _before: [u64; 16],
    received: u64,
    _segments: [u32; 2],
    not_sent: u32,
    _between: [u32; 13],
    sent: u64,
    sent_again: u64,
}

const _: () = {
    assert!(core::mem::offset_of!(TcpInfo, received) == 128);
    assert!(core::mem::offset_of!(TcpInfo, not_sent) == 144);
    assert!(core::mem::offset_of!(TcpInfo, sent) == 200);
    assert!(size_of::<TcpInfo>() == 216);
};

/// `None` for a socket that is not TCP, and on older kernels.
fn counts(fd: i32) -> Option<Counts> {
    let mut info = TcpInfo::default();
    let mut length = size_of::<TcpInfo>() as libc::socklen_t;
    // SAFETY: the kernel writes no more than `length` bytes, and any bytes are valid numbers.
    let done = keeping_errno(|| unsafe {
        let to = (&raw mut info).cast();
        libc::getsockopt(fd, libc::IPPROTO_TCP, libc::TCP_INFO, to, &raw mut length)
    });
    if done != 0 || (length as usize) < size_of::<TcpInfo>() {
        return None;
    }
    let sent = info.sent.saturating_sub(info.sent_again);
    Some(Counts { written: sent + u64::from(info.not_sent), received: info.received })
}

/// Bytes that have arrived and that the server has not read.
fn unread(fd: i32) -> u64 {
    let mut bytes: libc::c_int = 0;
    // SAFETY: the kernel writes one number.
    let done = keeping_errno(|| unsafe { libc::ioctl(fd, libc::FIONREAD, &raw mut bytes) });
    if done == 0 { u64::try_from(bytes).unwrap_or(0) } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::os::fd::AsRawFd;

    fn pair() -> (std::net::TcpStream, std::net::TcpStream) {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let client = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (listener.accept().unwrap().0, client)
    }

    #[test]
    fn what_no_hook_saw_is_seen_once() {
        let (mut server, _client) = pair();
        let mut traffic = Traffic::of(server.as_raw_fd());
        assert!(!traffic.wrote_unseen(0));
        server.write_all(b"seen").unwrap();
        traffic.wrote(4);
        assert!(!traffic.wrote_unseen(0));
        server.write_all(b"unseen").unwrap();
        assert!(!traffic.wrote_unseen(6), "another thread sent it");
        assert!(traffic.wrote_unseen(0));
        assert!(!traffic.wrote_unseen(0));
    }

    #[test]
    fn what_the_client_does_not_read_counts_as_written() {
        let (server, _client) = pair();
        server.set_nonblocking(true).unwrap();
        let mut written = 0;
        while let Ok(count) = (&server).write(&[0; 1 << 16]) {
            written += count as u64;
        }
        assert_eq!(counts(server.as_raw_fd()).unwrap().written, written);
    }

    #[test]
    fn a_read_that_no_hook_saw_is_noticed_and_bytes_that_wait_are_none() {
        let (mut server, mut client) = pair();
        let mut traffic = Traffic::of(server.as_raw_fd());
        assert!(!traffic.reads_unseen());
        client.write_all(b"hello").unwrap();
        while unread(server.as_raw_fd()) < 5 {
            std::thread::yield_now();
        }
        assert!(!traffic.reads_unseen());
        server.read_exact(&mut [0; 5]).unwrap();
        assert!(traffic.reads_unseen());
    }

    #[test]
    fn only_tcp_has_counts() {
        let (one, _other) = std::os::unix::net::UnixStream::pair().unwrap();
        assert_eq!((counts(one.as_raw_fd()), counts(-1)), (None, None));
    }
}
