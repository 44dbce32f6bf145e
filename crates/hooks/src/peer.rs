//! Who is at the other end of a socket.

use core::fmt::Write;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Ends of an accepted connection.
#[derive(Clone, Copy, Debug)]
pub struct Peer {
    address: [u8; 48],
    length: usize,
    /// Local TCP port; zero on a Unix socket.
    pub local_port: u32,
}

impl Peer {
    const UNIX: Peer = Peer { address: [0; 48], length: 0, local_port: 0 };

    /// A client with this address.
    pub fn of(address: IpAddr) -> Peer {
        let mut peer = Peer::UNIX;
        let mut text = Cut(&mut peer.address, 0);
        let _ = write!(text, "{}", address.to_canonical());
        peer.length = text.1;
        peer
    }

    /// Client's address without the port; empty on a Unix socket.
    pub fn address(&self) -> &[u8] {
        &self.address[..self.length]
    }
}

/// A text of fixed capacity; what does not fit is cut.
struct Cut<'a>(&'a mut [u8; 48], usize);

impl Write for Cut<'_> {
    fn write_str(&mut self, text: &str) -> core::fmt::Result {
        let room = self.0.len() - self.1;
        let bytes = &text.as_bytes()[..text.len().min(room)];
        self.0[self.1..self.1 + bytes.len()].copy_from_slice(bytes);
        self.1 += bytes.len();
        Ok(())
    }
}

type SocketCall =
    unsafe extern "C" fn(libc::c_int, *mut libc::sockaddr, *mut libc::socklen_t) -> libc::c_int;

fn ask(call: SocketCall, fd: i32) -> Option<libc::sockaddr_storage> {
    // SAFETY: all zero bytes are a valid address buffer, and its length is passed with it.
    unsafe {
        let mut storage: libc::sockaddr_storage = core::mem::zeroed();
        let mut length = size_of::<libc::sockaddr_storage>() as libc::socklen_t;
        (call(fd, (&raw mut storage).cast(), &raw mut length) == 0).then_some(storage)
    }
}

/// Asks the kernel for both ends of `fd`; `None` if it is not a connected stream of a known family.
pub fn peer_of(fd: i32) -> Option<Peer> {
    let remote = ask(libc::getpeername, fd)?;
    let local = ask(libc::getsockname, fd)?;
    let mut peer = Peer::UNIX;
    match i32::from(remote.ss_family) {
        libc::AF_INET => {
            // SAFETY: the family says which structure the storage holds.
            let (remote, local) = unsafe {
                (
                    *(&raw const remote).cast::<libc::sockaddr_in>(),
                    *(&raw const local).cast::<libc::sockaddr_in>(),
                )
            };
            peer = Peer::of(Ipv4Addr::from_bits(u32::from_be(remote.sin_addr.s_addr)).into());
            peer.local_port = u32::from(u16::from_be(local.sin_port));
        }
        libc::AF_INET6 => {
            // SAFETY: as above.
            let (remote, local) = unsafe {
                (
                    *(&raw const remote).cast::<libc::sockaddr_in6>(),
                    *(&raw const local).cast::<libc::sockaddr_in6>(),
                )
            };
            peer = Peer::of(Ipv6Addr::from(remote.sin6_addr.s6_addr).into());
            peer.local_port = u32::from(u16::from_be(local.sin6_port));
        }
        libc::AF_UNIX => {}
        _ => return None,
    }
    Some(peer)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsRawFd;

    #[test]
    fn tcp_and_unix_ends_are_read() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let _client = std::net::TcpStream::connect(("127.0.0.1", port)).unwrap();
        let server = listener.accept().unwrap().0;
        let peer = peer_of(server.as_raw_fd()).unwrap();
        assert_eq!(peer.address(), b"127.0.0.1");
        assert_eq!(peer.local_port, u32::from(port));

        let (one, _other) = std::os::unix::net::UnixStream::pair().unwrap();
        let peer = peer_of(one.as_raw_fd()).unwrap();
        assert_eq!((peer.address(), peer.local_port), (&b""[..], 0));
        assert!(peer_of(0).is_none() || peer_of(-1).is_none());
    }
}
