//! Volumes for any NBD client: a server on a Unix socket or a TCP port.
//!
//! The protocol is that of the NetworkBlockDevice project's specification (`doc/proto.md`): fixed
//! newstyle handshake, simple, structured and extended replies, several exports by name.
//!
//! ```text
//!  client ─► handshake ─► intake ─► request ─► connection ─► volume (the engine)
//!                                                  │              │
//!         ◄───────────────────── outbox ◄──────── link ◄──── ticket
//! ```
//!
//! [`handshake`], [`options`], [`request`], [`intake`] and [`reply`] are pure: bytes in, bytes out,
//! no socket. `connection` reads, one thread for each client; `link` sends, from whatever thread
//! completes a request.
//!
//! # What a client may rely on
//! * Requests in flight at the same time are carried out and answered in any order.
//! * A flush covers every write that was answered before it came, on any connection.
//! * Offsets and lengths are multiples of 512 bytes; payloads have 32 MiB at most.
//!
//! # Access
//! A [`Directory`] decides what a client sees: by its user, its address, or the certificate that it
//! shows under TLS. Without one, every process that reaches the socket may open every export. A
//! Unix socket has the permissions of the process's umask. A TCP port without TLS belongs on a
//! trusted network.
//!
//! # A client that comes back
//! Before its first request, requests of broken connections to the same export are kept from the
//! store ([`crate::engine::Fence`]). So no late write of theirs follows its own. A client that
//! names its *session* ([`Greeting`]) ends its own earlier connections, alive or not.
//!
//! # What a client cannot do
//! Access another export than the one it chose; make the server use more than its [`Limits`] allow;
//! stop it by invalid bytes, or by silence.

mod backend;
mod connection;
mod directory;
pub mod export;
pub mod handshake;
pub mod intake;
mod link;
pub mod options;
mod outbox;
pub mod reply;
pub mod request;
mod room;
mod server;
mod succession;
pub mod wire;

#[cfg(test)]
mod tests;

pub use backend::{Backend, Greeting, Room, UNKNOWN, words};
pub use directory::{Directory, Origin, Peer, Secured, Tls, Unserved};
pub use export::{Export, ExportError, Exports};
pub use server::{Counts, Limits, Listener, Stop, serve};
