//! A stream to a server, used from several threads: some send, one reads.

use super::address::Place;
use rustix::net::{SendAncillaryBuffer, SendFlags, sendmsg};
use std::io::{self, IoSlice, Read, Write};
use std::net::{Shutdown, TcpStream, ToSocketAddrs};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// How long an attempt to connect may take. While a network is cut off, the next attempt comes
/// through sooner than the kernel's repetitions of the first one, which become rarer and rarer.
const CONNECT: Duration = Duration::from_secs(3);

#[derive(Debug)]
pub(super) enum Socket {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Socket {
    /// Connects; from then on no call takes longer than `patience`.
    pub fn connect(place: &Place, patience: Duration) -> io::Result<Socket> {
        match place {
            Place::Tls(_) => Err(io::Error::new(
                io::ErrorKind::Unsupported,
                "by TLS, `headworks volume` reaches it with `headworks store tunnel`",
            )),
            Place::Tcp(host, port) => {
                let mut last = io::Error::new(io::ErrorKind::NotFound, "the host has no address");
                for address in (host.as_str(), *port).to_socket_addrs()? {
                    match TcpStream::connect_timeout(&address, patience.min(CONNECT)) {
                        Ok(stream) => {
                            // A request is one write; nothing is gained by waiting for more.
                            stream.set_nodelay(true)?;
                            stream.set_read_timeout(Some(patience))?;
                            stream.set_write_timeout(Some(patience))?;
                            return Ok(Socket::Tcp(stream));
                        }
                        Err(error) => last = error,
                    }
                }
                Err(last)
            }
            Place::Unix(path) => {
                let stream = UnixStream::connect(path)?;
                stream.set_read_timeout(Some(patience))?;
                stream.set_write_timeout(Some(patience))?;
                Ok(Socket::Unix(stream))
            }
        }
    }

    pub fn read_exact(&self, into: &mut [u8]) -> io::Result<()> {
        let mut stream = self;
        Read::read_exact(&mut stream, into)
    }

    /// Sends a header and its payload, in one call if the socket has room.
    pub fn write_both(&self, head: &[u8], payload: &[u8]) -> io::Result<()> {
        let mut stream = self;
        let mut slices = [IoSlice::new(head), IoSlice::new(payload)];
        let mut rest = &mut slices[..];
        while rest.iter().any(|slice| !slice.is_empty()) {
            match stream.write_vectored(rest) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => IoSlice::advance_slices(&mut rest, count),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Ends it for all threads that use it.
    pub fn hang_up(&self) {
        // It may be over already.
        let _ = match self {
            Socket::Tcp(stream) => stream.shutdown(Shutdown::Both),
            Socket::Unix(stream) => stream.shutdown(Shutdown::Both),
        };
    }
}

impl Read for &Socket {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            Socket::Tcp(stream) => Read::read(&mut &*stream, into),
            Socket::Unix(stream) => Read::read(&mut &*stream, into),
        }
    }
}

impl Write for &Socket {
    fn write(&mut self, from: &[u8]) -> io::Result<usize> {
        self.write_vectored(&[IoSlice::new(from)])
    }

    /// Without the signal that ends programs which write to a server that is gone: `writev`, which
    /// the standard library calls here, sends it.
    fn write_vectored(&mut self, from: &[IoSlice<'_>]) -> io::Result<usize> {
        let socket = match self {
            Socket::Tcp(stream) => stream.as_fd(),
            Socket::Unix(stream) => stream.as_fd(),
        };
        let mut none = SendAncillaryBuffer::default();
        Ok(sendmsg(socket, from, &mut none, SendFlags::NOSIGNAL)?)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
