//! Who a client is, and what it may open.

use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;

use super::export::Exports;

/// Where a client comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// A process on this machine, by a Unix socket: its user.
    Unix {
        /// User.
        uid: u32,
    },
    /// Another one, by TCP.
    Tcp(SocketAddr),
}

/// A client, as far as it is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Where it comes from.
    pub origin: Origin,
    /// The certificate that it showed, in DER. None without TLS.
    pub certificate: Option<Vec<u8>>,
}

/// Whether clients may, or must, use TLS.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tls {
    /// It is not known here.
    #[default]
    None,
    /// A client that does not begin it learns of no export.
    Required,
}

/// A socket under TLS.
pub struct Secured {
    /// The plain bytes.
    pub plain: OwnedFd,
    /// The certificate that the client showed, in DER.
    pub certificate: Option<Vec<u8>>,
}

/// A client that is not served.
#[derive(Clone, Copy, Debug)]
pub enum Unserved<'a> {
    /// All connections are taken, and this place has its part of them.
    Full {
        /// Whence it comes.
        origin: Origin,
        /// Connections from there.
        has: usize,
    },
    /// Its handshake came to no end.
    Handshake {
        /// What is known of it.
        peer: &'a Peer,
        /// Why.
        why: &'a io::Error,
    },
}

/// Decides what each client sees. Called on the connection's own thread.
pub trait Directory: Send + Sync {
    /// The exports that this client may open. Asked once the client is known.
    fn exports(&self, peer: &Peer) -> Exports;

    /// Whether a client from there needs TLS.
    fn tls(&self, origin: Origin) -> Tls {
        let _ = origin;
        Tls::None
    }

    /// A client was not served, which may be its operator's mistake or a stranger.
    fn unserved(&self, client: Unserved) {
        let _ = client;
    }

    /// Takes the socket of a client that begins TLS.
    ///
    /// # Errors
    /// The client shows no certificate that is accepted, or breaks off.
    fn secure(&self, socket: OwnedFd) -> io::Result<Secured> {
        drop(socket);
        Err(io::ErrorKind::Unsupported.into())
    }
}

/// All exports for every client.
impl Directory for Exports {
    fn exports(&self, _: &Peer) -> Exports {
        self.clone()
    }
}
